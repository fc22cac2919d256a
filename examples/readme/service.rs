use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Router, http::StatusCode, routing::post};
use memory_prompt::{AsyncChatMemoryStore, Conversation, Error, MemoryPrompt, Transport};

type App = (Arc<dyn AsyncChatMemoryStore>, Transport);

/// Answers one user, and remembers.
async fn say(app: State<App>, user: Path<String>, question: String) -> Result<String, StatusCode> {
    let failed = |_: Error| StatusCode::BAD_GATEWAY;
    let (store, model) = app.0;
    let prompt = MemoryPrompt::new_async(store.memory(user.0.into()).map_err(failed)?);
    let chat = Conversation::new_async(prompt.system("Be brief.").max_messages(40), model);
    Ok(chat.say(question).await.map_err(failed)?.text())
}

/// `PostgresStore::open(address).await?` is such a store, `Transport::from_env(..)?` such a model.
pub fn service(app: App) -> Router {
    Router::new().route("/{user}", post(say)).with_state(app)
}
