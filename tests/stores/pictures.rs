//! Media beside their records: kept once, read where they are sent, and gone with what refers to
//! them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::again::again;
use crate::counted::{cases, counted};
use crate::folder::Folder;
use crate::inside::inside;
use memory_prompt::compose::Notice;
use memory_prompt::conversation::{Action, Asking, Scripted};
use memory_prompt::memory::{Append, Read};
use memory_prompt::message::{Media, Part, Source};
use memory_prompt::provider::Row;
use memory_prompt::record::Snapshot;
use memory_prompt::store::sqlite::driver::Connection;
use memory_prompt::token::Estimate;
use memory_prompt::turn::{Next, Turn};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, ChatMemoryStoreExt, Clear, Conversation, ErrorKind,
    InMemoryStore, MemoryPrompt, Message, Prompt, Provider, Recall, Result, SqliteStore, Tool,
    ToolCall, Truncate, Window,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The PNG of this number in base64: a header, and noise that no text has.
fn png(number: u8, bytes: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0\0\0\x01\0\x08\x06\0\0\0".to_vec();
    png[18] = number;
    png.resize(bytes.max(33).next_multiple_of(3), number);
    let four = |three: &[u8]| {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        (0..4).map(move |i| char::from(LETTERS[(bits >> (18 - 6 * i) & 63) as usize]))
    };
    png.chunks(3).flat_map(four).collect()
}

fn picture(number: u8, bytes: usize) -> Part {
    Part::Image(Media::base64("image/png", png(number, bytes)))
}

/// A store in a file, and what stands in its table of media.
struct File {
    folder: Folder,
    store: SqliteStore,
}

impl File {
    fn new() -> Self {
        let folder = Folder::new();
        let store = SqliteStore::open(folder.file("chat.db")).unwrap();
        Self { folder, store }
    }

    fn kept(&self) -> Vec<i64> {
        let connection = Connection::open(self.folder.file("chat.db")).unwrap();
        let mut sizes = connection.prepare("SELECT length(bytes) FROM media ORDER BY 1").unwrap();
        sizes.query_map([], |row| row.get(0)).unwrap().map(|size| size.unwrap()).collect()
    }
}

/// Other programs keep a picture of 2 MB as 5.6 MB, and once more for each turn about it.
#[test]
fn a_picture_of_2_mb_and_ten_turns_about_it_take_2_1_mb() {
    let file = File::new();
    let memory = file.store.memory("a:b:c").unwrap();
    memory.add(Message::user([Part::text("What is it?"), picture(1, 2_000_000)])).unwrap();
    for i in 0..10 {
        memory.add_all([Message::ai("A cat."), Message::user(format!("And now {i}?"))]).unwrap();
    }
    drop(memory);
    let path = file.folder.file("chat.db");
    drop(file.store);
    let connection = Connection::open(&path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes <= 2_100_000, "{bytes}");
}

#[test]
fn the_same_picture_is_kept_once_a_conversation() {
    let file = File::new();
    for id in ["a", "b"] {
        let memory = file.store.memory(id).unwrap();
        memory.add(Message::user([picture(1, 30_000), picture(1, 30_000)])).unwrap();
        memory.add(Message::user([picture(1, 30_000), picture(2, 60_000)])).unwrap();
    }
    assert_eq!(file.kept(), [30_000, 30_000, 60_000, 60_000]);
    let other = InMemoryStore::new();
    file.store.copy_to(&other, |_| true, |_| {}).unwrap();
    let [here, there] = [file.store.memory("a").unwrap().all(), other.memory("a").unwrap().all()];
    assert!(here.unwrap() == there.unwrap(), "a copy has the media within its messages");
    assert!(file.store.delete(&"a".into()).unwrap());
    assert_eq!(file.kept(), [30_000, 60_000]);
}

/// Media go with the last record that refers to them, however it goes.
#[test]
fn nothing_is_left_without_its_record() {
    let file = File::new();
    let memory = file.store.memory("a").unwrap();
    memory.add_all([1, 2, 1].map(|n| Message::user([picture(n, 30_000)]))).unwrap();
    memory.evict(1).unwrap();
    assert_eq!(file.kept().len(), 2);
    memory.evict(2).unwrap();
    assert_eq!(file.kept().len(), 1);
    memory.clear().unwrap();
    assert_eq!(file.kept().len(), 0);
    memory.add(Message::user([picture(1, 30_000)])).unwrap();
    let connection = Connection::open(file.folder.file("chat.db")).unwrap();
    connection.execute("DELETE FROM conversation", []).unwrap(); // by hand
    assert_eq!(file.kept().len(), 0);
}

#[test]
fn a_store_may_keep_media_within_their_messages() {
    let folder = Folder::new();
    let options = SqliteStore::options().media_beside(usize::MAX);
    let store = options.open(folder.file("chat.db")).unwrap();
    let memory = store.memory("a").unwrap();
    let message = Message::user([picture(1, 30_000)]);
    memory.add(message.clone()).unwrap();
    let read = memory.read_with(&Read::newest(1).references()).unwrap();
    assert!(read.records.messages().eq([&message]));
    assert_eq!(File { folder, store }.kept().len(), 0);
}

/// A page hands on what it has read, with a reference in the place of its picture: that was
/// refused, and the conversation was there all the same, so that nothing could be restored to its
/// id.
#[test]
fn what_is_refused_begins_no_conversation() {
    let file = File::new();
    let from = file.store.memory("a").unwrap();
    from.add(Message::user([picture(1, 30_000)])).unwrap();
    let page = from.read_with(&Read::newest(1).references()).unwrap();
    let message = page.records.messages().next().unwrap().clone();
    let store = InMemoryStore::new();
    let memory = store.memory("b").unwrap();
    let plain = memory.append(&mut vec![message.clone()], None).unwrap_err();
    let with = memory.append_with(&mut Append::new([message])).unwrap_err();
    assert_eq!((plain.kind(), with.kind()), (ErrorKind::Invalid, ErrorKind::Invalid));
    assert!(store.ids(None, 9).unwrap().is_empty());
    store.restore(&"b".into(), 7, None).unwrap();
}

const WRITE_TO: &str = "MEMORY_PROMPT_PICTURES_TO";

/// Not a test of its own: what the process does that the next test kills.
#[test]
fn picture_writer() {
    let Ok(path) = std::env::var(WRITE_TO) else { return };
    let memory = SqliteStore::open(path).unwrap().memory("a").unwrap();
    for n in 0_u64.. {
        let end = memory.next_position().unwrap();
        let number = u8::try_from(end % 7).unwrap();
        let parts = [picture(number, 20_000), picture(number + 1, 40_000)];
        memory.add_all([Message::user(parts), Message::ai("A cat.")]).unwrap();
        match n % 5 {
            2 | 4 => drop(memory.evict(end.saturating_sub(n % 11)).unwrap()),
            3 if n % 13 == 0 => memory.clear().unwrap(),
            _ => {}
        }
        println!("wrote");
    }
}

#[test]
fn a_kill_leaves_no_record_without_its_media_and_no_media_without_a_record() {
    let rounds = cases(100);
    let folder = Folder::new();
    let path = folder.file("chat.db");
    let (mut records, mut hashes) = (0, 0);
    for round in 0..u64::from(rounds) {
        let mut writer = again("pictures::picture_writer").env(WRITE_TO, &path).spawn().unwrap();
        // In one round as soon as it has written, in the next at any moment.
        if round % 2 == 0 {
            let lines = BufReader::new(writer.stdout.as_mut().unwrap()).lines();
            assert!(lines.map_while(Result::ok).any(|line| line.contains("wrote")));
        }
        thread::sleep(Duration::from_micros(round * 7_919 % 20_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let memory = SqliteStore::open(&path).unwrap().memory("a").unwrap();
        let whole = memory.read(None, usize::MAX).unwrap();
        assert!(whole.unreadable.is_empty(), "{:?}", whole.unreadable);
        records += whole.records.len();
        let seen = memory.read_with(&Read::newest(usize::MAX).references()).unwrap();
        let referred = seen.records.messages().flat_map(Message::media).map(|media| {
            let Source::Reference(reference) = &media.source else { panic!("it is within") };
            reference.sha256.to_string()
        });
        let referred: BTreeSet<String> = referred.collect();
        let connection = Connection::open(&path).unwrap();
        let mut kept = connection.prepare("SELECT lower(hex(hash)) FROM media").unwrap();
        let kept = kept.query_map([], |row| row.get(0)).unwrap().map(|it| it.unwrap());
        assert_eq!(kept.collect::<BTreeSet<String>>(), referred);
        hashes += referred.len();
    }
    println!("{records} records and {hashes} media were looked at behind {rounds} kills");
    assert!(records > 0 && hashes > 0);
}

/// A memory to which something happens once, before media are read behind their records.
struct Meanwhile(Arc<dyn ChatMemory>, AtomicBool, Box<Deed>);

type Deed = dyn Fn(&dyn ChatMemory) + Send + Sync;

impl Meanwhile {
    fn over(
        memory: impl ChatMemory + 'static,
        deed: impl Fn(&dyn ChatMemory) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(memory), AtomicBool::new(true), Box::new(deed))
    }
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl ChatMemory for Meanwhile {
    inside!(0: id append append_with read evict clear slots limits);
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        if !read.references && !read.positions.is_empty() && self.1.swap(false, Ordering::Relaxed) {
            (self.2)(&*self.0);
        }
        self.0.read_with(read)
    }
}

/// Between the read of the records and that of their media somebody evicts the first picture.
#[test]
fn a_prompt_is_whole_though_media_are_evicted_meanwhile() {
    let memory = |id: &str| {
        let memory = SqliteStore::options().in_memory().unwrap().memory(id).unwrap();
        memory.add_all([1, 2].map(|n| Message::user([picture(n, 30_000)]))).unwrap();
        Meanwhile::over(memory, |memory| assert_eq!(memory.evict(1).unwrap(), 1))
    };
    let left = [Message::user([picture(2, 30_000)])];
    let mut prompt = MemoryPrompt::new(memory("a"));
    assert!(prompt.build().unwrap().iter().eq(&left));

    let mut prompt = MemoryPrompt::new(memory("b"));
    let mut turn = prompt.turn("Which?");
    let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!("it asks") };
    let asked = [left[0].clone(), Message::user("Which?")];
    assert!(ask.prompt().iter().eq(&asked));
}

/// Between the two reads the conversation was begun again, or went to another branch, with another
/// picture in the same place: that one was sent within the message of the first.
#[test]
fn a_picture_of_another_conversation_is_never_sent() {
    let other = || Message::user([picture(2, 30_000)]);
    let cat = || Message::user([Part::text("My cat:"), picture(1, 30_000)]);
    let store = SqliteStore::options().in_memory().unwrap();
    let cleared = store.memory("a").unwrap();
    cleared.add_all([cat()]).unwrap();
    let to = store.clone();
    let begun_again = Meanwhile::over(cleared, move |_| {
        assert!(to.delete(&"a".into()).unwrap());
        to.memory("a").unwrap().add(other()).unwrap();
    });
    assert!(MemoryPrompt::new(begun_again).build().unwrap().iter().eq(&[other()]));

    let edited = store.memory("b").unwrap();
    edited.add(cat()).unwrap();
    let to = store.clone();
    let elsewhere = Meanwhile::over(edited, move |_| {
        let prompt = MemoryPrompt::new(to.memory("b").unwrap()).with_branches();
        assert_eq!(prompt.edit(0, other()).unwrap(), 0);
    });
    let mut prompt = MemoryPrompt::new(elsewhere).with_branches();
    assert!(prompt.build().unwrap().iter().eq(&[other()]));
}

/// A page's message went back into a question as it was listed: the model was asked and paid, and
/// the turn was refused at its end, for ever.
#[test]
fn a_question_with_a_reference_is_refused_before_the_model_is_asked() {
    let store = SqliteStore::options().in_memory().unwrap();
    let memory = store.memory("a").unwrap();
    memory.add(Message::user([picture(1, 30_000)])).unwrap();
    let read = memory.read_with(&Read::newest(1).references()).unwrap();
    let listed = read.records.messages().next().unwrap().clone();
    let asked = Arc::new(AtomicBool::new(false));
    let is_asked = Arc::clone(&asked);
    let conversation = Conversation::new(MemoryPrompt::new(memory), move |_: &Asking<'_>| {
        is_asked.store(true, Ordering::Relaxed);
        Ok(Message::ai("A cat."))
    });
    let error = conversation.say(listed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("has a reference"), "{error}");
    assert!(!asked.load(Ordering::Relaxed));
    assert_eq!(store.memory("a").unwrap().all().unwrap().len(), 1);
}

/// A page lists pictures and loads no bytes, on another branch too; a click loads them.
#[test]
fn a_page_lists_pictures_without_their_bytes() {
    let store = SqliteStore::options().in_memory().unwrap();
    let prompt = MemoryPrompt::new(store.memory("a").unwrap()).with_branches();
    prompt.add_all([1, 2, 3].map(|n| Message::user([picture(n, 30_000)]))).unwrap();
    prompt.edit(2, Message::user([picture(4, 60_000)])).unwrap();
    let page = prompt.page(None, 2).unwrap();
    let sizes = page.entries.iter().flat_map(|entry| entry.message.media()).map(|media| {
        let Source::Reference(it) = &media.source else { panic!("its bytes were loaded") };
        (it.size, it.picture.map(|picture| picture.width))
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [(60_000, Some(1_024)), (30_000, Some(512))]);
    let whole = prompt.memory().read_with(&Read::newest(0).positions([2])).unwrap();
    assert!(whole.picked().messages().eq([&Message::user([picture(4, 60_000)])]));
}

/// A file of an empty type would be kept beside its record, where a prompt sees no bytes that show
/// what it is, and replaces it.
#[test]
fn a_file_of_an_empty_type_stays_within_its_record() {
    let data = format!("JVBERi0x{}", "////".repeat(9_000));
    let asked = Message::user([Part::File(Media::base64("", data).with_name("a.pdf"))]);
    let memory = SqliteStore::options().in_memory().unwrap().memory("a").unwrap();
    memory.add(asked.clone()).unwrap();
    for provider in [Provider::Anthropic, Provider::OpenAi, Provider::Gemini] {
        let mut prompt = MemoryPrompt::new(memory.clone()).for_provider(provider);
        assert!(prompt.build().unwrap().iter().eq([&asked]), "{provider}");
    }
}

/// The bytes of a picture were lost. An edit of the question about it was made all the same, and
/// asked about nothing.
#[test]
fn an_edit_of_a_message_that_cannot_be_read_is_refused() {
    for is_branched in [false, true] {
        let file = File::new();
        let prompt = MemoryPrompt::new(file.store.memory("a").unwrap()).with_branches();
        let model = Scripted::new().says("A cat.").says("Sunny.").says("Rainy.");
        let conversation = Conversation::new(prompt, model);
        conversation.say(Message::user([Part::text("Whot is it?"), picture(1, 30_000)])).unwrap();
        conversation.say("And the weather?").unwrap();
        if is_branched {
            conversation.regenerate().unwrap();
        }
        let connection = Connection::open(file.folder.file("chat.db")).unwrap();
        assert_eq!(connection.execute("DELETE FROM media", []).unwrap(), 1);
        let error = conversation.act(Action::Edit(0, "What is it?".into())).unwrap_err();
        assert_eq!(error.to_string(), "edit: the message at position 0 can't be read");
        assert!(std::error::Error::source(&error).is_some());
        let asked = conversation.act(Action::Edit(2, "And the sea?".into())).unwrap().unwrap();
        assert_eq!(asked.messages(), [Message::user("And the sea?")]);
    }
}

/// A reference that a prompt was composed of by hand is not sent as if it were a picture.
#[test]
fn a_reference_is_never_sent() {
    let memory = SqliteStore::options().in_memory().unwrap().memory("a").unwrap();
    memory.add(Message::user([picture(1, 30_000)])).unwrap();
    let read = memory.read_with(&Read::newest(1).references()).unwrap();
    let reference = read.records.messages().flat_map(Message::media).next().unwrap();
    assert!(matches!(reference.source, Source::Reference(_)));
    let composer = memory_prompt::Composer::new().for_provider(Provider::OpenAi);
    let prompt = composer.compose_all(&read, &[]).unwrap();
    let error = serde_json::to_string(&memory_prompt::wire::Request::new(&prompt)).unwrap_err();
    assert!(error.to_string().contains("message 0 has a reference"), "{error}");
    let error = serde_json::to_string(&memory_prompt::wire::openai::messages(&prompt)).unwrap_err();
    assert!(error.to_string().contains("message 0 has a reference"), "{error}");
}

// ---- the law: whether media are read with their records or behind them is not to be seen ----

fn media() -> impl Strategy<Value = Part> {
    let binary =
        |kind: &str, n: u8| Media::base64(kind, png(n, 40 + 150 * usize::from(n))).with_name("a");
    prop_oneof![
        4 => (0..6_u8, 33..90_usize).prop_map(|(n, bytes)| picture(n, bytes)),
        1 => (0..3_u8).prop_map(move |n| Part::File(binary("application/pdf", n))),
        1 => (0..3_u8).prop_map(move |n| Part::Audio(binary("audio/wav", n))),
        1 => Just(Part::File(Media::base64("text/csv", "YSxiCjEsMgo=").with_name("a.csv"))),
        1 => Just(Part::Image(Media::url("https://e.x/a.png"))),
        1 => Just(Part::Image(Media::base64("image/png", "iVBORw0KGgo"))),
    ]
}

fn said() -> impl Strategy<Value = Vec<Message>> {
    let parts = || prop::collection::vec(media(), 1..4);
    prop_oneof![
        2 => "[a-z ]{0,40}".prop_map(|text| vec![Message::user(text)]),
        2 => "[a-z ]{1,40}".prop_map(|text| vec![Message::ai(text)]),
        4 => parts().prop_map(|parts| vec![Message::user(parts)]),
        2 => parts().prop_map(|parts| {
            let result = memory_prompt::message::ToolMessage::new("c1", "draw", parts);
            vec![Message::ai_calls([ToolCall::new("c1", "draw", "{}")]), result.into()]
        }),
        1 => parts().prop_map(|parts| {
            vec![memory_prompt::message::AiMessage::from_parts(parts).into()]
        }),
    ]
}

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a setting of its own
struct Setup {
    provider: Option<usize>,
    window: usize,
    budget: Option<usize>,
    clears: bool,
    cuts: bool,
    notice: bool,
    recalls: bool,
    pins: Vec<u64>,
    evict: u64,
    /// The message that is edited: a branch begins there.
    edit: Option<u64>,
}

fn setup() -> impl Strategy<Value = Setup> {
    let pins = prop::collection::vec(0..20_u64, 0..3);
    let numbers = (prop::option::of(0..9_usize), 1..30_usize, prop::option::of(200..6_000_usize));
    let places = (pins, 0..6_u64, prop::option::of(0..20_u64));
    (numbers, any::<[bool; 4]>(), places).prop_map(
        |((provider, window, budget), [clears, cuts, notice, recalls], (pins, evict, edit))| {
            Setup { provider, window, budget, clears, cuts, notice, recalls, pins, evict, edit }
        },
    )
}

impl Setup {
    fn provider(&self) -> Option<Provider> {
        let mut narrow = Row::like(Provider::OpenAi, "narrow").unwrap();
        (narrow.media.pictures, narrow.media.bytes) = (Some(5), Some(300));
        let providers = [
            Provider::OpenAi,
            Provider::OpenAiResponses,
            Provider::Anthropic,
            Provider::Gemini,
            Provider::Mistral,
            Provider::Ollama,
            Provider::DeepSeek,
            Provider::Groq,
            Provider::custom(narrow),
        ];
        self.provider.map(|i| providers[i])
    }

    fn prompt(&self, memory: Arc<dyn ChatMemory>) -> MemoryPrompt {
        let mut prompt = MemoryPrompt::new(memory).window(Window::last(self.window)).with_pins();
        if let Some(provider) = self.provider() {
            prompt = prompt.for_provider(provider);
        }
        if let Some(tokens) = self.budget {
            prompt = prompt.max_tokens(tokens, Estimate);
        }
        if self.clears {
            prompt = prompt.clear(Clear::media().keep(2).step(2));
        }
        if self.cuts {
            prompt = prompt.truncate(Truncate::chars(20).unwrap());
        }
        if self.notice {
            prompt = prompt.notice(Notice::new());
        }
        if self.recalls {
            prompt = prompt.recall(Recall::words());
        }
        prompt
    }
}

/// Two prompts alike: messages, report, and the bytes of the request.
fn are_alike(one: &Result<Prompt>, other: &Result<Prompt>) -> Result<(), TestCaseError> {
    let (one, other) = match (one, other) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(one), Err(other)) => {
            prop_assert_eq!(one.to_string(), other.to_string());
            return Ok(());
        }
        _ => return Err(TestCaseError::fail(format!("{one:?} {other:?}"))),
    };
    prop_assert!(one.iter().eq(other.iter()), "{}{}", one.report(), other.report());
    prop_assert_eq!(one.report(), other.report());
    prop_assert!(one.with_origins().map(|it| it.0).eq(other.with_origins().map(|it| it.0)));
    if one.report().provider.is_some() {
        let written = |it| {
            serde_json::to_string(&memory_prompt::wire::Request::new(it).model("m").max_tokens(64))
        };
        prop_assert_eq!(written(one).unwrap(), written(other).unwrap());
    }
    Ok(())
}

counted! {
    #![cases(2_000)]

    /// A prompt over a memory that keeps media beside its records is the same as over one that
    /// keeps them within; in a turn too.
    #[test]
    fn references_are_not_to_be_seen(
        history in prop::collection::vec(said(), 1..16),
        setup in setup(),
    ) {
        let store = SqliteStore::options().media_beside(1).in_memory().unwrap();
        let beside: Arc<dyn ChatMemory> = Arc::new(store.memory("a").unwrap());
        let within: Arc<dyn ChatMemory> = Arc::new(InMemoryStore::new().memory("a").unwrap());
        let mut prompts = Vec::new();
        for memory in [beside, within] {
            memory.add_all(history.iter().flatten().cloned()).unwrap();
            let mut prompt = setup.prompt(Arc::clone(&memory));
            if let Some(position) = setup.edit {
                prompt = prompt.with_branches();
                let _ = prompt.edit(position, Message::user([picture(7, 50)])); // where it is one
            }
            for position in &setup.pins {
                let _ = prompt.pin(*position); // not each message can be
            }
            memory.evict(setup.evict).unwrap();
            prompts.push(prompt);
        }
        are_alike(&prompts[0].preview(), &prompts[1].preview())?;
        let question = || Message::user([Part::text("And this?"), picture(9, 60)]);
        let asked = [0, 1].map(|i| {
            let mut turn: Turn = prompts[i].turn(question());
            turn.next(&prompts[i]).map(|next| match next {
                Next::Ask(ask) => ask.prompt().clone(),
                next => panic!("{next:?}"),
            })
        });
        are_alike(&asked[0], &asked[1])?;
    }
}

/// In a conversation the model sees the picture in each of its rounds, and later ones too.
#[test]
fn a_model_sees_pictures_of_earlier_turns() {
    let store = SqliteStore::options().in_memory().unwrap();
    let pictures = |asking: &Asking<'_>| {
        let media: Vec<_> = asking.prompt().iter().flat_map(Message::media).collect();
        assert!(media.iter().all(|it| matches!(it.source, Source::Base64(_))));
        Ok(Message::ai(format!("{} pictures", media.len())))
    };
    let prompt = MemoryPrompt::new(store.memory("a").unwrap());
    let conversation = Conversation::new(prompt, pictures);
    for n in 1..4 {
        let question = Message::user([Part::text("Look:"), picture(n, 30_000)]);
        assert_eq!(conversation.say(question).unwrap().text(), format!("{n} pictures"));
    }
    let error = store.memory("b").unwrap().read_with(&Read::newest(1).slots([""])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// The same in async code, blocking and async side by side.
#[cfg(feature = "tokio")]
#[test]
fn async_prompts_have_the_media_that_they_send() {
    let store = SqliteStore::options().in_memory().unwrap();
    let memory = Arc::new(store.memory("a").unwrap());
    memory.add_all((1..6).map(|n| Message::user([picture(n, 30_000)]))).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let within = || Window::last(3);
        let whole: Vec<_> = (3..6).map(|n| Message::user([picture(n, 30_000)])).collect();
        let asynchronous = memory_prompt::adapt::ToAsync::new(Arc::clone(&memory));
        let mut prompt = MemoryPrompt::new_async(asynchronous).window(within());
        assert!(prompt.build().await.unwrap().iter().eq(&whole));
        let mut turn = prompt.turn("Which?");
        let Next::Ask(ask) = turn.next_async(&prompt).await.unwrap() else { panic!("it asks") };
        assert!(ask.prompt().iter().take(2).eq(&whole[1..]), "{}", ask.prompt().report());
    });
}

/// A conversation with branches in which a picture was asked for and is not there yet, and another
/// question was answered since; the model, and what lets the picture come.
fn drawing(store: &SqliteStore) -> (Conversation, Scripted, mpsc::Sender<()>) {
    let (go, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let prompt = MemoryPrompt::new(store.memory("a").unwrap()).window(Window::all());
    let model = Scripted::new().calls("draw", json!({})).says("Not yet.").says("Sunny.");
    let model = model.says("Rainy.");
    let conversation = Conversation::new(prompt.with_branches(), model.clone())
        .call_timeout(Duration::from_millis(10))
        .tool(Tool::new("draw", "Draws."), move |_: Value| {
            let _ = wait.lock().unwrap().recv();
            Ok([picture(1, 30_000)])
        });
    conversation.say("Draw a cat.").unwrap();
    conversation.say("And the weather?").unwrap();
    (conversation, model, go)
}

/// A picture that came late, and lies on another branch than that which is sent, was sent without
/// its bytes: as a reference, which every format refuses.
#[test]
fn a_late_picture_of_another_branch_is_sent() {
    let file = File::new();
    let (conversation, _, go) = drawing(&file.store);
    let anew = conversation.prompt().regenerate().unwrap();
    conversation.say(anew).unwrap();
    go.send(()).unwrap();
    assert_eq!(conversation.finish(Duration::from_secs(9)), 0);
    for _ in 0..2 {
        let sent = conversation.prompt().preview().unwrap();
        let result = sent.iter().find(|message| message.is_tool()).unwrap();
        let drawn = Source::Base64(png(1, 30_000));
        assert!(result.media().map(|media| &media.source).eq([&drawn]));
        conversation.undo().unwrap();
    }
}

/// The first branch of a conversation is in the making: its turn reads the newest messages once
/// more, for late results, and one had a picture.
#[test]
fn a_late_picture_is_sent_on_the_first_branch_in_the_making() {
    let store = SqliteStore::options().media_beside(1).in_memory().unwrap();
    let (conversation, model, go) = drawing(&store);
    go.send(()).unwrap();
    assert_eq!(conversation.finish(Duration::from_secs(9)), 0);
    conversation.say(conversation.prompt().regenerate().unwrap()).unwrap();
    let asked = model.asked();
    let sent = asked.last().unwrap();
    let result = sent.iter().find(|message| message.is_tool()).unwrap();
    let drawn = Source::Base64(png(1, 30_000));
    assert!(result.media().map(|media| &media.source).eq([&drawn]));
}
