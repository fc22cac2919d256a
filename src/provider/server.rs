//! The address and key of a provider, as data: the other half of its row.

use super::{Format, Provider};

/// The server of a provider that needs no more than a key.
///
/// Sources: the references and clients of the providers, as of 2026.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    /// The address, unless the application sets another.
    pub(crate) base: Option<&'static str>,
    /// The version in the path: added to an address without a path, or to any address (see
    /// [`Self::is_versioned`]).
    pub(crate) version: &'static str,
    /// True if by convention of its clients addresses include the version; false if the version is
    /// added to them.
    pub(crate) is_versioned: bool,
    pub(crate) key: KeyHeader,
    /// The environment variables with the key, in order of preference.
    pub(crate) keys: &'static [&'static str],
    /// The environment variables with the address.
    pub(crate) bases: &'static [&'static str],
    /// True if requests without a key are refused.
    pub(crate) needs_key: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    /// `authorization: Bearer ..`
    Bearer,
    /// Only the key, in a header of this name.
    Named(&'static str),
}

/// A server of OpenAI's format at an unknown address.
const COMPATIBLE: Server = Server {
    base: None,
    version: "/v1",
    is_versioned: true,
    key: KeyHeader::Bearer,
    keys: &["OPENAI_API_KEY"],
    bases: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
    needs_key: false,
};

const OPENAI: Server =
    Server { base: Some("https://api.openai.com/v1"), needs_key: true, ..COMPATIBLE };

const fn at(base: &'static str, keys: &'static [&'static str]) -> Server {
    Server { base: Some(base), keys, bases: &[], needs_key: true, ..COMPATIBLE }
}

/// Returns a server that usually runs on the user's own machine and needs no key.
const fn local(base: &'static str, keys: &'static [&'static str]) -> Server {
    Server { needs_key: false, ..at(base, keys) }
}

const ANTHROPIC: Server = Server {
    is_versioned: false,
    key: KeyHeader::Named("x-api-key"),
    bases: &["ANTHROPIC_BASE_URL"],
    ..at("https://api.anthropic.com", &["ANTHROPIC_API_KEY"])
};

const GEMINI: Server = Server {
    version: "/v1beta",
    is_versioned: false,
    key: KeyHeader::Named("x-goog-api-key"),
    bases: &["GOOGLE_GEMINI_BASE_URL"],
    ..at("https://generativelanguage.googleapis.com", &["GOOGLE_API_KEY", "GEMINI_API_KEY"])
};

const OLLAMA: Server = Server {
    version: "",
    is_versioned: false,
    bases: &["OLLAMA_HOST"],
    ..local("http://localhost:11434", &["OLLAMA_API_KEY"])
};

impl Provider {
    /// Returns the server; `None` if it needs more than a key.
    ///
    /// A custom row has the server of its format, at an address that the application must set.
    pub(crate) fn server(self) -> Option<Server> {
        // A provider with a named model has the provider's name and a row of its own.
        Some(match Self::of_name(self.row().name()) {
            Some(Self::OpenAi | Self::OpenAiResponses) => OPENAI,
            Some(Self::Azure) => Server {
                base: None,
                version: "/openai/v1",
                key: KeyHeader::Named("api-key"),
                bases: &["AZURE_OPENAI_ENDPOINT"],
                ..at("", &["AZURE_OPENAI_API_KEY"])
            },
            Some(Self::Anthropic) => ANTHROPIC,
            Some(Self::Gemini) => GEMINI,
            Some(Self::GoogleOpenAi) => Server {
                version: "/v1beta/openai",
                ..at("https://generativelanguage.googleapis.com/v1beta/openai", GEMINI.keys)
            },
            Some(Self::Mistral) => at("https://api.mistral.ai/v1", &["MISTRAL_API_KEY"]),
            Some(Self::DeepSeek) => {
                Server { version: "", ..at("https://api.deepseek.com", &["DEEPSEEK_API_KEY"]) }
            }
            Some(Self::Groq) => Server {
                version: "/openai/v1",
                bases: &["GROQ_BASE_URL"],
                ..at("https://api.groq.com/openai/v1", &["GROQ_API_KEY"])
            },
            Some(Self::OpenRouter) => Server {
                version: "/api/v1",
                ..at("https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY"])
            },
            Some(Self::Xai) => at("https://api.x.ai/v1", &["XAI_API_KEY"]),
            Some(Self::LiteLlm) => Server {
                bases: &["LITELLM_PROXY_API_BASE"],
                ..local("http://localhost:4000/v1", &["LITELLM_PROXY_API_KEY"])
            },
            Some(Self::Ollama) => OLLAMA,
            Some(Self::Vllm) => local("http://localhost:8000/v1", &["VLLM_API_KEY"]),
            Some(Self::LlamaCpp) => local("http://localhost:8080/v1", &["LLAMA_API_KEY"]),
            Some(Self::OpenAiCompatible | Self::StrictTemplate) => COMPATIBLE,
            Some(Self::ClaudeOnBedrock | Self::ClaudeOnVertex | Self::Vertex) => return None,
            Some(Self::Custom(_)) | None => self.format().server(),
        })
    }
}

impl Format {
    /// Returns an unknown server of this format.
    fn server(self) -> Server {
        let like = match self {
            Self::OpenAi | Self::Responses => COMPATIBLE,
            Self::Anthropic => ANTHROPIC,
            Self::Gemini => GEMINI,
            Self::Ollama => OLLAMA,
        };
        Server { base: None, keys: &[], bases: &[], needs_key: false, ..like }
    }

    /// Returns the path after the version, for this model.
    pub(crate) fn path(self, model: &str, stream: bool) -> String {
        match self {
            Self::OpenAi => "/chat/completions".to_owned(),
            Self::Responses => "/responses".to_owned(),
            Self::Anthropic => "/messages".to_owned(),
            Self::Ollama => "/api/chat".to_owned(),
            Self::Gemini => {
                let verb = if stream { "streamGenerateContent" } else { "generateContent" };
                format!("/models/{}:{verb}", escaped(model.trim_start_matches("models/")))
            }
        }
    }
}

/// Escapes a name for a URL.
fn escaped(name: &str) -> String {
    let escape = |byte: u8| match char::from(byte) {
        c @ ('a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' | '~' | '@') => c.to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}
