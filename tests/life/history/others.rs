//! What others do between the reads of a change, and how little a view reads.

use std::sync::Mutex;

use memory_prompt::Result;
use memory_prompt::memory::Read;
use memory_prompt::message::ToolMessage;
use memory_prompt::record::Snapshot;

use super::*;

/// A memory that tells what was read of it, and lets somebody else in behind one of the reads.
#[derive(Debug, Default)]
struct Watched {
    memory: DefaultChatMemory,
    reads: Mutex<Vec<Read>>,
    behind: Mutex<Option<(usize, Message)>>,
}

impl ChatMemory for Watched {
    inside!(memory: id append append_with read evict clear slots limits);
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        let seen = self.memory.read_with(read);
        let mut reads = self.reads.lock().unwrap();
        if let Some((_, late)) = self.behind.lock().unwrap().take_if(|it| it.0 == reads.len()) {
            self.memory.add(late)?;
        }
        reads.push(read.clone());
        seen
    }
}

/// A conversation in which the result of a call is still to come, and what it is.
fn waiting() -> (Arc<Watched>, Message) {
    let result = |text: &str| ToolMessage::new("c1", "pay", text).with_attribute("turn:call", "t1");
    let memory = Arc::new(Watched::default());
    let said = [
        Message::user("Pay Ann."),
        Message::ai_calls([ToolCall::new("c1", "pay", "{}")]),
        result("still running").stand_in().into(),
        Message::ai("It takes a while."),
        Message::user("And the weather?"),
        Message::ai("Sunny."),
    ];
    memory.add_all(said).unwrap();
    (memory, result("PAID").into())
}

/// A result that came between two reads of the change that made the first branch was on none but
/// the branch that was left: the model was told for ever that the payment runs.
#[test]
fn a_late_result_that_comes_in_the_middle_of_the_first_change_is_on_its_branch() {
    for change in ["edit", "undo", "regenerate"] {
        for behind in 0.. {
            let (memory, late) = waiting();
            *memory.behind.lock().unwrap() = Some((behind, late));
            let prompt = MemoryPrompt::new(Arc::clone(&memory)).window(Window::all());
            let chat = Conversation::new(prompt.with_branches(), Scripted::new().says("Rainy."));
            match change {
                "edit" => drop(chat.prompt().edit(4, Message::user("And in Rome?")).unwrap()),
                "undo" => drop(chat.undo().unwrap().unwrap()),
                _ => drop(chat.regenerate().unwrap()),
            }
            if memory.behind.lock().unwrap().is_some() {
                assert!(behind > 1, "{change} reads {behind} times");
                break;
            }
            let shown = chat.prompt().memory().messages().unwrap();
            let shown: Vec<_> = shown.iter().map(Message::text).collect();
            let expected = match change {
                "edit" => &["And in Rome?"][..],
                "undo" => &[],
                _ => &["And the weather?", "Rainy."],
            };
            assert_eq!(shown[4..], *expected, "{change}, behind read {behind}");
            assert_eq!(shown[2], "PAID", "{change}, behind read {behind}");
        }
    }
}

/// A server makes its view for each request: each change read the newest 256 messages anew, and
/// each append all late results.
#[test]
fn a_view_reads_no_more_than_it_needs() {
    let (memory, late) = waiting();
    let view = |memory: &Arc<Watched>| BranchView::new(Arc::clone(memory));
    view(&memory).add(late).unwrap();
    view(&memory).edit(4, Message::user("And in Rome?")).unwrap();
    assert_eq!(view(&memory).messages().unwrap()[2].text(), "PAID");
    memory.reads.lock().unwrap().clear();

    view(&memory).undo().unwrap().unwrap();
    view(&memory).redo().unwrap().unwrap();
    view(&memory).edit(4, Message::user("And in Lima?")).unwrap();
    let most = memory.reads.lock().unwrap().drain(..).map(|read| read.n).max();
    assert!(most < Some(256), "{most:?} messages");

    view(&memory).add(Message::ai("Foggy.")).unwrap();
    view(&memory).variants(4).unwrap();
    let reads = std::mem::take(&mut *memory.reads.lock().unwrap());
    assert!(reads.iter().all(|read| read.positions.is_empty()), "{reads:?}");
}

/// The first new answer of a conversation read its newest 256 messages several times, each with the
/// bytes of its pictures.
#[test]
fn a_first_branch_reads_the_media_of_no_other_message() {
    for is_edit in [false, true] {
        let (memory, _) = waiting();
        let prompt = MemoryPrompt::new(Arc::clone(&memory)).window(Window::all()).with_branches();
        let chat = Conversation::new(prompt, Scripted::new().says("Rainy."));
        memory.reads.lock().unwrap().clear();
        if is_edit { chat.edit(4, "And in Rome?") } else { chat.regenerate() }.unwrap();
        let reads = std::mem::take(&mut *memory.reads.lock().unwrap());
        assert!(reads.iter().all(|read| read.references || read.n < 2), "{reads:?}");
    }
}

/// An export held 64 messages at a time, each with the bytes of its pictures, and Markdown shows
/// none of them.
#[test]
fn an_export_holds_few_messages_and_markdown_no_media() {
    use memory_prompt::export::ExportAs;

    for (form, has_media) in [(ExportAs::JsonLines, true), (ExportAs::Markdown, false)] {
        let memory = Arc::new(Watched::default());
        memory.add_all((0..20).map(|i| Message::user(format!("m{i}")))).unwrap();
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        prompt.export(form).write_to(&mut Vec::new()).unwrap();
        let reads = std::mem::take(&mut *memory.reads.lock().unwrap());
        let reads: Vec<_> = reads.iter().filter(|read| read.n > 0).collect();
        assert!(reads.iter().all(|read| read.n <= 8 && read.references != has_media), "{reads:?}");
        assert_eq!(reads.len(), 3);
    }
}
