//! The last 10 of many cost what the last 10 of few cost, in every store.

use memory_prompt::{ChatMemoryExt, ChatMemoryStore};

use crate::backends::BACKENDS;
use crate::folder::Folder;
use crate::harness::{Claims, Pace, grouped};
use crate::messages::fill;

pub(crate) fn reads_are_flat(claims: &mut Claims) {
    let stored = grouped(claims.large());
    for backend in BACKENDS {
        let claim = format!("{backend}: last 10 of {stored} stored / of 100 stored");
        let folder = Folder::new();
        match (backend.open)(&folder) {
            Ok(store) => {
                let ratio = last_10(claims, backend.name, &store);
                claims.at_most(&claim, ratio, 1.5);
            }
            Err(why) => claims.leave_out(&claim, &why),
        }
    }
}

fn last_10(claims: &Claims, name: &str, store: &dyn ChatMemoryStore) -> f64 {
    let [large, small] = [claims.large(), 100].map(|n| {
        // A server outlives this program, so the ids are its own, and what they hold is removed.
        let id = format!("bench:{}:{n}", std::process::id());
        let memory = store.memory(id.into()).unwrap();
        fill(&memory, n);
        memory
    });
    assert_eq!(large.latest(10).unwrap().len(), 10);
    let found = claims.compare(
        Pace::FINE,
        [&format!("{name}: last 10 of {}", grouped(claims.large())), "of 100"],
        || large.latest(10).unwrap(),
        || small.latest(10).unwrap(),
    );
    for memory in [large, small] {
        assert!(store.delete(memory.id()).unwrap());
    }
    found.ratio
}
