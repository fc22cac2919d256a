//! A web service of many users: `cargo run -p web`, and open the address that it says. It keeps
//! conversations in `web.db`, and with `-- postgres://..` as an argument in PostgreSQL. It needs no
//! key: a toy answers, and books. With `OPENAI_API_KEY` (and `OPENAI_BASE_URL`, `MODEL`) a server.
//!
//! `POST /ada` does what her page asks for, and tells an answer as events: `[null, {"say": "Hi."}]`
//! with the branch that the page shows for `null`. `GET /ada/events` tells the turn that runs, or
//! goes on behind a `Last-Event-ID`. `GET /ada` is the page, and `DELETE /ada` forgets it.

mod toy;

use std::env::{args, var};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response, sse};
use axum::{Json, Router, routing};
use memory_prompt::conversation::{Action, AsyncModel, Conversation};
use memory_prompt::{AsyncChatMemory, AsyncChatMemoryStore, Error, MemoryPrompt, Message, Tool};
use memory_prompt::{PostgresStore, Provider, SqliteStore, Transport, adapt::ToAsync};
use memory_prompt::{
    history::Entry, record::Incarnation, token::Estimate, turn::Done, wire::Event,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tracing::{Instrument, info, info_span};
use tracing_subscriber::fmt::format::FmtSpan;

type Chat = Conversation<dyn AsyncChatMemory>;
type Asked = Json<(Option<Incarnation>, Action)>;
type Failed = (StatusCode, String);
type Reply = Result<Response, Failed>;
/// What is told of a turn: of each event the bytes of text up to its end, its name, and its data.
type Told = Vec<(usize, &'static str, Result<Value, Failed>)>;
/// A turn that runs: whose it is, its id, and what is told of it.
type Running = (String, String, watch::Receiver<Told>);

#[derive(Clone)]
struct App {
    store: Arc<dyn AsyncChatMemoryStore>,
    model: Arc<dyn AsyncModel>,
    running: Arc<Mutex<Vec<Running>>>,
    /// The longest that the model may take for an answer.
    longest: Duration,
}

/// A failure as a status. The errors of the library name no text and no user, so they can be shown.
#[allow(clippy::needless_pass_by_value)] // as `map_err` wants it
fn failed(error: Error) -> Failed {
    let status = StatusCode::from_u16(error.http_status());
    (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error.to_string())
}

/// The conversation of a user. Where another tab has left the branch that this page shows, all that
/// is done to it is refused.
fn chat(app: &App, user: &str, on: Option<Incarnation>) -> Result<Chat, Error> {
    let prompt = MemoryPrompt::new_async(app.store.memory(user.into())?)
        .with_branches_by(|view| view.expecting(on))
        .system("You are a terse receptionist.")
        .max_tokens(4_000, Estimate);
    let what = json!({"type": "object", "properties": {"what": {"type": "string"}}});
    let book = |asked: Value| {
        info!("booked"); // where a real one would book
        Ok(format!("{} is booked", asked["what"]))
    };
    Ok(Conversation::new_async(prompt, Arc::clone(&app.model))
        .model_name(app.model.name().unwrap_or("toy"))
        .tool(Tool::new("book", "Books it.").parameters(what), book))
}

/// Answers within a budget of tokens, rounds and time, or changes what is shown. Other tabs may ask
/// meanwhile: all turns are kept whole, one behind the other.
async fn act(State(app): State<App>, Path(user): Path<String>, Json((on, action)): Asked) -> Reply {
    if matches!(&action, Action::Say(it) | Action::Edit(_, it) if it.trim().is_empty()) {
        return Err((StatusCode::BAD_REQUEST, "there is no question".to_owned()));
    }
    let chat = chat(&app, &user, on).map_err(failed)?;
    // Of what was silent for so long nobody runs any more; what it has done is kept.
    let ended = chat.recover(2 * app.longest).await; // if it fails, the next question tries again
    info!(?ended, "dead turns");
    let turn = chat.act(action).await.map_err(failed)?;
    let Some(turn) = turn else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let question: String = turn.messages().iter().map(Message::text).collect();
    let (to, mut told) = watch::channel(vec![(0, "question", Ok(question.into()))]);
    let id = turn.id().to_owned();
    app.running.lock().await.push((user, id.clone(), told.clone()));
    // A task of its own: a tab that is closed loses no answer that was paid for.
    let work = async move {
        let (shown, mut bytes) = (to.clone(), 0);
        let show = move |event| {
            if let Event::Text(piece) = event {
                bytes += piece.len();
                shown.send_modify(|told| told.push((bytes, "text", Ok(piece.into()))));
            }
        };
        let done = chat.stream(turn.max_rounds(8), show).await.map_err(failed);
        let done = done.map(|it| json!({"ended": it.ended, "usage": it.usage}));
        to.send_modify(|told| told.push((told.last().map_or(0, |it| it.0) + 1, "done", done)));
        drop(to);
        app.running.lock().await.retain(|it| it.2.has_changed().is_ok()); // the others have ended
    };
    tokio::spawn(work.instrument(info_span!("say")));
    // Until something is said, a failure still has a status.
    let first = told.wait_for(|told| told.len() > 1).await.map(|told| told[1].2.clone());
    first.map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "the turn panicked".to_owned()))??;
    Ok(tell(id, told, 0))
}

/// Tells a turn from its event of this number on.
fn tell(id: String, told: watch::Receiver<Told>, first: usize) -> Response {
    let events = futures_util::stream::unfold((id, told, first), async |(id, mut told, n)| {
        let (bytes, name, data) = told.wait_for(|told| told.len() > n).await.ok()?[n].clone();
        let (name, data) = data.map_or_else(|(_, why)| ("error", why.into()), |it| (name, it));
        let event = sse::Event::default().id(format!("{id}.{bytes}")).event(name).json_data(data);
        Some((event, (id, told, n + 1)))
    });
    sse::Sse::new(events).keep_alive(sse::KeepAlive::default()).into_response()
}

/// What is left to tell of a turn that is stored, behind so many bytes.
fn rest(stored: &Done, seen: usize) -> Told {
    let answers = stored.messages.iter().filter(|it| it.as_ai().is_some());
    let said: String = answers.map(Message::text).collect();
    let done = (said.len() + 1, "done", Ok(json!({"ended": "answered"})));
    vec![(said.len(), "text", Ok(said.get(seen..).into())), done]
}

/// Goes on with a turn behind the last event that was seen: with what runs, or with what is stored.
async fn follow(State(app): State<App>, Path(user): Path<String>, headers: HeaderMap) -> Reply {
    let last = headers.get("last-event-id").and_then(|it| it.to_str().ok()?.split_once('.'));
    let last = last.and_then(|(id, bytes)| Some((id, bytes.parse().ok()?)));
    let is_it = |it: &&Running| it.0 == user && last.is_none_or(|last| it.1 == last.0);
    let runs = app.running.lock().await.iter().rfind(is_it).cloned();
    let (id, told) = if let Some((_, id, told)) = runs {
        (id, told)
    } else {
        let Some((id, seen)) = last else { return Ok(StatusCode::NO_CONTENT.into_response()) };
        let chat = chat(&app, &user, None).map_err(failed)?;
        let stored = chat.prompt().stored_turn(id).await.map_err(failed)?;
        (id.to_owned(), watch::channel(stored.map_or(Vec::new(), |it| rest(&it, seen))).1)
    };
    let first = told.borrow().partition_point(|it| last.is_some_and(|last| it.0 <= last.1));
    if told.has_changed().is_err() && first == told.borrow().len() {
        return Ok(StatusCode::NO_CONTENT.into_response()); // all was seen: nobody is to ask again
    }
    Ok(tell(id, told, first))
}

/// The page: the newest messages of the current branch, newest first.
async fn page(State(app): State<App>, Path(user): Path<String>) -> Reply {
    let page = chat(&app, &user, None).map_err(failed)?.page(None, 100).await.map_err(failed)?;
    let row = |it: &Entry| json!([it.position, it.message, it.variant, it.branches]);
    let rows: Vec<_> = page.entries.iter().map(row).collect();
    Ok(Json(json!({"branch": page.branch, "rows": rows})).into_response())
}

async fn forget(State(app): State<App>, Path(user): Path<String>) -> Reply {
    let was_there = app.store.delete(&user.into()).await.map_err(failed)?;
    Ok(if was_there { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }.into_response())
}

/// Deletes conversations that nobody has gone on with for so long.
async fn delete_idle(store: Arc<dyn AsyncChatMemoryStore>, age: Duration) {
    loop {
        let deleted = store.purge_inactive(SystemTime::now() - age).await;
        info!(?deleted, "idle conversations");
        tokio::time::sleep((age / 10).clamp(Duration::from_secs(1), Duration::from_hours(1))).await;
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
    let (longest, running) = (seconds("TURN_SECONDS", 120), Arc::<Mutex<Vec<Running>>>::default());
    let app = App { store, model: model(longest)?, running: Arc::clone(&running), longest };
    let user = routing::get(page).post(act).delete(forget); // a real one asks its login who it is
    let routes = Router::new().route("/{user}", user).route("/{user}/events", routing::get(follow));
    let routes = routes.route("/", routing::get(Html(include_str!("page.html"))));
    let address = var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    info!("http://{}", listener.local_addr()?);
    let stopped = async { drop(tokio::signal::ctrl_c().await) };
    let routes = routes.layer(DefaultBodyLimit::max(64 << 10)).with_state(app);
    axum::serve(listener, routes).with_graceful_shutdown(stopped).await?;
    for (_, _, mut told) in running.lock().await.clone() {
        let _ = told.wait_for(|_| false).await; // until it has ended: those of closed tabs too
    }
    Ok(())
}
