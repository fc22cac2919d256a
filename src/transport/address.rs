//! The address of a request.

use crate::error::{Error, Result};
use crate::provider::{Format, Server};

/// Returns the given address without spaces at its ends.
///
/// An address without `http://` is accepted only for Ollama, whose variable holds a host and a
/// port, often the one that the server itself listens on.
pub(super) fn checked(address: &str, format: Format) -> Result<String> {
    let address = address.trim();
    let is_whole = address.starts_with("http://") || address.starts_with("https://");
    let address = match format {
        Format::Ollama if !is_whole && !address.contains("://") => ollama_host(address),
        _ if is_whole => address.to_owned(),
        _ => return Err(invalid("an address that begins neither with https:// nor with http://")),
    };
    let parsed = address.parse::<http::Uri>().ok();
    match parsed.as_ref().and_then(http::Uri::authority) {
        None => Err(invalid("what is no address")),
        // A password would be shown wherever the address is.
        Some(authority) if authority.as_str().contains('@') => {
            Err(invalid("an address with a name and a password: they belong into a header"))
        }
        Some(_) => Ok(address),
    }
}

fn invalid(what: &str) -> Error {
    Error::invalid("transport", format!("base URL: {what}"))
}

fn ollama_host(host: &str) -> String {
    let (host, path) = host.split_at(host.find('/').unwrap_or(host.len()));
    let host = host.replacen("0.0.0.0", "127.0.0.1", 1);
    let host = if host.starts_with(':') { format!("127.0.0.1{host}") } else { host };
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    format!("http://{host}{}{path}", if has_port { "" } else { ":11434" })
}

/// Returns the address of a request, for the given base address.
///
/// Base addresses with or without `/v1`, with a slash at the end, or with the whole path all mean
/// the same.
pub(super) fn join(base: &str, server: &Server, path: &str, is_events: bool) -> String {
    let (base, query) = base.split_once('?').unwrap_or((base, ""));
    let base = base.trim_end_matches('/');
    let url = if base.ends_with(path) {
        base.to_owned()
    } else if server.is_versioned || ends_in_version(base) {
        format!("{base}{}{path}", missing(base, server.version))
    } else {
        format!("{base}{}{path}", server.version)
    };
    let events = if is_events { "alt=sse" } else { "" };
    let queries = [query, events].into_iter().filter(|query| !query.is_empty());
    let queries = queries.collect::<Vec<_>>().join("&");
    if queries.is_empty() { url } else { format!("{url}?{queries}") }
}

/// Returns the part of the version that an address lacks: all of it if it has no path, and `/v1` of
/// `/openai/v1` if its path is `/openai`. Any other path is a gateway's, and lacks nothing.
fn missing<'a>(base: &str, version: &'a str) -> &'a str {
    let host = base.split_once("://").map_or(base, |(_, rest)| rest);
    let path = host.find('/').map_or("", |at| &host[at..]);
    version.strip_prefix(path).filter(|rest| rest.starts_with('/')).unwrap_or_default()
}

/// Returns whether the last part of a path is `v1`, `v1beta` or another version.
fn ends_in_version(base: &str) -> bool {
    let last = base.rsplit('/').next().unwrap_or_default();
    last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::{checked, join};
    use crate::error::Result;
    use crate::provider::{Format, Provider};

    fn url(provider: Provider, base: &str) -> Result<String> {
        let server = provider.server().unwrap();
        let path = provider.format().path("m/1", true);
        let base = checked(base, provider.format())?;
        Ok(join(&base, &server, &path, provider.format() == Format::Gemini))
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
}
