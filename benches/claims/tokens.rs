//! A token window counts what is new and nothing else.

use memory_prompt::token::{Estimate, TokenCounter};
use memory_prompt::{ChatMemoryExt, DefaultChatMemory, Message, TokenWindowChatMemory};

use crate::harness::{Claims, Pace};
use crate::samples::sample;

pub(crate) fn appends_recount_nothing(claims: &mut Claims) {
    for characters in [300, 20] {
        let message = Message::user(sample("ascii", characters));
        let limit = 1000 * Estimate.count(&message).unwrap();
        let memory = TokenWindowChatMemory::new(DefaultChatMemory::new(), limit, Estimate).unwrap();
        memory.add_all(vec![message.clone(); 2000]).unwrap();
        let window = memory.all().unwrap();
        assert_eq!(window.len(), 1000);
        let recount =
            || window.messages().map(|message| Estimate.count(message).unwrap()).sum::<usize>();
        assert_eq!(recount(), limit);
        let append = || memory.add(message.clone()).unwrap();
        let names = [&*format!("{characters} characters: recount"), "append"];
        let found = claims.compare(Pace::FINE, names, recount, append);
        assert_eq!(memory.memory().all().unwrap().len(), 1000);
        let claim =
            format!("token window of 1,000 messages of {characters} characters: recount / append");
        claims.at_least(&claim, found.ratio, 100.0);
    }
}
