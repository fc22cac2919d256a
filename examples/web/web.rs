//! A web service of many users: `cargo run -p web`, and open the address that it says. It keeps
//! conversations in `web.db`, and with `-- postgres://..` as an argument in PostgreSQL. It needs no
//! key: a toy answers, and books. With `OPENAI_API_KEY` (and `OPENAI_BASE_URL`, `MODEL`) a server.
//!
//! `POST /ada` asks, and tells the answer as events. `GET /ada/events` tells the turn that runs, or
//! goes on behind a `Last-Event-ID`. `GET /ada` is what was said, and `DELETE /ada` forgets it.

mod toy;

use std::collections::BTreeMap;
use std::env::{args, var};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::{Json, Router, routing};
use futures_util::stream;
use memory_prompt::conversation::{AsyncModel, Conversation};
use memory_prompt::{AsyncChatMemoryStore, Error, ErrorKind, MemoryPrompt, Message, Tool, Turn};
use memory_prompt::{PostgresStore, Provider, SqliteStore, Transport, adapt::ToAsync};
use memory_prompt::{message::UserMessage, token::Estimate, wire::Event};
use serde_json::{Value, json};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio_util::task::TaskTracker;
use tracing::{Instrument, info, info_span, warn};
use tracing_subscriber::fmt::format::FmtSpan;

type Failed = (StatusCode, String);
type Handled = Result<Response, Failed>;
/// What is told of a turn: of each event the bytes of text up to its end, its name, and its data.
type Told = Vec<(usize, &'static str, Result<Value, Failed>)>;
/// The turns that run, by user and number. None is longer than an answer may be.
type Running = BTreeMap<(String, u64), Receiver<Told>>;

#[derive(Clone)]
struct App {
    store: Arc<dyn AsyncChatMemoryStore>,
    model: Arc<dyn AsyncModel>,
    running: Arc<Mutex<Running>>,
    turns: TaskTracker,
    /// The longest that the model may take for an answer.
    longest: Duration,
}

/// A failure as a status. The errors of the library name no text and no user, so they can be shown.
#[allow(clippy::needless_pass_by_value)] // as `map_err` wants it
fn failed(error: Error) -> Failed {
    let status = match error.kind() {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Budget { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::Forgotten => StatusCode::CONFLICT, // deleted in another tab meanwhile
        ErrorKind::Unanswered { .. } | ErrorKind::Unfinished => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::Refused { .. } | ErrorKind::Codec => StatusCode::BAD_GATEWAY,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, error.to_string())
}

impl App {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers within a budget of tokens, rounds and time. Other tabs may ask meanwhile: all turns
    /// are kept whole, one behind the other.
    async fn answer(
        &self,
        user: String,
        asks: UserMessage,
        to: &Arc<Sender<Told>>,
    ) -> Result<Value, Error> {
        let prompt = MemoryPrompt::new_async(self.store.memory(user.into())?)
            .system("You are a terse receptionist.")
            .max_tokens(4_000, Estimate);
        let what = json!({"type": "object", "properties": {"what": {"type": "string"}}});
        let book = |asked: Value| {
            info!("booked"); // where a real one would book
            Ok(format!("{} is booked", asked["what"]))
        };
        let chat = Conversation::new_async(prompt, Arc::clone(&self.model))
            .model_name(self.model.name().unwrap_or("toy"))
            .tool(Tool::new("book", "Books it.").parameters(what), book);
        // Of what was silent for so long nobody runs any more; what it has done is kept.
        match chat.recover(2 * self.longest).await {
            Ok(ended) => info!(ended, "dead turns"),
            Err(error) => warn!(%error, "dead turns"), // the next question tries again
        }
        let (to, mut bytes) = (Arc::clone(to), 0);
        let show = move |event| {
            if let Event::Text(piece) = event {
                bytes += piece.len();
                to.send_modify(|told| told.push((bytes, "text", Ok(piece.into()))));
            }
        };
        let done = chat.stream(Turn::from(asks).max_rounds(8), show).await?;
        Ok(json!({"ended": done.ended, "positions": done.positions, "usage": done.usage}))
    }

    /// Returns what was said in the turn of this number, where it is stored.
    async fn stored(&self, user: String, turn: u64) -> Result<Option<String>, Error> {
        let newest = self.store.memory(user.into())?.read(None, 200).await?.records;
        let number = |it: &Message| match it {
            Message::User(asked) => asked.attributes().get("turn")?.as_u64(),
            _ => None,
        };
        let is_other = |it: &&Message| number(it) != Some(turn);
        let mut rest = newest.messages().skip_while(is_other);
        let asked = rest.next();
        let said = rest.take_while(|it| !it.is_user()).filter(|it| it.as_ai().is_some());
        Ok(asked.map(|_| said.map(Message::text).collect()))
    }
}

async fn say(app: State<App>, Path(user): Path<String>, question: String) -> Handled {
    if question.trim().is_empty() {
        return Err((StatusCode::BAD_REQUEST, "there is no question".to_owned()));
    }
    let (State(app), (to, mut told)) = (app, channel(vec![(0, "question", Ok(json!(question)))]));
    let to = Arc::new(to);
    let turn = {
        let mut running = app.running();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let turn = running.keys().map(|key| key.1 + 1).max().unwrap_or(0).max(now);
        running.insert((user.clone(), turn), told.clone());
        turn
    };
    let asks = UserMessage::new(question).with_attribute("turn", turn);
    let turns = app.turns.clone();
    // A task of its own: a tab that is closed loses no answer that was paid for.
    let work = async move {
        let outcome = app.answer(user.clone(), asks, &to).await.map_err(failed);
        let name = if outcome.is_ok() { "done" } else { "error" };
        to.send_modify(|told| told.push((told.last().map_or(0, |it| it.0) + 1, name, outcome)));
        app.running().remove(&(user, turn));
    };
    turns.spawn(work.instrument(info_span!("say")));
    // Until something is said, a failure still has a status.
    let first = told.wait_for(|told| told.len() > 1).await.map(|told| told[1].2.clone());
    match first {
        Ok(Err(failed)) => Err(failed),
        Ok(Ok(_)) => Ok(tell(turn, told, None)),
        Err(_) => Err((StatusCode::INTERNAL_SERVER_ERROR, "the turn panicked".to_owned())),
    }
}

/// Tells a turn from the first event on that ends behind so many bytes.
fn tell(turn: u64, told: Receiver<Told>, behind: Option<usize>) -> Response {
    let events = stream::unfold((told, behind), move |(mut told, behind)| async move {
        let next =
            |told: &Told| told.iter().find(|it| behind.is_none_or(|behind| it.0 > behind)).cloned();
        let told_next =
            told.wait_for(|told| next(told).is_some()).await.ok().and_then(|it| next(&it));
        let (bytes, name, data) = told_next?;
        let data = data.unwrap_or_else(|(_, text)| text.into());
        let event = Sent::default().id(format!("{turn}.{bytes}")).event(name).json_data(data);
        Some((event, (told, Some(bytes))))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// Goes on with a turn behind the last event that was seen: with what runs, or with what is stored.
async fn follow(app: State<App>, Path(user): Path<String>, headers: HeaderMap) -> Handled {
    let last = headers.get("last-event-id").and_then(|it| it.to_str().ok()?.split_once('.'));
    let seen = last.and_then(|(turn, bytes)| Some((turn.parse().ok()?, bytes.parse().ok()?)));
    let first = (user.clone(), seen.map_or(0, |it| it.0));
    let last = (user.clone(), seen.map_or(u64::MAX, |it| it.0));
    let runs =
        app.running().range(first..=last).next_back().map(|(key, told)| (key.1, told.clone()));
    if let Some((turn, told)) = runs {
        return Ok(tell(turn, told, seen.map(|it| it.1)));
    }
    let Some((turn, bytes)) = seen else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    match app.stored(user, turn).await.map_err(failed)? {
        Some(said) if bytes <= said.len() => {
            let rest = said.get(bytes..).unwrap_or_default().to_owned();
            let mut told = vec![(said.len(), "text", Ok(rest.into()))];
            told.push((said.len() + 1, "done", Ok(json!({"ended": "answered"}))));
            Ok(tell(turn, channel(told).1, Some(bytes)))
        }
        _ => Ok(StatusCode::NO_CONTENT.into_response()), // all was seen, and nobody is to ask again
    }
}

async fn history(app: State<App>, Path(user): Path<String>) -> Handled {
    let newest = app.store.memory(user.into()).map_err(failed)?;
    let newest = newest.read(None, 100).await.map_err(failed)?.records;
    Ok(Json(newest.iter().collect::<Vec<_>>()).into_response())
}

async fn forget(app: State<App>, Path(user): Path<String>) -> Handled {
    let was_there = app.store.delete(&user.into()).await.map_err(failed)?;
    Ok(if was_there { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }.into_response())
}

/// Deletes conversations that nobody has gone on with for so long.
async fn delete_idle(store: Arc<dyn AsyncChatMemoryStore>, idle: Duration) {
    loop {
        let deleted = store.purge_inactive(SystemTime::now() - idle).await;
        info!(?deleted, "idle conversations");
        tokio::time::sleep((idle / 10).clamp(Duration::from_secs(1), Duration::from_hours(1)))
            .await;
    }
}

fn seconds(name: &str, unless_set: u64) -> Duration {
    Duration::from_secs(var(name).map_or(unless_set, |it| it.parse().unwrap_or(unless_set)))
}

fn model(longest: Duration) -> Result<Arc<dyn AsyncModel>, Error> {
    if var("OPENAI_API_KEY").is_err() {
        return Ok(Arc::new(toy::toy));
    }
    let name = var("MODEL").unwrap_or_else(|_| "gpt-5-mini".to_owned());
    let model = Transport::from_env(Provider::OpenAi, name)?.shape(|it| it.max_tokens(2_000));
    Ok(Arc::new(model.total_timeout(longest).keep_broken()))
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
    let (model, running) = (model(longest)?, Arc::default());
    let app = App { store, model, running, turns: turns.clone(), longest };
    let user = routing::post(say).get(history).delete(forget); // a real one asks its login who it is
    let routes = Router::new().route("/{user}", user).route("/{user}/events", routing::get(follow));
    let routes = routes.route("/", routing::get(Html(include_str!("page.html"))));
    let address = var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    info!("http://{}", listener.local_addr()?);
    let stopped = async { drop(tokio::signal::ctrl_c().await) };
    let routes = routes.layer(DefaultBodyLimit::max(64 << 10)).with_state(app);
    axum::serve(listener, routes).with_graceful_shutdown(stopped).await?;
    turns.close();
    turns.wait().await; // those of closed tabs too
    Ok(())
}
