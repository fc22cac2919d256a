//! What a conversation sent, seen from outside.

use memory_prompt::report::Fate;
use memory_prompt::turn::Done;
use memory_prompt::{Prompt, Recall};

use super::*;

type Shown = Arc<Mutex<Vec<Prompt>>>;

fn show(shown: &Shown) -> impl Fn(&Prompt) + Send + Sync + 'static {
    let shown = Arc::clone(shown);
    move |prompt| shown.lock().unwrap().push(prompt.clone())
}

fn check(shown: &Shown, done: &Done) {
    let shown = shown.lock().unwrap();
    assert_eq!(done.prompt(), shown.last());
    assert_eq!(done.report(), shown.last().map(Prompt::report));
    let sent: Vec<_> = shown.iter().map(Prompt::len).collect();
    assert_eq!(sent, [1, 3, 5]);
    assert!((0..5).all(|position| shown[2].fate(position) == Fate::Sent));
    assert!(shown[2].outline().to_string().contains("user, position 0"), "{}", shown[2].outline());
}

fn model() -> Scripted {
    Scripted::new().calls("look", json!({})).calls("look", json!({})).says("Nothing.")
}

/// To see why a model had forgotten its task, one has to see what it was sent: a turn of a
/// conversation showed none of its prompts.
#[test]
fn each_prompt_of_a_turn_is_shown() {
    let shown = Shown::default();
    let conversation = Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model())
        .tool(Tool::new("look", "Looks."), nothing)
        .on_prompt(show(&shown));
    let done = conversation.say("What is there?").unwrap();
    check(&shown, &done);
}

#[cfg(all(feature = "async", feature = "tokio"))]
#[test]
fn each_prompt_of_an_async_turn_is_shown() {
    let shown = Shown::default();
    let memory = memory_prompt::adapt::ToAsync::new(DefaultChatMemory::new());
    let conversation = Conversation::new_async(MemoryPrompt::new_async(memory), model())
        .tool(Tool::new("look", "Looks."), nothing)
        .on_prompt(show(&shown));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let done = runtime.block_on(conversation.say("What is there?")).unwrap();
    check(&shown, &done);
}

/// The receiver of an answer could not see the prompt of that answer, unless it had listened
/// before.
#[test]
fn a_turn_that_is_done_has_its_last_prompt() {
    for (question, fate) in [("Which kittens?", "quoted"), ("Tractors", "before the window")] {
        let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_messages(2);
        prompt.add_all(["Ada has kittens.", "Hello."].map(Message::user)).unwrap();
        prompt.set_recall(Recall::words());
        let mut turn = prompt.turn(Message::user(question));
        let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!("it does not ask") };
        turn.answer("Nothing.").unwrap();
        let Next::Done(done) = turn.next(&prompt).unwrap() else { panic!("it is not over") };
        assert_eq!(done.prompt(), Some(ask.prompt()));
        let report = done.report().unwrap();
        assert_eq!(report.recalled.is_empty(), report.nothing_recalled.is_some());
        assert_eq!(done.prompt().unwrap().fate(0).word(), fate, "{report}");
    }
}

/// A turn in which no model was asked has no prompt, and none is made up.
#[test]
fn a_turn_that_asked_nobody_has_no_prompt() {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let mut turn = prompt.turn(Message::user("What is there?"));
    turn.interrupt(OnInterrupt::Keep);
    let Next::Done(done) = turn.next(&prompt).unwrap() else { panic!("it is not over") };
    assert!(done.report().is_none() && done.prompt().is_none());

    // The same request comes again, and is answered already.
    let conversation = Conversation::new(prompt, Scripted::new().says("Nothing."));
    let ask = || conversation.say(Turn::new("And now?").with_id("r1")).unwrap();
    assert!(ask().report().is_some());
    let again = ask();
    assert_eq!((again.text(), again.report()), ("Nothing.".to_owned(), None));
}
