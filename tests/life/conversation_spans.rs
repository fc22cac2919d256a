//! What a conversation tells those who listen: what is done, and never what is said unless asked.

#![cfg(feature = "tracing")]

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory_prompt::conversation::{Asking, Conversation, ModelError, Scripted};
use memory_prompt::turn::ToolError;
use memory_prompt::wire::{Answer, openai};
use memory_prompt::{ChatMemory, DefaultChatMemory, MemoryPrompt, Provider, Tool};
use serde_json::{Value, json};

use crate::conversation::called;
use crate::listener::Listener;

fn prompt() -> MemoryPrompt {
    MemoryPrompt::new(DefaultChatMemory::new()).system("secret a").for_provider(Provider::OpenAi)
}

/// Calls a tool that there is, and answers; each time with what it cost.
fn model(ask: &Asking<'_>) -> Result<Answer, ModelError> {
    let message = if ask.round() == 0 {
        json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": "call_1", "type": "function",
            "function": {"name": "look", "arguments": "{\"at\": \"secret b\"}"}}]})
    } else {
        json!({"role": "assistant", "content": "secret c"})
    };
    let usage = json!({"prompt_tokens": 20, "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 16}});
    let reason = if ask.round() == 0 { "tool_calls" } else { "stop" };
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    let body = json!({"id": "gen-1", "model": "small-1-2026", "usage": usage, "choices": [choice]});
    Ok(openai::answer(body.to_string())?)
}

#[allow(clippy::unnecessary_wraps)] // as a tool is
fn look(_: Value) -> Result<&'static str, ToolError> {
    Ok("secret d")
}

/// The notes about one kind of span: where it begins, and what was told of it since.
fn notes(listener: &Listener) -> Vec<String> {
    let notes = listener.notes();
    notes.into_iter().filter(|it| it.starts_with("span") || it.starts_with("record")).collect()
}

/// The notes about spans of what this does.
fn told(run: impl FnOnce()) -> Vec<String> {
    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), run);
    notes(&listener)
}

fn has(notes: &[String], words: &[&str]) -> bool {
    notes.iter().any(|note| words.iter().all(|word| note.contains(word)))
}

fn check(notes: &[String]) {
    let begin = "span INFO memory_prompt::conversation";
    let agent = format!("{begin} invoke_agent gen_ai.operation.name=\"invoke_agent\"");
    let named = "gen_ai.request.model=\"small-1\"";
    assert!(has(notes, &[&agent, named]), "{notes:#?}");
    let chat = format!("{begin} chat gen_ai.operation.name=\"chat\"");
    let kind = ["otel.name=\"chat small-1\"", "otel.kind=\"client\""];
    assert!(has(notes, &[&chat, named, kind[0], kind[1], "round=0"]), "{notes:#?}");
    assert!(has(notes, &[&chat, "round=1"]), "{notes:#?}");
    let tool = format!("{begin} execute_tool gen_ai.operation.name=\"execute_tool\"");
    let words = [&tool, "gen_ai.tool.name=\"look\"", "gen_ai.tool.type=\"function\""];
    assert!(has(notes, &words), "{notes:#?}");
    assert!(has(notes, &[&tool, "gen_ai.tool.call.id=\"call_1\""]), "{notes:#?}");
    for told in [
        "gen_ai.provider.name=\"openai\"",
        "gen_ai.response.finish_reasons=[\"tool_call\"]",
        "gen_ai.response.id=\"gen-1\"",
        "gen_ai.response.model=\"small-1-2026\"",
        "gen_ai.usage.input_tokens=20",
        "gen_ai.usage.output_tokens=3",
        "gen_ai.usage.cache_read.input_tokens=16",
        // The sum is told of the turn.
        "gen_ai.usage.input_tokens=40",
        "gen_ai.usage.output_tokens=6",
        "ended=Answered",
    ] {
        assert!(has(notes, &["record", told]), "{told}: {notes:#?}");
    }
    assert_eq!(notes.iter().filter(|note| note.starts_with("span")).count(), 4);
}

/// Each turn is a span, and so are each question to the model and each call.
#[test]
fn a_turn_is_told_by_the_names_of_opentelemetry_and_without_text() {
    let notes = told(|| {
        let chat = Conversation::new(prompt(), model).model_name("small-1");
        chat.tool(Tool::new("look", "Looks."), look).say("secret e").unwrap();
    });
    check(&notes);
    assert!(!has(&notes, &["secret"]), "{notes:#?}");
}

#[test]
fn text_is_told_where_it_is_asked_for() {
    let notes = told(|| {
        let chat = Conversation::new(prompt(), model).model_name("small-1").trace_text();
        chat.tool(Tool::new("look", "Looks."), look).say("secret e").unwrap();
    });
    check(&notes);
    let find = |name: &str, word: &str| {
        let name = format!("record {name}=");
        let note = notes.iter().find(|it| it.starts_with(&name) && it.contains(word)).unwrap();
        // Debug of a text that is JSON.
        let text: String = serde_json::from_str(&note[name.len()..]).unwrap();
        serde_json::from_str::<Value>(&text).unwrap_or(Value::String(text))
    };
    let text = |text: &str| json!({"type": "text", "content": text});
    let call = json!({"type": "tool_call", "id": "call_1", "name": "look",
        "arguments": {"at": "secret b"}});
    let response = json!({"type": "tool_call_response", "id": "call_1", "response": "secret d"});
    assert_eq!(
        find("gen_ai.input.messages", "secret d"),
        json!([
            {"role": "system", "parts": [text("secret a")]},
            {"role": "user", "parts": [text("secret e")]},
            {"role": "assistant", "parts": [call]},
            {"role": "tool", "parts": [response]},
        ])
    );
    assert_eq!(
        find("gen_ai.output.messages", "secret c"),
        json!([{"role": "assistant", "parts": [text("secret c")], "finish_reason": "stop"}])
    );
    assert_eq!(find("gen_ai.tool.call.arguments", "secret"), json!({"at": "secret b"}));
    assert_eq!(find("gen_ai.tool.call.result", "secret"), "secret d");
}

/// A tool that waits until the other end of this is dropped.
fn held() -> (Sender<()>, impl Fn(Value) -> Result<&'static str, ToolError>) {
    let (go, wait) = channel();
    let wait = Mutex::new(wait);
    let tool = move |_: Value| {
        let _ = wait.lock().unwrap().recv();
        Ok("secret h")
    };
    (go, tool)
}

/// What goes wrong is told by its kind.
#[test]
fn failures_are_told_by_their_kind() {
    let (go, wait) = held();
    let notes = told(|| {
        let model = Scripted::new().calls("fail", json!({})).calls("wait", json!({}));
        let model = model.says("ok").fails("secret f");
        let chat = Conversation::new(prompt(), model)
            .tool(Tool::new("fail", "Fails."), |_: Value| {
                Err::<&str, _>(ToolError::new("secret g"))
            })
            .tool(Tool::new("wait", "Waits."), wait)
            .call_timeout(Duration::from_secs(1)); // longer than it takes to fail
        chat.say("secret i").unwrap();
        chat.say("secret j").unwrap_err();
    });
    drop(go);
    for kind in ["ToolError", "timeout", "Model"] {
        assert!(has(&notes, &["record", &format!("error.type=\"{kind}\"")]), "{kind}: {notes:#?}");
    }
    // The tool that failed, the one that was too slow, the model, and its turn.
    let failed = notes.iter().filter(|it| it.contains("otel.status_code=\"ERROR\"")).count();
    assert_eq!(failed, 4, "{notes:#?}");
    assert!(!has(&notes, &["secret"]), "{notes:#?}");
}

/// A payment took too long, its turn waited for approval, and the conversation was cleared: what
/// came of it belonged nowhere, and nobody was told.
#[test]
fn a_late_result_that_is_let_go_is_told() {
    let listener = Listener::default();
    let (go, wait) = held();
    tracing::subscriber::with_default(listener.clone(), || {
        let memory = Arc::new(DefaultChatMemory::new());
        let model = Scripted::new().says(called([("c1", "wait"), ("c2", "ask")]));
        let chat = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
            .tool(Tool::new("wait", "Waits."), wait)
            .tool(Tool::new("ask", "Asks.").needing_approval(), |_: Value| Ok("secret k"))
            .call_timeout(Duration::from_millis(10));
        chat.say("secret i").unwrap();
        memory.clear().unwrap();
        drop(go);
        assert_eq!(chat.finish(Duration::from_secs(60)), 0);
    });
    let notes = listener.notes();
    assert!(has(&notes, &["event WARN", "a late result is not stored"]), "{notes:#?}");
    assert!(!has(&notes, &["secret"]), "{notes:#?}");
}

/// A process ended while the result of a payment waited for its turn, and nothing said so.
#[test]
fn a_late_result_that_is_lost_is_told() {
    let listener = Listener::default();
    let (go, wait) = held();
    tracing::subscriber::with_default(listener.clone(), || {
        let model = Scripted::new().says(called([("c1", "wait"), ("c2", "ask")]));
        let chat = Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model)
            .tool(Tool::new("wait", "Waits."), wait)
            .tool(Tool::new("ask", "Asks.").needing_approval(), |_: Value| Ok("secret k"))
            .call_timeout(Duration::from_millis(10));
        chat.say("secret i").unwrap();
        drop(go);
        assert_eq!(chat.finish(Duration::from_secs(60)), 1);
        assert!(!has(&listener.notes(), &["event WARN"]), "it waits");
    });
    // The thread of the tool may be the last to let go.
    let is_told = || has(&listener.notes(), &["event WARN", "a late result is lost"]);
    let since = std::time::Instant::now();
    while !is_told() && since.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let notes = listener.notes();
    assert!(is_told(), "{notes:#?}");
    assert!(!has(&notes, &["secret"]), "{notes:#?}");
}

/// An async model could not say its name, nor for which provider it is.
#[cfg(feature = "tokio")]
#[test]
fn an_async_model_says_its_name() {
    use memory_prompt::adapt::ToAsync;
    use memory_prompt::conversation::AsyncModel;
    use memory_prompt::memory::BoxFuture;
    use memory_prompt::turn::Reply;

    struct Named;

    impl AsyncModel for Named {
        fn ask(&self, _: Asking<'static>) -> BoxFuture<'_, Result<Reply, ModelError>> {
            Box::pin(async { Ok("hello".into()) })
        }
        fn provider(&self) -> Option<Provider> {
            Some(Provider::Mistral)
        }
        fn name(&self) -> Option<&str> {
            Some("small-2")
        }
    }

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let notes = told(|| {
        let prompt = MemoryPrompt::new_async(ToAsync::new(DefaultChatMemory::new()));
        runtime.block_on(Conversation::new_async(prompt, Named).say("hi")).unwrap();
    });
    assert!(has(&notes, &["span", "chat", "gen_ai.request.model=\"small-2\""]), "{notes:#?}");
    assert!(has(&notes, &["gen_ai.provider.name=\"mistral_ai\""]), "{notes:#?}");
}

#[cfg(feature = "tokio")]
#[test]
fn a_turn_over_an_async_memory_is_told_alike() {
    use memory_prompt::adapt::ToAsync;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let notes = told(|| {
        let prompt = MemoryPrompt::new_async(ToAsync::new(DefaultChatMemory::new()));
        let prompt = prompt.for_provider(Provider::OpenAi);
        let model = |ask: Asking<'static>| async move { model(&ask) };
        let chat = Conversation::new_async(prompt, model).model_name("small-1");
        runtime.block_on(chat.tool(Tool::new("look", "Looks."), look).say("secret e")).unwrap();
    });
    check(&notes);
    assert!(!has(&notes, &["secret"]), "{notes:#?}");
}
