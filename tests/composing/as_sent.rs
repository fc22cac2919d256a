//! What a budget counts of a message is what its provider is sent of it.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use crate::setups::{all, compose, request};
use memory_prompt::message::{AiMessage, Detail, Media, Part, Reasoning};
use memory_prompt::provider::{Format, Row};
use memory_prompt::token::{Estimate, Overhead, TokenCounter};
use memory_prompt::{Composer, Message, Prompt, Provider, Result, ToolCall, Window, wire};
use serde_json::{Value, json};

fn built(provider: Provider, budget: usize, messages: &[Message]) -> Prompt {
    let composer = Composer::new().for_provider(provider).max_tokens(budget, Estimate);
    compose(&composer, messages, &[]).unwrap()
}

fn total(prompt: &Prompt) -> usize {
    prompt.report().tokens.unwrap().total
}

fn thinks(words: usize) -> AiMessage {
    AiMessage::new("").with_reasoning(Reasoning::new("word ".repeat(words)))
}

/// A model of a compatible server thought long and called a tool. Its reasoning is kept, and such a
/// server is not sent it, but the next round failed: "what must be sent has 3,061 tokens, and the
/// budget is 1,000".
#[test]
fn reasoning_that_is_not_sent_back_counts_nothing() {
    let called = thinks(3_000).with_tool_call(ToolCall::new("c", "look", "{}"));
    let history = [Message::user("Where?"), called.into(), Message::tool("c", "look", "There.")];
    let own = Provider::custom(Row::like(Provider::OpenAiCompatible, "our-server").unwrap());
    for provider in [own, Provider::OpenAiCompatible, Provider::Groq, Provider::Xai] {
        let prompt = built(provider, 1_000, &history);
        assert!(total(&prompt) < 100, "{provider:?}: {}", prompt.report());
    }
    // Whoever takes it back is sent it.
    let prompt = built(Provider::DeepSeek, 10_000, &history);
    assert!(total(&prompt) > 3_000, "{}", prompt.report());
}

/// Most of a history that would have fitted was left out for reasoning that is not sent.
#[test]
fn what_counts_nothing_takes_no_room_from_the_history() {
    let turn =
        |i: usize| [Message::user(format!("Question {i}")), thinks(500).with_part("Yes.").into()];
    let history: Vec<Message> = (0..30).flat_map(turn).collect();
    let prompt = built(Provider::OpenAiCompatible, 2_000, &history);
    assert_eq!(prompt.len(), 60, "{}", prompt.report());
}

/// The header of a PNG of 1,024 pixels a side.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAIAAAAAAAAA";

/// A picture that a tool gave was counted as the small one that it asked for, which the results of
/// Gemini can't ask.
#[test]
fn a_detail_in_a_result_of_geminis_makes_it_no_cheaper() {
    let provider = || Provider::Gemini.model("gemini-3-pro-preview");
    let counted = |detail: Option<Detail>, is_result: bool| {
        let shot = vec![Part::Image(Media { detail, ..Media::base64("image/png", PNG) })];
        let call = Message::ai_calls([ToolCall::new("c", "shoot", "{}")]);
        let history = if is_result {
            vec![Message::user("Well?"), call, Message::tool("c", "shoot", shot)]
        } else {
            vec![Message::user(shot)]
        };
        total(&built(provider(), 10_000, &history))
    };
    assert_eq!(counted(Some(Detail::Low), true), counted(None, true));
    assert!(counted(Some(Detail::Low), false) < counted(None, false));
}

/// A tool gave screenshots, for each of which OpenAI's chat is sent a short text. The budget
/// counted pictures, and refused the turn.
#[test]
fn a_placeholder_counts_as_its_text() {
    let shots = vec![Part::Image(Media::base64("image/png", PNG)); 10];
    let call = ToolCall::new("c", "shoot", "{}");
    let history =
        [Message::user("Look!"), Message::ai_calls([call]), Message::tool("c", "shoot", shots)];
    let prompt = built(Provider::OpenAi.model("gpt-4o"), 2_000, &history);
    assert!((50..300).contains(&total(&prompt)), "{}", prompt.report());
    // Where they are sent they count.
    let prompt = built(Provider::Anthropic, 20_000, &history);
    assert!(total(&prompt) > 10_000, "{}", prompt.report());
}

/// A picture of low detail counted 85 tokens for providers that are never told of the detail, and
/// take it for the price of any other.
#[test]
fn a_detail_that_the_provider_is_not_told_makes_no_picture_cheaper() {
    let count = |provider, media: Media| {
        let part = Part::Image(media.with_detail(Detail::Low));
        built(provider, 10_000, &[Message::user([part])]).report().message_tokens[0]
    };
    let elsewhere = || Media::url("https://example.com/1.png");
    assert_eq!(count(Provider::Anthropic, elsewhere()), 1_604);
    assert_eq!(count(Provider::OpenAi, elsewhere()), 89);
    let mut row = Row::like(Provider::OpenAi, "untold").unwrap();
    row.detail = false;
    let untold = Provider::custom(row).model("gpt-4o");
    assert_eq!(count(untold, Media::base64("image/png", PNG)), 769);
    assert_eq!(count(Provider::OpenAi.model("gpt-4o"), Media::base64("image/png", PNG)), 89);
}

/// Counts the texts that say `ж`, and those that stand for what is not sent.
struct Marks;

fn marks(text: &str) -> usize {
    text.matches('ж').count() + text.matches(": not supported by").count()
}

impl TokenCounter for Marks {
    fn count_text(&self, text: &str) -> Result<usize> {
        Ok(marks(text))
    }

    fn count_media(&self, _: &Part) -> Result<usize> {
        Ok(0)
    }

    fn overhead(&self) -> Overhead {
        let mut none = Overhead::default();
        (none.message, none.name, none.call, none.reply) = (0, 0, 0, 0);
        none
    }
}

/// An answer with a thought, a text and a call, as this provider gives it.
fn answer(provider: Provider) -> AiMessage {
    let input = json!({"a": "ж"});
    let arguments = input.to_string();
    let function = json!({"name": "look", "arguments": arguments});
    let body = match provider.format() {
        Format::OpenAi => {
            let block = json!([
                {"type": "thinking", "thinking": [{"type": "text", "text": "ж"}]},
                {"type": "text", "text": "ж"},
            ]);
            let is_block = provider == Provider::Mistral;
            json!({"choices": [{"finish_reason": "tool_calls", "message": {
                "role": "assistant",
                "content": if is_block { block } else { "ж".into() },
                "reasoning_content": if is_block { Value::Null } else { "ж".into() },
                "tool_calls": [{"id": "call12345", "type": "function", "function": function}],
            }}]})
        }
        Format::Responses => json!({"status": "completed", "output": [
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "sealed",
             "summary": [{"type": "summary_text", "text": "ж"}]},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "ж", "annotations": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "call12345", "name": "look",
             "arguments": arguments},
        ]}),
        Format::Anthropic => json!({"role": "assistant", "stop_reason": "tool_use", "content": [
            {"type": "thinking", "thinking": "ж", "signature": "sealed"},
            {"type": "text", "text": "ж"},
            {"type": "tool_use", "id": "call12345", "name": "look", "input": input},
        ]}),
        Format::Gemini => json!({"candidates": [{"finishReason": "STOP", "content": {
            "role": "model",
            "parts": [
                {"text": "ж", "thought": true},
                {"text": "ж"},
                {"functionCall": {"name": "look", "args": input}, "thoughtSignature": "sealed"},
            ],
        }}]}),
        _ => json!({"done": true, "done_reason": "stop", "message": {
            "role": "assistant", "content": "ж", "thinking": "ж",
            "tool_calls": [{"function": {"name": "look", "arguments": input}}],
        }}),
    };
    wire::answer(provider, body).unwrap().message
}

/// Whoever gave the answer and whoever is asked next: the texts that count are those of the body.
#[test]
fn each_text_that_counts_is_in_the_body_and_none_besides() {
    let media = |data: &str| {
        [
            Part::Image(Media::base64("image/png", PNG)),
            Part::Image(Media::file_id("file-1")),
            Part::Audio(Media::base64("audio/flac", data)),
            Part::Video(Media::url("https://example.com/1.mp4")),
            Part::File(Media::base64("application/json", data)),
            Part::text("ж"),
        ]
    };
    for giver in all() {
        let answer = answer(giver);
        let call = answer.tool_calls().next().unwrap().clone();
        let history = [
            Message::user(media("0LY=")),
            answer.into(),
            Message::tool(call.id, call.name, media("0LY=")),
            Message::ai("ж"),
            Message::user("ж"),
        ];
        for taker in all() {
            let composer = Composer::new().window(Window::all()).for_provider(taker);
            let composer = composer.max_tokens(1_000, Marks);
            let prompt = compose(&composer, &history, &[]).unwrap();
            let body = request(taker, &prompt).to_string();
            assert_eq!(total(&prompt), marks(&body), "{giver:?} to {taker:?}: {body}");
        }
    }
}
