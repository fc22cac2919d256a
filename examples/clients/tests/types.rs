//! Round trips through the types of clients: a second opinion on the wire formats.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub)] // a test that fails should say so

#[path = "../../../tests/common/counted.rs"]
mod counted;
#[path = "../../../tests/common/golden.rs"]
mod golden;

mod async_openai {
    use memory_prompt::message::{AiMessage, Detail, Media, Part, UserMessage};
    use memory_prompt::wire::openai::{self, Messages};
    use memory_prompt::{ErrorKind, Message, ToolCall};
    use memory_prompt_clients::async_openai::{answer, history, messages};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::counted::counted;
    use super::golden::goldens;

    /// Returns true if its types have no place for something, as their documentation says.
    fn has_more(golden: &Value) -> bool {
        let text = golden["request"].to_string() + &golden["replay"].to_string();
        ["\"custom\"", "reasoning", "extra_content", "thinking", "\"original\""]
            .iter()
            .any(|word| text.contains(word))
    }

    #[test]
    fn goldens_come_back_through_its_types() {
        let mut seen = 0;
        for (name, golden) in goldens("openai") {
            if has_more(&golden) {
                continue;
            }
            if golden["request"].is_array() {
                let read = openai::history(golden["request"].to_string()).unwrap();
                let mut view = Messages::of(&read);
                if golden["options"].as_array().is_some_and(|all| all.contains(&json!("verbatim")))
                {
                    view = view.verbatim();
                }
                let typed = messages(&view).unwrap();
                let there = serde_json::to_value(&typed).unwrap();
                let ours = serde_json::to_value(&view).unwrap();
                assert_eq!(without_nulls(&there), without_nulls(&ours), "{name}");
                assert_eq!(history(&typed).unwrap(), read, "{name}");
                seen += 1;
            }
            if golden["response"].is_object() {
                let message = &golden["response"]["choices"][0]["message"];
                let typed = serde_json::from_value(message.clone()).unwrap();
                let ours = openai::answer(golden["response"].to_string()).unwrap().into();
                let view = |message| serde_json::to_value(Messages::of([message])).unwrap();
                assert_eq!(view(&answer(&typed).unwrap()), view(&ours), "{name}");
                seen += 1;
            }
        }
        assert!(seen > 5, "{seen}");
    }

    /// It leaves out `content` where we write that it is null: the same to every server.
    fn without_nulls(value: &Value) -> Value {
        match value {
            Value::Array(list) => list.iter().map(without_nulls).collect(),
            Value::Object(map) => {
                let fields = map.iter().filter(|(_, value)| !value.is_null());
                fields.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
            }
            leaf => leaf.clone(),
        }
    }

    #[test]
    fn what_it_does_not_know_is_an_error() {
        let request = r#"[{"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "custom", "custom": {"name": "n", "input": "i"}}]}]"#;
        let custom = openai::history(request).unwrap();
        let error = messages(&Messages::of(&custom)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.starts_with("write async-openai messages: something has no place"), "{text}");
    }

    fn message() -> impl Strategy<Value = Message> {
        let text = || any::<String>();
        prop_oneof![
            text().prop_map(Message::system),
            text().prop_map(Message::user),
            ("[a-z]{1,9}", "[a-z]{1,9}")
                .prop_map(|(name, text)| UserMessage::new(text).with_name(name).into()),
            (text(), any::<bool>()).prop_map(|(text, low)| {
                let detail = if low { Detail::Low } else { Detail::High };
                let image = Media::base64("image/png", "AA==").with_detail(detail);
                Message::user([Part::text(text), Part::Image(image)])
            }),
            text().prop_map(Message::ai),
            (text(), text()).prop_map(|(name, text)| {
                let call = ToolCall::new("c1", name, json!({"x": text}).to_string());
                AiMessage::new("").with_tool_call(call).into()
            }),
            (text(), text()).prop_map(|(id, text)| Message::tool(id, "", text)),
        ]
    }

    counted! {
        #![cases(256)]

        #[test]
        fn messages_come_back(list in proptest::collection::vec(message(), 0..8)) {
            let view = Messages::of(&list);
            let typed = messages(&view).unwrap();
            prop_assert_eq!(
                without_nulls(&serde_json::to_value(&typed).unwrap()),
                without_nulls(&serde_json::to_value(&view).unwrap())
            );
            let there = history(&typed).unwrap();
            let ours = openai::history(serde_json::to_string(&view).unwrap()).unwrap();
            prop_assert_eq!(there, ours);
        }
    }
}

mod ollama_rs {
    use memory_prompt::wire::ollama::{self, Messages};
    use memory_prompt::{DefaultChatMemory, ErrorKind, MemoryPrompt, Message, ToolCall};
    use memory_prompt_clients::ollama_rs::{History, answer};
    use ollama_rs::generation::chat::ChatMessage;
    use ollama_rs::history::ChatHistory;
    use serde_json::json;

    use super::golden::goldens;

    #[test]
    fn goldens_are_read_alike() {
        let mut seen = 0;
        for (name, golden) in goldens("ollama") {
            if golden["response"].is_object() {
                let response = &golden["response"];
                let typed = serde_json::from_value(response["message"].clone()).unwrap();
                let at = response["created_at"].as_str().unwrap_or_default();
                let (ours, theirs) = (
                    Message::from(ollama::answer(response.to_string()).unwrap()),
                    answer(&typed, at).unwrap(),
                );
                assert_eq!(theirs.text(), ours.text(), "{name}");
                let names = |m: &Message| {
                    m.tool_calls()
                        .map(|c| (c.name.clone(), c.arguments.clone()))
                        .collect::<Vec<_>>()
                };
                assert_eq!(names(&theirs), names(&ours), "{name}");
                seen += 1;
            }
        }
        assert!(seen > 1, "{seen}");
    }

    fn calls(names: &[&str]) -> ChatMessage {
        let calls: Vec<_> =
            names.iter().map(|n| json!({"function": {"name": n, "arguments": {"x": 1}}})).collect();
        let message = json!({"role": "assistant", "content": "", "tool_calls": calls});
        serde_json::from_value(message).unwrap()
    }

    #[test]
    fn a_tool_loop_becomes_a_history() {
        let prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
        let mut history = History::new(prompt);
        history.push(ChatMessage::user("weather?".to_owned()));
        for _ in 0..2 {
            history.push(calls(&["look", "ask"]));
            history.push(ChatMessage::tool("sunny".to_owned()));
            history.push(ChatMessage::tool("warm".to_owned()));
        }
        history.push(ChatMessage::assistant("Sunny and warm.".to_owned()));
        history.check().unwrap();

        let stored: Vec<Message> = history
            .prompt()
            .memory()
            .read(None, 100)
            .unwrap()
            .records
            .messages()
            .cloned()
            .collect();
        let call = |id, name| ToolCall::new(id, name, r#"{"x":1}"#);
        let ids: Vec<Vec<ToolCall>> =
            stored.iter().map(|m| m.tool_calls().cloned().collect()).collect();
        assert_eq!(ids[1], [call("call_1_0", "look"), call("call_1_1", "ask")]);
        assert_eq!(ids[4], [call("call_4_0", "look"), call("call_4_1", "ask")]);
        assert_eq!(stored[5], Message::tool("call_4_0", "look", "sunny"));
        assert_eq!(stored[6], Message::tool("call_4_1", "ask", "warm"));

        // What goes to the server is what was pushed, under the system message.
        let sent = history.messages();
        assert_eq!(sent.len(), 9);
        assert_eq!(sent[0].content, "Be brief.");
        assert_eq!(sent[2].tool_calls[1].function.name, "ask");
        assert_eq!(sent[8].content, "Sunny and warm.");
        let view = serde_json::to_value(Messages::of(&stored)).unwrap();
        assert_eq!(view[4]["tool_calls"][0]["id"], "call_4_0");
    }

    #[test]
    fn errors_wait_for_check() {
        let mut history = History::new(MemoryPrompt::new(DefaultChatMemory::new()));
        history.push(ChatMessage::tool("sunny".to_owned()));
        let error = history.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ToolGroup);
        assert_eq!(error.to_string(), "push into history: a tool message that answers no call");
        history.prompt().add_temporary(Message::user("hi"));
        assert_eq!(history.messages().len(), 1);
        history.check().unwrap();
    }
}
