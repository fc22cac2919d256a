//! A web service of many users. `cargo run -p web` keeps their conversations in `web.db`, and with
//! `-- postgres://..` as an argument in PostgreSQL. It needs no key: a toy answers, and books. With
//! `OPENAI_API_KEY` (and `OPENAI_BASE_URL`, `MODEL`) a server does; for https add `--features tls`.
//!
//! ```text
//! curl -N 127.0.0.1:3000/ada -d 'book a table'    curl 127.0.0.1:3000/ada    curl -X DELETE 127.0.0.1:3000/ada
//! ```

mod model;

use std::env::{args, var};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing};
use futures_util::stream::{self, StreamExt};
use memory_prompt::adapt::ToAsync;
use memory_prompt::conversation::Conversation;
use memory_prompt::token::Estimate;
use memory_prompt::turn::{OnInterrupt, Turn};
use memory_prompt::wire::Event;
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryStore, Error, ErrorKind, MemoryPrompt, PostgresStore, Provider,
    SqliteStore, Tool,
};
use model::Speaker;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender as Sender, unbounded_channel};
use tokio::time::interval;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, info, info_span};
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone)]
struct App {
    store: Arc<dyn AsyncChatMemoryStore>,
    speaker: Speaker,
    turns: TaskTracker,
    /// The longest that the model may take for a turn.
    longest: Duration,
}

type Failed = (StatusCode, String);
type Handled = Result<Response, Failed>;
/// An event for a tab: its name, and its data.
type Told = Result<(&'static str, Value), Failed>;

/// A failure as a status. The errors of the library name no text and no user, so they can be shown.
#[allow(clippy::needless_pass_by_value)] // as `map_err` wants it
fn failed(error: Error) -> Failed {
    let status = match error.kind() {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Budget { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::Forgotten => StatusCode::CONFLICT, // deleted in another tab meanwhile
        ErrorKind::Model if model::is_late(&error) => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::Model | ErrorKind::Refused { .. } => StatusCode::BAD_GATEWAY,
        ErrorKind::Storage | ErrorKind::Unacknowledged => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error.to_string())
}

impl App {
    /// Answers a question, within a budget of tokens, rounds and time. Other tabs may ask
    /// meanwhile: all turns are kept whole, one behind the other.
    async fn answer(&self, user: String, asks: String, to: Sender<Told>) -> Told {
        let prompt = MemoryPrompt::new_async(self.store.memory(user.into()).map_err(failed)?)
            .system("You are a terse receptionist.")
            .for_provider(Provider::OpenAi)
            .max_tokens(4_000, Estimate);
        let what = json!({"type": "object", "properties": {"what": {"type": "string"}}});
        let chat = Conversation::new_async(prompt, self.speaker.within(self.longest))
            .model_name(self.speaker.name())
            .tool(Tool::new("book", "Books it.").parameters(what), |asked: Value| {
                info!("booked"); // where a real one would book
                Ok(format!("{} is booked", asked["what"]))
            });
        self.end_dead_turns(&chat).await.map_err(failed)?;
        let show = move |event| {
            if let Event::Text(piece) = event {
                let _ = to.send(Ok(("text", json!(piece)))); // the tab may be closed: the turn goes on
            }
        };
        let done = chat.stream(Turn::from(asks).max_rounds(8), show).await.map_err(failed)?;
        Ok(("done", json!({"ended": done.ended, "positions": done.positions, "usage": done.usage})))
    }

    /// Ends what a process left behind that died: nobody can still run it where nothing has
    /// happened for longer than a turn may take. What it has done is kept.
    async fn end_dead_turns(&self, chat: &Conversation<dyn AsyncChatMemory>) -> Result<(), Error> {
        let prompt = chat.prompt();
        let info = self.store.info(prompt.memory().id()).await?;
        if info.is_none_or(|info| info.active.elapsed().unwrap_or_default() < 2 * self.longest) {
            return Ok(());
        }
        for dead in prompt.unfinished().await? {
            let Ok(mut turn) = prompt.adopt(&dead).await else { continue }; // another tab was faster
            turn.interrupt(OnInterrupt::Keep);
            let ended = chat.run(&mut turn, |_| {}).await; // one that can't be stored waits on
            info!(?ended, "a dead turn");
        }
        Ok(())
    }
}

async fn say(app: State<App>, Path(user): Path<String>, question: String) -> Handled {
    if question.trim().is_empty() {
        return Err((StatusCode::BAD_REQUEST, "there is no question".to_owned()));
    }
    // No longer than an answer may be, so a slow reader costs no more than that.
    let (to, mut told) = unbounded_channel();
    let (turns, State(app)) = (app.turns.clone(), app);
    // A task of its own: a tab that is closed loses no answer that was paid for.
    let turn = async move { to.send(app.answer(user, question, to.clone()).await) };
    turns.spawn(turn.instrument(info_span!("say")));
    // Until something is said, a failure still has a status.
    match told.recv().await {
        Some(Err(failed)) => Err(failed),
        None => Err((StatusCode::INTERNAL_SERVER_ERROR, "the turn panicked".to_owned())),
        first => {
            let rest = stream::unfold(told, async |mut told| Some((told.recv().await?, told)));
            let events = stream::iter(first).chain(rest).map(event);
            Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
        }
    }
}

fn event(told: Told) -> Result<Sent, axum::Error> {
    let (name, data) = told.unwrap_or_else(|(_, text)| ("error", json!(text)));
    Sent::default().event(name).json_data(data)
}

async fn history(app: State<App>, Path(user): Path<String>) -> Handled {
    let newest = app.store.memory(user.into()).map_err(failed)?;
    let newest = newest.read(None, 100).await.map_err(failed)?.records;
    let texts = newest.iter().map(|it| json!([it.seq(), it.message().role(), it.message().text()]));
    Ok(Json(texts.collect::<Vec<_>>()).into_response())
}

async fn forget(app: State<App>, Path(user): Path<String>) -> Handled {
    let was_there = app.store.delete(&user.into()).await.map_err(failed)?;
    Ok(if was_there { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }.into_response())
}

/// Deletes conversations that nobody has gone on with for so long.
async fn delete_idle(store: Arc<dyn AsyncChatMemoryStore>, idle: Duration) {
    let mut again = interval((idle / 10).clamp(Duration::from_secs(1), Duration::from_hours(1)));
    loop {
        again.tick().await;
        let deleted = store.purge_inactive(SystemTime::now() - idle).await;
        info!(?deleted, "idle conversations");
    }
}

fn seconds(name: &str, unless_set: u64) -> Duration {
    Duration::from_secs(var(name).map_or(unless_set, |it| it.parse().unwrap_or(unless_set)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_span_events(FmtSpan::CLOSE).init();
    let place = args().nth(1).unwrap_or_else(|| "web.db".to_owned());
    let store: Arc<dyn AsyncChatMemoryStore> = if place.starts_with("postgres") {
        Arc::new(PostgresStore::open(place).await?)
    } else {
        Arc::new(ToAsync::new(SqliteStore::open(place)?))
    };
    tokio::spawn(delete_idle(Arc::clone(&store), seconds("IDLE_SECONDS", 30 * 86_400)));
    let (turns, longest) = (TaskTracker::new(), seconds("TURN_SECONDS", 120));
    let app = App { store, speaker: Speaker::new()?, turns: turns.clone(), longest };
    let user = routing::post(say).get(history).delete(forget); // a real one asks its login who it is
    let routes = Router::new().route("/{user}", user).layer(DefaultBodyLimit::max(64 << 10));
    let address = var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    info!("http://{}", listener.local_addr()?);
    let stopped = async { drop(tokio::signal::ctrl_c().await) };
    axum::serve(listener, routes.with_state(app)).with_graceful_shutdown(stopped).await?;
    turns.close();
    turns.wait().await; // those of closed tabs too
    Ok(())
}
