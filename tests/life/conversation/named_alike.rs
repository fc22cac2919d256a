//! Calls that share an id: the model chooses ids, and some count them from 0 in each answer.

use memory_prompt::turn::Call;

use super::*;

fn calls<const N: usize>(named: [(&str, &str, &str); N]) -> Message {
    Message::ai_calls(named.map(|(id, tool, arguments)| ToolCall::new(id, tool, arguments)))
}

/// What has run: the arguments of each call.
type Ran = Arc<Mutex<Vec<String>>>;

fn conversation(prompt: MemoryPrompt, model: Scripted) -> (Conversation, Ran) {
    let ran = Ran::default();
    let runs = || {
        let ran = Arc::clone(&ran);
        move |call: &Call| {
            ran.lock().unwrap().push(call.arguments().to_owned());
            Ok(format!("did {}", call.arguments()))
        }
    };
    let conversation = Conversation::new(prompt, model)
        .tool_call(Tool::new("sh", "Runs it.").needing_approval(), runs())
        .tool_call(Tool::new("pay", "Pays."), runs());
    (conversation, ran)
}

/// A model called `rm` and `ls` with one id, and somebody approved `ls`: `rm` ran. And if one of
/// them was refused, the other one was refused too.
#[test]
fn only_the_call_that_was_approved_of_runs() {
    for is_first in [false, true] {
        for other in [Approval::Later, Approval::No("no".to_owned())] {
            let (_, prompt) = shared();
            let mut both = [("1", "sh", "rm"), ("1", "sh", "ls")];
            if is_first {
                both.reverse();
            }
            let model = Scripted::new().says(calls(both)).says("Done.");
            let (conversation, ran) = conversation(prompt, model);
            let is_later = other == Approval::Later;
            let conversation = conversation.approve_by(move |call| match call.arguments() {
                "ls" => Approval::Yes,
                _ => other.clone(),
            });
            let done = conversation.say("Tidy up.").unwrap();
            assert_eq!(*ran.lock().unwrap(), ["ls"]);
            assert_eq!(done.ended, if is_later { Ended::Parked } else { Ended::Answered });
        }
    }
}

/// The same by hand, from the slot after a restart.
#[test]
fn after_a_restart_only_the_call_that_was_approved_of_runs() {
    let (memory, prompt) = shared();
    let model = Scripted::new().says(calls([("1", "sh", "rm"), ("1", "sh", "ls")]));
    conversation(prompt, model).0.say("Tidy up.").unwrap();
    let prompt = MemoryPrompt::new(memory);
    let unfinished = prompt.unfinished().unwrap().remove(0);
    let mut turn = prompt.adopt(&unfinished).unwrap();
    let begun = unfinished.calls();
    let ls = begun.iter().find(|it| it.arguments == "ls").unwrap();
    turn.approve(&ls.call_id).unwrap();
    let (conversation, ran) = conversation(prompt, Scripted::new());
    assert_eq!(conversation.run(&mut turn, |_| {}).unwrap().ended, Ended::Parked);
    assert_eq!(*ran.lock().unwrap(), ["ls"]);
}

/// The first call of an id was pending and the second one paid: the result of the payment was
/// refused, as if it were the result of the first, and each run paid again.
#[test]
fn a_call_beside_one_of_its_id_that_waits_keeps_its_result() {
    let (_, prompt) = shared();
    let model = Scripted::new().says(calls([("1", "sh", "rm"), ("1", "pay", "7 EUR")]));
    let (conversation, ran) = conversation(prompt, model);
    let mut turn = Turn::from("Tidy up and pay.");
    for _ in 0..2 {
        assert_eq!(conversation.run(&mut turn, |_| {}).unwrap().ended, Ended::Parked);
    }
    assert_eq!(*ran.lock().unwrap(), ["7 EUR"]);
    let begun = conversation.prompt().unfinished().unwrap()[0].calls();
    assert_eq!(begun[0].result, None);
    assert_eq!(begun[1].result.as_deref(), Some("did 7 EUR"));
}

/// Two payments with one id, in two turns or in two rounds of one, took too long, and the first one
/// ended first: the model got its result as that of the other.
#[test]
fn late_results_of_one_id_go_to_their_own_calls() {
    for is_one_turn in [false, true] {
        for first in ["A", "B"] {
            let (memory, prompt) = shared();
            let say =
                |model: Scripted| if is_one_turn { model } else { model.says("I don't know.") };
            let model = say(Scripted::new().says(calls([("call_0", "pay", "A")])))
                .says(calls([("call_0", "pay", "B")]))
                .says("I don't know.");
            let go = Arc::new((Mutex::new(Vec::<String>::new()), std::sync::Condvar::new()));
            let waits = Arc::clone(&go);
            let conversation = Conversation::new(prompt, model)
                .call_timeout(Duration::from_millis(5))
                .tool_call(Tool::new("pay", "Pays."), move |call| {
                    let (ready, changed) = &*waits;
                    let mut ready = ready.lock().unwrap();
                    while !ready.iter().any(|it| it == call.arguments()) {
                        ready = changed.wait(ready).unwrap();
                    }
                    Ok(format!("paid {}", call.arguments()))
                });
            conversation.say("Pay A.").unwrap();
            if !is_one_turn {
                conversation.say("Pay B.").unwrap();
            }
            let mut come = 0;
            for ends in [first, if first == "A" { "B" } else { "A" }] {
                go.0.lock().unwrap().push(ends.to_owned());
                go.1.notify_all();
                come += 1;
                until(|| {
                    let stored = memory.messages().unwrap();
                    stored.iter().filter(|it| it.text().starts_with("paid")).count() == come
                });
                // Each result stands behind a call of its own arguments.
                let sent = conversation.prompt().preview().unwrap();
                let sent = sent.to_messages();
                for (call, result) in sent.iter().zip(&sent[1..]) {
                    let paid = result.text();
                    let paid = paid.strip_prefix("paid ").filter(|_| result.is_tool());
                    if let Some(paid) = paid {
                        assert_eq!(call.tool_calls().next().unwrap().arguments, paid);
                    }
                }
                let paid = sent.iter().filter(|it| it.text().starts_with("paid")).count();
                assert_eq!(paid, come, "{sent:#?}");
            }
            assert_eq!(conversation.finish(LONG), 0);
        }
    }
}
