//! The transport against a server that speaks the providers' protocols, and does what servers do
//! wrong. After each fault the memory is whole and the next turn works. Everything is tried with
//! each client.
#![cfg(any(feature = "ureq", all(feature = "reqwest", feature = "tokio")))]

mod addresses;
mod clients;
#[cfg(all(feature = "reqwest", feature = "tokio"))]
mod over;

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::stub::Stub;
use crate::stub_protocols::KEY;
use memory_prompt::{Error, Provider, Transport};

/// One of each protocol.
const PROTOCOLS: [Provider; 5] = [
    Provider::OpenAi,
    Provider::OpenAiResponses,
    Provider::Anthropic,
    Provider::Gemini,
    Provider::Ollama,
];

const STALL: Duration = Duration::from_secs(1);

/// A transport to the stub that loses patience soon.
fn to(stub: &Stub, provider: Provider) -> Transport {
    Transport::new(provider, "m-1")
        .key(KEY)
        .unwrap()
        .base_url(&stub.url)
        .unwrap()
        .connect_timeout(Duration::from_secs(10))
        .first_byte_timeout(Duration::from_secs(3))
        .stall_timeout(STALL)
}

fn kind(error: &Error) -> memory_prompt::ErrorKind {
    error.kind()
}

/// All that is logged, up to the level `debug`.
static LOGGED: Mutex<String> = Mutex::new(String::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        let mut logged = LOGGED.lock().unwrap();
        writeln!(logged, "{} {}", record.target(), record.args()).unwrap();
    }
    fn flush(&self) {}
}

fn listen() {
    let _ = log::set_logger(&Logger); // the tests of another client may have done so
    log::set_max_level(log::LevelFilter::Debug);
}

/// The tests, with a kind of conversation.
macro_rules! tests {
    () => {
        #[path = "transport/again.rs"]
        mod again;
        #[path = "transport/faults.rs"]
        mod faults;
        #[path = "transport/requests.rs"]
        mod requests;
        #[path = "transport/ways.rs"]
        mod ways;

        fn chat(model: Transport) -> Chat {
            over(prompt(&Arc::default()), model)
        }
    };
}

#[cfg(feature = "ureq")]
#[path = "."]
mod ureq {
    use super::*;
    use memory_prompt::{Conversation, DefaultChatMemory, MemoryPrompt};

    /// A word that its client logs.
    const LOGS: &str = "ureq";

    type Chat = Conversation;

    fn prompt(memory: &Arc<DefaultChatMemory>) -> MemoryPrompt {
        MemoryPrompt::new(Arc::clone(memory))
    }

    fn over(prompt: MemoryPrompt, model: Transport) -> Chat {
        Conversation::new(prompt, model)
    }

    tests!();
}

#[cfg(all(feature = "reqwest", feature = "tokio"))]
#[path = "."]
mod reqwest {
    use std::sync::OnceLock;

    use super::*;
    use memory_prompt::adapt::ToAsync;
    use memory_prompt::conversation::Stopper;
    use memory_prompt::message::Content;
    use memory_prompt::turn::{Done, OnInterrupt, ToolError};
    use memory_prompt::wire::Event;
    use memory_prompt::{
        AsyncChatMemory, Conversation, DefaultChatMemory, MemoryPrompt, Result, Tool,
    };
    use tokio::runtime::Runtime;

    const LOGS: &str = "reqwest";

    /// The async twin, as the tests of the blocking one speak to it.
    struct Chat(Conversation<dyn AsyncChatMemory>);

    fn prompt(memory: &Arc<DefaultChatMemory>) -> MemoryPrompt<dyn AsyncChatMemory> {
        MemoryPrompt::new_async(ToAsync::new(Arc::clone(memory)))
    }

    fn over(prompt: MemoryPrompt<dyn AsyncChatMemory>, model: Transport) -> Chat {
        Chat(Conversation::new_async(prompt, model))
    }

    pub(super) fn runtime() -> &'static Runtime {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        RUNTIME.get_or_init(|| Runtime::new().unwrap())
    }

    impl Chat {
        fn say(&self, question: &str) -> Result<Done> {
            runtime().block_on(self.0.say(question))
        }

        fn stream(&self, question: &str, mut on_event: impl FnMut(Event)) -> Result<Done> {
            let events: Arc<Mutex<Vec<_>>> = Arc::default();
            let heard = Arc::clone(&events);
            let hear = move |event| heard.lock().unwrap().push(event);
            let done = runtime().block_on(self.0.stream(question, hear));
            events.lock().unwrap().drain(..).for_each(&mut on_event);
            done
        }

        fn stopper(&self) -> Stopper {
            self.0.stopper()
        }

        fn on_interrupt(self, on_interrupt: OnInterrupt) -> Self {
            Self(self.0.on_interrupt(on_interrupt))
        }

        fn tool<T: serde::de::DeserializeOwned, R: Into<Content>>(
            self,
            tool: Tool,
            run: impl Fn(T) -> std::result::Result<R, ToolError> + Send + Sync + 'static,
        ) -> Self {
            Self(self.0.tool(tool, run))
        }
    }

    tests!();
}
