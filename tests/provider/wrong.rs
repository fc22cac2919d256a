//! What a provider finds wrong with a request that was composed for it.

use memory_prompt::Provider;
use serde_json::Value;

use crate::setups::{gemma, llama, older_claude};
use crate::validators::{self, Wrong};

/// Returns what this provider refuses in a body.
pub(crate) fn wrong(provider: Provider, body: &Value) -> Wrong {
    let messages = &body["messages"];
    let order = of_order(provider, messages);
    let rules = [of_rules(provider, body), of_images(provider, body)].concat();
    let data = validators::data_of_its_type(body);
    let calls = match provider {
        Provider::OpenAi | Provider::Azure => Wrong::new(),
        _ => validators::functions_alone(messages),
    };
    let blocks = of_blocks(provider, messages);
    [rules, order, blocks, of_media(provider, body), data, calls].concat()
}

fn of_order(provider: Provider, messages: &Value) -> Wrong {
    let late = || validators::late_system(messages);
    match provider {
        // If it stands is free, or there is no such message.
        Provider::OpenAi | Provider::Azure | Provider::Xai | Provider::Ollama => Wrong::new(),
        Provider::Vllm | Provider::LlamaCpp => [late(), validators::question(messages)].concat(),
        own if own == llama() => [late(), validators::question(messages)].concat(),
        Provider::DeepSeek => [late(), validators::deepseek_order(messages)].concat(),
        _ => late(),
    }
}

fn of_images(provider: Provider, body: &Value) -> Wrong {
    const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let google = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
    let types = match provider {
        Provider::Xai | Provider::Ollama => &TYPES[..2],
        Provider::LlamaCpp => &TYPES[..3],
        Provider::GoogleOpenAi => &google,
        // These pass on what they are sent, or speak another format.
        Provider::LiteLlm | Provider::Gemini | Provider::Vertex => return Wrong::new(),
        _ => &TYPES,
    };
    [validators::images(body, types), validators::details(body)].concat()
}

fn of_media(provider: Provider, body: &Value) -> Wrong {
    const GEMINI: &str = "https://generativelanguage.googleapis.com/";
    let gemini = |reaches| {
        let contents = &body["contents"];
        let media = validators::gemini_media(contents, true, false);
        let in_results = validators::media_in_results(contents, reaches);
        [media, in_results, validators::only_tls(contents)].concat()
    };
    let foreign = |own: &[&str]| validators::foreign_media(body, own);
    match provider {
        Provider::OpenAi | Provider::Azure => {
            [foreign(&["file-"]), validators::only_pdfs(&body["messages"])].concat()
        }
        Provider::Vllm | Provider::LlamaCpp | Provider::GoogleOpenAi => {
            [foreign(&[]), validators::no_files(&body["messages"])].concat()
        }
        Provider::Gemini => [foreign(&["gs://", GEMINI, "files/"]), gemini(false)].concat(),
        Provider::Vertex => [foreign(&["gs://"]), gemini(true)].concat(),
        Provider::ClaudeOnBedrock | Provider::ClaudeOnVertex => {
            [foreign(&[]), validators::no_addresses(&body["messages"])].concat()
        }
        own if own == Provider::Anthropic || own == older_claude() => {
            [foreign(&["file_01"]), validators::only_tls(&body["messages"])].concat()
        }
        // A server of one's own may know what one gives it.
        Provider::OpenAiResponses | Provider::LiteLlm | Provider::Custom(_) => foreign(&["file-"]),
        _ => foreign(&[]),
    }
}

fn of_blocks(provider: Provider, messages: &Value) -> Wrong {
    let all: &[&str] = &["text", "image_url", "input_audio", "file"];
    match provider {
        Provider::OpenAi | Provider::Azure => {
            validators::known_blocks(messages, all, &["text", "refusal"])
        }
        Provider::Mistral => {
            let of_user = ["text", "image_url", "input_audio", "document_url", "file"];
            validators::known_blocks(messages, &of_user, &["text", "thinking"])
        }
        Provider::DeepSeek => validators::known_blocks(messages, &["text"], &["text"]),
        Provider::Groq => validators::known_blocks(messages, &["text", "image_url"], &["text"]),
        Provider::OpenAiCompatible | Provider::Xai | Provider::OpenRouter => {
            validators::known_blocks(messages, all, &["text"])
        }
        _ => Wrong::new(),
    }
}

fn of_rules(provider: Provider, body: &Value) -> Wrong {
    let messages = &body["messages"];
    let both = |one: Wrong, other: Wrong| [one, other].concat();
    match provider {
        Provider::OpenAi | Provider::Azure => {
            both(validators::openai(messages), validators::openai_ids(messages))
        }
        Provider::OpenAiResponses => validators::responses(&body["input"]),
        Provider::Anthropic | Provider::ClaudeOnBedrock | Provider::ClaudeOnVertex => {
            both(validators::anthropic(messages), validators::no_prefill(messages))
        }
        Provider::Gemini => {
            both(validators::gemini(&body["contents"]), validators::signed_calls(&body["contents"]))
        }
        Provider::Vertex => {
            let contents = &body["contents"];
            let signed = validators::signed_calls(contents);
            [validators::gemini(contents), signed, validators::no_ids(contents)].concat()
        }
        Provider::GoogleOpenAi => {
            let arguments = validators::readable_arguments(messages);
            [validators::openai(messages), validators::google(messages), arguments].concat()
        }
        Provider::Mistral => {
            both(validators::mistral(messages), validators::mistral_fields(messages))
        }
        Provider::StrictTemplate => {
            both(validators::strict_template(messages), validators::readable_arguments(messages))
        }
        Provider::Groq => both(validators::openai(messages), validators::groq(messages)),
        Provider::OpenAiCompatible => {
            let arguments = validators::readable_arguments(messages);
            let strings = validators::texts_are_strings(messages);
            [validators::openai(messages), strings, arguments].concat()
        }
        Provider::DeepSeek => both(validators::openai(messages), validators::deepseek(messages)),
        Provider::Xai => both(validators::openai(messages), validators::xai(messages)),
        Provider::Vllm | Provider::LiteLlm => {
            both(validators::openai(messages), validators::readable_arguments(messages))
        }
        Provider::LlamaCpp => {
            let arguments = validators::readable_arguments(messages);
            [validators::openai(messages), arguments, validators::no_prefill(messages)].concat()
        }
        Provider::Ollama => validators::ollama(messages),
        own if own == older_claude() => {
            both(validators::anthropic(messages), validators::prefill(messages))
        }
        own if own == gemma() => {
            both(validators::strict_template(messages), validators::no_system(messages))
        }
        own if own == llama() => both(validators::openai(messages), validators::one_call(messages)),
        _ => validators::openai(messages),
    }
}
