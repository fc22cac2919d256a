//! The models of the web example: a server by reqwest, or a toy.

use std::env::var;
use std::time::Duration;

use memory_prompt::conversation::{Asking, AsyncModel, ModelError};
use memory_prompt::memory::BoxFuture;
use memory_prompt::report::Origin;
use memory_prompt::turn::Reply;
use memory_prompt::wire::{Event, Frames, Request, openai};
use memory_prompt::{Message, Prompt, ToolCall};

/// Answers what it is asked.
#[derive(Clone)]
pub(crate) enum Speaker {
    /// A server that speaks OpenAI's language.
    Server {
        client: reqwest::Client,
        url: String,
        key: String,
        model: String,
    },
    Toy,
}

impl Speaker {
    pub(crate) fn new() -> Self {
        let Ok(key) = var("OPENAI_API_KEY") else { return Self::Toy };
        let base = var("OPENAI_BASE_URL").unwrap_or_else(|_| "https://api.openai.com/v1".into());
        let model = var("MODEL").unwrap_or_else(|_| "gpt-5-mini".into());
        #[cfg(feature = "tls")]
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self::Server { client: reqwest::Client::new(), url: base + "/chat/completions", key, model }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Server { model, .. } => model,
            Self::Toy => "toy",
        }
    }
}

impl AsyncModel for Speaker {
    fn ask(&self, ask: Asking<'static>) -> BoxFuture<'_, Result<Reply, ModelError>> {
        Box::pin(async move {
            let Self::Server { client, url, key, model } = self else { return toy(&ask).await };
            let request = Request::new(ask.prompt()).tools(ask.tools()).model(model);
            let body = serde_json::to_vec(&request.max_tokens(2_000).stream(true))?;
            let request = client.post(url).bearer_auth(key).body(body);
            let request = request.header("content-type", "application/json");
            let mut response = request.send().await?.error_for_status()?;
            let (mut frames, mut stream) = (Frames::sse(), openai::Stream::new());
            loop {
                match response.chunk().await {
                    Ok(Some(bytes)) => {
                        for data in frames.push(&bytes) {
                            stream.push(&data?)?.into_iter().try_for_each(|it| ask.tell(it))?;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        let broken = stream.broken(); // what was said is kept, marked
                        let is_empty = broken.message.text().is_empty();
                        return if is_empty { Err(error.into()) } else { Ok(broken.into()) };
                    }
                }
            }
            if let Some(data) = frames.finish()? {
                stream.push(&data)?.into_iter().try_for_each(|it| ask.tell(it))?;
            }
            Ok(stream.finish()?.into())
        })
    }
}

/// Stands for a model: it knows nothing but the messages of the prompt, books what it is asked to
/// book, one after the other, and else repeats the question, a word at a time.
async fn toy(ask: &Asking<'static>) -> Result<Reply, ModelError> {
    let reply = answer(ask.prompt());
    let thinks = || tokio::time::sleep(Duration::from_millis(5));
    thinks().await;
    for piece in reply.message.text().split_inclusive(' ') {
        ask.tell(Event::Text(piece.to_owned()))?;
        thinks().await;
    }
    Ok(reply)
}

fn answer(prompt: &Prompt) -> Reply {
    let stored = prompt.with_origins().filter(|(origin, _)| *origin != Origin::Temporary);
    let sent: Vec<_> = stored.map(|(_, message)| message).collect();
    let question = sent.iter().rposition(|it| it.is_user()).unwrap_or_default();
    let text = sent.get(question).map(|it| it.text().into_owned()).unwrap_or_default();
    let Some(list) = text.strip_prefix("book ") else {
        return format!("You said: {text}").into();
    };
    let booked: Vec<_> = sent[question..].iter().filter_map(|it| it.as_tool()).collect();
    let Some(what) = list.split(" and ").nth(booked.len()) else {
        let said = booked.iter().map(|it| it.content().text().into_owned());
        return said.collect::<Vec<_>>().join(", ").into();
    };
    let what = serde_json::json!({ "what": what }).to_string();
    Message::ai_calls([ToolCall::new(format!("c{}", booked.len()), "book", what)]).into()
}
