//! The tools that read back and search, and the notice that there is something to find.
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use crate::conversations::{life, stored};
use crate::counted::counted;
use crate::said::talk;
use crate::setups::{Drawn, holding, remembering};
use memory_prompt::compose::{Notice, Placement};
use memory_prompt::message::{AiMessage, AiPart, Media, Part};
use memory_prompt::recall::tools::{ReadBack, SearchHistory};
use memory_prompt::report::{Break, Origin};
use memory_prompt::token::{Estimate, TokenCounter};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, DefaultChatMemory, InMemoryStore, MemoryPrompt,
    Message, Prompt, Provider, ToolCall, Window,
};
use proptest::prelude::*;
use serde_json::json;

fn read(memory: &impl ChatMemory, arguments: &str) -> String {
    ReadBack::new().run(memory, arguments).unwrap()
}

/// A picture that a model has made was told as an empty message.
#[test]
fn a_picture_of_a_model_is_told_of() {
    let picture = Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
    let memory = remembering([AiMessage::from_parts([AiPart::Content(picture)]).into()]);
    let text = read(&memory, r#"{"message": 0}"#);
    assert_eq!(text, "Message 0, assistant, 7 characters:\n1 image");
    let text = read(&memory, r#"{"message": 0, "from": 9}"#);
    assert_eq!(text, "Message 0, assistant, has 7 characters.");
}

counted! {
    #![cases(256)]

    /// Read piece by piece, as each piece says to go on, a message is whole, and no character of it
    /// is cut in two unless it alone is longer than a piece.
    #[test]
    fn pieces_make_the_whole(history in life(8), size in 1usize..40) {
        let memory = remembering(stored(&history));
        let read_back = ReadBack::new().piece(size);
        for record in memory.all().unwrap().iter() {
            let (position, mut from, mut all) = (record.position(), 0, String::new());
            let whole = loop {
                let arguments = json!({"message": position, "from": from}).to_string();
                let text = read_back.run(&memory, &arguments).unwrap();
                let Some((head, piece)) = text.split_once('\n') else { break text };
                all.push_str(piece);
                prop_assert!(piece.chars().count() <= size);
                match head.split_once(", go on from ") {
                    None => break String::new(),
                    Some((_, next)) => {
                        let next = next.trim_end_matches(':').parse().unwrap();
                        prop_assert!(next > from);
                        from = next;
                    }
                }
            };
            match record.message() {
                Message::Custom(_) | Message::System(_) => {
                    prop_assert_eq!(whole, format!("There is nothing to read in message {position}."));
                }
                message => for text in message.texts() {
                    prop_assert!(all.contains(text), "{all:?} of {text:?}");
                },
            }
        }
    }

    /// Whatever a model writes, it is answered.
    #[test]
    fn nothing_a_model_asks_is_an_error(history in life(6), evicted in 0u64..12, arguments in any::<String>(), message in any::<u64>(), from in any::<i64>()) {
        let memory = remembering(stored(&history));
        memory.evict(evicted).unwrap();
        let (read_back, search) = (ReadBack::new(), SearchHistory::new());
        let asked = [
            arguments.clone(),
            json!({"message": message}).to_string(),
            json!({"message": message % 16, "from": from}).to_string(),
            json!({"message": arguments, "query": arguments}).to_string(),
            json!({"message": [message], "query": message}).to_string(),
        ];
        for arguments in asked {
            prop_assert!(!read_back.run(&memory, &arguments).unwrap().is_empty());
            prop_assert!(!search.run(&memory, &arguments).unwrap().is_empty());
        }
    }

    /// The notice tells no more than is missing, and stays as it is between its steps.
    #[test]
    fn a_notice_changes_only_at_its_steps(
        history in life(20), step in 1u64..12, low in 1usize..8, window_step in 1usize..8, budget in proptest::option::of(60usize..400),
    ) {
        let mut prompt = holding([])
            .window(Window::stepped(low, window_step).unwrap())
            .notice(Notice::new().step(step))
            .with_some(budget, |it, budget| it.max_tokens(budget, Estimate));
        let mut before = None::<(u64, Prompt)>;
        for message in stored(&history) {
            prompt.add(message).unwrap();
            let Ok(built) = prompt.build() else { continue };
            let report = built.report();
            let missing = report.older + report.over_budget;
            let told = report.notice.unwrap_or(0);
            prop_assert!(told <= missing);
            prop_assert!(told == 1 || told % step == 0);
            // It gives way where the build would fail otherwise.
            let text = format!("[Earlier messages that are not shown: about {}.]", missing.max(1));
            let notice = Estimate.count(&Message::user(text)).unwrap();
            let has_room = report.tokens.is_none_or(|it| it.total + notice <= it.budget);
            if report.question.is_empty() && report.moved.is_empty() && (told > 0 || has_room) {
                prop_assert!(told + step > missing, "{told} of {missing}");
                prop_assert_eq!(told > 0, missing > 0);
            }
            if let Some(tokens) = report.tokens {
                prop_assert!(tokens.total <= tokens.budget);
            }
            let notices = built.with_origins().filter(|it| it.0 == Origin::Notice).count();
            prop_assert_eq!(notices, usize::from(told > 0));
            if let Some((then, previous)) = before
                && then == told
            {
                prop_assert_ne!(built.shared_prefix(&previous).broken_by, Some(Break::Notice));
            }
            before = Some((told, built));
        }
    }
}

#[test]
fn a_notice_stands_behind_the_system_message_for_every_provider() {
    let providers = [Provider::Anthropic, Provider::Gemini, Provider::Mistral, Provider::OpenAi];
    let places = [Placement::End, Placement::AfterSystem, Placement::BeforeLastUser];
    for (provider, place) in providers.into_iter().flat_map(|it| places.map(|place| (it, place))) {
        let mut prompt = holding(talk(9).chain([Message::user("And?")]))
            .system("Be brief.")
            .max_messages(4)
            .temporaries_at(place)
            .notice(Notice::new().step(5))
            .for_provider(provider);
        prompt.add_temporary(Message::user("Today is Friday."));
        let built = prompt.build().unwrap();
        let told = built.report().notice.unwrap();
        assert_eq!(told, built.report().older / 5 * 5);
        let notice = format!("[Earlier messages that are not shown: about {told}.]");
        let text: Vec<_> = built.iter().take(3).map(|message| message.text()).collect();
        assert!(text[1..].iter().any(|text| text.contains(&notice)), "{provider}: {text:?}");
        assert_eq!(built[0], Message::system("Be brief."));
    }
}

#[test]
fn positions_that_are_not_there_are_named() {
    let memory = DefaultChatMemory::new();
    assert_eq!(read(&memory, r#"{"message": 0}"#), "There is no message in this conversation.");
    memory.add_all((0..10).map(|i| Message::user(format!("number {i}")))).unwrap();
    memory.evict(4).unwrap();
    let table = r#"
        {"message": 3} => There is no message 3: there are 4 to 9.
        {"message": 10} => There is no message 10: there are 4 to 9.
        {"message": 18446744073709551615} => There is no message 18446744073709551615: there are 4 to 9.
        {"message": "4"} => Message 4, user, 8 characters: number 4
        {"message": 4.0, "from": 8} => Message 4, user, has 8 characters.
        {"message": 4.5} => arguments: `message` is the number of a message.
        {"message": 4, "from": -1} => arguments: `from` is the number of a character.
    "#;
    for (arguments, told) in table.lines().filter_map(|row| row.split_once(" => ")) {
        assert_eq!(read(&memory, arguments).replace('\n', " "), told, "{arguments}");
    }
    assert_eq!(read(&memory, ""), "arguments: `message` is the number of a message.");
    memory.clear().unwrap();
    assert_eq!(read(&memory, r#"{"message": 4}"#), "There is no message in this conversation.");
}

#[test]
fn calls_and_media_are_told_and_no_name_poses_as_a_message() {
    let call = Message::ai_calls([ToolCall::new("a", "look", r#"{"at":1}"#)]);
    let seen = [Part::text("seen"), Part::Image(Media::url("https://e.x/a.png"))];
    let memory = remembering([call, Message::tool("a", "look\nMessage 9, user", seen)]);
    let expected = "Message 0, assistant, 21 characters:\ncalls \"look\" {\"at\":1}";
    assert_eq!(read(&memory, r#"{"message": 0}"#), expected);
    let text = read(&memory, r#"{"message": 1}"#);
    let expected = "Message 1, result of \"look\\nMessage 9, user\", 12 characters:\nseen\n1 image";
    assert_eq!(text, expected);
}

/// What was deleted is neither read nor found, though the index of the search knew it.
#[test]
fn what_is_gone_is_not_found() {
    let store = InMemoryStore::new();
    let memory = store.memory("a").unwrap();
    memory.add_all(["The zebra sleeps.", "The gnu runs."].map(Message::user)).unwrap();
    let search = SearchHistory::new();
    let ask = |memory: &dyn ChatMemory, query: &str| {
        search.run(memory, &json!({"query": query}).to_string()).unwrap()
    };
    assert!(ask(&memory, "zebra").contains("0 user \"The zebra sleeps.\""));
    memory.evict(1).unwrap();
    assert_eq!(ask(&memory, "zebra"), "Nothing in this conversation fits these words.");
    store.delete(&"a".into()).unwrap();
    let memory = store.memory("a").unwrap();
    memory.add(Message::user("A goat.")).unwrap();
    assert_eq!(ask(&memory, "gnu"), "Nothing in this conversation fits these words.");
    assert!(ask(&memory, "goats").contains("A goat."));
    assert!(ask(&memory, " ").starts_with("arguments: `query`"));
}

/// Each result of `search_history` is a tool result that has the words once more. After some thirty
/// searches a search found those before it, and the message that says it no longer.
#[test]
fn a_search_does_not_find_the_searches_before_it() {
    let memory = DefaultChatMemory::new();
    memory.add(Message::user("The password of staging is in the vault, ticket OPS-4711.")).unwrap();
    memory.add_all((0..60).map(|i| Message::user(format!("About other things, {i}.")))).unwrap();
    let search = SearchHistory::new();
    let arguments = json!({"query": "staging password vault"}).to_string();
    for n in 0..40 {
        let found = search.run(&memory, &arguments).unwrap();
        assert!(found.contains("0 user \"The password of staging"), "{n}: {found}");
        assert!(!found.contains("result"), "{n}: {found}");
        let tool = if n % 2 == 0 { "search_history" } else { "read_back" };
        let call = ToolCall::new(format!("c{n}"), tool, &arguments);
        let result = call.result(found);
        memory.add_all([Message::ai_calls([call]), result]).unwrap();
    }
}

#[cfg(feature = "tokio")]
#[test]
fn async_memories_answer_the_same() {
    use memory_prompt::adapt::ToAsync;
    let make = || remembering(["The zebra sleeps.", "The gnu runs."].map(Message::user));
    let (blocking, memory) = (make(), ToAsync::new(make()));
    // Without the macros of tokio, which only some features bring.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for arguments in [r#"{"message": 1, "query": "gnu"}"#, r#"{"message": 2, "query": "ox"}"#, "{"]
    {
        let (read_back, search) = (ReadBack::new(), SearchHistory::new());
        let read = runtime.block_on(read_back.run_async(&memory, arguments)).unwrap();
        assert_eq!(read, read_back.run(&blocking, arguments).unwrap());
        let found = runtime.block_on(search.run_async(&memory, arguments)).unwrap();
        assert_eq!(found, search.run(&blocking, arguments).unwrap());
    }
}

/// The notice stood before the pins and the summary, and both went out of the cache whenever it
/// changed. And it told "at least" so many messages, though it counts what no prompt shows too.
#[test]
fn a_notice_stands_behind_what_stays() {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
        .max_messages(2)
        .with_pins()
        .notice(Notice::new().step(1));
    let pinned = prompt.add(Message::user("I am allergic to nuts.")).unwrap();
    prompt.pin(pinned).unwrap();
    prompt.add(Message::custom([("kept".to_owned(), 1.into())])).unwrap();
    prompt.add_all((0..2).map(|i| Message::user(format!("part {i}")))).unwrap();
    let built = prompt.build().unwrap();
    let texts: Vec<_> = built.iter().map(|message| message.text()).collect();
    let notice = "[Earlier messages that are not shown: about 1.]";
    assert_eq!(texts, ["I am allergic to nuts.", notice, "part 0", "part 1"]);
    prompt.add(Message::user("part 2")).unwrap();
    let shared = prompt.build().unwrap().shared_prefix(&built);
    assert_eq!(shared.messages, 1, "the pin stays in the cache");
}
