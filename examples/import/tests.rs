//! Accounts as people export them, and damaged ones.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that panics has failed

use memory_prompt::message::{AiMessage, Part, Reasoning};
use memory_prompt::{ToolCall, Window};
use serde_json::{Value, json};

use super::*;

fn read(file: &Value) -> Vec<Result<BranchView, String>> {
    let file = file.to_string();
    let read = conversations(&file).map(|read| {
        read.map(|(_, account)| {
            let view = BranchView::new(DefaultChatMemory::new());
            put(&account, &view).unwrap();
            view
        })
    });
    read.collect()
}

/// What a page shows: each message, which of how many variants it is, and its second.
fn shown(view: &BranchView) -> Vec<String> {
    let page = view.page(None, 99).unwrap();
    let entries = page.entries.iter().rev().map(|it| {
        let calls: Vec<&str> = it.message.tool_calls().map(|call| &*call.name).collect();
        let at = it.at.duration_since(UNIX_EPOCH).unwrap().as_secs();
        let (text, calls) = (it.message.text(), calls.join(","));
        format!("{text}{calls} {}/{} at {at}", it.variant, it.variants)
    });
    entries.collect()
}

#[allow(clippy::needless_pass_by_value)] // as `json!` makes it
fn node(parent: Value, children: &[&str], role: &str, to: &str, text: &str) -> Value {
    json!({"parent": parent, "children": children, "message": {"author": {"role": role},
        "recipient": to, "create_time": 7.5, "content": {"content_type": "text", "parts": [text]}}})
}

fn tree(shown: &str) -> Value {
    let said = |parent: &str, children: &[&str], role: &str, to: &str, text: &str| {
        node(json!(parent), children, role, to, text)
    };
    json!({"title": "Sums", "current_node": shown, "mapping": {
        "root": {"parent": null, "children": ["told"], "message": null},
        "told": said("root", &["q", "edited"], "system", "all", "Be brief."),
        "q": said("told", &["z", "a"], "user", "all", "1 + 1?"),
        "z": said("q", &[], "assistant", "all", "Three."),
        "a": said("q", &["r", "s"], "assistant", "python", "1 + 1"),
        "r": said("a", &["end"], "tool", "all", "2"),
        "s": said("a", &[], "tool", "all", "two"),
        "end": said("r", &[], "assistant", "all", "Two."),
        "edited": said("told", &["none"], "user", "all", "2 + 2?"),
        "none": said("edited", &["four"], "assistant", "all", ""),
        "four": said("none", &[], "assistant", "all", "Four."),
    }})
}

#[test]
fn variants_of_chatgpt_become_branches() {
    let read = |shown: &str| read(&json!([tree(shown)])).pop().unwrap().unwrap();
    let view = read("end");
    let said = ["1 + 1? 1/2 at 7", "python 2/3 at 7", "2 1/1 at 7", "Two. 1/1 at 7"];
    assert_eq!(shown(&view), said, "the order in which they were said, not that of their ids");
    assert_eq!(view.branches().unwrap().len(), 4);
    assert_eq!(view.system().unwrap().unwrap().text(), "Be brief.");
    let variants = view.variants(1).unwrap();
    view.switch(variants[0]).unwrap();
    assert_eq!(shown(&view), ["1 + 1? 1/2 at 7", "Three. 1/3 at 7"]);
    assert_eq!(view.system().unwrap().unwrap().text(), "Be brief.", "on each branch");
    // Another result of the same call has the call once more: they stay together.
    view.switch(variants[2]).unwrap();
    assert_eq!(shown(&view), ["1 + 1? 1/2 at 7", "python 3/3 at 7", "two 1/1 at 7"]);

    assert_eq!(shown(&read("z")), ["1 + 1? 1/2 at 7", "Three. 1/3 at 7"]);
    assert_eq!(shown(&read("four")), ["2 + 2? 2/2 at 7", "Four. 1/1 at 7"]);
    assert_eq!(shown(&read("none")), ["2 + 2? 2/2 at 7", "Four. 1/1 at 7"]);
}

/// Uploaded files, second results, custom instructions, memories and thoughts were lost.
#[test]
fn all_that_the_model_of_chatgpt_had_before_it_is_kept() {
    let own = |kind: &str, content: Value| {
        let mut content = content;
        content["content_type"] = json!(kind);
        content
    };
    let text = |text: &str| own("multimodal_text", json!({"parts": [text]}));
    let instructions = json!({"user_profile": "I am Ada.", "user_instructions": "Be brief."});
    let thoughts = json!({"thoughts": [{"summary": "x", "content": "Hm."}, {"content": "So."}]});
    let chain = [
        ("user", "all", 1.0, own("user_editable_context", instructions)),
        (
            "assistant",
            "all",
            1.0,
            own("model_editable_context", json!({"model_set_context": "4."})),
        ),
        ("user", "all", 1.0, text("What is in it?")),
        ("system", "all", 1.0, text("")),
        ("assistant", "all", 1.0, text("")),
        ("tool", "all", 0.0, own("tether_browsing_display", json!({"result": ""}))),
        ("tool", "all", 1.0, text("The whole file.")),
        ("tool", "all", 1.0, text("All the files are there.")),
        ("assistant", "all", 1.0, own("thoughts", thoughts)),
        ("assistant", "all", 1.0, own("reasoning_recap", json!({"content": "for 5 s"}))),
        ("assistant", "python", 1.0, text("1 + 1")),
        ("tool", "all", 0.0, text("")),
        ("tool", "all", 1.0, text("2")),
        ("tool", "all", 1.0, text("a plot")),
        ("assistant", "all", 1.0, text("Two.")),
    ];
    let node = |(place, (role, to, weight, content)): (usize, (&str, &str, f64, Value))| {
        let author = json!({"role": role, "name": (role == "tool").then_some("file_search")});
        let message =
            json!({"author": author, "recipient": to, "weight": weight, "content": content});
        let parent = place.checked_sub(1).map(|it| it.to_string());
        (place.to_string(), json!({"parent": parent, "message": message}))
    };
    let mapping: serde_json::Map<_, _> = chain.into_iter().enumerate().map(node).collect();
    let file = json!([{"title": "Files", "current_node": "14", "mapping": mapping}]);
    let view = read(&file).pop().unwrap().unwrap();
    assert_eq!(view.system().unwrap().unwrap().text(), "I am Ada.\nBe brief.\n\n4.");
    let call = |id: &str| Message::ai_calls([ToolCall::new(id, "file_search", "{}")]);
    let result = |id: &str, text: &str| Message::tool(id, "file_search", text);
    let said = [
        Message::user("What is in it?"),
        call("6"),
        result("6", "The whole file."),
        call("7"),
        result("7", "All the files are there."),
        Message::Ai(AiMessage::new("").with_reasoning(Reasoning::new("Hm.\nSo."))),
        Message::ai_calls([ToolCall::new("10", "python", r#"{"input":"1 + 1"}"#)]),
        Message::tool("10", "python", "2"),
        call("13"),
        result("13", "a plot"),
        Message::ai("Two."),
    ];
    assert_eq!(view.messages().unwrap(), said);
    let prompt = MemoryPrompt::new(DefaultChatMemory::new()).window(Window::all());
    let mut prompt = prompt.for_provider(Provider::Anthropic);
    prompt.add_all(said).unwrap();
    prompt.add(Message::user("Really?")).unwrap();
    let built = prompt.build().unwrap();
    let sent = serde_json::to_string(&wire::Request::new(&built).max_tokens(9)).unwrap();
    for text in ["The whole file.", "All the files are there.", "a plot", "Two."] {
        assert!(sent.contains(text), "{text}: {sent}");
    }
}

#[test]
fn a_picture_that_lies_beside_the_export_is_named_and_is_no_file_of_a_provider() {
    let mut tree = tree("end");
    tree["mapping"]["q"]["message"]["content"]["parts"] = json!([
        {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_1"}, "1 + 1?",
        {"content_type": "audio_asset_pointer", "asset_pointer": "file-service://file-2"},
    ]);
    let view = read(&json!([tree])).pop().unwrap().unwrap();
    let question = view.messages().unwrap().remove(0);
    let said = "[the file sediment://file_1]\n1 + 1?\n[the file file-service://file-2]";
    assert_eq!(question, Message::user(said));
}

#[test]
fn variants_of_claude_become_branches_and_tools_stand_behind_their_calls() {
    let root = "00000000-0000-4000-8000-000000000000";
    let file = json!([{"name": "Oslo", "chat_messages": [
        {"uuid": "1", "parent_message_uuid": root, "sender": "human", "text": "old",
            "created_at": "2024-02-29T10:00:00.123456Z",
            "content": [{"type": "text", "text": "Where is it?"}],
            "attachments": [{"file_name": "a.txt", "extracted_content": "Oslo"}],
            "files": [{"file_name": "b.png"}, {"file_name": ""}]},
        {"uuid": "2", "parent_message_uuid": "1", "sender": "assistant", "text": "x", "content": [
            {"type": "thinking", "thinking": "Hm."},
            {"type": "text", "text": "I look. "},
            {"type": "tool_use", "name": "look", "input": {"at": 1}},
            {"type": "tool_result", "name": "look", "content": [{"type": "text", "text": "north"}]},
            {"type": "text", "text": "In Norway."}]},
        {"uuid": "3", "parent_message_uuid": "1", "sender": "assistant", "text": "In Sweden."},
        {"uuid": "4", "parent_message_uuid": root, "sender": "human", "text": "And Rome?"},
        {"uuid": "5", "parent_message_uuid": "3", "sender": "human", "text": "Really?"},
    ]}, {"name": "old", "chat_messages": [
        {"uuid": "1", "sender": "human", "text": "Hi"},
        {"uuid": "2", "sender": "assistant", "text": "Hello"},
        {"uuid": "3", "sender": "human",
            "attachments": [{"file_name": "", "extracted_content": "pasted"}]},
    ]}]);
    let read: Vec<BranchView> = read(&file).into_iter().map(Result::unwrap).collect();
    let question = "a.txt:\nOslo[b.png][a file]Where is it? 1/2 at 1709200800";
    assert_eq!(shown(&read[0]), [question, "In Sweden. 2/2 at 0", "Really? 1/1 at 0"]);
    read[0].switch(read[0].variants(1).unwrap()[0]).unwrap();
    let said = [question, "I look. look 1/2 at 0", "north 1/1 at 0", "In Norway. 1/1 at 0"];
    assert_eq!(shown(&read[0]), said);
    read[0].switch(read[0].variants(0).unwrap()[1]).unwrap();
    assert_eq!(shown(&read[0]), ["And Rome? 2/2 at 0"]);
    assert_eq!(shown(&read[1])[..2], ["Hi 1/1 at 0", "Hello 1/1 at 0"]);
    assert_eq!(read[1].messages().unwrap()[2], Message::user([Part::text("a file:\npasted")]));
}

/// One conversation that could not be read took the whole account with it.
#[test]
fn damaged_conversations_are_refused_by_name_and_the_rest_is_read() {
    let changed = |change: fn(&mut Value)| {
        let mut of = tree("end");
        change(&mut of);
        of
    };
    let claude = |messages: Value| json!({"name": "Sums", "chat_messages": messages});
    let damaged = [
        (
            changed(|of| of["mapping"]["r"]["parent"] = json!("gone")),
            "what stands before \"r\" is not there",
        ),
        (
            changed(|of| of["mapping"]["q"]["parent"] = json!("end")),
            "some of it stands behind itself",
        ),
        (
            changed(|of| of["mapping"]["q"]["parent"] = json!(1)),
            "what stands before \"q\" has no name",
        ),
        (
            changed(|of| of["current_node"] = json!("gone")),
            "what was shown last, \"gone\", is not there",
        ),
        (
            changed(|of| of["mapping"]["q"]["message"]["content"] = json!(null)),
            "the message \"q\" has no content",
        ),
        (
            changed(|of| of["mapping"]["q"]["message"]["author"]["role"] = json!("x")),
            "the message \"q\" is of the role \"x\"",
        ),
        (
            changed(|of| of["mapping"]["q"]["message"]["author"] = json!(null)),
            "the message \"q\" is of nobody",
        ),
        (changed(|of| of["mapping"] = json!(["q"])), "it is of neither ChatGPT nor Claude"),
        (
            claude(json!([{"uuid": "1", "sender": "human", "parent_message_uuid": "2"}])),
            "what stands before \"1\" is not there",
        ),
        (
            claude(json!([{"uuid": "1", "sender": "human", "parent_message_uuid": "1"}])),
            "some of it stands behind itself",
        ),
        (
            claude(json!([{"uuid": "1", "sender": "human"}, {"uuid": "1", "sender": "human"}])),
            "the message \"1\" is there twice",
        ),
        (claude(json!([{"uuid": "1", "sender": "ghost"}])), "the message \"1\" is from \"ghost\""),
        (claude(json!([{"uuid": "1"}])), "the message \"1\" is of nobody"),
        (
            claude(
                json!([{"uuid": "1", "sender": "assistant", "content": [{"type": "tool_result"}]}]),
            ),
            "a result in \"1\" answers no call",
        ),
    ];
    let mut file: Vec<Value> = damaged.iter().map(|it| it.0.clone()).collect();
    file.push(tree("end"));
    let mut read = read(&Value::Array(file));
    assert_eq!(shown(&read.pop().unwrap().unwrap()).len(), 4);
    for ((number, read), (_, why)) in (1..).zip(read).zip(damaged) {
        assert_eq!(read.err(), Some(format!("conversation {number} Sums: {why}")));
    }
}

#[test]
fn a_file_that_is_cut_short_or_garbled_is_read_as_far_as_it_goes() {
    let whole = tree("end").to_string();
    let names = |file: &str| -> Vec<Result<String, String>> {
        conversations(file).map(|it| it.map(|it| it.0)).collect()
    };
    let good = |number: u32| -> Result<String, String> { Ok(format!("{number} Sums")) };
    let cut = names(&format!("\u{feff} [{whole},\n {}", &whole[..whole.len() / 2]));
    assert_eq!((cut.len(), &cut[0]), (2, &good(1)));
    assert!(cut[1].as_ref().unwrap_err().starts_with("conversation 2 is no JSON: EOF"), "{cut:?}");
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let odd = names(&format!(r#"[{{"a": "]}}\"", "b": 01}}, 7, "x,]", {deep}, {whole}] , rest"#));
    assert_eq!(odd.len(), 5, "{odd:?}");
    assert!(odd[..4].iter().all(Result::is_err));
    assert_eq!(odd[4], good(5));
    assert_eq!(names(&whole), [good(1)], "one conversation by itself");
    assert_eq!(names("[]").len() + names("").len() + names("[").len(), 0);
}

#[test]
fn a_long_one_is_read_too() {
    let mut mapping = serde_json::Map::new();
    for i in 0..2_000_u32 {
        let parent = i.checked_sub(1).map(|it| it.to_string());
        let role = if i % 2 == 0 { "user" } else { "assistant" };
        mapping.insert(i.to_string(), node(json!(parent), &[], role, "all", "m"));
    }
    let file = json!([{"title": "long", "current_node": "1999", "mapping": mapping}]);
    let view = read(&file).pop().unwrap().unwrap();
    assert_eq!((view.len().unwrap(), view.branches().unwrap().len()), (2_000, 1));
}
