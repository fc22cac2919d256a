//! The laws of messages with their own times.

use std::time::{Duration, SystemTime};

use super::prelude::*;

/// Each message keeps its own time, in any order of the times; one before 1970 is kept as 1970.
pub fn each_message_keeps_the_time_that_it_brings<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let (in_2100, in_2024) = (ms(4_102_444_800_000), long_ago(0));
    let before_1970 = ms(0) - Duration::from_millis(1);
    let brought = [in_2024, in_2024, ms(5), ms(0), in_2100, ms(1_714_557_599_999), before_1970];
    memory.appends(appending(0..7).with_times(brought).expecting(0), 0..7);
    let before = SystemTime::now();
    memory.says(7..8).holds(0..8);
    for _ in 0..2 {
        let kept = times(&memory.all().unwrap());
        assert_eq!(kept[..6], brought[..6]);
        assert_eq!(kept[6], ms(0), "a time before 1970 is kept as 1970");
        is_of_now::<F>(kept[7], before);
        later::<F>();
    }
}

/// A system message also needs a time, though it is not stored.
pub fn the_time_of_a_system_message_is_passed_over<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let batch = [numbered(0), Message::system("Be brief."), numbered(1)];
    let append = Append::new(batch).with_times([10, 20, 30].map(ms));
    memory.appends(append, 0..2).holds_under(Some("Be brief."), 0..2);
    assert_eq!(times(&memory.all().unwrap()), [10, 30].map(ms));
}

/// If there is not exactly one time per message, the append is refused.
pub fn there_is_one_time_for_each_message<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for n in [1, 3] {
        let append = appending(0..2).with_times(vec![ms(1); n]).set_slot("a", "x", Any);
        memory.refuses(&append, ErrorKind::Invalid);
    }
    memory.holds(0..0).lists(&[]);
}

/// A closing appends nothing, and is a conflict if the conversation ends elsewhere.
pub fn a_closing_appends_nothing<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let first = appending(0..1).with_times([ms(1)]);
    memory.appends(first, 0..1).appends(Append::closing(1, ms(1)), 1..1);
    let conflict = ErrorKind::Conflict { expected: 0, actual: 1 };
    memory.refuses(&Append::closing(0, ms(1)), conflict).holds(0..1);
}
