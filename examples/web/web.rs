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
use memory_prompt::conversation::{Action, AsyncModel, Conversation, Follower, Live};
use memory_prompt::record::Incarnation;
use memory_prompt::{AsyncChatMemory, AsyncChatMemoryStore, Error, MemoryPrompt, Tool};
use memory_prompt::{PostgresStore, Provider, SqliteStore, Transport, adapt::ToAsync, token};
use serde_json::{Value, json};
use tracing::info;
use tracing_subscriber::fmt::format::FmtSpan;

type Chat = Conversation<dyn AsyncChatMemory>;
type Asked = Json<(Option<Incarnation>, Action)>;
type Failed = (StatusCode, String);
type Reply = Result<Response, Failed>;

#[derive(Clone)]
struct App {
    store: Arc<dyn AsyncChatMemoryStore>,
    model: Arc<dyn AsyncModel>,
    live: Live,
    /// The longest that the model may take for an answer.
    longest: Duration,
}

/// A failure as a status. The errors of the library quote no message, so they can be shown.
#[allow(clippy::needless_pass_by_value)] // as `map_err` wants it
fn failed(error: Error) -> Failed {
    let status = StatusCode::from_u16(error.http_status());
    (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error.to_string())
}

/// The conversation of a user. Where another tab has left the branch that this page shows, all that
/// is done to it is refused.
fn chat(app: &App, user: &str, on: Option<Incarnation>) -> Result<Chat, Failed> {
    let prompt = MemoryPrompt::new_async(app.store.memory(user.into()).map_err(failed)?)
        .with_branches_by(|view| view.expecting(on))
        .system("You are a terse receptionist.")
        .max_tokens(4_000, token::Estimate);
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
/// meanwhile: all turns are kept whole, one behind the other, and each on its branch. What is asked
/// while another answer or an edit is made stays on the branch that this leaves: the page waits.
async fn act(State(app): State<App>, Path(user): Path<String>, Json((on, action)): Asked) -> Reply {
    let chat = chat(&app, &user, on)?;
    let turn = chat.act(action).await.map_err(failed)?; // on what the page shows
    // Of what was silent for so long nobody runs any more; what it has done is kept.
    let ended = chat.recover(2 * app.longest).await; // if it fails, the next question tries again
    info!(?ended, "dead turns");
    let Some(turn) = turn else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let turn = app.live.begin(user, turn.max_rounds(8));
    let told = turn.follow();
    // A task of its own: a tab that is closed loses no answer that was paid for.
    let work = tokio::spawn(async move { chat.tell(turn).await });
    if !told.begins_async().await {
        // Until something is said, a failure still has a status.
        let panicked = |_| (StatusCode::INTERNAL_SERVER_ERROR, "the turn panicked".to_owned());
        work.await.map_err(panicked)?.map_err(failed)?;
    }
    Ok(tell(told))
}

/// Goes on with a turn behind the last event that was seen: with what runs, or with what is stored.
async fn follow(State(app): State<App>, Path(user): Path<String>, headers: HeaderMap) -> Reply {
    let last = headers.get("last-event-id").and_then(|it| it.to_str().ok());
    let chat = chat(&app, &user, None)?;
    let told = chat.follow(&app.live, &user.into(), last).await.map_err(failed)?;
    Ok(told.map_or_else(|| StatusCode::NO_CONTENT.into_response(), tell))
}

fn tell(told: Follower) -> Response {
    let events = futures_util::stream::unfold(told, async |mut told| {
        let it = told.next_async().await?;
        Some((sse::Event::default().id(it.id).event(it.name).json_data(it.data), told))
    });
    sse::Sse::new(events).keep_alive(sse::KeepAlive::default()).into_response()
}

/// The page: the newest messages of the current branch, newest first.
async fn page(State(app): State<App>, Path(user): Path<String>) -> Reply {
    let page = chat(&app, &user, None)?.page(None, 100).await;
    page.map(|it| Json(it).into_response()).map_err(failed)
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
    if var("OPENAI_API_KEY").unwrap_or_default().trim().is_empty() {
        return Ok(Arc::new(toy::toy));
    }
    let name = var("MODEL").ok().filter(|it| !it.is_empty()).unwrap_or_else(|| "gpt-5-mini".into());
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
    let longest = seconds("TURN_SECONDS", 120);
    let app = App { store, model: model(longest)?, live: Live::new(), longest };
    let user = routing::get(page).post(act).delete(forget); // a real one asks its login who it is
    let routes = Router::new().route("/{user}", user).route("/{user}/events", routing::get(follow));
    let routes = routes.route("/", routing::get(Html(include_str!("page.html"))));
    let address = var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    info!("http://{}", listener.local_addr()?);
    let stopped = async { drop(tokio::signal::ctrl_c().await) };
    let routes = routes.layer(DefaultBodyLimit::max(64 << 10)).with_state(app.clone());
    axum::serve(listener, routes).with_graceful_shutdown(stopped).await?;
    for mut turn in app.live.turns() {
        while turn.next_async().await.is_some() {} // those of closed tabs too
    }
    Ok(())
}
