//! The inspector shows which messages of earlier prompts are not on the current branch.

use memory_prompt::inspect::Inspector;
use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Truncate, Window};

/// Whoever looked at a page after an edit could not see which prompts had sent what was taken back.
#[test]
fn it_marks_what_is_not_on_the_current_branch() {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new()).window(Window::all()).with_branches();
    let mut prompt = prompt.truncate(Truncate::chars(40).unwrap());
    let mut inspector = Inspector::new();
    let mut seen = |prompt: &mut MemoryPrompt| {
        let branch = prompt.page(None, 0).unwrap().branch;
        inspector.push(&prompt.build().unwrap(), None).made_on(branch);
    };
    prompt.add_all(["q0", "a1", "q2"].map(Message::user)).unwrap();
    seen(&mut prompt);
    prompt.edit(1, Message::ai("cut ".repeat(99))).unwrap();
    seen(&mut prompt);
    prompt.add(Message::user("later")).unwrap();
    prompt.edit(2, Message::user("other")).unwrap();
    seen(&mut prompt);
    prompt.switch(prompt.variants(2).unwrap()[0]).unwrap();
    seen(&mut prompt);

    let marks = |inspector: &Inspector| -> Vec<usize> {
        let html = inspector.html();
        let prompts = html.split("<section>").skip(1);
        prompts.map(|it| it.matches("not on the current branch").count()).collect()
    };
    assert_eq!(marks(&inspector), [0, 0, 0, 0]);
    inspector.marking(prompt.branches().unwrap());
    assert_eq!(marks(&inspector), [2, 0, 1, 0]);
    // From the first branch on the others are seen as left.
    prompt.switch(prompt.variants(1).unwrap()[0]).unwrap();
    inspector.marking(prompt.branches().unwrap());
    assert_eq!(marks(&inspector), [0, 1, 2, 2]);
    let elsewhere = MemoryPrompt::new(DefaultChatMemory::new()).with_branches();
    elsewhere.add(Message::user("q0")).unwrap();
    inspector.marking(elsewhere.branches().unwrap());
    assert_eq!(marks(&inspector), [0, 0, 0, 0], "of branches that are not known nothing is said");
}
