//! Methods of a memory that are those of the memory inside.

/// Writes these methods of a `ChatMemory`, each of which asks the memory in this field.
macro_rules! inside {
    ($field:tt: $($method:ident)+) => {
        $($crate::inside::inside!(@$method $field);)+
    };
    (@id $field:tt) => {
        fn id(&self) -> &memory_prompt::memory::MemoryId {
            self.$field.id()
        }
    };
    (@append $field:tt) => {
        fn append(
            &self,
            batch: &mut Vec<memory_prompt::Message>,
            expected: Option<u64>,
        ) -> memory_prompt::Result<std::ops::Range<u64>> {
            self.$field.append(batch, expected)
        }
    };
    (@append_with $field:tt) => {
        fn append_with(
            &self,
            append: &mut memory_prompt::memory::Append,
        ) -> memory_prompt::Result<memory_prompt::memory::Appended> {
            self.$field.append_with(append)
        }
    };
    (@read $field:tt) => {
        fn read(
            &self,
            before: Option<u64>,
            n: usize,
        ) -> memory_prompt::Result<memory_prompt::record::Snapshot> {
            self.$field.read(before, n)
        }
    };
    (@evict $field:tt) => {
        fn evict(&self, before: u64) -> memory_prompt::Result<u64> {
            self.$field.evict(before)
        }
    };
    (@clear $field:tt) => {
        fn clear(&self) -> memory_prompt::Result<()> {
            self.$field.clear()
        }
    };
    (@slots $field:tt) => {
        fn slots(
            &self,
        ) -> memory_prompt::Result<Vec<(String, memory_prompt::record::SlotVersion)>> {
            self.$field.slots()
        }
    };
    (@limits $field:tt) => {
        fn limits(&self) -> memory_prompt::memory::Limits {
            self.$field.limits()
        }
    };
}
pub(crate) use inside;
