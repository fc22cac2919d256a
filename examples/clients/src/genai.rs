//! A model of a `Conversation` over genai, of version 0.7.2, and a prompt as its request.
//!
//! The body as the provider wrote it is read, which holds more than genai's answer: signatures, for
//! one. So an answer comes in one piece.

use genai::chat::{
    Binary, BinarySource, ChatMessage, ChatOptions, ChatRequest, ContentPart, MessageContent, Tool,
    ToolCall, ToolResponse,
};
use genai::{Client, ServiceTarget};
use memory_prompt::conversation::{Asking, AsyncModel, ModelError};
use memory_prompt::memory::BoxFuture;
use memory_prompt::message::{AiMessage, AiPart, Content, Media, Message, Part, Source};
use memory_prompt::turn::Reply;
use memory_prompt::{Prompt, Provider, wire};
use serde_json::Value;

/// A model that genai asks.
#[derive(Clone, Debug)]
pub struct Genai {
    client: Client,
    target: ServiceTarget,
    provider: Provider,
    options: ChatOptions,
}

impl Genai {
    /// Asks this target, which is one of this provider.
    pub fn new(client: Client, target: ServiceTarget, provider: Provider) -> Self {
        let options = ChatOptions::default().with_capture_raw_body(true).with_max_tokens(2_000);
        Self { client, target, provider, options }
    }
}

impl AsyncModel for Genai {
    fn ask(&self, ask: Asking<'static>) -> BoxFuture<'_, Result<Reply, ModelError>> {
        Box::pin(async move {
            let tools = ask.tools().iter().map(|it| {
                let tool = Tool::new(it.name()).with_description(it.description());
                tool.with_schema(it.schema().clone())
            });
            let request = request(ask.prompt()).with_tools(tools.collect::<Vec<_>>());
            let target = self.target.clone();
            let answer = self.client.exec_chat(target, request, Some(&self.options)).await?;
            let body = answer.captured_raw_body.ok_or("an answer without its body")?;
            Ok(wire::answer(self.provider, body.to_string())?.into())
        })
    }

    fn provider(&self) -> Option<Provider> {
        Some(self.provider)
    }
}

/// A prompt as genai's request. It has no place for custom messages, nor for media by a file's id.
pub fn request(prompt: &Prompt) -> ChatRequest {
    let mut request = ChatRequest::default();
    for message in prompt {
        match message {
            Message::System(m) => request.system = Some(m.text().to_owned()),
            Message::User(m) => request.messages.push(ChatMessage::user(content(m.content()))),
            Message::Ai(m) => request.messages.push(ChatMessage::assistant(said(m))),
            Message::Tool(m) => {
                let result = ToolResponse::new(m.call_id(), m.content().text());
                request.messages.push(result.with_fn_name(m.tool_name()).into());
            }
            _ => {}
        }
    }
    request
}

fn content(content: &Content) -> MessageContent {
    match content {
        Content::Text(text) => MessageContent::from_text(text.as_str()),
        Content::Parts(parts) => parts.iter().filter_map(part).collect(),
    }
}

fn part(part: &Part) -> Option<ContentPart> {
    let binary = |media: &Media, kind: &str| {
        let source = match &media.source {
            Source::Url(url) => BinarySource::Url(url.clone()),
            Source::Base64(data) => BinarySource::Base64(data.as_str().into()),
            _ => return None,
        };
        let kind = media.media_type.as_deref().unwrap_or(kind);
        Some(Binary::new(kind, source, media.name.clone()).into())
    };
    match part {
        Part::Text(text) => Some(ContentPart::Text(text.text.clone())),
        Part::Image(media) => binary(media, "image/png"),
        Part::Audio(media) => binary(media, "audio/wav"),
        Part::Video(media) => binary(media, "video/mp4"),
        Part::File(media) => binary(media, "application/pdf"),
        _ => None,
    }
}

fn said(message: &AiMessage) -> MessageContent {
    let mut content = MessageContent::default();
    if message.parts().is_empty() {
        content.extend(message.texts().map(|text| ContentPart::Text(text.to_owned())));
    }
    for part in message.parts() {
        match part {
            AiPart::Content(part) => content.extend(self::part(part)),
            AiPart::Reasoning(reasoning) => {
                let signature = reasoning.signature.clone().map(ContentPart::ThoughtSignature);
                content.extend(signature);
                content.push(ContentPart::ReasoningContent(reasoning.text.clone()));
            }
            AiPart::ToolCall(call) => content.push(ToolCall {
                call_id: call.id.clone(),
                fn_name: call.name.clone(),
                // What is no JSON goes as a text.
                fn_arguments: serde_json::from_str(&call.arguments)
                    .unwrap_or_else(|_| Value::from(&*call.arguments)),
                thought_signatures: call.signature.clone().map(|signature| vec![signature]),
            }),
            _ => {}
        }
    }
    content
}
