//! Processes that are killed in the middle of turns, and the next ones, which continue.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};

use memory_prompt::SqliteStore;
use memory_prompt::store::Durability;
use memory_prompt::turn::Call;

use super::*;
use crate::again::again;
use crate::counted::cases;
use crate::folder::Folder;

const TALK_TO: &str = "MEMORY_PROMPT_TALK_TO";

/// Books twice for each question, and looks in between. Its calls are named after the question.
fn model(ask: &Asking<'_>) -> Result<Reply, ModelError> {
    let question = ask.prompt().iter().filter(|it| it.is_user()).last();
    let question = question.ok_or("there is no question")?.text().into_owned();
    let call = |n: u32, tool: &str| ToolCall::new(format!("{question} {n}"), tool, "{}");
    Ok(match ask.round() {
        0 => Message::ai_calls([call(0, "book"), call(1, "look")]).into(),
        1 => Message::ai_calls([call(2, "book")]).into(),
        _ => format!("done: {question}").into(),
    })
}

/// The world outside the process: a line in a file for each booking.
fn conversation(path: &str) -> Conversation {
    let store = SqliteStore::options().durability(Durability::Process).open(path).unwrap();
    let prompt = MemoryPrompt::new(store.memory("killed").unwrap()).max_messages(8);
    let ledger = format!("{path}.ledger");
    let book = move |call: &Call| -> Result<String, ToolError> {
        let mut ledger = fs::OpenOptions::new().create(true).append(true).open(&ledger)?;
        ledger.write_all(format!("{}\n", call.id()).as_bytes())?;
        Ok(format!("booked {}", call.id()))
    };
    Conversation::new(prompt, model)
        .tool_call(Tool::new("book", "Books."), book)
        .tool(Tool::new("look", "Looks.").repeatable(), |_: serde_json::Value| Ok("seen"))
}

/// Runs what others have left.
fn go_on(conversation: &Conversation) {
    for unfinished in conversation.prompt().unfinished().unwrap() {
        let mut turn = conversation.prompt().adopt(&unfinished).unwrap();
        conversation.run(&mut turn, |_| {}).unwrap();
    }
}

/// Not a test of its own: what the process that the next test kills does. It continues with what
/// the last one has left, and then asks one question after the other.
#[test]
fn talker() {
    let Ok(to) = std::env::var(TALK_TO) else { return };
    let (path, first) = to.rsplit_once(' ').unwrap();
    let conversation = conversation(path);
    go_on(&conversation);
    for i in first.parse::<u64>().unwrap().. {
        let turn = Turn::from(format!("question {i}")).with_id(format!("question {i}"));
        assert_eq!(conversation.say(turn).unwrap().ended, Ended::Answered);
        println!("answered");
    }
}

/// A worker died between two bookings. The next one continued its turn, and booked again.
#[test]
fn whoever_goes_on_after_a_kill_books_nothing_twice() {
    let kills = u64::from(cases(200));
    let folder = Folder::new();
    let path = folder.file("chat.db").to_str().unwrap().to_owned();
    for i in 0..kills {
        let mut process = again("conversation::kills::talker")
            .env(TALK_TO, format!("{path} {}", i * 1_000_000))
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        // At any moment: in one round while it starts and goes on with what is left, in the next
        // while it asks, whatever it costs to start.
        if i % 2 == 0 {
            assert!(output.any(|line| line.unwrap().contains("answered")), "it failed by itself");
        }
        thread::sleep(Duration::from_micros(1_000 + i * 7919 % 40_000));
        process.kill().unwrap();
        assert!(process.wait().unwrap().code().is_none(), "it failed by itself");
    }
    // The last one that is left is ended here.
    let conversation = conversation(&path);
    go_on(&conversation);
    let memory = conversation.prompt().memory();
    assert!(memory.slots().unwrap().is_empty());
    let all = memory.all().unwrap();
    let mut times = BTreeMap::<String, u32>::new();
    for line in fs::read_to_string(format!("{path}.ledger")).unwrap_or_default().lines() {
        *times.entry(line.to_owned()).or_default() += 1;
    }
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    // Whatever was booked, a call in the memory says so, and a result or an unknown outcome.
    let mut results = BTreeMap::new();
    for result in all.messages().filter_map(Message::as_tool) {
        results.insert(result.call_id().to_owned(), result.is_stand_in());
    }
    let (mut unknown, mut asked) = (0, BTreeMap::<String, u32>::new());
    for id in times.keys() {
        unknown += u32::from(*results.get(id).unwrap_or_else(|| panic!("{id} is denied")));
    }
    for message in all.messages() {
        if message.is_user() {
            *asked.entry(message.text().into_owned()).or_default() += 1;
        }
        for call in message.tool_calls() {
            assert!(results.contains_key(&call.id), "{} has no result", call.id);
        }
    }
    assert!(asked.values().all(|times| *times == 1), "{asked:?}");
    println!(
        "{kills} kills, {} turns, {} bookings, {unknown} of unknown outcome",
        asked.len(),
        times.len()
    );
    assert!(!times.is_empty() && asked.len() as u64 > kills / 4, "the processes came to nothing");
}
