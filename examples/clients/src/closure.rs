use async_openai::{Client, config::OpenAIConfig};
use memory_prompt::conversation::{Asking, AsyncModel, ModelError};
use memory_prompt::wire;

pub fn model(openai: Client<OpenAIConfig>) -> impl AsyncModel {
    move |ask: Asking<'static>| {
        let openai = openai.clone();
        async move {
            let request = wire::Request::new(ask.prompt()).tools(ask.tools()).model("gpt-5-mini");
            let answer: serde_json::Value = openai.chat().create_byot(request).await?;
            Ok::<_, ModelError>(wire::openai::answer(answer.to_string())?)
        }
    }
}
