//! Which URL an address leads to.

use memory_prompt::{Provider, Result, Transport};

fn url(provider: Provider, base: &str) -> Result<String> {
    Transport::new(provider, "m/1").base_url(base)?.url()
}

/// Some clients want a base URL with `/v1` or a slash at its end, others without: an address
/// for one of them is a 404 for another.
#[test]
fn addresses_mean_the_same_however_they_are_written() {
    let chat = "http://h:1/v1/chat/completions";
    for base in ["http://h:1", "http://h:1/", "http://h:1/v1", " http://h:1/v1/ ", chat] {
        assert_eq!(url(Provider::OpenAiCompatible, base).unwrap(), chat);
    }
    for base in ["https://h", "https://h/v1", "https://h/v1/", "https://h/v1/messages"] {
        assert_eq!(url(Provider::Anthropic, base).unwrap(), "https://h/v1/messages");
    }
    let gemini = "https://h/v1beta/models/m%2F1:streamGenerateContent?alt=sse";
    for base in ["https://h", "https://h/v1beta/"] {
        assert_eq!(url(Provider::Gemini, base).unwrap(), gemini);
    }
    assert_eq!(url(Provider::Gemini, "https://h/v1").unwrap(), gemini.replace("v1beta", "v1"));
    for base in ["h", "h/", "h:11434", "h:11434/", "http://h:11434/"] {
        assert_eq!(url(Provider::Ollama, base).unwrap(), "http://h:11434/api/chat");
    }
    for base in ["0.0.0.0", "0.0.0.0/", ":11434/"] {
        assert_eq!(url(Provider::Ollama, base).unwrap(), "http://127.0.0.1:11434/api/chat");
    }
    assert_eq!(url(Provider::Ollama, "h/local").unwrap(), "http://h:11434/local/api/chat");
    assert_eq!(
        url(Provider::Groq, "https://api.groq.com").unwrap(),
        "https://api.groq.com/openai/v1/chat/completions"
    );
    assert_eq!(
        url(Provider::DeepSeek, "https://api.deepseek.com/v1").unwrap(),
        "https://api.deepseek.com/v1/chat/completions"
    );
    assert_eq!(
        url(Provider::OpenAi, "https://gateway/team/openai?api-version=1").unwrap(),
        "https://gateway/team/openai/chat/completions?api-version=1"
    );
}

/// The versions of Groq and OpenRouter come after a path of their own: with that path but
/// without the version, requests went to `/openai/chat/completions`, which is a 404.
#[test]
fn a_version_of_two_parts_may_be_given_by_half() {
    let chat = "/chat/completions";
    for (provider, half, version) in [
        (Provider::Groq, "https://api.groq.com/openai", "/v1"),
        (Provider::OpenRouter, "https://openrouter.ai/api/", "v1"),
        (Provider::Azure, "https://me.openai.azure.com/openai", "/v1"),
        (Provider::GoogleOpenAi, "https://generativelanguage.googleapis.com/v1beta", "/openai"),
    ] {
        let whole = format!("{half}{version}{chat}");
        assert_eq!(url(provider, half).unwrap(), whole);
        assert_eq!(url(provider, &format!("{half}{version}")).unwrap(), whole);
    }
    // Any other path is complete.
    for base in ["https://gateway/groq", "https://gateway/open", "https://gateway/a/openai"] {
        assert_eq!(url(Provider::Groq, base).unwrap(), format!("{base}{chat}"));
    }
}

#[test]
fn what_is_no_address_is_refused_without_repeating_it() {
    for base in ["", "h:1", "ftp://h", "https://", "https://me:secret@h", "https://a b"] {
        let error = url(Provider::OpenAi, base).unwrap_err().to_string();
        assert!(error.starts_with("transport: base URL: "), "{error}");
        assert!(!error.contains("secret"));
    }
}
