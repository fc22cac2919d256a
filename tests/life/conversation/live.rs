//! Turns whose events others follow, while they run and once they are stored.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

use memory_prompt::conversation::{Action, Follower, Live, Telling, Told};
use memory_prompt::memory::MemoryId;
use memory_prompt::message::{AiMessage, AiPart};
use memory_prompt::turn::Done;
use serde_json::Value;

use super::either::{BOTH, Either, does};
use super::faults::polled;
use super::late_async::Woken;
use super::*;

type Memory = Arc<DefaultChatMemory>;
type Answer = Arc<dyn Fn(&Asking<'_>) -> Result<Reply, ModelError> + Send + Sync>;

/// A conversation with a model that gives these answers.
fn chat(is_async: bool, memory: &Memory, answer: Answer) -> Either {
    let chat = Either::by(is_async, memory, move |ask| answer(ask));
    chat.tool(Tool::new("book", "Books."), |_| Ok("booked".to_owned()))
}

fn silent(is_async: bool, memory: &Memory) -> Either {
    chat(is_async, memory, Arc::new(|_| Err("it is asked".into())))
}

fn tell(ask: &Asking<'_>, pieces: &[&str]) -> Result<String, ModelError> {
    pieces.iter().try_for_each(|piece| ask.tell(Event::Text((*piece).to_owned())))?;
    Ok(pieces.concat())
}

impl Either {
    fn tell(&self, telling: Telling) -> Result<Done> {
        does!(self, it => it.tell(telling))
    }

    fn follow(&self, live: &Live, of: &str, last: Option<&str>) -> Option<Follower> {
        let of = MemoryId::from(of);
        does!(self, it => it.follow(live, &of, last)).unwrap()
    }
}

fn said(told: &[Told]) -> String {
    told.iter().filter(|it| it.name == "text").map(|it| it.data.as_str().unwrap()).collect()
}

/// A follower that comes back after any event gets each later one, and none twice: while the turn
/// runs, and once it is stored.
#[test]
fn each_event_is_told_once_wherever_the_connection_breaks() {
    for is_async in BOTH {
        let (live, memory) = (Live::new(), Memory::default());
        let followers: Arc<Mutex<Vec<Follower>>> = Arc::default();
        let answer = {
            let (live, memory, followers) = (live.clone(), memory.clone(), followers.clone());
            move |ask: &Asking<'_>| {
                let mut heard = live.turns().pop().unwrap();
                // A turn of somebody else, and one of Ada's that is not the newest.
                assert!(silent(is_async, &memory).follow(&live, "bob", None).is_none());
                let reply = if ask.prompt().iter().last().unwrap().is_tool() {
                    Reply::from(tell(ask, &["It is ", "böoked", "."])?)
                } else {
                    tell(ask, &["Just ", "", "a moment. "])?;
                    let call = ToolCall::new("c", "book", "{}");
                    AiMessage::from_parts(["Just a moment. ".into(), AiPart::from(call)]).into()
                };
                // All that was told so far, and then behind each of it.
                let mut told = vec![heard.next().unwrap()];
                while said(&told).len() < said_so_far(ask) {
                    told.push(heard.next().unwrap());
                }
                for it in &told {
                    let behind = silent(is_async, &memory).follow(&live, "ada", Some(&it.id));
                    followers.lock().unwrap().push(behind.unwrap());
                }
                Ok(reply)
            }
        };
        let chat = chat(is_async, &memory, Arc::new(answer));
        let turn = live.begin("ada", Turn::from("Book it.").with_id("a.1"));
        let all = turn.follow();
        let done = chat.tell(turn).unwrap();
        let all: Vec<Told> = all.collect();
        let names: Vec<_> = all.iter().map(|it| it.name).collect();
        assert_eq!(names, ["question", "text", "text", "text", "text", "text", "done"]);
        assert_eq!((&all[0].data, &*all[0].id), (&json!("Book it."), "a.1.0.0"));
        assert_eq!(said(&all), "Just a moment. It is böoked.");
        assert_eq!(all[6].data, json!({"ended": "answered", "usage": done.usage}));
        let bytes = |it: &Told| it.id.split('.').nth(2).unwrap().parse::<usize>().unwrap();
        assert!(all.is_sorted_by(|a, b| bytes(a) < bytes(b)), "{all:?}");

        let followers = std::mem::take(&mut *followers.lock().unwrap());
        assert_eq!(followers.len(), 3 + 6);
        for (behind, seen) in followers.into_iter().zip([0, 1, 2, 0, 1, 2, 3, 4, 5]) {
            assert_eq!(behind.collect::<Vec<_>>(), all[seen + 1..]);
        }
        assert!(live.turns().is_empty());
        assert!(chat.follow(&live, "ada", None).is_none());
        for (seen, last) in all.iter().enumerate() {
            let rest = chat.follow(&live, "ada", Some(&last.id));
            let rest: Vec<_> = rest.into_iter().flatten().collect();
            let whole = [&all[..=seen], &rest].concat();
            assert_eq!(said(&whole), said(&all));
            assert_eq!(whole.last().unwrap().id, all[6].id);
            assert_eq!(whole.iter().filter(|it| it.name == "done").count(), 1);
        }
        for unknown in
            ["", "a.1", "a.1.", "a.1.x.0", "a.1.99", "a.1.0", "b.0.0", "a.1.18446744073709551616.0"]
        {
            assert!(chat.follow(&live, "ada", Some(unknown)).is_none(), "{unknown}");
        }
    }
}

/// The bytes of text that the model of that test has sent by the end of its answer.
fn said_so_far(ask: &Asking<'_>) -> usize {
    if ask.prompt().iter().last().unwrap().is_tool() { 29 } else { 15 }
}

/// A page was reloaded in the middle of what a turn had said before another process adopted it. The
/// page got the reply that there is nothing to follow, though the turn ran.
#[test]
fn who_comes_back_in_the_middle_of_what_an_adopted_turn_had_said_is_told_the_rest() {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let call = ToolCall::new("c", "pay", "{}");
    let asks = AiMessage::from_parts(["Shäll I pay? ".into(), AiPart::from(call)]);
    let chat = Conversation::new(prompt, move |ask: &Asking<'_>| {
        tell(ask, &["Sh", "äll I ", "pay? "]).map(|_| Reply::from(asks.clone()))
    });
    let chat = chat.tool(Tool::new("pay", "Pays.").needing_approval(), |()| Ok("paid"));
    let turn = Live::new().begin("ada", "Pay.");
    let follower = turn.follow();
    chat.tell(turn).unwrap();
    let told: Vec<_> = follower.collect();
    assert_eq!(told.len(), 5);

    let (live, ada) = (Live::new(), MemoryId::from("ada"));
    let adopted = chat.prompt().adopt(&chat.prompt().unfinished().unwrap()[0]).unwrap();
    let running = live.begin("ada", adopted);
    let rests: Vec<_> = told.iter().map(|it| chat.follow(&live, &ada, Some(&it.id))).collect();
    drop(running);
    for (seen, rest) in rests.into_iter().enumerate() {
        let rest: Vec<_> = rest.unwrap().unwrap().collect();
        assert_eq!(said(&[&told[..=seen], &rest].concat()), "Shäll I pay? ");
        assert!(rest.iter().all(|it| it.name == "text"));
    }
}

/// A process died in the middle of an answer, and nothing of it was stored. The page repeated the
/// request at another process, whose model said something else: it showed one half of each answer.
#[test]
fn two_answers_are_not_told_as_one() {
    for is_async in BOTH {
        let memory = Memory::default();
        let request = || Turn::from("Where is Oslo?").with_id("r1");
        let dies = Live::new();
        let turn = dies.begin("ada", request());
        let mut tab = turn.follow();
        let sweden = |ask: &Asking<'_>| Err(tell(ask, &["In Swe", "den."]).unwrap().into());
        chat(is_async, &memory, Arc::new(sweden)).tell(turn).unwrap_err();
        let seen: Vec<_> = std::iter::from_fn(|| tab.next()).take(3).collect();
        assert_eq!(said(&seen), "In Sweden.");

        let live = Live::new();
        let turn = live.begin("ada", request());
        let chat = chat(is_async, &memory, Arc::new(|_| Ok("It is in Norway.".into())));
        let follow = |last: &str| chat.follow(&live, "ada", Some(last));
        let running: Vec<_> = seen.iter().map(|it| follow(&it.id).unwrap()).collect();
        chat.tell(turn).unwrap();
        let stored: Vec<_> = seen.iter().map(|it| follow(&it.id).unwrap()).collect();
        for followers in [running, stored] {
            for (follower, seen) in followers.into_iter().zip(["question", "text", "text"]) {
                let rest: Vec<_> = follower.collect();
                assert_eq!(said(&rest), "It is in Norway.");
                // What was seen is drawn anew, unless that was the question alone.
                assert_eq!(rest[0].name, if seen == "text" { "question" } else { "text" });
                let last = &rest.last().unwrap().id;
                assert!(follow(last).is_none(), "all was seen");
            }
        }
    }
}

/// What failed, or was not run to its end, ends for its followers too, without any event.
#[test]
fn a_turn_that_comes_to_nothing_ends_for_its_followers() {
    for is_async in BOTH {
        let (live, memory) = (Live::new(), Memory::default());
        let turn = live.begin("ada", "Hi.");
        let (follower, id) = (turn.follow(), turn.follow().next().unwrap().id);
        silent(is_async, &memory).tell(turn).unwrap_err();
        assert!(!follower.begins());
        assert_eq!(polled(follower.begins_async(), 1), Some(false));
        let told: Vec<_> = follower.collect();
        assert_eq!((told.len(), told[1].name), (2, "error"));
        assert_eq!(told[1].data, "say: the model failed");
        let tab = silent(is_async, &memory);
        assert!(tab.follow(&live, "ada", Some(&id)).is_none() && live.turns().is_empty());

        let panics = chat(is_async, &memory, Arc::new(|_| panic!("as planned")));
        let turn = live.begin("ada", "Hi.");
        let follower = turn.follow();
        catch_unwind(AssertUnwindSafe(|| panics.tell(turn))).unwrap_err();
        assert!(!follower.begins());
        assert_eq!((follower.count(), live.turns().len()), (1, 0));

        let turn = live.begin("ada", "Hi.");
        let follower = turn.follow();
        drop(turn); // a future of it too
        assert_eq!((follower.count(), live.turns().len()), (1, 0));
    }
}

/// How a turn ended is not stored, but an answer that broke off says so.
#[test]
fn a_stored_answer_that_broke_off_is_told_as_one() {
    for is_async in BOTH {
        let (live, memory) = (Live::new(), Memory::default());
        let breaks = |ask: &Asking<'_>| Ok(stopped(tell(ask, &["Half ", "an"])?, Stop::Broken));
        let chat = chat(is_async, &memory, Arc::new(breaks));
        let turn = live.begin("ada", "Hi.");
        let follower = turn.follow();
        chat.tell(turn).unwrap();
        let told: Vec<_> = follower.collect();
        let stored = chat.follow(&live, "ada", Some(&told[1].id)).unwrap();
        let ended = |it: &Told| it.data["ended"].clone();
        assert_eq!((ended(&told[3]), said(&told)), ("interrupted".into(), "Half an".to_owned()));
        let rest: Vec<_> = stored.collect();
        assert_eq!((said(&rest), ended(&rest[1])), ("an".to_owned(), "interrupted".into()));
    }
}

/// A refusal is stored, but was not sent to followers: a follower that came back after the end got
/// it without its beginning.
#[test]
fn a_refusal_is_told_as_it_is_stored() {
    for is_async in BOTH {
        let (live, memory) = (Live::new(), Memory::default());
        let refuses = |ask: &Asking<'_>| {
            ask.tell(Event::Refusal("I can't help.".into()))?;
            Ok("I can't help.".into())
        };
        let chat = chat(is_async, &memory, Arc::new(refuses));
        let turn = live.begin("ada", "Hi.");
        let follower = turn.follow();
        chat.tell(turn).unwrap();
        let told: Vec<_> = follower.collect();
        assert_eq!(said(&told), "I can't help.");
        assert!(chat.follow(&live, "ada", Some(&told.last().unwrap().id)).is_none());
    }
}

/// The end of a pending turn counted as a byte of its text, so what it said after the approval
/// lacked its first byte. On a repeat, only its question was sent.
#[test]
fn a_turn_that_waited_is_told_on() {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let call = ToolCall::new("c", "pay", "{}");
    let asks = AiMessage::from_parts(["Shall I? ".into(), AiPart::from(call)]);
    let model = Scripted::new().says(asks).says("Üm, it is paid.");
    let chat = Conversation::new(prompt, model)
        .tool(Tool::new("pay", "Pays.").needing_approval(), |()| Ok("paid"));
    let (live, ada) = (Live::new(), MemoryId::from("ada"));
    let request = || Turn::from("Pay.").with_id("r1");
    let turn = live.begin("ada", request());
    let follower = turn.follow();
    let parked = chat.tell(turn).unwrap();
    let told: Vec<_> = follower.collect();
    let end = told.last().unwrap();
    assert_eq!((end.name, &end.data["ended"]), ("done", &json!("parked")));
    // Who asks once more is told what was said: the rest begins behind that.
    let again = live.begin("ada", request());
    let follower = again.follow();
    chat.tell(again).unwrap();
    assert_eq!(said(&follower.collect::<Vec<_>>()), "Shall I? ");

    let unfinished = chat.prompt().unfinished().unwrap();
    let adopted = chat.prompt().adopt(&unfinished[0]).unwrap();
    let anew = live.begin("ada", adopted);
    let follower = anew.follow();
    drop(anew);
    let told_anew: Vec<_> = follower.map(|it| (it.name, it.data)).collect();
    assert_eq!(told_anew, [("question", json!("Pay.")), ("text", json!("Shall I? "))]);

    drop(parked);
    chat.approve(&chat.waiting().unwrap()[0]).unwrap();
    let rest: Vec<_> = chat.follow(&live, &ada, Some(&end.id)).unwrap().unwrap().collect();
    assert_eq!((said(&rest), rest[1].name), ("Üm, it is paid.".to_owned(), "done"));
}

/// A thread and a task that wait for the next event are woken by it, and by the end.
#[test]
fn who_waits_is_woken() {
    let (live, memory) = (Live::new(), Memory::default());
    let turn = live.begin("ada", "Hi.");
    let (waits, mut task) = (turn.follow(), turn.follow());
    let thread =
        thread::spawn(move || (waits.begins(), waits.map(|it| it.name).collect::<Vec<_>>()));
    assert_eq!(polled(task.next_async(), 1).unwrap().unwrap().name, "question");
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    {
        let mut next = Box::pin(task.next_async());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(woken.times(), 0);
        chat(false, &memory, Arc::new(|_| Ok("Hello.".into()))).tell(turn).unwrap();
        assert!(woken.times() > 0);
        let Poll::Ready(told) = next.as_mut().poll(&mut Context::from_waker(&waker)) else {
            panic!("nothing was told")
        };
        assert_eq!(told.unwrap().data, "Hello.");
    }
    assert_eq!(thread.join().unwrap(), (true, vec!["question", "text", "done"]));
    let mut other = Box::pin(live.begin("ada", "Hi.").follow());
    assert_eq!(other.by_ref().count(), 1);
    assert_eq!(polled(other.next_async(), 1), Some(None));
}

/// No `Debug` output contains what is said.
#[test]
fn no_text_is_in_debug() {
    let live = Live::new();
    let turn = live.begin("ada", "a secret");
    let told = turn.follow().next().unwrap();
    for text in [format!("{live:?}"), format!("{turn:?}"), format!("{told:?}")] {
        assert!(!text.contains("a secret"), "{text}");
    }
}

/// A page sent a blank question, which providers refuse; each service had to check for that.
#[test]
fn a_blank_is_no_question() {
    for is_async in BOTH {
        let memory = Memory::default();
        memory.add(Message::user("Hi.")).unwrap();
        let chat = silent(is_async, &memory);
        for action in [Action::Say(" \n".into()), Action::Edit(0, String::new())] {
            let refused = does!(&chat, it => it.act(action)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            assert_eq!(refused.to_string(), "act: there is no question");
        }
    }
}

/// A page is all that a browser needs; its times are RFC 3339's, and unknown ones `null`.
#[test]
fn a_page_is_json() {
    let chat = Conversation::new(
        MemoryPrompt::new(DefaultChatMemory::new()).with_branches().system("Be brief."),
        Scripted::new().says("In Sweden.").says("In Norway."),
    );
    chat.say("Where is Oslo?").unwrap();
    chat.regenerate().unwrap();
    let page = chat.page(None, 10).unwrap();
    let shown = serde_json::to_value(&page).unwrap();
    assert_eq!(shown["branch"], serde_json::to_value(page.branch).unwrap());
    assert_eq!(shown["positions"], json!({"start": 0, "end": 2}));
    let entry = &shown["entries"][0];
    assert_eq!(entry["message"], json!({"role": "assistant", "content": "In Norway."}));
    assert_eq!((&entry["variant"], &entry["variants"]), (&json!(2), &json!(2)));
    assert_eq!(entry["branches"].as_array().map(Vec::len), Some(2));
    let at = entry["at"].as_str().unwrap();
    assert!(at.len() == 24 && at.ends_with('Z'), "{at}");
    let mut unknown = page.entries[0].clone();
    unknown.at = std::time::UNIX_EPOCH;
    assert_eq!(serde_json::to_value(&unknown).unwrap()["at"], Value::Null);
}
