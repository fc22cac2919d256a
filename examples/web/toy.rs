//! Stands for a model: it knows nothing but the messages of the prompt, books what it is asked to
//! book, one after the other, and else repeats the question, a word at a time.

use std::time::Duration;

use memory_prompt::conversation::{Asking, ModelError};
use memory_prompt::{Message, Prompt, ToolCall, turn::Reply, wire::Event};

pub(crate) async fn toy(ask: Asking<'static>) -> Result<Reply, ModelError> {
    let reply = answer(ask.prompt());
    for piece in reply.message.text().split_inclusive(' ') {
        ask.tell(Event::Text(piece.to_owned()))?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(reply)
}

fn answer(prompt: &Prompt) -> Reply {
    let sent: Vec<_> = prompt.iter().collect();
    let asked = sent.iter().rposition(|it| it.is_user()).unwrap_or_default();
    let question = sent[asked].text();
    let booked = sent[asked..].iter().filter(|it| it.is_tool()).count();
    match question.strip_prefix("book ").map(|list| list.split(" and ").nth(booked)) {
        None => format!("You said: {question}").into(),
        Some(None) => format!("That makes {booked} bookings.").into(),
        Some(Some(what)) => {
            let what = serde_json::json!({ "what": what }).to_string();
            Message::ai_calls([ToolCall::new(format!("c{booked}"), "book", what)]).into()
        }
    }
}
