//! A model that books what it is asked for, and what its turns must look like in a memory.

use memory_prompt::record::Records;
use memory_prompt::turn::Reply;
use memory_prompt::{Message, Prompt, ToolCall};

/// Calls a tool with the question, and answers with what that said.
pub(crate) fn reply(prompt: &Prompt) -> Reply {
    // Behind the question there may be a note about what the other turns have begun.
    let is_note = |it: &&Message| it.text().starts_with("(Begun earlier");
    let last = prompt.iter().filter(|it| !is_note(it)).last().unwrap();
    if let Some(result) = last.as_tool() {
        return format!("answer: {}", result.content().text()).into();
    }
    let arguments = serde_json::to_string(&*last.text()).unwrap();
    Message::ai_calls([ToolCall::new(last.text(), "book", arguments)]).into()
}

/// Each question is there once, with all that followed it right behind.
pub(crate) fn check(all: &Records, mut questions: Vec<String>) {
    let texts: Vec<_> = all.messages().map(|it| it.text().into_owned()).collect();
    for turn in texts.chunks(4) {
        let question = &turn[0];
        assert_eq!(turn[2], format!("booked {question}"));
        assert_eq!(turn[3], format!("answer: booked {question}"));
        let place = questions.iter().position(|it| it == question);
        questions.swap_remove(place.unwrap_or_else(|| panic!("{question} is here twice")));
    }
    assert!(questions.is_empty(), "{questions:?} are lost");
}
