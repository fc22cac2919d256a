//! A store as small as it can be, every operation of which can be done otherwise.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_prompt::memory::{Append, Appended, Limits, MemoryId, Read};
use memory_prompt::record::{Incarnation, Records, Slot, SlotVersion, Snapshot};
use memory_prompt::store::Info;
use memory_prompt::{ChatMemory, ChatMemoryStore, Error, ErrorKind, Message, Result};
use parking_lot::{Mutex, MutexGuard};

/// What is kept of a conversation.
#[derive(Clone)]
pub(super) struct Conversation {
    pub(super) system: Option<Arc<Message>>,
    pub(super) rows: VecDeque<(u64, SystemTime, Message)>,
    pub(super) end: u64,
    pub(super) slots: BTreeMap<String, Slot>,
    /// The newest last.
    pub(super) known: VecDeque<(String, Appended)>,
    pub(super) active: SystemTime,
    pub(super) incarnation: Incarnation,
}

/// All that is kept, and what a fault wants to remember.
#[derive(Default)]
pub(super) struct Data {
    pub(super) all: BTreeMap<String, Conversation>,
    pub(super) notes: BTreeMap<String, u64>,
    pub(super) graves: BTreeMap<String, Conversation>,
}

/// Many conversations.
#[derive(Clone)]
pub(super) struct Shelf {
    pub(super) data: Arc<Mutex<Data>>,
    strange: Arc<Strange>,
}

/// One conversation.
pub(super) struct Book {
    pub(super) id: MemoryId,
    pub(super) shelf: Shelf,
    /// Under what it is kept.
    pub(super) key: String,
    /// What a fault keeps in this handle.
    pub(super) cache: Mutex<Option<Snapshot>>,
}

const IDS: usize = 64;

pub(super) fn millis(at: SystemTime) -> SystemTime {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    UNIX_EPOCH + Duration::from_millis(u64::try_from(since).unwrap())
}

pub(super) fn now() -> SystemTime {
    millis(SystemTime::now())
}

pub(super) fn conflict(expected: u64, actual: u64) -> Error {
    Error::new(ErrorKind::Conflict { expected, actual }, "append", "it ends elsewhere")
}

pub(super) fn failed(operation: &'static str, text: &str) -> Error {
    Error::new(ErrorKind::Storage, operation, text)
}

/// The rows of records, to make other records of them.
pub(super) fn rows(records: &Records) -> impl Iterator<Item = (u64, SystemTime, Message)> {
    records.iter().map(|it| (it.position(), it.appended_at(), it.message().clone()))
}

pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(14_695_981_039_346_656_037, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211)
    })
}

fn forgotten() -> Error {
    Error::new(ErrorKind::Forgotten, "append", "it is no more")
}

impl Conversation {
    fn new() -> Self {
        Self {
            system: None,
            rows: VecDeque::new(),
            end: 0,
            slots: BTreeMap::new(),
            known: VecDeque::new(),
            active: UNIX_EPOCH,
            incarnation: Incarnation::random(),
        }
    }

    pub(super) fn start(&self) -> u64 {
        self.rows.front().map_or(self.end, |row| row.0)
    }

    pub(super) fn positions(&self) -> Range<u64> {
        self.start()..self.end
    }

    pub(super) fn knows(&self, id: &str) -> Option<&Appended> {
        self.known.iter().find(|known| known.0 == id).map(|known| &known.1)
    }

    fn append(&mut self, append: &mut Append) -> Result<Appended> {
        if let Some(known) = append.id.as_deref().and_then(|id| self.knows(id)) {
            let mut known = known.clone();
            append.messages.clear();
            known.repeated = true;
            return Ok(known);
        }
        self.check(append)?;
        let first = self.end;
        let (now, is_empty) = (now(), append.is_empty());
        if !is_empty {
            self.active = append.active.map_or(self.active.max(now), millis);
        }
        let mut times = append.times.clone().into_iter();
        for message in append.messages.drain(..) {
            let at = times.next().map_or(now, millis);
            if message.is_system() {
                self.system = Some(Arc::new(message));
            } else {
                self.rows.push_back((self.end, at, message));
                self.end += 1;
            }
        }
        let mut appended = Appended::new(first..self.end);
        appended.recognised = true;
        let version = SlotVersion::random();
        for change in &append.slots {
            if let Some(content) = &change.content {
                let slot = Slot::new(change.name.as_str(), version, content);
                self.slots.insert(change.name.clone(), slot);
                appended.version = Some(version);
            } else {
                self.slots.remove(&change.name);
            }
        }
        if let Some(id) = append.id.clone().filter(|_| !is_empty) {
            self.known.push_back((id, appended.clone()));
            if self.known.len() > IDS {
                self.known.pop_front();
            }
        }
        Ok(appended)
    }

    pub(super) fn check(&self, append: &Append) -> Result<()> {
        if let Some(expected) = append.expected.filter(|expected| *expected != self.end) {
            return Err(conflict(expected, self.end));
        }
        if append.since.is_some_and(|it| !it.holds(Some(self.incarnation), &self.positions())) {
            return Err(forgotten());
        }
        let version = |name: &str| self.slots.get(name).map(Slot::version);
        append.slots.iter().try_for_each(|change| change.holds(version(&change.name)))
    }

    pub(super) fn read(&self, read: &Read) -> Snapshot {
        let before = read.before.unwrap_or(self.end);
        let found = self.rows.iter().filter(|row| row.0 < before);
        let skip = found.clone().count().saturating_sub(read.n);
        let records = Records::from_rows(found.skip(skip).cloned());
        let snapshot = Snapshot::new(self.positions(), records).with_system(self.system.clone());
        let mut snapshot = self.dressed(snapshot, read);
        snapshot.incarnation = Some(self.incarnation);
        snapshot
    }

    /// The snapshot with what else was asked for.
    pub(super) fn dressed(&self, snapshot: Snapshot, read: &Read) -> Snapshot {
        let picked = self.rows.iter().filter(|row| read.positions.contains(&row.0)).cloned();
        let slots =
            self.slots.values().filter(|slot| read.slots.iter().any(|it| it == slot.name()));
        snapshot.with_picked(Records::from_rows(picked), Vec::new()).with_slots(slots.cloned())
    }
}

type Do<A, R> = Box<dyn Fn(A) -> R + Send + Sync>;

type Ids = Result<Vec<MemoryId>>;

type Slots = Result<Vec<(MemoryId, Slot)>>;

macro_rules! strange {
    ($($(#[$documentation:meta])* $name:ident($($argument:ident: $type:ty),*) -> $returned:ty, honest $honest:expr;)*) => {
        /// What is done in place of each operation.
        pub(super) struct Strange {
            /// The fault in a few words.
            pub(super) fault: &'static str,
            $($name: Box<dyn Fn($($type),*) -> $returned + Send + Sync>,)*
            limits: Limits,
            key: Do<MemoryId, String>,
        }

        impl Strange {
            /// A store that does all as it should, but for what is said then.
            pub(super) fn of(fault: &'static str) -> Self {
                Self {
                    fault,
                    $($name: Box::new($honest),)*
                    limits: Limits::default().with_slot(usize::MAX).with_ids(IDS),
                    key: Box::new(|id| id.as_str().to_owned()),
                }
            }

            $($(#[$documentation])*
            pub(super) fn $name(mut self, done: impl Fn($($type),*) -> $returned + Send + Sync + 'static) -> Self {
                self.$name = Box::new(done);
                self
            })*
        }
    };
}

strange! {
    append(book: &Book, append: &mut Append) -> Result<Appended>, honest |book, append| book.write(append);
    read(book: &Book, read: &Read) -> Result<Snapshot>, honest |book, read| book.look(read);
    evict(book: &Book, before: u64) -> Result<u64>, honest |book, before| book.cut(before);
    clear(book: &Book) -> Result<()>, honest |book| book.wipe();
    slots(book: &Book) -> Result<Vec<(String, SlotVersion)>>, honest |book| book.names();
    debug(book: &Book) -> String, honest |book| format!("Book {:?}", book.id);
    ids(shelf: &Shelf, after: Option<&MemoryId>, n: usize) -> Ids, honest |shelf, after, n| shelf.list("", after, n);
    prefixed(shelf: &Shelf, prefix: &str, after: Option<&MemoryId>, n: usize) -> Ids,
        honest |shelf, prefix, after, n| shelf.list(prefix, after, n);
    slots_prefixed(shelf: &Shelf, prefix: &str, names: &str, after: Option<(&MemoryId, &str)>, n: usize) -> Slots,
        honest |shelf, prefix, names, after, n| shelf.slots_of(prefix, names, after, n);
    delete(shelf: &Shelf, key: &str) -> Result<bool>, honest |shelf, key| shelf.remove(key);
    delete_prefix(shelf: &Shelf, prefix: &str) -> Result<u64>, honest |shelf, prefix| shelf.remove_prefix(prefix);
    purge(shelf: &Shelf, older_than: SystemTime) -> Result<u64>, honest |shelf, time| shelf.sweep(time);
    info(shelf: &Shelf, key: &str) -> Result<Option<Info>>, honest |shelf, key| shelf.tell(key);
    restore(shelf: &Shelf, key: &str, start: u64, incarnation: Option<Incarnation>) -> Result<()>,
        honest |shelf, key, start, incarnation| shelf.begin(key, start, incarnation);
}

impl Strange {
    pub(super) fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Does something more once an append is done, or answers otherwise.
    pub(super) fn then(
        self,
        then: impl Fn(&Book, &Append, &mut Appended) + Send + Sync + 'static,
    ) -> Self {
        self.append(move |book, append| {
            let mut appended = book.write(append)?;
            then(book, append, &mut appended);
            Ok(appended)
        })
    }

    /// Does something more where so much is evicted.
    pub(super) fn evicted(
        self,
        then: impl Fn(&mut Conversation, u64) + Send + Sync + 'static,
    ) -> Self {
        self.evict(move |book, before| {
            let gone = book.cut(before)?;
            book.found(|it| then(it, before));
            Ok(gone)
        })
    }

    /// Does something more where all is cleared, with what was there before.
    pub(super) fn cleared(
        self,
        then: impl Fn(&mut Conversation, Conversation) + Send + Sync + 'static,
    ) -> Self {
        self.clear(move |book| {
            let was = book.found(|it| it.clone());
            book.wipe()?;
            if let Some(was) = was {
                book.found(|it| then(it, was));
            }
            Ok(())
        })
    }

    /// Under what a conversation is kept, in place of its id.
    pub(super) fn key(mut self, key: impl Fn(MemoryId) -> String + Send + Sync + 'static) -> Self {
        self.key = Box::new(key);
        self
    }
}

/// What an honest memory does.
impl Book {
    pub(super) fn write(&self, append: &mut Append) -> Result<Appended> {
        append.check(&self.limits())?;
        let mut data = self.shelf.data.lock();
        if !data.all.contains_key(&self.key) {
            append.check_on_nothing()?;
            if !append.creates() {
                append.messages.clear();
                let mut appended = Appended::new(0..0);
                appended.recognised = true;
                return Ok(appended);
            }
        }
        let found = data.all.entry(self.key.clone()).or_insert_with(Conversation::new);
        found.append(append)
    }

    /// Writes something else than the append says, which nobody else is to see.
    pub(super) fn write_as(
        &self,
        append: &mut Append,
        other: impl FnOnce(&mut Append),
    ) -> Result<Appended> {
        let mut copy = append.clone();
        other(&mut copy);
        let appended = self.write(&mut copy);
        append.messages = copy.messages;
        appended
    }

    pub(super) fn look(&self, read: &Read) -> Result<Snapshot> {
        read.check()?;
        Ok(self.found(|it| it.read(read)).unwrap_or_default())
    }

    /// Reads something else than is asked for.
    pub(super) fn look_as(&self, read: &Read, other: impl FnOnce(&mut Read)) -> Result<Snapshot> {
        let mut copy = read.clone();
        other(&mut copy);
        self.look(&copy)
    }

    pub(super) fn cut(&self, before: u64) -> Result<u64> {
        let gone = self.found(|it| {
            let held = it.rows.len();
            it.rows.retain(|row| row.0 >= before);
            (held - it.rows.len()) as u64
        });
        Ok(gone.unwrap_or(0))
    }

    pub(super) fn wipe(&self) -> Result<()> {
        self.found(|it| {
            it.system = None;
            it.rows.clear();
            it.slots.clear();
            it.incarnation = Incarnation::random();
        });
        Ok(())
    }

    pub(super) fn names(&self) -> Result<Vec<(String, SlotVersion)>> {
        let names = self.found(|it| {
            it.slots.values().map(|slot| (slot.name().to_owned(), slot.version())).collect()
        });
        Ok(names.unwrap_or_default())
    }

    /// What is kept of it, where there is something.
    pub(super) fn found<T>(&self, done: impl FnOnce(&mut Conversation) -> T) -> Option<T> {
        self.shelf.data.lock().all.get_mut(&self.key).map(done)
    }

    pub(super) fn data(&self) -> MutexGuard<'_, Data> {
        self.shelf.data.lock()
    }

    pub(super) fn end(&self) -> u64 {
        self.found(|it| it.end).unwrap_or(0)
    }

    pub(super) fn knows(&self, id: Option<&str>) -> bool {
        id.is_some_and(|id| self.found(|it| it.knows(id).is_some()) == Some(true))
    }
}

/// What an honest store does.
impl Shelf {
    pub(super) fn new(strange: Arc<Strange>) -> Self {
        Self { data: Arc::default(), strange }
    }

    pub(super) fn list(&self, prefix: &str, after: Option<&MemoryId>, n: usize) -> Ids {
        let data = self.data.lock();
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.as_str()));
        let ids = data.all.range::<str, _>((from, Bound::Unbounded)).map(|(id, _)| id.as_str());
        Ok(ids.filter(|id| id.starts_with(prefix)).take(n).map(MemoryId::from).collect())
    }

    pub(super) fn slots_of(
        &self,
        prefix: &str,
        names: &str,
        after: Option<(&MemoryId, &str)>,
        n: usize,
    ) -> Slots {
        let data = self.data.lock();
        let all = data.all.iter().flat_map(|(id, it)| it.slots.values().map(move |it| (id, it)));
        let wanted = all.filter(|(id, slot)| {
            let is_behind =
                after.is_none_or(|after| (id.as_str(), slot.name()) > (after.0.as_str(), after.1));
            is_behind && id.starts_with(prefix) && slot.name().starts_with(names)
        });
        Ok(wanted.take(n).map(|(id, slot)| (id.as_str().into(), slot.clone())).collect())
    }

    pub(super) fn remove(&self, key: &str) -> Result<bool> {
        Ok(self.data.lock().all.remove(key).is_some())
    }

    pub(super) fn remove_prefix(&self, prefix: &str) -> Result<u64> {
        if prefix.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "delete_prefix", "that is everything"));
        }
        Ok(self.keep(|key, _| !key.starts_with(prefix)))
    }

    pub(super) fn sweep(&self, older_than: SystemTime) -> Result<u64> {
        Ok(self.keep(|_, it| it.active >= millis(older_than)))
    }

    pub(super) fn tell(&self, key: &str) -> Result<Option<Info>> {
        let data = self.data.lock();
        let found = data.all.get(key);
        let info =
            found.map(|it| Info::new(it.positions(), it.active).with_incarnation(it.incarnation));
        Ok(info)
    }

    pub(super) fn begin(
        &self,
        key: &str,
        start: u64,
        incarnation: Option<Incarnation>,
    ) -> Result<()> {
        let mut data = self.data.lock();
        if data.all.contains_key(key) {
            return Err(Error::new(ErrorKind::Exists, "restore", "it is there"));
        }
        let mut begun = Conversation::new();
        (begun.end, begun.active) = (start, now());
        begun.incarnation = incarnation.unwrap_or(begun.incarnation);
        data.all.insert(key.to_owned(), begun);
        Ok(())
    }

    /// Keeps those that are wanted; returns how many are gone.
    pub(super) fn keep(&self, mut wanted: impl FnMut(&str, &mut Conversation) -> bool) -> u64 {
        let mut data = self.data.lock();
        let before = data.all.len();
        data.all.retain(|key, it| wanted(key, it));
        (before - data.all.len()) as u64
    }

    pub(super) fn book(&self, id: MemoryId) -> Result<Book> {
        let key = self.key_of(&id);
        Ok(Book { id, shelf: self.clone(), key, cache: Mutex::default() })
    }

    fn key_of(&self, id: &MemoryId) -> String {
        (self.strange.key)(id.clone())
    }
}

impl ChatMemory for Book {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let mut append = Append::new(std::mem::take(batch));
        append.expected = expected;
        let appended = self.append_with(&mut append);
        *batch = append.messages;
        appended.map(|it| it.positions)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        let mut read = Read::newest(n);
        read.before = before;
        self.read_with(&read)
    }

    fn evict(&self, before: u64) -> Result<u64> {
        (self.shelf.strange.evict)(self, before)
    }

    fn clear(&self) -> Result<()> {
        (self.shelf.strange.clear)(self)
    }

    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        (self.shelf.strange.append)(self, append)
    }

    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        (self.shelf.strange.read)(self, read)
    }

    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        (self.shelf.strange.slots)(self)
    }

    fn limits(&self) -> Limits {
        self.shelf.strange.limits
    }
}

impl ChatMemoryStore for Shelf {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        Ok(Arc::new(self.book(id)?))
    }

    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Ids {
        (self.strange.ids)(self, after, n)
    }

    fn delete(&self, id: &MemoryId) -> Result<bool> {
        (self.strange.delete)(self, &self.key_of(id))
    }

    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64> {
        (self.strange.purge)(self, older_than)
    }

    fn ids_with_prefix(&self, prefix: &str, after: Option<&MemoryId>, n: usize) -> Ids {
        (self.strange.prefixed)(self, prefix, after, n)
    }

    fn slots_with_prefix(
        &self,
        prefix: &str,
        names: &str,
        after: Option<(&MemoryId, &str)>,
        n: usize,
    ) -> Slots {
        (self.strange.slots_prefixed)(self, prefix, names, after, n)
    }

    fn info(&self, id: &MemoryId) -> Result<Option<Info>> {
        (self.strange.info)(self, &self.key_of(id))
    }

    fn delete_prefix(&self, prefix: &str) -> Result<u64> {
        (self.strange.delete_prefix)(self, prefix)
    }

    fn restore(&self, id: &MemoryId, start: u64, incarnation: Option<Incarnation>) -> Result<()> {
        (self.strange.restore)(self, &self.key_of(id), start, incarnation)
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shelf")
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.shelf.strange.debug)(self))
    }
}
