//! Recorded traffic as an oracle: `MEMORY_PROMPT_RECORDINGS=folder cargo test --test wire --
//! --ignored --nocapture recordings`.
//!
//! The folder holds one folder a provider, under its name (`openai`, `anthropic`, `groq`; for a
//! server that has none, `openai_compatible`), with bodies of responses, `*.json`, of streamed
//! ones, `*.stream`, and of requests that were taken, `*.request`, as they came over the network.
//! None is part of this repository; public ones are the fixtures of `vercel/ai` and the cassettes
//! of `pydantic/pydantic-ai`.
//!
//! Each is read, or refused with an error that is listed, for a reader to judge: an error of the
//! provider, several responses in one file. A stream is cut after every event, and no cut may pass
//! for whole.
//!
//! Each answer is put into a conversation and written for every provider; what those get that did
//! not give it is what the strict checkers of `tests/provider` take, with no placeholder among what
//! the model said, but for pictures that it made. Where `MEMORY_PROMPT_PYTHON` is set, the typed
//! models of the providers' clients read it too.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)] // a test that fails should say so

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::oracles::{ask, python};
use crate::setups::{self, TYPED, compose};
use crate::shown;
use crate::wrong;
use memory_prompt::provider::Format;
use memory_prompt::wire::{self, Answer, Event, Frames, Request, Stop, Stream};
use memory_prompt::{Composer, Error, Message, Provider};
use serde_json::{Value, json};

/// Everything that went wrong, and how often each outcome was seen.
#[derive(Default)]
struct Seen {
    outcomes: BTreeMap<String, usize>,
    refused: Vec<String>,
    wrong: Vec<String>,
    cuts: usize,
    /// How many requests were written, and those that the typed models are asked about.
    written: usize,
    requests: Vec<Value>,
    /// How many requests name a picture that the model made: no other one takes it as an answer's.
    images: usize,
}

/// Returns whether one is sent back what the other gave: what it runs itself, which the strict
/// checkers, and the clients that know no beta, do not know.
fn is_family(giver: Provider, provider: Provider) -> bool {
    giver == provider || (giver.format() == provider.format() && giver.format() != Format::OpenAi)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn framed(provider: Provider, body: &[u8]) -> Vec<String> {
    let mut frames = Frames::of(provider);
    let mut texts: Vec<_> = frames.push(body).map(Result::unwrap).collect();
    texts.extend(frames.finish().unwrap());
    texts
}

fn storable(message: &Message) {
    let stored = serde_json::to_string(message).unwrap();
    assert_eq!(serde_json::from_str::<Message>(&stored).unwrap(), *message);
}

/// The stream after the first of these events, and what it showed.
fn pushed(provider: Provider, texts: &[String]) -> Result<(Stream, Vec<Event>), Error> {
    let (mut stream, mut told) = (Stream::of(provider), Vec::new());
    for text in texts {
        told.extend(stream.push(text)?);
    }
    Ok((stream, told))
}

fn whole(provider: Provider, body: &[u8]) -> Result<Answer, Error> {
    let answer = wire::answer(provider, body)?;
    assert!(answer.usage.output.is_some() || answer.usage.input.is_none());
    Ok(answer)
}

impl Seen {
    fn stream(&mut self, provider: Provider, body: &[u8]) -> Result<Answer, Error> {
        let texts = framed(provider, body);
        let (stream, told) = pushed(provider, &texts)?;
        let whole = stream.finish()?;
        shown::assert_shown(&told, &whole, "whole");
        for cut in 0..texts.len() {
            self.cuts += 1;
            let (stream, told) = pushed(provider, &texts[..cut])?;
            if stream.has_ended() {
                // Only what it cost may come behind the end.
                assert_eq!(stream.finish()?.message, whole.message, "cut {cut} passed for whole");
                continue;
            }
            let (again, _) = pushed(provider, &texts[..cut])?;
            assert!(again.finish().is_err(), "cut {cut} passed for whole");
            let broken = stream.broken();
            assert_eq!(broken.message.text(), shown::text(&told), "cut {cut}");
            assert_eq!(broken.stop, Stop::Broken);
            storable(&broken.into());
        }
        Ok(whole)
    }

    /// Writes an answer for every provider, in the middle of a conversation.
    fn write(&mut self, name: &str, answer: Answer) {
        let giver = answer.provider;
        let message = Message::from(answer);
        storable(&message);
        let mut history = vec![Message::user("question")];
        let calls: Vec<_> = message.tool_calls().cloned().collect();
        history.push(message);
        history.extend(calls.iter().map(|call| call.result("result")));
        history.extend([Message::ai("said"), Message::user("and now?")]);
        for provider in setups::all() {
            let composer = Composer::new().for_provider(provider);
            let prompt = match compose(&composer, &history, &[]) {
                Ok(prompt) => prompt,
                Err(error) => {
                    self.wrong.push(format!("{name} for {provider}: {error}"));
                    continue;
                }
            };
            let body = json!(Request::new(&prompt).model("m").max_tokens(9));
            self.written += 1;
            if is_family(giver, provider) {
                continue;
            }
            let refusals = wrong::wrong(provider, &body);
            if !refusals.is_empty() {
                self.wrong.push(format!("{name} for {provider}: {refusals:?}"));
            }
            let text = body.to_string();
            if let Some((before, _)) = text.split_once(": not supported by this format]") {
                let kind = before.rsplit('[').next().unwrap_or_default();
                match kind {
                    "image" => self.images += 1,
                    _ => self.wrong.push(format!("{name} for {provider}: a placeholder: {kind}")),
                }
            }
            if TYPED.contains(&provider) {
                let request = json!({"provider": provider, "body": body, "name": name});
                self.requests.push(request);
            }
        }
    }

    /// Reads the messages of a request that somebody else wrote.
    fn history(&mut self, name: &str, provider: Provider, body: &[u8]) {
        let outcome = match wire::history(provider, body) {
            Ok(_) => "read",
            Err(error) => {
                self.refused.push(format!("{name}: {:?}: {error}", error.kind()));
                "refused"
            }
        };
        *self.outcomes.entry(format!("request: {outcome}")).or_default() += 1;
    }

    fn read(&mut self, provider: Provider, path: &Path) {
        let name = format!("{provider} {}", path.file_name().unwrap().to_string_lossy());
        let body = fs::read(path).unwrap();
        if path.extension().is_some_and(|it| it == "request") {
            return self.history(&name, provider, &body);
        }
        let is_stream = path.extension().is_some_and(|it| it == "stream");
        let read = catch_unwind(AssertUnwindSafe(|| {
            if is_stream { self.stream(provider, &body) } else { whole(provider, &body) }
        }));
        let kind = if is_stream { "stream" } else { "body" };
        let outcome = match read {
            Ok(Ok(answer)) => {
                let stop = answer.stop;
                self.write(&name, answer);
                format!("{stop:?}")
            }
            Ok(Err(error)) => {
                self.refused.push(format!("{name}: {:?}: {error}", error.kind()));
                format!("refused, {:?}", error.kind())
            }
            Err(panic) => {
                let said = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                self.wrong.push(format!("{name}: {said:.400}"));
                "panicked".to_owned()
            }
        };
        *self.outcomes.entry(format!("{kind}: {outcome}")).or_default() += 1;
    }

    /// Asks the typed models of the providers' clients about each request.
    fn ask(&mut self) {
        if std::env::var("MEMORY_PROMPT_PYTHON").is_err() {
            println!("not asked: the typed models; MEMORY_PROMPT_PYTHON is not set");
            return;
        }
        let requests = std::mem::take(&mut self.requests);
        let told = ask(python().arg("--all"), |input| {
            for request in &requests {
                writeln!(input, "{request}").unwrap();
            }
        });
        for line in told.lines() {
            match serde_json::from_str::<Value>(line) {
                Ok(refusal) => self.wrong.push(format!("typed model: {refusal}")),
                Err(_) => println!("typed models took: {line}"),
            }
        }
    }
}

#[test]
#[ignore = "needs recordings: MEMORY_PROMPT_RECORDINGS names their folder"]
fn recordings_are_read_or_rightly_refused_and_written_for_everyone() {
    let folder = std::env::var("MEMORY_PROMPT_RECORDINGS").unwrap();
    let mut seen = Seen::default();
    for folder in files(Path::new(&folder)) {
        let name = json!(folder.file_name().unwrap().to_string_lossy());
        let provider: Provider = serde_json::from_value(name).unwrap();
        for path in files(&folder) {
            seen.read(provider, &path);
        }
    }
    seen.ask();
    let Seen { outcomes, refused, wrong, cuts, written, images, .. } = &seen;
    println!("refused, to be judged by a reader:\n{}\n", refused.join("\n"));
    for (what, count) in outcomes {
        println!("{count:5} {what}");
    }
    let total: usize = outcomes.values().sum();
    let refusals = refused.len();
    println!("{total} recordings, {refusals} of them refused; {cuts} cuts; {written} requests");
    println!("{images} of them name a picture that the model made");
    assert!(total > 0, "no recordings");
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
