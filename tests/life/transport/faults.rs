//! Whatever a server does, the memory is whole, and the next turn works.

use std::thread;
use std::time::Instant;

use memory_prompt::conversation::ModelSummarizer;
use memory_prompt::summary::CompactionPolicy;
use memory_prompt::turn::{Done, Ended, OnInterrupt};
use memory_prompt::wire::Event;
use memory_prompt::{ChatMemoryExt, ErrorKind, Message, Result, Tool, Window};
use serde_json::{Value, json};

use super::*;
use crate::counted::cases;
use crate::stub::{Fault, Step};
use crate::wrong::wrong;

/// What a turn comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Comes {
    Answered,
    Refused(u16),
    Unanswered,
    Unfinished,
    Codec,
    /// One of those, by what the protocol can tell.
    Fails,
}

/// Each fault, what it comes to, and how often a request is sent for it.
type Expected = fn(ErrorKind) -> bool;

fn faults() -> Vec<(Fault, Comes, usize)> {
    use Comes::{Answered, Codec, Fails, Refused, Unanswered, Unfinished};
    let soon = || vec![("retry-after-ms", "20".to_owned())];
    let passes = [429, 500, 503, 529, 408, 409, 425];
    let passes = passes.map(|it| (Fault::Status(it, soon()), Refused(it), 3));
    let stays = [400, 401, 404].map(|it| (Fault::Status(it, vec![]), Refused(it), 1));
    let others = [
        (Fault::Status(504, soon()), Refused(504), 1),
        (Fault::Status(429, vec![("retry-after", "3600".to_owned())]), Refused(429), 1),
        (Fault::Page(401), Refused(401), 1),
        (Fault::HugePage(404), Refused(404), 1),
        (Fault::Page(200), Codec, 1),
        (Fault::HugePage(200), Codec, 1),
        (Fault::Empty, Unfinished, 1),
        // Another program at that address.
        (Fault::Body(200, "OK"), Codec, 1),
        (Fault::Body(200, "null"), Codec, 1),
        (Fault::Redirect(301), Refused(301), 1),
        (Fault::Redirect(307), Refused(307), 1),
        (Fault::Cut(0.0), Unfinished, 1),
        (Fault::Cut(0.6), Unfinished, 1),
        (Fault::EndsEarly, Unfinished, 1),
        (Fault::CutBefore, Unanswered, 1),
        (Fault::Stall(0.0), Unfinished, 1),
        (Fault::Stall(0.6), Unfinished, 1),
        (Fault::StallBefore, Unanswered, 1),
        (Fault::SlowHead(Duration::from_millis(100)), Unanswered, 1),
        (Fault::NotHttp, Unanswered, 1),
        (Fault::Garbage, Fails, 1),
        // Not faults at all.
        (Fault::OddChunks, Answered, 1),
        (Fault::SlowHead(Duration::from_millis(2)), Answered, 1),
        (Fault::WrongType("text/plain"), Answered, 1),
        (Fault::WrongType("application/octet-stream"), Answered, 1),
        (Fault::OldHttp, Answered, 1),
        (Fault::Gzip, Answered, 1),
        (Fault::ByteOrderMark, Answered, 1),
        (Fault::KeepAlive, Answered, 1),
        (Fault::NoDone, Answered, 1),
        (Fault::UsageLast, Answered, 1),
        (Fault::HeldOpen, Answered, 1),
        (Fault::CutAtEnd, Answered, 1),
        (Fault::NoStream, Answered, 1),
    ];
    passes.into_iter().chain(stays).chain(others).collect()
}

/// Returns what a turn came to; an error that is no error of ours, or says more than it may, is a
/// fault.
fn came(outcome: Result<String>) -> Comes {
    let Err(error) = outcome else { return Comes::Answered };
    let told = format!("{error} {error:?}");
    for secret in ["Question", "sk-stub", "127.0.0.1:9", "Not now", "terse"] {
        assert!(!told.contains(secret), "{told}");
    }
    match kind(&error) {
        ErrorKind::Refused { status: Some(status), .. } => Comes::Refused(status),
        ErrorKind::Unanswered { .. } => Comes::Unanswered,
        ErrorKind::Unfinished => Comes::Unfinished,
        ErrorKind::Codec => Comes::Codec,
        other => panic!("{other:?}: {error}"),
    }
}

/// A conversation with two tools; one of them must not run twice.
fn conversation(model: Transport, memory: &Arc<DefaultChatMemory>) -> Chat {
    let prompt = prompt(memory).window(Window::all()).system("You are terse.");
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let look = Tool::new("look", "Looks.").parameters(schema.clone()).repeatable();
    over(prompt, model)
        .tool(look, |it: Value| Ok(format!("sunny in {}", it["city"])))
        .tool(Tool::new("book", "Books.").parameters(schema), |_: Value| Ok("booked"))
}

/// What is shown of the answer to a question, and what that comes to.
fn streamed(chat: &Chat) -> (String, Result<Done>) {
    let mut shown = String::new();
    let said = chat.stream("Question", |event| {
        if let Event::Text(piece) = event {
            shown += &piece;
        }
    });
    (shown, said)
}

fn stored(memory: &Arc<DefaultChatMemory>) -> Vec<Message> {
    memory.all().unwrap().iter().map(|record| record.message().clone()).collect()
}

fn calls() -> Step {
    let city = json!({"city": "Oslo, the \"capital\" of Norway"});
    Step::calls(&[("look", city.clone()), ("book", city)])
}

fn after_each_fault_the_next_turn_works(provider: Provider, stream: bool) {
    let stub = Stub::start();
    let memory = Arc::new(DefaultChatMemory::new());
    let model = if stream { to(&stub, provider) } else { to(&stub, provider).no_stream() };
    let chat = conversation(model, &memory);

    stub.then([calls(), Step::says("All is done.")]);
    let done = chat.say("Book a room.").unwrap();
    assert_eq!(done.text(), "All is done.");
    assert_eq!(done.usage.output, Some(6), "two answers of three tokens each");
    assert_eq!(stored(&memory).len(), 5);

    for (i, (fault, comes, requests)) in faults().into_iter().enumerate() {
        let case = format!("{provider} {stream} {fault:?}");
        let before = stored(&memory);
        stub.asked();
        stub.then(vec![Step::from(fault.clone()); requests]);
        let question = format!("Question {i}");
        let outcome = came(chat.say(question.as_str()).map(|done| done.text()));
        assert!(
            outcome == comes || (comes == Comes::Fails && outcome != Comes::Answered),
            "{case}: {outcome:?}"
        );
        let asked = stub.asked();
        assert_eq!(asked.len(), requests, "{case}");
        // Sent again, it is the same.
        assert!(asked.iter().all(|it| it.body == asked[0].body), "{case}");
        let after = stored(&memory);
        if outcome == Comes::Answered {
            let texts: Vec<_> = after[before.len()..].iter().map(Message::text).collect();
            assert_eq!(texts, [question.as_str(), "This is what the model says."], "{case}");
        } else {
            assert_eq!(after, before, "{case}");
        }

        stub.then([Step::says("Well.")]);
        assert_eq!(chat.say("And now?").unwrap().text(), "Well.", "{case}");
        let asked = stub.asked();
        let found = wrong(provider, &asked[0].body);
        assert!(found.is_empty(), "{case}: {found:?}");
        let is_known = asked[0].body.to_string().contains(&question);
        assert_eq!(is_known, outcome == Comes::Answered, "{case}");
        assert_eq!(stored(&memory).len(), after.len() + 2, "{case}");
    }

    // In the middle of a turn whose tools have run: what happened stays.
    for fault in [Fault::Status(400, vec![]), Fault::Cut(0.5), Fault::CutBefore, Fault::Garbage] {
        let case = format!("{provider} {stream} {fault:?} in a tool loop");
        let before = stored(&memory).len();
        stub.asked();
        stub.then([calls(), fault.into()]);
        chat.say("Book another one.").unwrap_err();
        stub.then([Step::says("It is booked.")]);
        chat.say("Did you?").unwrap();
        let asked = stub.asked();
        let last = &asked.last().unwrap().body;
        let found = wrong(provider, last);
        assert!(found.is_empty(), "{case}: {found:?}");
        assert!(last.to_string().matches("booked").count() > 1, "{case}: {last:#}");
        assert!(stored(&memory).len() > before + 3, "{case}");
    }
}

#[test]
fn after_each_fault_the_memory_is_whole_and_the_next_turn_works() {
    let mut running = Vec::new();
    for provider in PROTOCOLS {
        for stream in [true, false] {
            let run = move || after_each_fault_the_next_turn_works(provider, stream);
            running.push(thread::spawn(run));
        }
    }
    for one in running {
        one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

/// Errors in bodies of status 200 are errors, and those that pass are asked again.
#[test]
fn an_error_in_an_answers_place_is_an_error() {
    for provider in PROTOCOLS {
        let stub = Stub::start();
        let model = to(&stub, provider).retries(1);
        let chat = chat(model);
        stub.then([Fault::ErrorWith200, Fault::None]);
        let outcome = chat.say("hi");
        if provider == Provider::Ollama {
            // It says what went wrong in words alone.
            let error = outcome.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error}");
        } else {
            assert_eq!(outcome.unwrap().text(), "This is what the model says.", "{provider}");
            assert_eq!(stub.asked().len(), 2);
        }
    }
}

/// What a broken answer said may be kept instead, marked as interrupted.
#[test]
fn a_broken_answer_is_kept_where_asked() {
    for provider in PROTOCOLS {
        let stub = Stub::start();
        for fault in [Fault::Cut(0.6), Fault::Stall(0.6), Fault::EndsEarly] {
            let memory = Arc::new(DefaultChatMemory::new());
            let chat = conversation(to(&stub, provider).keep_broken(), &memory);
            stub.then([fault]);
            let (shown, said) = streamed(&chat);
            said.unwrap();
            let stored = stored(&memory);
            assert!(!shown.is_empty() && stored[1].text() == shown, "{provider}: {shown:?}");
            assert!("This is what the model says.".starts_with(&shown));
            stub.then([Step::says("Go on.")]);
            chat.say("And?").unwrap();
            assert!(wrong(provider, &stub.asked()[1].body).is_empty());
        }
    }
}

/// At whichever byte a stream breaks, the answer is whole or it has failed: what was shown is a
/// beginning of it, and is stored where it is to be kept.
#[test]
fn a_stream_that_breaks_at_any_byte_is_whole_or_has_failed() {
    let whole = "This is what the model says.";
    let step = 8 / usize::try_from(cases(8)).unwrap().clamp(1, 8); // each byte where all are tried
    let broken = |provider: Provider| {
        let stub = Stub::start();
        stub.then([Fault::None]);
        let model = to(&stub, provider).retries(0);
        chat(model.clone()).say("hi").unwrap();
        let mut was_whole = false;
        for at in (0..=stub.planned() + 100).step_by(step) {
            let keeps = at / step % 2 == 1;
            let memory = Arc::new(DefaultChatMemory::new());
            let model = model.clone();
            let chat = conversation(if keeps { model.keep_broken() } else { model }, &memory);
            stub.then([Fault::CutAt(at)]);
            let (shown, said) = streamed(&chat);
            let (case, stored) = (format!("{provider} at {at}: {shown:?}"), stored(&memory));
            assert!(whole.starts_with(&shown), "{case}");
            let ended = said.map(|done| done.ended);
            let is_whole = ended.as_ref().is_ok_and(|ended| *ended == Ended::Answered);
            assert!(is_whole || !was_whole, "{case}: it was whole with a byte less");
            was_whole = is_whole;
            match ended {
                Ok(_) => {
                    assert!(is_whole || (keeps && !shown.is_empty()), "{case}");
                    assert!(!is_whole || shown == whole, "{case}");
                    assert_eq!((stored.len(), &*stored[1].text()), (2, &*shown), "{case}");
                }
                Err(error) => {
                    assert_eq!(kind(&error), ErrorKind::Unfinished, "{case}: {error}");
                    assert!(stored.is_empty() && (!keeps || shown.is_empty()), "{case}");
                }
            }
        }
        assert!(was_whole, "{provider}");
    };
    thread::scope(|scope| {
        for provider in PROTOCOLS {
            scope.spawn(move || broken(provider));
        }
    });
}

/// Anthropic was overloaded in mid-stream. What the user had read was thrown away, though it was to
/// be kept; and what the server said about it could be had nowhere.
#[test]
fn what_was_said_before_an_error_event_is_kept_where_asked() {
    for (behind, keeps) in [(6, true), (6, false), (1, true), (1, false)] {
        let stub = Stub::start();
        let memory = Arc::new(DefaultChatMemory::new());
        let model = to(&stub, Provider::Anthropic).retries(0);
        let chat = conversation(if keeps { model.keep_broken() } else { model }, &memory);
        stub.then([Fault::ErrorEvent(behind)]);
        let (shown, said) = streamed(&chat);
        assert_eq!(!shown.is_empty(), behind == 6, "{shown:?}");
        if keeps && behind == 6 {
            said.unwrap();
            assert_eq!(stored(&memory)[1].text(), shown);
        } else {
            let error = said.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error:?}");
            let said = error.provider_message().unwrap();
            assert!(!said.is_empty());
            assert!(!format!("{error} {error:?}").contains(said), "a decision");
        }
    }
}

/// Some servers tell a failure as the reason to stop. What the user had read was thrown away,
/// though it was to be kept.
#[test]
fn what_was_said_before_a_failure_that_is_a_reason_is_kept_where_asked() {
    const BODY: &str = r#"data: {"choices": [{"delta": {"content": "In Norway"}}]}

data: {"choices": [{"delta": {}, "finish_reason": "network_error"}]}

data: [DONE]

"#;
    for keeps in [true, false] {
        let stub = Stub::start();
        let memory = Arc::new(DefaultChatMemory::new());
        let model = to(&stub, Provider::OpenAiCompatible).retries(0);
        let chat = conversation(if keeps { model.keep_broken() } else { model }, &memory);
        stub.then([Fault::Body(200, BODY)]);
        let (shown, said) = streamed(&chat);
        assert_eq!(shown, "In Norway");
        if keeps {
            said.unwrap();
            assert_eq!(stored(&memory)[1].text(), shown);
        } else {
            let kind = said.unwrap_err().kind();
            assert!(matches!(kind, ErrorKind::Refused { .. }), "{kind:?}");
        }
    }
}

/// A summariser over a transport was refused for ever: its prompt named no provider.
#[test]
fn a_transport_writes_summaries() {
    let stub = Stub::start();
    let prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_messages(2).with_summary();
    prompt.add_all([Message::user("I am Ada."), Message::ai("Hi!"), Message::user("Bye.")]).unwrap();
    let summarizer = ModelSummarizer::new(to(&stub, Provider::OpenAi));
    assert!(prompt.compact(&CompactionPolicy::messages(1, 2).unwrap(), &summarizer).unwrap());
    let summary = prompt.summary().unwrap().unwrap();
    assert_eq!(summary.text, "Out of words."); // of the stub, to a question that it does not know
}

/// Some servers write a reason to stop into each chunk, or into one before the text. Two seconds
/// behind the first of them the answer was given up, and was whole: half of it, or an empty one.
#[test]
fn a_reason_in_each_event_cuts_no_answer() {
    for provider in [Provider::OpenAi, Provider::Gemini] {
        let stub = Stub::start();
        let chat = chat(to(&stub, provider).stall_timeout(Duration::from_secs(60)));
        stub.then([Fault::ReasonInEach(Duration::from_secs(3))]);
        assert_eq!(chat.say("hi").unwrap().text(), "This is what the model says.", "{provider}");
    }
}

/// The time in which an answer begins ended with the head of the response: vLLM sends that at once,
/// and its first event minutes later, when the answer had been given up for a minute's silence.
#[test]
fn a_server_may_think_behind_the_head() {
    for stream in [true, false] {
        let stub = Stub::start();
        let model = to(&stub, Provider::Vllm).first_byte_timeout(Duration::from_secs(60));
        let chat = chat(if stream { model } else { model.no_stream() });
        stub.then([Fault::LateBody(STALL * 2)]);
        assert_eq!(chat.say("hi").unwrap().text(), "This is what the model says.", "{stream}");
    }
}

/// Behind the last event of its format an answer was waited for two seconds more, on a connection
/// that its server held open.
#[test]
fn nothing_is_waited_for_behind_the_last_event() {
    let last = [Provider::Anthropic, Provider::OpenAiResponses, Provider::Ollama];
    for provider in last.into_iter().chain([Provider::OpenAi]) {
        let stub = Stub::start();
        let chat = chat(to(&stub, provider).stall_timeout(Duration::from_secs(60)));
        stub.then([Fault::HeldOpen]);
        let since = Instant::now();
        assert_eq!(chat.say("hi").unwrap().text(), "This is what the model says.");
        let took = since.elapsed();
        assert!(took < Duration::from_millis(1_500), "{provider}: {took:?}");
    }
}

/// A stop waits neither for the server nor for a pause.
#[test]
fn an_answer_is_stopped_while_nothing_comes() {
    let patient = Duration::from_secs(60);
    let waits: [(Step, bool); 3] = [
        (Fault::StallBefore.into(), false),
        (Fault::Stall(0.6).into(), true),
        (Fault::Status(503, vec![("retry-after", "30".to_owned())]).into(), false),
    ];
    for (step, is_said) in waits {
        let stub = Stub::start();
        let memory = Arc::new(DefaultChatMemory::new());
        let model = to(&stub, Provider::OpenAi).stall_timeout(patient).first_byte_timeout(patient);
        let chat = conversation(model, &memory).on_interrupt(OnInterrupt::Keep);
        stub.then([step]);
        let stopper = chat.stopper();
        let (outcome, took) = thread::scope(|scope| {
            let stopping = scope.spawn(|| {
                stub.wait_until_asked();
                thread::sleep(STALL);
                stopper.stop();
                Instant::now()
            });
            let outcome = chat.say("Question");
            (outcome, stopping.join().unwrap().elapsed())
        });
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_eq!(outcome.map(|done| done.messages.len()).unwrap() > 1, is_said);
        stub.then([Step::says("Yes.")]);
        assert_eq!(chat.say("Are you there?").unwrap().text(), "Yes.");
    }
}

/// The pieces of text are told as they come, and are what is stored.
#[test]
fn answers_are_told_as_they_come() {
    for provider in PROTOCOLS {
        let stub = Stub::start();
        let chat = chat(to(&stub, provider));
        stub.then([Step::says("Blåbærsyltetøy, 漢字 and 👩‍👩‍👧.").but(Fault::OddChunks)]);
        let mut pieces = Vec::new();
        let listen = |event| {
            if let Event::Text(piece) = event {
                pieces.push(piece);
            }
        };
        let done = chat.stream("hi", listen).unwrap();
        assert_eq!(pieces.concat(), done.text());
        assert!(pieces.len() > 5, "{provider}: {pieces:?}");
    }
}

/// The words of an error could be had only if they stood in a text of `message`: those of Ollama,
/// xAI and `FastAPI` could not.
#[test]
fn what_a_server_says_of_an_error_can_be_had() {
    let bodies = [
        (404, r#"{"error": "model \"llama9\" not found, try pulling it first"}"#, "not found"),
        (403, r#"{"code": "The caller has no permission", "error": "Your team has none"}"#, "team"),
        (422, r#"{"detail": [{"loc": ["body"], "msg": "Field required"}]}"#, "Field required"),
        (422, r#"{"object": "error", "message": {"detail": [{"msg": "Extra"}]}}"#, "Extra"),
        (404, "404 page not found", "page not found"),
        (403, "error code: 1010", "1010"),
    ];
    for (status, body, said) in bodies {
        let stub = Stub::start();
        stub.then([Fault::Body(status, body)]);
        let error = chat(to(&stub, Provider::OpenAiCompatible)).say("hi").unwrap_err();
        assert!(error.provider_message().is_some_and(|it| it.contains(said)), "{body}");
        assert!(!format!("{error} {error:?}").contains(said), "{error:?}");
    }
}

#[test]
fn an_error_says_what_kind_it_is() {
    let stub = Stub::start();
    let chat = chat(to(&stub, Provider::Anthropic).retries(0));
    let told = |fault: Fault| -> String {
        stub.then([fault]);
        let error: Error = chat.say("hi").unwrap_err();
        error.to_string()
    };
    let overloaded = told(Fault::Status(529, vec![]));
    assert_eq!(overloaded, "ask: the provider answered an error (`overloaded_error`, 529)");
    assert_eq!(told(Fault::Page(502)), "ask: the provider answered an error (502)");
    assert_eq!(told(Fault::Page(200)), "ask: the server answered a page: is its address right?");
    assert_eq!(
        told(Fault::Redirect(308)),
        "ask: the server redirects (308): its address is another"
    );
    assert_eq!(told(Fault::Stall(0.5)), "ask: the answer stopped coming");
    assert_eq!(told(Fault::Cut(0.5)), "ask: the answer broke off");
    assert_eq!(told(Fault::CutBefore), "ask: the connection broke");
    assert_eq!(told(Fault::StallBefore), "ask: no answer began in time");
    assert_eq!(told(Fault::Empty), "ask: the server answered nothing");
}

/// The body of an error was read for as long as each piece of it came in time: a server that sent a
/// few bytes now and then held its caller for an hour.
#[test]
fn an_error_that_never_ends_is_one_at_once() {
    let fewest = fewest_of_three(|| {
        let stub = Stub::start();
        stub.then([Fault::Drip(503)]);
        let error = chat(to(&stub, Provider::OpenAi).retries(0)).say("Question").unwrap_err();
        assert!(matches!(kind(&error), ErrorKind::Refused { status: Some(503), .. }), "{error}");
    });
    assert!(fewest < STALL * 4, "{fewest:?}");
}

/// The least time that this takes: a busy machine may stand still once, and what is waited for is
/// waited for each time.
fn fewest_of_three(what: impl Fn()) -> Duration {
    let take = |_| {
        let since = Instant::now();
        what();
        since.elapsed()
    };
    (0..3).map(take).min().unwrap()
}

/// A server that said every second that it still works, and nothing else, held thread and turn for
/// as long as it liked: each comment began the time for the next piece again.
#[test]
fn the_whole_of_an_answer_may_have_a_limit() {
    let total = Duration::from_secs(2);
    let late = vec![("retry-after", "3".to_owned())];
    let limited = |kind| {
        let ErrorKind::Refused { code: Some(code), status: Some(429), retryable: true } = kind
        else {
            return false;
        };
        code == "rate_limit_exceeded"
    };
    let cases: [(Fault, Expected); 3] = [
        (Fault::Drip(200), |kind| kind == ErrorKind::Unfinished),
        (Fault::StallBefore, |kind| kind == ErrorKind::Unanswered { sent: true }),
        (Fault::Status(429, late), limited),
    ];
    for (fault, comes) in cases {
        let fewest = fewest_of_three(|| {
            let stub = Stub::start();
            stub.then([fault.clone(), Fault::None]);
            let model = to(&stub, Provider::OpenAi).repeat_unanswered().total_timeout(total);
            let error = chat(model).say("Question").unwrap_err();
            assert!(comes(kind(&error)), "{error}");
            assert_eq!(stub.asked().len(), 1, "{fault:?}");
        });
        assert!(fewest < total * 2, "{fault:?}: {fewest:?}");
    }
    // The time is that of one answer, and what came of it can be kept.
    let stub = Stub::start();
    let patient = Duration::from_secs(30);
    let model = to(&stub, Provider::OpenAi).stall_timeout(patient).total_timeout(total);
    let chat = chat(model.keep_broken());
    stub.then([Fault::None, Fault::Stall(0.6)]);
    assert_eq!(chat.say("Question").unwrap().text(), "This is what the model says.");
    let since = Instant::now();
    let done = chat.say("Question").unwrap();
    assert!(done.text().starts_with("This is"), "{}", done.text());
    assert!(since.elapsed() < patient / 2, "{:?}", since.elapsed());
}
