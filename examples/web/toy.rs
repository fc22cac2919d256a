//! Stands for a model: it knows nothing but the messages of the prompt, books what it is asked to
//! book, one after the other, and else repeats the question, a word at a time.

use std::time::Duration;

use memory_prompt::conversation::{Asking, ModelError};
use memory_prompt::report::Origin;
use memory_prompt::turn::Reply;
use memory_prompt::wire::Event;
use memory_prompt::{Message, Prompt, ToolCall};
use tokio::time::sleep;

pub(crate) async fn toy(ask: Asking<'static>) -> Result<Reply, ModelError> {
    let reply = answer(ask.prompt());
    for piece in reply.message.text().split_inclusive(' ') {
        sleep(Duration::from_millis(5)).await;
        ask.tell(Event::Text(piece.to_owned()))?;
    }
    sleep(Duration::from_millis(5)).await;
    Ok(reply)
}

fn answer(prompt: &Prompt) -> Reply {
    let stored = prompt.with_origins().filter(|(origin, _)| *origin != Origin::Temporary);
    let sent: Vec<_> = stored.map(|(_, message)| message).collect();
    let question = sent.iter().rposition(|it| it.is_user()).unwrap_or_default();
    let text = sent.get(question).map(|it| it.text().into_owned()).unwrap_or_default();
    let Some(list) = text.strip_prefix("book ") else { return format!("You said: {text}").into() };
    let booked: Vec<_> = sent[question..].iter().filter_map(|it| it.as_tool()).collect();
    let Some(what) = list.split(" and ").nth(booked.len()) else {
        let said = booked.iter().map(|it| it.content().text().into_owned());
        return said.collect::<Vec<_>>().join(", ").into();
    };
    let what = serde_json::json!({ "what": what }).to_string();
    Message::ai_calls([ToolCall::new(format!("c{}", booked.len()), "book", what)]).into()
}
