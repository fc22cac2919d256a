//! The models of the web example: a server by reqwest, or a toy.

use std::env::var;
use std::error::Error as _;
use std::time::Duration;

use memory_prompt::conversation::{Asking, AsyncModel, ModelError};
use memory_prompt::memory::BoxFuture;
use memory_prompt::report::Origin;
use memory_prompt::turn::Reply;
use memory_prompt::wire::{Event, Frames, Request, openai};
use memory_prompt::{Error, Message, Prompt, ToolCall};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

/// So long what an answer cost may come behind its end.
const USAGE: Duration = Duration::from_secs(2);

/// Answers what it is asked.
#[derive(Clone)]
pub(crate) enum Speaker {
    /// A server that speaks OpenAI's language.
    Server {
        client: Client,
        url: String,
        key: String,
        model: String,
    },
    Toy,
}

impl Speaker {
    pub(crate) fn new() -> Result<Self, reqwest::Error> {
        let Ok(key) = var("OPENAI_API_KEY") else { return Ok(Self::Toy) };
        let base = var("OPENAI_BASE_URL").unwrap_or_else(|_| "https://api.openai.com/v1".into());
        let model = var("MODEL").unwrap_or_else(|_| "gpt-5-mini".into());
        #[cfg(feature = "tls")]
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A redirect would carry the messages to somebody else.
        let client = Client::builder().redirect(Policy::none()).build()?;
        let url = format!("{}/chat/completions", base.trim_end_matches('/'));
        Ok(Self::Server { client, url, key, model })
    }

    /// The same, which answers within this time or not at all.
    pub(crate) fn within(&self, time: Duration) -> Timed {
        Timed { speaker: self.clone(), until: Instant::now() + time }
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
            let response = request.send().await?.error_for_status()?;
            if !response.status().is_success() {
                return Err("the server redirects: its address is another".into());
            }
            read(response, &ask).await
        })
    }
}

/// Reads an answer to its end, which is not always the end of its connection.
async fn read(mut response: Response, ask: &Asking<'static>) -> Result<Reply, ModelError> {
    let (mut frames, mut stream) = (Frames::sse(), openai::Stream::new());
    loop {
        // Behind the end comes what it cost, and of many servers nothing else for a long time.
        let most = if stream.has_ended() { USAGE } else { Duration::MAX };
        match timeout(most, response.chunk()).await {
            Ok(Ok(Some(bytes))) => {
                for data in frames.push(&bytes) {
                    let data = data?;
                    if data == "[DONE]" && stream.has_ended() {
                        return Ok(stream.finish()?.into());
                    }
                    stream.push(&data)?.into_iter().try_for_each(|it| ask.tell(it))?;
                }
            }
            Ok(Ok(None)) => break,
            _ if stream.has_ended() => return Ok(stream.finish()?.into()),
            Ok(Err(error)) => {
                let broken = stream.broken(); // what was said is kept, marked
                let is_empty = broken.message.text().is_empty();
                return if is_empty { Err(error.into()) } else { Ok(broken.into()) };
            }
            Err(late) => return Err(late.into()),
        }
    }
    if let Some(data) = frames.finish()? {
        stream.push(&data)?.into_iter().try_for_each(|it| ask.tell(it))?;
    }
    Ok(stream.finish()?.into())
}

/// Returns whether a turn failed because the [time](Timed) was up.
pub(crate) fn is_late(error: &Error) -> bool {
    matches!(error.source(), Some(source) if source.is::<Elapsed>())
}

/// A model with a time for all that it is asked. What is stored is not timed: whoever gives that up
/// does not know whether it was.
pub(crate) struct Timed {
    speaker: Speaker,
    until: Instant,
}

impl AsyncModel for Timed {
    fn ask(&self, ask: Asking<'static>) -> BoxFuture<'_, Result<Reply, ModelError>> {
        Box::pin(async move { timeout_at(self.until, self.speaker.ask(ask)).await? })
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
