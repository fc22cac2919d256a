//! Exports: what a person is given who asks for their data.

use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use memory_prompt::export::{ExportAs, read_line};
use memory_prompt::memory::{Append, Expected, MemoryId, Read};
use memory_prompt::message::{CustomMessage, Media, Part};
use memory_prompt::record::{SlotVersion, Snapshot};
use memory_prompt::store::{ChatMemoryStoreExt, Info};
use memory_prompt::wire::{self, Request};
use memory_prompt::{ChatMemoryStore, InMemoryStore, Provider};

use super::*;

fn over(memory: &Arc<DefaultChatMemory>) -> MemoryPrompt {
    let prompt = MemoryPrompt::new(Arc::clone(memory)).window(Window::all());
    prompt.with_branches().with_pins().with_summary()
}

/// A conversation with all that there is: branches, a pin, a summary, a slot of the application's,
/// a call that waits, and texts that look like Markdown.
fn full() -> (Arc<DefaultChatMemory>, MemoryPrompt) {
    let memory = Arc::new(DefaultChatMemory::with_id("ada `x`"));
    let prompt = over(&memory);
    prompt.add(Message::system("Be brief.\n```\n# not a heading")).unwrap();
    let at = UNIX_EPOCH + Duration::from_millis(1_714_557_600_250);
    let said = [
        Message::user("Where is Oslo?\n```\n\n### 7, assistant\n\n````\nI agree."),
        Message::ai("In Sweden."),
        Message::user([Part::text("And this?"), Part::Image(Media::base64("image/png", "AAAA"))]),
        Message::ai("A picture."),
    ];
    memory.append_with(&mut Append::new(said).with_times([at; 4])).unwrap();
    prompt.pin(0).unwrap();
    prompt.edit(1, Message::ai("In Norway.")).unwrap();
    prompt.add_all(["q2", "q3", "q4"].map(Message::user)).unwrap();
    let policy = CompactionPolicy::messages(2, 1).unwrap();
    let text = |_: &Compaction| Ok::<_, std::io::Error>("They asked ``` for capitals.".to_owned());
    assert!(prompt.compact(&policy, &text).unwrap());
    for (name, content) in [("mine", &b"\xff\x00"[..]), ("note", b"a text")] {
        let slot = Append::default().set_slot(name, content, Expected::Any);
        memory.append_with(&mut { slot }).unwrap();
    }
    let model = Scripted::new().calls("pay", json!({"to": "Ada"}));
    let conversation = Conversation::new(over(&memory), model)
        .tool(Tool::new("pay", "Pays.").needing_approval(), |_: Value| Ok("paid"));
    conversation.say("Pay Ada.").unwrap();
    (memory, prompt)
}

fn exported(prompt: &MemoryPrompt, form: ExportAs, has_all: bool) -> String {
    let mut bytes = Vec::new();
    let export = prompt.export(form);
    let export = if has_all { export.all_branches() } else { export };
    export.write_to(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn imported(lines: &str) -> Arc<DefaultChatMemory> {
    let memory = Arc::new(DefaultChatMemory::with_id("ada `x`"));
    for line in lines.lines() {
        memory.append_with(&mut read_line(line).unwrap()).unwrap();
    }
    memory
}

#[test]
fn lines_come_back_byte_for_byte() {
    let (_, prompt) = full();
    for has_all in [false, true] {
        let lines = exported(&prompt, ExportAs::JsonLines, has_all);
        let other = over(&imported(&lines));
        assert_eq!(exported(&other, ExportAs::JsonLines, has_all), lines, "all: {has_all}");
        assert_eq!(other.pins().unwrap(), prompt.pins().unwrap());
        assert_eq!(other.summary().unwrap(), prompt.summary().unwrap());
        let [one, two] = [&other, &prompt].map(|it| it.page(None, 99).unwrap());
        let said = |page: &Page| -> Vec<_> {
            page.entries.iter().map(|it| (it.message.clone(), it.at)).collect()
        };
        assert_eq!(said(&one), said(&two));
        assert_eq!(one.system, two.system);
        let variants = |page: &Page| page.entries.last().unwrap().variants;
        assert_eq!((variants(&one), variants(&two)), (1, 1));
        assert_eq!(other.variants(1).unwrap().len(), if has_all { 2 } else { 1 });
    }
}

#[test]
fn lines_say_what_there_is() {
    let (memory, prompt) = full();
    let all = exported(&prompt, ExportAs::JsonLines, true);
    let lines: Vec<Value> = all.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(lines[0]["conversation"], "ada `x`");
    assert_eq!(lines[0]["system"]["content"], "Be brief.\n```\n# not a heading");
    let branches: Vec<_> = lines.iter().filter(|it| it.get("own").is_some()).collect();
    assert_eq!(branches.len(), 2);
    assert_eq!(branches.iter().map(|it| &it["is_current"]).collect::<Vec<_>>(), [false, true]);
    assert_eq!((&branches[1]["parent"], &branches[1]["own"]["start"]), (&json!(0), &json!(1)));
    let records: Vec<_> = lines.iter().filter(|it| it.get("message").is_some()).collect();
    assert_eq!(records.len() as u64, memory.len().unwrap());
    let on: Vec<_> = records.iter().map(|it| it["branch"].as_u64().unwrap()).collect();
    assert_eq!(on, [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(records[0]["at"], "2024-05-01T10:00:00.250Z");
    let slots: Vec<_> = lines.iter().filter_map(|it| it["slot"].as_str()).collect();
    assert!(slots.is_sorted() && slots.contains(&"prompt:branches"), "{slots:?}");
    assert!(slots.contains(&"branch:1:prompt:summary"), "{slots:?}");
    let turn =
        lines.iter().find(|it| it["slot"].as_str().is_some_and(|it| it.starts_with("turn:")));
    assert!(turn.unwrap()["json"]["messages"].to_string().contains("Pay Ada."));

    let current = exported(&prompt, ExportAs::JsonLines, false);
    assert!(current.contains("In Norway.") && !current.contains("In Sweden."));
    assert!(current.contains(r#"{"slot":"prompt:pins","json":{"pins":"#), "{current}");
    assert!(current.contains(r#"{"slot":"mine","base64":"/wA="}"#));
    assert!(current.contains(r#"{"slot":"note","text":"a text"}"#));
    assert!(!current.contains("prompt:branches") && !current.contains("is_current"), "{current}");
}

/// Returns what stands outside of all fences, as a reader of Markdown has it.
fn outside(markdown: &str) -> String {
    let (mut outside, mut fence) = (String::new(), None);
    for line in markdown.lines() {
        let ticks = line.bytes().take_while(|it| *it == b'`').count();
        match fence {
            None if ticks >= 3 => fence = Some(ticks),
            None => outside = outside + line + "\n",
            Some(open) if ticks >= open && line.trim().len() == ticks => fence = None,
            Some(_) => {}
        }
    }
    assert_eq!(fence, None, "a fence is open");
    outside
}

#[test]
fn markdown_is_for_people_and_nothing_in_it_poses_as_anything_else() {
    let (_, prompt) = full();
    let current = exported(&prompt, ExportAs::Markdown, false);
    let headings = "# Conversation `` ada `x` ``\n\
        ### 0, user, 2024-05-01T10:00:00.250Z, pinned, summarised\n";
    let outside_of = outside(&current);
    let said: Vec<_> = outside_of.lines().filter(|it| it.starts_with('#')).collect();
    assert!(headings.lines().eq(said[..2].iter().copied()), "{said:?}");
    assert!(said[2].starts_with("### 1, assistant, 20") && said[2].ends_with(", summarised"));
    assert!(said[3].starts_with("### 2, user, 20"), "{said:?}");
    let tail: Vec<_> = said[6..].iter().map(|it| it.split('`').next().unwrap()).collect();
    assert_eq!(tail, ["## The turn ", "### user", "### assistant"]);
    for there in ["The system message:", "The summary of the messages before ", "`pay`"] {
        assert!(outside_of.contains(there), "{there}: {outside_of}");
    }
    assert!(outside_of.contains(" waits for approval."));
    for said in ["I agree.", "not a heading", "Norway", "Sweden", "capitals", "Pay Ada", "Ada\""] {
        assert!(!outside_of.contains(said), "{said}");
        assert_eq!(current.contains(said), said != "Sweden", "{said}");
    }

    let all = exported(&prompt, ExportAs::Markdown, true);
    let outside_of = outside(&all);
    let said: Vec<_> = outside_of.lines().filter(|it| it.starts_with("## ")).collect();
    assert_eq!(said[..2], ["## Branch 1 of 2", "## Branch 2 of 2, the current one"]);
    assert!(outside_of.contains("It continues after message 0 of branch 1."));
    assert!(outside_of.contains("With 1 image."));
    for once in ["Where is Oslo?", "In Sweden.", "In Norway.", "A picture.", "Pay Ada."] {
        assert_eq!(all.matches(once).count(), 1, "{once}");
    }
}

/// A result did not say which call it answers, nor that it failed, and texts ran together.
#[test]
fn markdown_tells_results_and_texts_apart() {
    let memory = Arc::new(DefaultChatMemory::new());
    let said = [
        Message::user([Part::text("One."), Part::text("Two.")]),
        Message::ai_calls([ToolCall::new("c1", "look", "{}"), ToolCall::new("c2", "look", "{}")]),
        Message::tool("c2", "look", "north"),
        Message::tool_error("c1", "look", "too dark"),
    ];
    memory.add_all(said).unwrap();
    let page = exported(&over(&memory), ExportAs::Markdown, false);
    for there in [
        "```text\nOne.\n```\n\n```text\nTwo.\n```\n",
        "\nResult of `c2`:\n\n```text\nnorth\n```\n",
        "\nResult of `c1`, which failed:\n\n```text\ntoo dark\n```\n",
    ] {
        assert!(page.contains(there), "{there}: {page}");
    }
}

#[test]
fn a_provider_is_told_what_a_prompt_of_all_of_it_says() {
    let (_, prompt) = full();
    for provider in [
        Provider::OpenAi,
        Provider::OpenAiResponses,
        Provider::Anthropic,
        Provider::Gemini,
        Provider::Ollama,
    ] {
        let line = exported(&prompt, ExportAs::Request(provider), false);
        assert!(line.ends_with('\n') && line.lines().count() == 1);
        let said: Value = serde_json::from_str(&line).unwrap();
        let all = MemoryPrompt::new(DefaultChatMemory::new()).window(Window::all());
        all.add(Message::system("Be brief.\n```\n# not a heading")).unwrap();
        all.add_all(prompt.memory().messages().unwrap()).unwrap();
        let waiting = prompt.unfinished().unwrap();
        all.add_all(waiting[0].messages().to_vec()).unwrap();
        let built = all.for_provider(provider).build().unwrap();
        let body = serde_json::to_value(Request::new(&built).max_tokens(1)).unwrap();
        for (name, value) in said.as_object().unwrap() {
            assert_eq!(*value, body[name], "{provider:?} {name}");
        }
        assert!(line.contains("In Norway.") && line.contains("Pay Ada.") && line.contains("brief"));

        let all = exported(&prompt, ExportAs::Request(provider), true);
        let branches: Vec<_> = all.lines().collect();
        assert_eq!(branches.len(), 2);
        assert!(branches[0].contains("In Sweden.") && !branches[0].contains("Pay Ada."));
        assert_eq!(branches[1], line.trim_end());
    }
}

/// A reasoning that only the provider's store has was said, though a request that is not to be
/// stored does not send it.
#[test]
fn a_provider_is_told_what_only_its_store_has() {
    let answer = r#"{"status": "completed", "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "In Norway.", "annotations": []}]}]}"#;
    let answer = wire::responses::answer(answer).unwrap().message;
    let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    prompt.add_all([Message::user("Where is Oslo?"), answer.into()]).unwrap();
    let line = exported(&prompt, ExportAs::Request(Provider::OpenAiResponses), false);
    assert!(line.contains("rs_1") && line.contains("In Norway."), "{line}");
    assert!(!line.contains("store"), "{line}");
}

/// Nothing of a long conversation is held but a page of it.
#[test]
fn it_comes_in_small_pieces() {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = over(&memory);
    prompt.add_all((0..1_000).map(|i| Message::user(format!("m{i}")))).unwrap();
    prompt.edit(500, Message::user("anew")).unwrap();
    for form in [ExportAs::JsonLines, ExportAs::Markdown] {
        let mut export = prompt.export(form).all_branches();
        let (mut pieces, mut all) = (0, String::new());
        while let Some(piece) = export.piece().unwrap() {
            assert!(!piece.is_empty() && piece.len() < 8 * 120, "{} bytes", piece.len());
            pieces += 1;
            all += &piece;
        }
        assert!(pieces > 1_000 / 8, "{pieces}");
        for said in ["m0", "m499", "m500", "m999", "anew"] {
            let whole = all.matches(&format!("\"{said}\"")).count();
            assert_eq!(whole + all.matches(&format!("\n{said}\n")).count(), 1, "{said}");
        }
        assert!(export.piece().unwrap().is_none());
    }
}

#[test]
fn what_is_cleared_or_evicted_meanwhile_is_an_error() {
    for evicts in [false, true] {
        let memory = Arc::new(DefaultChatMemory::new());
        let prompt = over(&memory);
        prompt.add_all((0..100).map(|i| Message::user(format!("m{i}")))).unwrap();
        let mut export = prompt.export(ExportAs::JsonLines);
        export.piece().unwrap().unwrap();
        if evicts {
            memory.evict(50).unwrap();
        } else {
            memory.clear().unwrap();
        }
        assert_eq!(export.piece().unwrap_err().kind(), ErrorKind::Forgotten);
    }
}

/// What was said after a clear was once exported in the place of a branch that was gone.
#[test]
fn a_branch_that_is_gone_is_an_error() {
    for form in [ExportAs::Markdown, ExportAs::Request(Provider::OpenAi)] {
        let (memory, prompt) = full();
        let mut export = prompt.export(form).all_branches();
        while !export.piece().unwrap().unwrap().contains("Oslo") {}
        memory.clear().unwrap();
        prompt.add(Message::user("another conversation")).unwrap();
        let error = loop {
            match export.piece() {
                Ok(piece) => assert!(!piece.unwrap().contains("another")),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Forgotten);
    }
}

/// The oldest messages are gone, and the rest keeps its positions.
#[test]
fn what_was_evicted_is_said_and_positions_stay() {
    let store = InMemoryStore::new();
    let memory = store.memory("ada").unwrap();
    memory.add_all((0..9).map(|i| Message::user(format!("m{i}")))).unwrap();
    memory.evict(4).unwrap();
    let prompt = MemoryPrompt::new(memory).with_branches();
    let lines = exported(&prompt, ExportAs::JsonLines, false);
    assert!(
        exported(&prompt, ExportAs::Markdown, false)
            .contains("messages before 4 are no longer kept")
    );

    let other = InMemoryStore::new();
    other.restore(&"ada".into(), 4, None).unwrap();
    let memory = other.memory("ada").unwrap();
    for line in lines.lines() {
        memory.append_with(&mut read_line(line).unwrap()).unwrap();
    }
    let prompt = MemoryPrompt::new(memory).with_branches();
    assert_eq!(exported(&prompt, ExportAs::JsonLines, false), lines);
    let other = DefaultChatMemory::new();
    let first = lines.lines().nth(1).unwrap();
    let error = other.append_with(&mut read_line(first).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict { expected: 4, actual: 0 });
}

#[test]
fn a_line_of_something_else_is_refused() {
    for (line, why) in [
        ("", "this is no line of an export"),
        ("{}", "this is no line of an export"),
        (r#"{"role":"user","content":"hi"}"#, "this is no line of an export"),
        (r#"{"export":2}"#, "the export is of version 2, and this is 1"),
        (
            r#"{"position":7,"at":"yesterday","message":{"role":"user","content":"hi"}}"#,
            "the record at 7 has no time that can be read",
        ),
        (
            r#"{"position":7,"at":"99999999999999999-01-01T00:00:00.000Z","message":{"role":"user","content":"hi"}}"#,
            "the record at 7 has no time that can be read",
        ),
        (
            r#"{"position":7,"unreadable":"read: ..."}"#,
            "the record at 7 could not be read when it was exported",
        ),
        (r#"{"slot":"a"}"#, "the slot \"a\" has no content"),
        (r#"{"slot":"a","base64":"?"}"#, "the slot \"a\" has no content"),
    ] {
        let error = read_line(line).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Codec, format!("import: {why}")));
    }
}

#[cfg(all(feature = "async", feature = "sqlite"))]
#[test]
fn an_async_memory_gives_the_same() {
    use super::model::block_on;
    use crate::conversation::faults::Slow;

    let (memory, prompt) = full();
    let later = MemoryPrompt::new_async(Slow(memory)).with_branches().with_pins().with_summary();
    for form in [ExportAs::JsonLines, ExportAs::Markdown, ExportAs::Request(Provider::Gemini)] {
        for has_all in [false, true] {
            let export = later.export(form);
            let export = if has_all { export.all_branches() } else { export };
            let mut bytes = Vec::new();
            block_on(export.write_to(&mut bytes)).unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), exported(&prompt, form, has_all));
        }
    }
}

/// A branch keeps its pins and its summary in slots that nobody else is shown.
#[test]
fn a_branch_brings_its_pins_and_its_summary() {
    let prompt = over(&Arc::new(DefaultChatMemory::new()));
    for (question, answer) in [("q0", "a1"), ("q2", "a3")] {
        prompt.add_all([Message::user(question), Message::ai(answer)]).unwrap();
    }
    prompt.edit(3, Message::ai("a3 anew")).unwrap();
    prompt.pin(0).unwrap();
    let policy = CompactionPolicy::messages(2, 1).unwrap();
    let text = |_: &Compaction| Ok::<_, std::io::Error>("They asked.".to_owned());
    assert!(prompt.compact(&policy, &text).unwrap());
    let lines = exported(&prompt, ExportAs::JsonLines, false);
    let other = over(&imported(&lines));
    assert_eq!(other.pins().unwrap(), [0]);
    assert_eq!(other.summary().unwrap().unwrap().text, "They asked.");
    let page = exported(&prompt, ExportAs::Markdown, false);
    assert!(page.contains("### 0, user, ") && page.contains(", pinned"), "{page}");
    assert!(page.contains("They asked."), "{page}");
    let all = exported(&prompt, ExportAs::Markdown, true);
    assert!(all.contains("Of the messages there it pins 0."), "{all}");
    assert!(all.contains("They asked."), "{all}");
}

#[test]
fn a_branch_on_which_nothing_is_left_has_no_request() {
    let prompt = over(&Arc::new(DefaultChatMemory::new()));
    prompt.add_all([Message::user("q0"), Message::ai("a1")]).unwrap();
    prompt.undo().unwrap();
    let form = ExportAs::Request(Provider::OpenAi);
    assert_eq!(exported(&prompt, form, true).lines().count(), 1);
    assert_eq!(exported(&prompt, form, false), "");
    // Nor does one on which only the application has noted something: all of it failed there.
    prompt.add(CustomMessage::new([("seen".to_owned(), true.into())])).unwrap();
    assert_eq!(exported(&prompt, form, true).lines().count(), 1);
}

/// A time in milliseconds that was taken for seconds has a year of five digits.
#[test]
fn a_far_time_is_read_back() {
    let memory = DefaultChatMemory::new();
    let far = UNIX_EPOCH + Duration::from_secs(1_700_000_000_000);
    memory.append_with(&mut Append::new([Message::user("q")]).with_times([far])).unwrap();
    let lines = exported(&MemoryPrompt::new(memory), ExportAs::JsonLines, false);
    assert!(lines.contains("\"55840-"), "{lines}");
    let again = imported(&lines).read(None, 1).unwrap();
    assert_eq!(again.records.first().unwrap().appended_at(), far);
}

/// An import begins a new life of the conversation. What waits there goes on in that: the button
/// works, its result is stored, and nothing is left that can't be ended.
#[test]
fn what_waits_goes_on_behind_an_import() {
    for (has_branches, has_all) in [(false, false), (true, false), (true, true)] {
        let over = |memory: Arc<DefaultChatMemory>, model: Scripted| {
            let prompt = MemoryPrompt::new(memory).window(Window::all());
            let prompt = if has_branches { prompt.with_branches() } else { prompt };
            Conversation::new(prompt, model)
                .tool(Tool::new("pay", "Pays.").needing_approval(), |_: Value| Ok("paid"))
        };
        let first = over(
            Arc::new(DefaultChatMemory::with_id("ada `x`")),
            Scripted::new().says("Hello.").calls("pay", json!({})).calls("pay", json!({})),
        );
        for question in ["Hi.", "Pay.", "Pay again."] {
            first.say(question).unwrap();
        }
        let lines = exported(first.prompt(), ExportAs::JsonLines, has_all);
        let other = over(imported(&lines), Scripted::new().says("It is paid."));
        let waiting = other.waiting().unwrap();
        let [one, two] = &waiting[..] else { panic!("{waiting:?}") };
        let done = other.approve(one).unwrap();
        assert_eq!((done.text().as_str(), done.positions), ("It is paid.", 2..6));

        // The other one is taken up by a process that dies.
        let unfinished = other.prompt().unfinished().unwrap();
        let mut dying = other.prompt().adopt(&unfinished[0]).unwrap();
        dying.approve(&two.call).unwrap();
        let _begun = dying.next(other.prompt()).unwrap();
        drop(dying);
        assert_eq!(other.recover(Duration::ZERO).unwrap(), 1);
        assert!(other.prompt().unfinished().unwrap().is_empty());
        let last = other.prompt().memory().messages().unwrap();
        assert!(last.iter().any(|it| it.text() == "Pay again."), "branches: {has_branches}");
    }
}

/// A memory in which somebody edits and pins once, behind the first list of its slots.
#[derive(Debug)]
struct Edited(Arc<dyn ChatMemory>, Arc<AtomicBool>);

impl ChatMemory for Edited {
    inside!(0: id append append_with read evict clear limits);
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        self.0.read_with(read)
    }
    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        let listed = self.0.slots();
        if self.1.swap(false, Ordering::Relaxed) {
            edit(&self.0);
        }
        listed
    }
}

fn edit(memory: &Arc<dyn ChatMemory>) {
    let prompt = MemoryPrompt::new(Arc::clone(memory)).with_branches().with_pins();
    prompt.edit(1, Message::ai("In Norway.")).unwrap();
    prompt.add(Message::system("Be exact.")).unwrap();
    prompt.pin(1).unwrap();
}

#[derive(Debug)]
struct EditedStore(InMemoryStore);

impl ChatMemoryStore for EditedStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        let edits = Arc::new(AtomicBool::new(true));
        Ok(Arc::new(Edited(Arc::new(self.0.memory(id)?), edits)))
    }
    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
        self.0.ids(after, n)
    }
    fn delete(&self, id: &MemoryId) -> Result<bool> {
        self.0.delete(id)
    }
    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64> {
        self.0.purge_inactive(older_than)
    }
    fn info(&self, id: &MemoryId) -> Result<Option<Info>> {
        self.0.info(id)
    }
}

/// The slots were listed, and then read with the records. An edit in between was among the records,
/// but not the branches, or not the pins and the system message of the new one: the import said
/// both answers in a row.
#[test]
fn an_edit_between_two_reads_comes_whole_or_not_at_all() {
    for edits in [0, 1] {
        let store = InMemoryStore::new();
        let memory: Arc<dyn ChatMemory> = Arc::new(store.memory("ada `x`").unwrap());
        memory.add_all([Message::user("Where is Oslo?"), Message::ai("In Sweden.")]).unwrap();
        (0..edits).for_each(|_| edit(&memory));
        let copied = InMemoryStore::new();
        EditedStore(store).copy_to(&copied, |_| true, |_| ()).unwrap();
        let edited = Edited(memory, Arc::new(AtomicBool::new(true)));
        let lines = exported(&MemoryPrompt::new(edited).with_branches(), ExportAs::JsonLines, true);
        let copied = Arc::new(copied.memory("ada `x`").unwrap()) as Arc<dyn ChatMemory>;
        for memory in [copied, imported(&lines)] {
            let prompt = MemoryPrompt::new(memory).with_branches().with_pins();
            let page = prompt.page(None, 10).unwrap();
            assert_eq!(shown(&page), ["Where is Oslo?", "In Norway."], "behind {edits} edits");
            assert_eq!(page.system.unwrap().text(), "Be exact.");
            assert_eq!(prompt.pins().unwrap(), [1]);
        }
    }
}

/// What the user had added to a turn that waits was in no export for people.
#[test]
fn what_the_user_has_added_to_a_turn_that_waits_is_for_people_too() {
    let mut prompt = over(&Arc::new(DefaultChatMemory::new()));
    let mut turn = prompt.turn("Pay Ada.").tools([Tool::new("pay", "Pays.").needing_approval()]);
    assert!(matches!(turn.next(&prompt), Ok(Next::Ask(_))));
    turn.answer(Message::ai_calls([ToolCall::new("c1", "pay", "{}")])).unwrap();
    turn.steer("And tell her.").unwrap();
    assert!(matches!(turn.next(&prompt), Ok(Next::Call(_))));
    let page = exported(&prompt, ExportAs::Markdown, false);
    let [asked, added] = ["Pay Ada.", "And tell her."].map(|it| page.find(it));
    assert!(asked.is_some() && added > asked, "{page}");
}
