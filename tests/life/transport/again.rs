//! What is sent again, when, and what never is.

use std::net::SocketAddr;
use std::thread;
use std::time::{Instant, SystemTime};

use memory_prompt::ErrorKind;
use memory_prompt::transport::RetryAfter;

use super::*;
use crate::port::free_port;
use crate::stub::{Fault, Step};

/// The time between each request and the next.
fn pauses(stub: &Stub) -> Vec<Duration> {
    let asked = stub.asked();
    asked.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
}

#[test]
fn pauses_grow_where_the_server_names_none() {
    let stub = Stub::start();
    let chat = chat(to(&stub, Provider::OpenAi));
    stub.then([Fault::Status(429, vec![]), Fault::Status(500, vec![]), Fault::None]);
    chat.say("hi").unwrap();
    let pauses = pauses(&stub);
    assert!(pauses[0] >= Duration::from_millis(375), "{pauses:?}");
    assert!(pauses[1] >= Duration::from_millis(750), "{pauses:?}");
}

#[test]
fn the_server_says_when_to_come_back() {
    let stub = Stub::start();
    let chat = chat(to(&stub, Provider::Anthropic));
    stub.then([Fault::Status(429, vec![("retry-after", "1".to_owned())]), Fault::None]);
    chat.say("hi").unwrap();
    let seconds = pauses(&stub)[0];
    assert!(seconds >= Duration::from_secs(1), "{seconds:?}");

    // A date has whole seconds, so three seconds from now are more than two.
    let at = SystemTime::now() + Duration::from_secs(3);
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let (days, rest) = (since / 86_400, since % 86_400);
    let (year, month, day) = calendar(days);
    let month =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][month];
    let date = format!(
        "Mon, {day:02} {month} {year} {:02}:{:02}:{:02} GMT",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    );
    stub.then([Fault::Status(503, vec![("retry-after", date)]), Fault::None]);
    chat.say("hi").unwrap();
    // However long it took until the server said so.
    let again = SystemTime::now() - stub.asked()[1].at.elapsed();
    let again = again.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert!(again >= Duration::from_secs(since), "{again:?} is before {since}");
    assert!(again < Duration::from_secs(since + 10), "{again:?} is long after {since}");
}

/// The year, the month from 0 and the day, counted one by one.
fn calendar(mut days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    (year, month, days + 1)
}

#[test]
fn who_is_to_wait_too_long_is_told_so_at_once() {
    let stub = Stub::start();
    let chat = chat(to(&stub, Provider::OpenAi).longest_wait(Duration::from_secs(5)));
    stub.then([Fault::Status(429, vec![("retry-after", "90".to_owned())])]);
    let since = Instant::now();
    let error = chat.say("hi").unwrap_err();
    assert!(since.elapsed() < Duration::from_secs(5));
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.downcast_ref(), Some(&RetryAfter(Duration::from_secs(90))));
    let ErrorKind::Refused { code: Some(code), status: Some(429), retryable: true } = error.kind()
    else {
        panic!("{error:?}")
    };
    assert_eq!(code, "rate_limit_exceeded");
}

/// The pauses of the transport itself counted as if a server had asked for them: nothing was sent
/// again.
#[test]
fn the_longest_wait_is_about_what_a_server_asks() {
    let stub = Stub::start();
    let chat = chat(to(&stub, Provider::OpenAi).longest_wait(Duration::ZERO));
    stub.then([Fault::Status(503, vec![]), Fault::None]);
    chat.say("hi").unwrap();
    assert_eq!(stub.asked().len(), 2);
}

/// Google sends no `retry-after`: the time to wait stands in its error, where nobody looked. It was
/// asked again after half a second and after one, in vain, and its caller was not told.
#[test]
fn google_says_in_its_error_when_to_come_back() {
    let soon = r#"{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.Help"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.500s"}]}}"#;
    let late = r#"[{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s"}]}}]"#;
    for provider in [Provider::Gemini, Provider::OpenAiCompatible] {
        let stub = Stub::start();
        let chat = chat(to(&stub, provider));
        stub.then([Fault::Body(429, soon), Fault::None]);
        chat.say("hi").unwrap();
        let pauses = pauses(&stub);
        assert!(pauses[0] >= Duration::from_millis(1_500), "{provider}: {pauses:?}");

        stub.then([Fault::Body(429, late)]);
        let error = chat.say("hi").unwrap_err();
        assert_eq!(stub.asked().len(), 1, "{provider}");
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.downcast_ref(), Some(&RetryAfter(Duration::from_secs(3600))));
    }
}

/// A `retry-after` of `1e19`, or a date with a second of twenty digits, ended the thread of the
/// caller: no clock counts so far.
#[test]
fn no_header_of_a_server_panics_its_caller() {
    let stub = Stub::start();
    let model = to(&stub, Provider::OpenAi).longest_wait(Duration::MAX);
    let date = "Mon, 01 Jan 2026 00:00:10000000000000000000 GMT";
    stub.then([Fault::Status(503, vec![("retry-after", date.to_owned())]), Fault::None]);
    chat(model.clone()).say("hi").unwrap();
    assert_eq!(stub.asked().len(), 2);

    stub.then([Fault::Status(503, vec![("retry-after", "1e19".to_owned())])]);
    let chat = chat(model);
    let stopper = chat.stopper();
    thread::scope(|scope| {
        let stopping = scope.spawn(|| {
            stub.wait_until_asked();
            thread::sleep(Duration::from_millis(500));
            let at = Instant::now();
            stopper.stop();
            at
        });
        chat.say("hi").map_or_else(drop, |done| assert_eq!(done.text(), ""));
        assert!(Instant::now() >= stopping.join().unwrap(), "it waits until it is stopped");
    });
    assert_eq!(stub.asked().len(), 1);
}

/// `Duration::MAX`, meant as "no limit", panicked on the thread of the request: each of them ended
/// as one that may have been answered.
#[test]
fn times_that_no_clock_can_count_are_no_limit() {
    let stub = Stub::start();
    let model = to(&stub, Provider::OpenAi)
        .connect_timeout(Duration::MAX)
        .first_byte_timeout(Duration::MAX)
        .stall_timeout(Duration::MAX);
    stub.then([Step::says("Yes.")]);
    assert_eq!(chat(model).say("hi").unwrap().text(), "Yes.");
}

/// That the time was up was looked for in the status of a response alone. The same in the body of a
/// 200, or in a stream, was sent again, though it may have been answered and paid.
#[test]
fn a_time_that_was_up_is_one_however_it_is_told() {
    let anthropic = r#"{"type": "error", "error": {"type": "timeout_error", "message": "late"}}"#;
    let event =
        "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"timeout_error\"}}\n\n";
    let gemini = r#"{"error": {"code": 504, "status": "DEADLINE_EXCEEDED"}}"#;
    let gateway = r#"{"error": {"code": 524, "message": "Provider returned error"}}"#;
    for (provider, status, body) in [
        (Provider::Anthropic, 200, anthropic),
        (Provider::Anthropic, 200, event),
        (Provider::Gemini, 200, gemini),
        (Provider::OpenAi, 200, gateway),
        (Provider::Anthropic, 504, anthropic),
        (Provider::Gemini, 503, gemini),
        (Provider::OpenAi, 524, ""),
        (Provider::OpenAi, 520, "<html>520: Web server is returning an unknown error</html>"),
    ] {
        let stub = Stub::start();
        stub.then([Fault::Body(status, body), Fault::None]);
        let error = chat(to(&stub, provider)).say("hi").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error}");
        assert_eq!(stub.asked().len(), 1, "{status} {body}");
        stub.forget();
        stub.then([Fault::Body(status, body), Fault::None]);
        chat(to(&stub, provider).repeat_unanswered()).say("hi").unwrap();
        assert_eq!(stub.asked().len(), 2, "{status} {body}");
    }
}

/// A request that may have been answered is paid twice where it is sent twice.
#[test]
fn what_may_have_been_answered_is_repeated_only_where_allowed() {
    let lost = [Fault::CutBefore, Fault::Cut(0.0), Fault::StallBefore, Fault::Status(504, vec![])];
    for fault in lost {
        let stub = Stub::start();
        stub.then([fault.clone(), Fault::None]);
        let error = chat(to(&stub, Provider::OpenAi)).say("hi").unwrap_err();
        let is_sent = error.kind() == ErrorKind::Unanswered { sent: true };
        assert_eq!(is_sent, matches!(fault, Fault::CutBefore | Fault::StallBefore), "{error}");
        assert_eq!(stub.asked().len(), 1, "{fault:?}");
        stub.forget();
        stub.then([fault.clone(), Fault::None]);
        chat(to(&stub, Provider::OpenAi).repeat_unanswered()).say("hi").unwrap();
        assert_eq!(stub.asked().len(), 2, "{fault:?}");
    }
    // Of which something was shown, not even then.
    let stub = Stub::start();
    stub.then([Fault::Cut(0.6), Fault::None]);
    chat(to(&stub, Provider::OpenAi).repeat_unanswered()).say("hi").unwrap_err();
    assert_eq!(stub.asked().len(), 1);
}

/// It only slept: nobody ever listened, so that a pause without a second try was enough for this
/// test.
#[test]
fn what_was_never_sent_is_sent_again() {
    // Where nobody listens.
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let stub = Stub::start();
    let model = to(&stub, Provider::Ollama).base_url(&format!("http://{address}")).unwrap();
    let error = chat(model.clone().retries(0)).say("hi").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unanswered { sent: false });
    assert_eq!(error.to_string(), "ask: the server can't be reached");
    // Until somebody does: the first try is refused, and a later one is answered.
    let listening = thread::spawn(move || {
        thread::sleep(Duration::from_secs(1)); // so that the first try has been made
        Stub::at(address)
    });
    let since = Instant::now();
    let said = chat(model.retries(3)).say("hi");
    assert!(since.elapsed() >= Duration::from_millis(375), "it tried again after a pause");
    let late = listening.join().unwrap();
    assert_eq!(said.unwrap().text(), "Out of words.");
    assert_eq!(late.asked().len(), 1, "it was sent once");
    assert_eq!(stub.connections(), 0);
}

/// OpenAI answers 429 if nothing is left to pay with, and some say in a header that it is in
/// vain.
#[test]
fn what_stays_as_it_is_is_not_asked_again() {
    let stub = Stub::start();
    let chat = chat(to(&stub, Provider::OpenAi));
    let quota = r#"{"error": {"type": "insufficient_quota", "code": "insufficient_quota"}}"#;
    for fault in [
        Fault::Body(429, quota),
        Fault::Status(500, vec![("x-should-retry", "false".to_owned())]),
        Fault::Body(422, r#"{"detail": [{"loc": ["body"], "msg": "Field required"}]}"#),
        Fault::Body(400, r#"{"object": "error", "message": "too long", "code": 400}"#),
        Fault::Body(403, "Forbidden"),
        Fault::Body(402, ""),
    ] {
        stub.then([fault]);
        let error = chat.say("hi").unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Refused { status: Some(400..=500), .. }),
            "{error}"
        );
        assert_eq!(stub.asked().len(), 1, "{error}");
    }
}

/// Groq calls a request that is too large a rate limit: it was sent three times, and by whoever
/// obeys `retryable` for ever.
#[test]
fn what_is_too_large_is_not_asked_again() {
    let stub = Stub::start();
    let body = r#"{"error": {"message": "Request too large for model: Limit 6000, Requested 12328",
        "type": "tokens", "code": "rate_limit_exceeded"}}"#;
    stub.then([Fault::Body(413, body)]);
    let error = chat(to(&stub, Provider::OpenAiCompatible)).say("hi").unwrap_err();
    let ErrorKind::Refused { status: Some(413), retryable: false, .. } = error.kind() else {
        panic!("{error:?}")
    };
    assert_eq!(stub.asked().len(), 1);
}

/// Gateways answer in words of their own, with a status that says enough.
#[test]
fn errors_of_gateways_are_asked_again_by_their_status() {
    let stub = Stub::start();
    let chat = chat(to(&stub, Provider::OpenAi).retries(1));
    for (status, body) in [
        (503, "upstream connect error or disconnect/reset before headers"),
        (502, "<html><h1>502 Bad Gateway</h1></html>"),
        (529, ""),
        (500, r#"[{"error": {"code": 500, "status": "INTERNAL"}}]"#),
        (429, r#"{"message": "slow down"}"#),
        (408, "\u{feff}{}"),
    ] {
        stub.then([Fault::Body(status, body), Fault::None]);
        chat.say("hi").unwrap();
        assert_eq!(stub.asked().len(), 2, "{status} {body}");
    }
}

/// An error may come as an event of a stream: as long as nothing was shown, it is one like any
/// other.
#[test]
fn an_error_in_a_stream_is_asked_again_where_nothing_was_shown() {
    // Behind so many events nothing was shown yet.
    let silent = [1, 2, 3, 0, 0];
    for (provider, silent) in PROTOCOLS.into_iter().zip(silent) {
        let stub = Stub::start();
        let chat = chat(to(&stub, provider).retries(1));
        stub.then([Fault::ErrorEvent(silent), Fault::None]);
        let outcome = chat.say("hi");
        // Ollama's errors are words alone, so nobody knows which of them pass.
        assert_eq!(outcome.is_ok(), provider != Provider::Ollama, "{provider}: {outcome:?}");
        stub.forget();
        stub.asked();
        stub.then([Fault::ErrorEvent(7), Fault::None]);
        let error = chat.say("hi").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{provider}: {error}");
        assert_eq!(stub.asked().len(), 1, "{provider}");
    }
}

/// A server closes a connection that was idle, and a turn minutes later must not fail for it.
#[test]
fn connections_are_used_again_and_renewed() {
    let stub = Stub::start();
    let chat = chat(to(&stub, Provider::Anthropic));
    for _ in 0..4 {
        stub.then([Step::says("Yes.")]);
        chat.say("hi").unwrap();
        // An answer is over before its body is: the connection is free a little later.
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(stub.connections(), 1);
    // After this answer the server closes.
    stub.then([Fault::OldHttp]);
    chat.say("hi").unwrap();
    stub.then([Step::says("Yes.")]);
    chat.say("hi").unwrap();
    assert_eq!(stub.connections(), 2);
}
