//! The spans of conversations, with the feature `tracing`. Their names are those of OpenTelemetry's
//! conventions for generative AI (1.41, where they are still in development).
//!
//! A span contains no text and no id of a conversation unless that is asked for, and of an error
//! only the kind.

use crate::turn::{Ask, Call, Done, Reply};

use super::model::ModelError;
use super::tools::Outcome;

/// What the spans of a conversation contain.
#[derive(Default)]
#[cfg_attr(
    not(feature = "tracing"),
    expect(dead_code, reason = "without the feature nothing is traced")
)]
pub(super) struct Watch {
    pub(super) model: Option<String>,
    pub(super) is_with_text: bool,
}

/// A span; without the feature it is empty.
#[derive(Clone)]
pub(super) struct Span {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
    #[cfg(feature = "tracing")]
    is_with_text: bool,
}

#[cfg(feature = "tracing")]
mod traced {
    use tracing::field::{Empty, debug};
    use tracing::info_span;

    use super::{Ask, Call, Done, ModelError, Outcome, Reply, Span, Watch};
    use crate::error::{Error, ErrorKind, Result};
    use crate::message::{Message, ToolCall};
    use crate::wire::{Metadata, Stop, Usage};
    use serde_json::{Value, json};

    const TARGET: &str = "memory_prompt::conversation";

    impl Watch {
        pub(in super::super) fn turn(&self) -> Span {
            let model = self.model.as_deref();
            self.of(info_span!(
                target: TARGET,
                "invoke_agent",
                "gen_ai.operation.name" = "invoke_agent",
                "gen_ai.request.model" = model,
                "gen_ai.usage.input_tokens" = Empty,
                "gen_ai.usage.output_tokens" = Empty,
                "gen_ai.usage.cache_read.input_tokens" = Empty,
                "gen_ai.usage.cache_creation.input_tokens" = Empty,
                "error.type" = Empty,
                "otel.kind" = "internal",
                "otel.status_code" = Empty,
                ended = Empty,
            ))
        }

        pub(in super::super) fn model(&self, ask: &Ask) -> Span {
            let model = self.model.as_deref();
            let span = self.of(info_span!(
                target: TARGET,
                "chat",
                "gen_ai.operation.name" = "chat",
                "gen_ai.provider.name" = Empty,
                "gen_ai.request.model" = model,
                "gen_ai.response.finish_reasons" = Empty,
                "gen_ai.response.id" = Empty,
                "gen_ai.response.model" = Empty,
                "gen_ai.usage.input_tokens" = Empty,
                "gen_ai.usage.output_tokens" = Empty,
                "gen_ai.usage.cache_read.input_tokens" = Empty,
                "gen_ai.usage.cache_creation.input_tokens" = Empty,
                "gen_ai.input.messages" = Empty,
                "gen_ai.output.messages" = Empty,
                "error.type" = Empty,
                "otel.name" = model.map(|model| format!("chat {model}")),
                "otel.kind" = "client",
                "otel.status_code" = Empty,
                round = ask.round(),
            ));
            if let Some(provider) = ask.prompt().report().provider {
                span.span.record("gen_ai.provider.name", provider_name(provider.row().name()));
            }
            span.text("gen_ai.input.messages", || messages(ask.prompt().iter(), None));
            span
        }

        pub(in super::super) fn tool(&self, call: &Call) -> Span {
            let span = self.of(info_span!(
                target: TARGET,
                "execute_tool",
                "gen_ai.operation.name" = "execute_tool",
                "gen_ai.tool.name" = call.name(),
                "gen_ai.tool.type" = "function",
                "gen_ai.tool.call.id" = call.id(),
                "gen_ai.tool.call.arguments" = Empty,
                "gen_ai.tool.call.result" = Empty,
                "error.type" = Empty,
                "otel.name" = format!("execute_tool {}", call.name()),
                "otel.kind" = "internal",
                "otel.status_code" = Empty,
            ));
            span.text("gen_ai.tool.call.arguments", || call.arguments().to_owned());
            span
        }

        fn of(&self, span: tracing::Span) -> Span {
            Span { span, is_with_text: self.is_with_text }
        }
    }

    impl Span {
        pub(in super::super) fn record_turn(&self, outcome: &Result<Done>) {
            match outcome {
                Ok(done) => {
                    self.usage(done.usage);
                    self.span.record("ended", debug(done.ended));
                }
                Err(error) => self.failed(&word(error.kind())),
            }
        }

        pub(in super::super) fn record_reply(&self, reply: &Result<Reply, ModelError>) {
            let reply = match reply {
                Ok(reply) => reply,
                Err(error) => {
                    let error = error.downcast_ref();
                    return self.failed(&word(error.map_or(ErrorKind::Model, Error::kind)));
                }
            };
            self.usage(reply.usage);
            let Metadata { id, model, .. } = &reply.metadata;
            for (name, told) in [("gen_ai.response.id", id), ("gen_ai.response.model", model)] {
                self.span.record(name, told.as_deref());
            }
            let stop = reply.stop.map(finish_reason);
            if let Some(stop) = stop {
                self.span.record("gen_ai.response.finish_reasons", debug([stop]));
            }
            self.text("gen_ai.output.messages", || messages([&reply.message], stop));
        }

        pub(in super::super) fn record_outcome(&self, outcome: &Outcome) {
            match outcome {
                Ok(content) => {
                    self.text("gen_ai.tool.call.result", || content.text().into_owned());
                }
                Err(error) => {
                    self.failed("ToolError");
                    self.text("gen_ai.tool.call.result", || error.to_string());
                }
            }
        }

        pub(in super::super) fn current() -> Self {
            Self { span: tracing::Span::current(), is_with_text: false }
        }

        /// Emits an event about a late result, to the subscriber of the span: it may end on the
        /// thread of its tool, which has another default subscriber.
        pub(in super::super) fn warn(&self, text: &str) {
            let emit = || tracing::warn!(target: TARGET, parent: &self.span, "{text}");
            let emitted = self.span.with_subscriber(|(_, dispatch)| {
                tracing::dispatcher::with_default(dispatch, emit);
            });
            if emitted.is_none() {
                emit();
            }
        }

        pub(in super::super) fn failed(&self, kind: &str) {
            self.span.record("error.type", kind);
            self.span.record("otel.status_code", "ERROR");
        }

        fn usage(&self, usage: Usage) {
            let counts = [
                ("gen_ai.usage.input_tokens", usage.input),
                ("gen_ai.usage.output_tokens", usage.output),
                ("gen_ai.usage.cache_read.input_tokens", usage.cached),
                ("gen_ai.usage.cache_creation.input_tokens", usage.written),
            ];
            for (name, count) in counts {
                if let Some(count) = count {
                    self.span.record(name, count);
                }
            }
        }

        fn text(&self, name: &'static str, text: impl FnOnce() -> String) {
            if self.is_with_text && !self.span.is_disabled() {
                self.span.record(name, text());
            }
        }
    }

    /// The name of the kind, without the values in it.
    fn word(kind: ErrorKind) -> String {
        let name = format!("{kind:?}");
        name.chars().take_while(char::is_ascii_alphabetic).collect()
    }

    /// The name of a provider in the conventions, if they have one.
    fn provider_name(name: &str) -> &str {
        match name {
            "openai_responses" => "openai",
            "azure" => "azure.ai.openai",
            "claude_on_bedrock" => "aws.bedrock",
            "claude_on_vertex" | "vertex" => "gcp.vertex_ai",
            "gemini" | "google_openai" => "gcp.gemini",
            "mistral" => "mistral_ai",
            "xai" => "x_ai",
            other => other,
        }
    }

    const fn finish_reason(stop: Stop) -> &'static str {
        match stop {
            Stop::End | Stop::Sequence => "stop",
            Stop::Calls => "tool_call",
            Stop::Length => "length",
            Stop::Filtered | Stop::Refused => "content_filter",
            Stop::Malformed | Stop::Broken => "error",
            Stop::Paused => "pause",
            Stop::Unknown => "unknown",
        }
    }

    /// The messages as JSON in the format of the conventions.
    fn messages<'a>(
        messages: impl IntoIterator<Item = &'a Message>,
        finish_reason: Option<&str>,
    ) -> String {
        let told = messages.into_iter().map(|message| {
            let said = message.text();
            let said = json!({"type": "text", "content": said});
            let (role, parts) = match message {
                Message::System(_) => ("system", vec![said]),
                Message::Ai(ai) => {
                    let said = Some(said).filter(|_| !message.text().is_empty());
                    ("assistant", said.into_iter().chain(ai.tool_calls().map(call)).collect())
                }
                Message::Tool(result) => {
                    let (id, text) = (result.call_id(), result.content().text());
                    let part = json!({"type": "tool_call_response", "id": id, "response": text});
                    ("tool", vec![part])
                }
                _ => ("user", vec![said]),
            };
            let mut told = json!({"role": role, "parts": parts});
            if let Some(reason) = finish_reason {
                told["finish_reason"] = reason.into();
            }
            told
        });
        Value::Array(told.collect()).to_string()
    }

    fn call(call: &ToolCall) -> Value {
        let arguments = serde_json::from_str::<Value>(&call.arguments);
        let arguments = arguments.unwrap_or_else(|_| call.arguments.as_str().into());
        json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
    }
}

#[cfg(not(feature = "tracing"))]
#[expect(clippy::unused_self, reason = "without the feature nothing is traced")]
impl Watch {
    pub(super) fn turn(&self) -> Span {
        Span {}
    }

    pub(super) fn model(&self, _: &Ask) -> Span {
        Span {}
    }

    pub(super) fn tool(&self, _: &Call) -> Span {
        Span {}
    }
}

#[cfg(not(feature = "tracing"))]
#[expect(clippy::unused_self, reason = "without the feature nothing is traced")]
impl Span {
    pub(super) fn record_turn(&self, _: &crate::error::Result<Done>) {}

    pub(super) fn record_reply(&self, _: &Result<Reply, ModelError>) {}

    pub(super) fn record_outcome(&self, _: &Outcome) {}

    pub(super) fn failed(&self, _: &str) {}

    pub(super) fn current() -> Self {
        Self {}
    }

    pub(super) fn warn(&self, _: &str) {}
}

impl Span {
    /// Does this work in the span, and records the outcome.
    pub(super) fn run<T>(&self, record: fn(&Self, &T), work: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tracing")]
        let work = || self.span.in_scope(work);
        let outcome = work();
        record(self, &outcome);
        outcome
    }
}

#[cfg(feature = "async")]
impl Span {
    /// Awaits this work in the span, and records the outcome.
    pub(super) async fn run_async<T>(
        &self,
        record: fn(&Self, &T),
        work: impl Future<Output = T>,
    ) -> T {
        #[cfg(feature = "tracing")]
        let work = tracing::Instrument::instrument(work, self.span.clone());
        let outcome = work.await;
        record(self, &outcome);
        outcome
    }

    /// Records the outcome of a tool; `Err` if it took too long.
    pub(super) fn record_timed<E>(&self, outcome: &Result<Outcome, E>) {
        match outcome {
            Ok(outcome) => self.record_outcome(outcome),
            Err(_) => self.failed("timeout"),
        }
    }
}
