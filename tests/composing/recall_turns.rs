//! Recall for a turn, whose question no memory holds yet.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use memory_prompt::conversation::{Conversation, Scripted};
use memory_prompt::memory::Append;
use memory_prompt::token::Estimate;
use memory_prompt::turn::{Ask, Next, Turn};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, MemoryPrompt, Message, Recall, Tool, ToolCall,
    Truncate, Window,
};
use serde_json::json;

const QUESTION: &str = "Which city did my sister move to?";

/// A memory of two messages that fit the question, and thirty that do not.
fn memory() -> Arc<DefaultChatMemory> {
    let memory = DefaultChatMemory::new();
    let fact = Message::user("My sister Ada moved to the city of Oslo.");
    memory.add_all([fact, Message::ai("How does she like it there?")]).unwrap();
    let chatter = |i| Message::ai(format!("Nothing of note happened on day {i}."));
    memory.add_all((0..30).map(chatter)).unwrap();
    Arc::new(memory)
}

fn prompt(memory: &Arc<DefaultChatMemory>) -> MemoryPrompt {
    MemoryPrompt::new(Arc::clone(memory)).max_messages(4).recall(Recall::words())
}

fn asked(turn: &mut Turn, prompt: &MemoryPrompt) -> Ask {
    match turn.next(prompt).unwrap() {
        Next::Ask(ask) => ask,
        other => panic!("{other:?}"),
    }
}

fn recalled(ask: &Ask) -> Vec<u64> {
    ask.prompt().report().recalled.iter().map(|it| it.position).collect()
}

fn excerpts(ask: &Ask) -> usize {
    ask.prompt().iter().filter(|it| it.text().contains("0 user \"My sister Ada")).count()
}

/// A question of a turn is not stored yet, and what is "yesterday" was counted from the newest
/// message that is.
#[test]
fn a_turn_asks_for_days_as_seen_from_today() {
    let day = |ago: u64| SystemTime::now() - Duration::from_secs(86_400 * ago);
    let memory = DefaultChatMemory::new();
    let texts = (0..40).map(|i| Message::user(format!("Text {i}.")));
    let times = (0..40).map(|i| day(if i < 30 { 20 } else { 1 }));
    memory.append_with(&mut Append::new(texts).with_times(times)).unwrap();
    let recall = Recall::words().neighbours(0);
    let mut prompt = MemoryPrompt::new(Arc::new(memory)).max_messages(4).recall(recall);
    let mut turn = prompt.turn(Message::user("What did I say yesterday?"));
    let found = recalled(&asked(&mut turn, &prompt));
    assert!((30..37).all(|position| found.contains(&position)), "{found:?}");
    assert!(found.iter().all(|position| *position > 26), "and what stands around: {found:?}");
}

/// Recall was for builds alone: a turn stages its question, and was composed without it. The search
/// is for that question, and not for the newest one that the memory holds.
#[test]
fn a_turn_recalls_what_fits_the_question_that_it_stages() {
    let memory = memory();
    memory.add(Message::user("What happened on day 3?")).unwrap();
    let mut prompt = prompt(&memory);
    let mut turn = prompt.turn(Message::user(QUESTION));
    let ask = asked(&mut turn, &prompt);
    assert!(recalled(&ask).starts_with(&[0, 1]), "{:?}", ask.prompt().report());
    assert_eq!(excerpts(&ask), 1);
    // It is sent what a build would be sent, had the question been stored.
    prompt.add(Message::user(QUESTION)).unwrap();
    assert_eq!(ask.prompt().to_messages(), prompt.preview().unwrap().to_messages());
}

fn call(turn: &mut Turn, prompt: &MemoryPrompt, result: &str) {
    let id = format!("c{}", turn.messages().len());
    turn.answer(Message::ai_calls([ToolCall::new(id.as_str(), "look", "{}")])).unwrap();
    assert!(matches!(turn.next(prompt).unwrap(), Next::Call(_)));
    turn.result(&id, Ok(result)).unwrap();
}

/// It is looked for once: in a loop of tools each prompt extends the one before, also where another
/// process goes on with the turn, and when it is over nothing of it is stored.
#[test]
fn what_was_recalled_stays_in_all_prompts_of_the_turn_and_in_no_memory() {
    let memory = memory();
    let mut prompt = prompt(&memory).window(Window::turns(1));
    let mut turn = prompt.turn(Message::user(QUESTION));
    let mut before = Vec::new();
    for round in 0..4 {
        let ask = asked(&mut turn, &prompt);
        let sent = ask.prompt().to_messages();
        assert_eq!((excerpts(&ask), sent.len()), (1, 2 + 2 * round));
        assert!(sent.starts_with(&before));
        before = sent;
        call(&mut turn, &prompt, "My sister Ada? Nothing.");
        if round == 2 {
            turn = serde_json::from_slice(&serde_json::to_vec(&turn).unwrap()).unwrap();
        }
    }
    turn.answer("To Oslo.").unwrap();
    assert!(matches!(turn.next(&prompt).unwrap(), Next::Done(done) if done.positions == (32..42)));
    let all = memory.all().unwrap();
    assert_eq!(all.messages().filter(|it| it.text().contains("0 user")).count(), 0);
    // The index knows what is stored, at the places where it is.
    let mut turn = prompt.turn(Message::user("Tell me of Oslo and my sister Ada!"));
    let ask = asked(&mut turn, &prompt);
    assert!(recalled(&ask).contains(&0) && recalled(&ask).contains(&41), "{:?}", recalled(&ask));
}

/// Excerpts that fitted the first prompt must not make a later one fail: they give way to what the
/// turn has grown by.
#[test]
fn what_was_recalled_gives_way_where_the_turn_needs_the_room() {
    let memory = memory();
    let mut excerpts_by_round = [Vec::new(), Vec::new()];
    for (seen, recall) in excerpts_by_round.iter_mut().zip([None, Some(Recall::words())]) {
        let mut prompt = MemoryPrompt::new(Arc::clone(&memory))
            .window(Window::turns(1))
            .max_tokens(400, Estimate);
        if let Some(recall) = recall {
            prompt.set_recall(recall);
        }
        let mut turn = prompt.turn(Message::user(QUESTION));
        for _ in 0..2 {
            seen.push(excerpts(&asked(&mut turn, &prompt)));
            call(&mut turn, &prompt, &"a word ".repeat(90));
        }
    }
    assert_eq!(excerpts_by_round, [[0, 0], [1, 0]]);
}

/// With truncation on no later prompt fails: the excerpts stayed whole, and the result that the
/// model had just asked for was cut to make room for them.
#[test]
fn what_was_recalled_gives_way_before_the_texts_of_the_turn_are_cut() {
    let memory = memory();
    let mut prompt = MemoryPrompt::new(memory)
        .window(Window::turns(1))
        .max_tokens(400, Estimate)
        .truncate(Truncate::chars(1_000).unwrap())
        .recall(Recall::words());
    let mut turn = prompt.turn(Message::user(QUESTION));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let ask = asked(&mut turn, &prompt);
        seen.push((excerpts(&ask), ask.prompt().report().tokens.unwrap().cut_to));
        call(&mut turn, &prompt, &"a word ".repeat(140));
    }
    assert_eq!(seen, [(1, None), (0, None)]);
}

/// Conversations run turns, so they recall too.
#[test]
fn conversations_recall() {
    let memory = memory();
    let model = Scripted::new().calls("look", json!({})).says("To Oslo.");
    let look = Tool::new("look", "Looks.").repeatable();
    let chat = Conversation::new(prompt(&memory).window(Window::turns(1)), model.clone());
    let chat = chat.tool(look, |_: serde_json::Value| Ok("nothing"));
    chat.say(QUESTION).unwrap();
    let asked = model.asked();
    assert_eq!(asked.len(), 2);
    for prompt in asked {
        assert!(prompt.report().recalled.iter().any(|it| it.position == 0), "{}", prompt.report());
    }
}

#[cfg(feature = "tokio")]
#[test]
fn conversations_over_async_memories_recall() {
    use memory_prompt::adapt::ToAsync;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let prompt = MemoryPrompt::new_async(ToAsync::new(memory())).max_messages(4);
    let model = Scripted::new().says("To Oslo.");
    let chat = Conversation::new_async(prompt.recall(Recall::words()), model.clone());
    runtime.block_on(chat.say(QUESTION)).unwrap();
    assert!(model.asked()[0].report().recalled.iter().any(|it| it.position == 0));
}
