use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Router, http::StatusCode, routing::post};
use memory_prompt::{AsyncChatMemoryStore, Conversation, Error, MemoryPrompt, Transport};

type App = (Arc<dyn AsyncChatMemoryStore>, Transport);

/// Answers one user, and remembers.
async fn say(
    State((store, model)): State<App>,
    Path(user): Path<String>,
    question: String,
) -> Result<String, StatusCode> {
    let failed =
        |error: Error| StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::BAD_GATEWAY);
    let memory = store.memory(user.into()).map_err(failed)?;
    let prompt = MemoryPrompt::new_async(memory).system("Be brief.").max_messages(40);
    let chat = Conversation::new_async(prompt, model);
    Ok(chat.say(question).await.map_err(failed)?.text())
}

/// `PostgresStore::open(address).await?` is a store, `Transport::from_env(..)?` a model.
pub fn service(app: App) -> Router {
    Router::new().route("/{user}", post(say)).with_state(app)
}
