//! The address and key of a provider, as data: the other half of its row.

use super::{Format, Provider};

/// The server of a provider that needs no more than a key.
///
/// Sources: the references and clients of the providers, as of 2026.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    /// The address unless the application names another.
    pub(crate) base: Option<&'static str>,
    /// The prefix of the path: of an address that has none of its own, or of any
    /// (see [`Self::is_versioned`]).
    pub(crate) version: &'static str,
    /// True if addresses end in the version, by the custom of its clients; false if they end
    /// before it.
    pub(crate) is_versioned: bool,
    pub(crate) key: KeyHeader,
    /// The variables of the environment in which a key is looked for, in this order.
    pub(crate) keys: &'static [&'static str],
    /// The same for the address.
    pub(crate) bases: &'static [&'static str],
    /// True if nobody is answered without a key.
    pub(crate) needs_key: bool,
}

/// The header in which a key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    /// `authorization: Bearer ..`
    Bearer,
    /// The key alone, in a header of this name.
    Named(&'static str),
}

/// A server of OpenAI's format, wherever it is.
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

/// Returns the server at this address, whose key is looked for in variables of its own.
const fn at(base: &'static str, keys: &'static [&'static str]) -> Server {
    Server { base: Some(base), keys, bases: &[], needs_key: true, ..COMPATIBLE }
}

/// Returns a server that runs on one's own machine as a rule, where nobody needs a key.
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
    /// Returns the server; `None` if it takes more than a key to be let in.
    ///
    /// A row of the application's own has the server of its format, at an address that it names.
    pub(crate) fn server(self) -> Option<Server> {
        // One of its models has its name and a row of its own.
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
    /// Returns a server of this format that nobody knows.
    fn server(self) -> Server {
        let like = match self {
            Self::OpenAi | Self::Responses => COMPATIBLE,
            Self::Anthropic => ANTHROPIC,
            Self::Gemini => GEMINI,
            Self::Ollama => OLLAMA,
        };
        Server { base: None, keys: &[], bases: &[], needs_key: false, ..like }
    }

    /// Returns what stands behind the version, for this model.
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

/// Writes a name as a part of a URL.
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push('%');
            for digit in [byte >> 4, byte & 15] {
                escaped.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    escaped
}
