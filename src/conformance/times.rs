//! The laws of messages with their own times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Fixture;
use super::support::{ID, holds, later, numbered, refused, times};
use crate::error::ErrorKind;
use crate::memory::{Append, ChatMemory, ChatMemoryExt, Expected};
use crate::message::Message;

fn ms(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

/// Each message keeps its own time, in any order of the times.
pub fn each_message_keeps_the_time_that_it_brings<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let far = 4_102_444_800_000; // 2100
    let brought = [1_714_557_600_123, 1_714_557_600_123, 5, 0, far, 1_714_557_599_999].map(ms);
    let append = Append::new((0..6).map(numbered)).with_times(brought);
    assert_eq!(memory.append_with(&mut append.expecting(0)).unwrap().positions, 0..6);
    let before = later() - Duration::from_secs(2);
    memory.add(numbered(6)).unwrap();
    holds(&*memory, 0..7);
    for _ in 0..2 {
        let kept = times(&memory.all().unwrap());
        assert_eq!(kept[..6], brought);
        assert!(kept[6] >= before, "what brings none is appended now");
        later();
    }
}

/// A system message needs a time too, though it is not stored.
pub fn the_time_of_a_system_message_is_passed_over<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let batch = [numbered(0), Message::system("Be brief."), numbered(1)];
    let mut append = Append::new(batch).with_times([10, 20, 30].map(ms));
    assert_eq!(memory.append_with(&mut append).unwrap().positions, 0..2);
    assert_eq!(times(&memory.all().unwrap()), [10, 30].map(ms));
    assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system("Be brief.")));
}

/// If there is not exactly one time per message, the append is refused.
pub fn there_is_one_time_for_each_message<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for times in [vec![ms(1)], vec![ms(1); 3]] {
        let append = Append::new([numbered(0), numbered(1)]).with_times(times);
        let append = append.set_slot("a", "x", Expected::Any);
        assert_eq!(refused(&*memory, &append).kind(), ErrorKind::Invalid);
    }
    holds(&*memory, 0..0);
    assert!(memory.slots().unwrap().is_empty());
}

/// A closing appends nothing, and is a conflict if the conversation ends elsewhere.
pub fn a_closing_appends_nothing<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    memory.append_with(&mut Append::new([numbered(0)]).with_times([ms(1)])).unwrap();
    assert_eq!(memory.append_with(&mut Append::closing(1, ms(1))).unwrap().positions, 1..1);
    let error = memory.append_with(&mut Append::closing(0, ms(1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict { expected: 0, actual: 1 });
    holds(&*memory, 0..1);
}
