//! The public side of the memories that evict.

/// Adds the common methods to an evicting memory, which has its own name and constructors.
macro_rules! evicting {
    ($name:ident) => {
        impl<M: ChatMemory> $name<M> {
            /// Returns the same memory with a callback that receives the records to be evicted: to
            /// archive or to summarise them.
            ///
            /// - It is called **before** the records are forgotten, with whole tool groups, in the
            ///   order of their positions, and never by two threads at once. No lock is held, so
            ///   others can append and read in the meantime.
            /// - Each record is given **once**, unless the callback fails or panics: then nothing
            ///   is forgotten, and the next append offers the same records again; the append itself
            ///   is done, and [`trim`](Self::trim) returns the error. After a crash in between, or
            ///   if several processes or handles evict from the same memory, a record may be given
            ///   again: at least once in all, if each of them has a callback.
            /// - If others **clear** a conversation, or **delete and begin it again**, the callback
            ///   gets the records of the new one, as far as this memory evicts them. The
            ///   conversation is checked once more before records are evicted, since it may have
            ///   changed while the callback ran. The
            ///   [incarnation](crate::record::Snapshot::incarnation) shows the change; in a memory
            ///   without incarnations it is noticed only if the end or the beginning moved back.
            /// - It may append to this memory on the thread that it is called on: what that pushes
            ///   out waits for the next append. A callback that appends through another thread each
            ///   time never ends. If it evicts from this memory, that fails with an
            ///   [`ErrorKind::Storage`](crate::ErrorKind::Storage).
            /// - It is not called for what [`evict`](ChatMemory::evict) or
            ///   [`clear`](ChatMemory::clear) forgets.
            #[must_use]
            pub fn on_evict(
                mut self,
                on_evict: impl Fn(
                    &MemoryId,
                    &Records,
                ) -> Result<(), Box<dyn StdError + Send + Sync>>
                + Send
                + Sync
                + 'static,
            ) -> Self {
                self.inner.on_evict = Some(Box::new(on_evict));
                self
            }

            /// Evicts now what is over the limit, and returns how many records: after the limit
            /// became smaller, or to see why an append could not evict.
            ///
            /// What another thread is evicting at this moment is left to that thread.
            ///
            /// # Errors
            ///
            /// Those of the memory inside and of the counter, and
            /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the callback failed.
            pub fn trim(&self) -> Result<u64> {
                self.inner.trim()
            }

            /// Returns the memory inside.
            pub fn memory(&self) -> &M {
                &self.inner.memory
            }
        }

        #[deny(clippy::missing_trait_methods)] // a default method would read past the limit
        impl<M: ChatMemory> ChatMemory for $name<M> {
            fn id(&self) -> &MemoryId {
                self.inner.memory.id()
            }

            fn append(
                &self,
                batch: &mut Vec<Message>,
                expected: Option<u64>,
            ) -> Result<Range<u64>> {
                let mut lent = LentBatch::new(batch, expected);
                Ok(self.append_with(&mut lent.append)?.positions)
            }

            fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
                self.inner.read(|memory| memory.read(before, n))
            }

            fn evict(&self, before: u64) -> Result<u64> {
                self.inner.evict(before)
            }

            fn clear(&self) -> Result<()> {
                self.inner.clear()
            }

            fn append_with(&self, append: &mut Append) -> Result<Appended> {
                self.inner.append_with(append)
            }

            fn read_with(&self, read: &Read) -> Result<Snapshot> {
                self.inner.read(|memory| memory.read_with(read))
            }

            fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
                self.inner.memory.slots()
            }

            fn limits(&self) -> Limits {
                self.inner.memory.limits()
            }

            fn already_shared(&self) -> Option<std::sync::Arc<dyn ChatMemory>>
            where
                Self: 'static,
            {
                None // the memory inside is shared without its limit
            }

            fn all_branches(&self) -> Option<std::sync::Arc<dyn ChatMemory>> {
                None // nor has what is inside this limit
            }
        }

        impl<M: ChatMemory> fmt::Debug for $name<M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.debug(stringify!($name), f)
            }
        }
    };
}

pub(in crate::memory) use evicting;
