//! What a transport adds to the client that it asks by, until something of an answer is shown.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

use memory_prompt::wire::Event;
use memory_prompt::{MemoryPrompt, Provider, Transport};

use crate::harness::Claims;

/// The goal of each client, in milliseconds.
const GOAL: f64 = 0.2;

const BODY: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Certainly.\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
    data: [DONE]\n\n";

/// A server on this machine that answers each request with one stream.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let mut reader = BufReader::new(&stream);
                loop {
                    let (mut line, mut length) = (String::new(), 0);
                    while reader.read_line(&mut line).unwrap_or(0) > 2 {
                        let lower = line.to_ascii_lowercase();
                        if let Some(value) = lower.strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap();
                        }
                        line.clear();
                    }
                    if reader.read_exact(&mut vec![0; length]).is_err() || length == 0 {
                        return;
                    }
                    let kind = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
                    let head = format!("{kind}content-length: {}\r\n\r\n", BODY.len());
                    if (&stream).write_all((head + BODY).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// A question of the length of a short conversation, as a client is handed it.
const REQUEST: &str = r#"{"model": "m", "stream": true, "messages": [
    {"role": "system", "content": "You are terse."}, {"role": "user", "content": "And now?"}]}"#;

/// Claims of these two, which return the milliseconds until something came, taken in turns.
fn claim(
    claims: &mut Claims,
    client: &str,
    mut ours: impl FnMut() -> f64,
    mut bare: impl FnMut() -> f64,
) {
    let runs = if claims.quick { 3 } else { 1_001 };
    let mut both = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        both[0].push(ours());
        both[1].push(bare());
    }
    let [ours, bare] = both.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    });
    println!("      a first byte by {client}: {bare:.3} ms; through a transport: {ours:.3} ms");
    let name = format!("a first byte through a transport over {client}: milliseconds behind it");
    claims.at_most(&name, ours - bare, GOAL);
}

fn transport(url: &str) -> Transport {
    let model = Transport::new(Provider::OpenAi, "m").key("none").unwrap();
    model.base_url(url).unwrap()
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

#[cfg(feature = "ureq")]
pub(crate) fn a_first_byte_by_ureq_is_not_late(claims: &mut Claims) {
    use memory_prompt::{Conversation, DefaultChatMemory};

    let url = server();
    let prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("You are terse.");
    let talk = Conversation::new(prompt.max_messages(1), transport(&url));
    let ours = || {
        let (since, mut first) = (Instant::now(), None);
        let hear = |_: Event| _ = first.get_or_insert_with(|| millis(since));
        talk.stream("And now?", hear).unwrap();
        first.unwrap()
    };
    let agent = ureq::Agent::new_with_defaults();
    let address = format!("{url}/v1/chat/completions");
    let bare = || {
        let since = Instant::now();
        let sent = agent.post(&address).send(REQUEST).unwrap();
        let (mut body, mut bytes) = (sent.into_body().into_reader(), vec![0; 4096]);
        assert!(body.read(&mut bytes).unwrap() > 0);
        let first = millis(since);
        body.read_to_end(&mut bytes).unwrap();
        first
    };
    claim(claims, "ureq", ours, bare);
}

#[cfg(feature = "reqwest")]
pub(crate) fn a_first_byte_by_reqwest_is_not_late(claims: &mut Claims) {
    use std::sync::{Arc, Mutex};

    use memory_prompt::adapt::ToAsync;
    use memory_prompt::conversation::{Asking, AsyncModel};
    use memory_prompt::{Conversation, DefaultChatMemory};

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let url = server();
    let model = Arc::new(transport(&url));
    let asked: Arc<Mutex<Option<Instant>>> = Arc::default();
    // From when the model is asked: its memory waits for threads of the runtime.
    let (since, model) = (Arc::clone(&asked), {
        let asked = Arc::clone(&asked);
        move |ask: Asking<'static>| {
            let model = Arc::clone(&model);
            *asked.lock().unwrap() = Some(Instant::now());
            async move { AsyncModel::ask(&*model, ask).await }
        }
    });
    let memory = ToAsync::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new_async(memory).system("You are terse.").max_messages(1);
    let talk = Conversation::new_async(prompt.for_provider(Provider::OpenAi), model);
    let ours = || {
        let (first, since) = (Arc::new(Mutex::new(None)), Arc::clone(&since));
        let heard = Arc::clone(&first);
        let hear = move |_: Event| {
            let since = since.lock().unwrap().unwrap();
            heard.lock().unwrap().get_or_insert_with(|| millis(since));
        };
        runtime.block_on(talk.stream("And now?", hear)).unwrap();
        let first: Option<f64> = *first.lock().unwrap();
        first.unwrap()
    };
    let client = {
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::new()
    };
    let address = format!("{url}/v1/chat/completions");
    let bare = || {
        runtime.block_on(async {
            let since = Instant::now();
            let mut sent = client.post(&address).body(REQUEST).send().await.unwrap();
            assert!(sent.chunk().await.unwrap().is_some());
            let first = millis(since);
            while sent.chunk().await.unwrap().is_some() {}
            first
        })
    };
    claim(claims, "reqwest", ours, bare);
}
