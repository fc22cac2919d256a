//! Memories over another one: what they leave to it, in a line.

/// The methods of a `ChatMemory` that are those of the memory in a field.
macro_rules! through {
    ($inside:tt: $($method:ident)+) => {$(
        $crate::through::through!(@$method $inside);
    )+};
    (@id $inside:tt) => {
        fn id(&self) -> &memory_prompt::memory::MemoryId {
            self.$inside.id()
        }
    };
    (@append $inside:tt) => {
        fn append(
            &self,
            batch: &mut Vec<memory_prompt::Message>,
            expected: Option<u64>,
        ) -> memory_prompt::Result<std::ops::Range<u64>> {
            self.$inside.append(batch, expected)
        }
    };
    (@append_with $inside:tt) => {
        fn append_with(
            &self,
            append: &mut memory_prompt::memory::Append,
        ) -> memory_prompt::Result<memory_prompt::memory::Appended> {
            self.$inside.append_with(append)
        }
    };
    (@read $inside:tt) => {
        fn read(
            &self,
            before: Option<u64>,
            n: usize,
        ) -> memory_prompt::Result<memory_prompt::record::Snapshot> {
            self.$inside.read(before, n)
        }
    };
    (@evict $inside:tt) => {
        fn evict(&self, before: u64) -> memory_prompt::Result<u64> {
            self.$inside.evict(before)
        }
    };
    (@clear $inside:tt) => {
        fn clear(&self) -> memory_prompt::Result<()> {
            self.$inside.clear()
        }
    };
    (@limits $inside:tt) => {
        fn limits(&self) -> memory_prompt::memory::Limits {
            self.$inside.limits()
        }
    };
}
pub(crate) use through;
