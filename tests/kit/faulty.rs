//! A store, and memories of it, with one fault.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_prompt::memory::{Append, Appended, Expected, Limits, MemoryId, Read};
use memory_prompt::record::{Incarnation, Record, Records, Slot, SlotVersion, Snapshot};
use memory_prompt::store::{InMemory, Info};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, Error, ErrorKind, InMemoryStore, Message, Result,
};

macro_rules! fault {
    ($($name:ident),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Default)]
        pub(crate) enum Fault {
            #[default]
            None,
            $($name),*
        }
        #[allow(unused_imports, reason = "some are only planted")]
        pub(crate) use Fault::{$($name),*};
    };
}

fault! {
    // Of memories of five methods.
    TakesTheBatchOfAConflict, ForgetsPositionsWhenCleared, ReadsOneMore, EvictsTheSystemMessage,
    StoresOneByOne, IgnoresExpected, FoldsIds, TellsSecrets, CutsAtNul,
    ClearIsActivity, TimesAreMadeUpByReads, TimesAreThoseOfTheLastAppend, SystemOfAnotherMoment, EndOfAnotherMoment,
    // Of ids.
    IgnoresIds, SaysThatIdsAreNotRecognised, RecognisesByText, Knows63Ids, ForgetsIdsWhenCleared,
    ForgetsIdsWhenEvicted, RemembersFailedAppends, RemembersNothing, SharesIds, FoldsAppendIds,
    LeavesTheMessagesOfARepetition, ComparesBeforeItRecognises, RepetitionWritesSlots,
    RepetitionTellsTheEnd, RepetitionTellsNoVersion, LooksIdsUpFirst, CutsLongIds,
    // Of slots.
    SlotsAfterMessages, SlotsBeforeMessages, OneSlotAfterTheOther, IgnoresVersions, AbsentIsAny,
    VersionsAreContents, VersionsBeginAnewWhenRemoved, VersionsBeginAnewWhenCleared,
    VersionsBeginAnewWhenDeleted, LooksVersionsUpFirst, ReadsAllSlots, PlainReadsBringSlots,
    BringsASlotTwice, SlotsOfAnotherMoment, ListsTheSystemMessage, ListsInAnyOrder, EvictsSlots,
    KeepsSlotsWhenCleared, FoldsNames, CutsSlotsAtNul, SlotsAreText, TakesTheNameOfTheSystemMessage,
    ErrorsTellSlots, DebugTellsSlots, RemovingTellsAVersion,
    // Of what was seen, single records, and incarnations.
    IgnoresWhatWasSeen, SeesNoClear, SeesNoEviction, PicksAmongTheNewest, PicksInTheOrderAsked,
    PicksOfAnotherMoment, PicksHideTheNewest, IncarnationOfTheRead, IncarnationOutlivesClears,
    IncarnationOfTheId, NoIncarnation,
    // Of times.
    IgnoresTimes, TimesInSeconds, OneTimeABatch, TimesAscend, SystemMessagesHaveNoTime,
    ImportsAreAsOldAsTheirMessages, IgnoresClosing, ClosesWhateverWasAppended, ClosingIsTheLastWord,
    // Of stores.
    SlotsAreNoActivity, RemovingIsNoActivity, RepetitionIsActivity, RemovingCreates, NothingCreates,
    SlotsForgetWhereTheyWere, SlotsOfAnyName, OneSlotOfEach,
    FailuresCreate, PrefixIsAPattern, PrefixFoldsCase, PrefixForgetsWhereItWas, PrefixIsAnywhere,
    DeletesEverything, CountsPrefixesOnce, InfoOfNothing, InfoBeginsAt0, InfoIsActiveNow,
    RestoresOverOthers, RestoresAt0, RestoresAsAnother, RestoresAsInactive, IdsSurviveADelete,
    ReadsAnIncarnationOfNothing,
}

/// What is kept of a conversation beside it, for the faults.
#[derive(Default)]
struct Note {
    clears: u64,
    evictions: u64,
    cleared_to: u64,
    #[allow(clippy::option_option)] // none may be what lasts
    lasting: Option<Option<Incarnation>>,
    ids: Vec<String>,
    known: HashMap<String, Appended>,
    versions: HashMap<String, u64>,
}

#[derive(Default)]
pub(crate) struct Shared {
    fault: Fault,
    store: InMemoryStore,
    notes: Mutex<HashMap<MemoryId, Note>>,
}

pub(crate) struct Faulty {
    shared: Arc<Shared>,
    id: MemoryId,
    inner: InMemory,
}

#[derive(Clone)]
pub(crate) struct FaultyStore(Arc<Shared>);

impl FaultyStore {
    pub(crate) fn new(fault: Fault) -> Self {
        Self(Arc::new(Shared { fault, ..Shared::default() }))
    }

    pub(crate) fn memory(&self, id: MemoryId) -> Faulty {
        let folded =
            if self.0.fault == FoldsIds { id.as_str().to_lowercase() } else { id.to_string() };
        Faulty { shared: Arc::clone(&self.0), id, inner: self.0.store.memory(folded).unwrap() }
    }

    fn is(&self, fault: Fault) -> bool {
        self.0.fault == fault
    }
}

impl std::fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FaultyStore")
    }
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is(TellsSecrets) {
            let records = self.inner.all().unwrap_or_default();
            return f.debug_list().entries(records.messages()).finish();
        }
        if self.is(DebugTellsSlots) {
            let slot = self.inner.slot("a").ok().flatten();
            return write!(f, "{:?}", slot.as_ref().and_then(Slot::text));
        }
        write!(f, "{:?}", self.inner)
    }
}

fn pause() {
    thread::sleep(Duration::from_micros(50));
}

fn rows(records: &Records, at: impl Fn(Record<'_>) -> SystemTime) -> Records {
    Records::from_rows(records.iter().map(|r| (r.position(), at(r), r.message().clone())))
}

impl Faulty {
    fn is(&self, fault: Fault) -> bool {
        self.shared.fault == fault
    }

    fn note<R>(&self, with: impl FnOnce(&mut Note) -> R) -> R {
        let mut notes: MutexGuard<'_, HashMap<_, _>> = self.shared.notes.lock().unwrap();
        with(notes.entry(self.id.clone()).or_default())
    }

    fn info(&self) -> Option<Info> {
        self.shared.store.info(self.inner.id()).unwrap()
    }

    /// Says that the conversation was last active at this time.
    fn set_active(&self, at: SystemTime) {
        if let Some(info) = self.info() {
            self.inner.append_with(&mut Append::closing(info.end, at)).unwrap();
        }
    }

    /// The slot as this memory shows it: with versions that are counted where the fault is in them.
    fn shown(&self, slot: &Slot) -> Slot {
        let name = slot.name();
        let version = match self.shared.fault {
            VersionsAreContents => {
                let hash =
                    slot.content().iter().fold(7u64, |hash, byte| hash * 31 + u64::from(*byte));
                SlotVersion::from_bits(hash)
            }
            VersionsBeginAnewWhenRemoved
            | VersionsBeginAnewWhenCleared
            | VersionsBeginAnewWhenDeleted => {
                let count = self.note(|note| note.versions.get(name).copied().unwrap_or(0));
                SlotVersion::from_bits(count)
            }
            _ => slot.version(),
        };
        let text = slot.content();
        let content = match self.shared.fault {
            CutsSlotsAtNul => text.split(|byte| *byte == 0).next().unwrap().to_vec(),
            SlotsAreText => String::from_utf8_lossy(text).into_owned().into_bytes(),
            _ => text.to_vec(),
        };
        Slot::new(name, version, content)
    }

    fn counts_versions(&self) -> bool {
        [
            VersionsAreContents,
            VersionsBeginAnewWhenRemoved,
            VersionsBeginAnewWhenCleared,
            VersionsBeginAnewWhenDeleted,
        ]
        .contains(&self.shared.fault)
    }

    /// An append whose versions are those that this memory shows.
    fn with_counted_versions(&self, append: &mut Append) -> Result<Appended> {
        let mut real = append.clone();
        for change in &mut real.slots {
            if let Expected::Is(wanted) = change.expected
                && let Some(slot) = self.inner.slot(change.name.as_str())?
                && self.shown(&slot).version() == wanted
            {
                change.expected = Expected::Is(slot.version());
            }
        }
        let mut appended = self.inner.append_with(&mut real)?;
        append.messages.clear();
        if !appended.repeated {
            for change in &append.slots {
                let count = self.note(|note| {
                    let count = note.versions.entry(change.name.clone()).or_insert(0);
                    *count += 1;
                    if change.content.is_none() && self.is(VersionsBeginAnewWhenRemoved) {
                        *count = 0;
                    }
                    *count
                });
                if change.content.is_some() {
                    let slot = self.inner.slot(change.name.as_str())?.unwrap();
                    let _ = count;
                    appended.version = Some(self.shown(&slot).version());
                }
            }
        }
        Ok(appended)
    }

    /// What is wrong with an append before it comes to the memory inside.
    #[allow(clippy::too_many_lines, reason = "one arm a fault")]
    fn change(&self, append: &mut Append) -> Result<Appended> {
        let before = self.info();
        let (end, id) = (before.as_ref().map_or(0, |info| info.end), append.id.clone());
        match self.shared.fault {
            IgnoresIds => append.id = None,
            RecognisesByText if !append.messages.is_empty() => {
                let n = append.messages.len();
                let last = self.inner.latest(n)?;
                if last.messages().eq(&append.messages) {
                    append.messages.clear();
                    let mut appended = Appended::new(end - n as u64..end);
                    (appended.recognised, appended.repeated) = (true, true);
                    return Ok(appended);
                }
            }
            Knows63Ids => {
                if let Some(id) = id {
                    let forgotten = self.note(|note| {
                        let at = note.ids.iter().position(|known| *known == id);
                        if at.is_none() {
                            note.ids.push(id.clone());
                        }
                        at.is_some_and(|at| note.ids.len() - at > 63)
                    });
                    if forgotten {
                        append.id = None;
                    }
                }
            }
            ForgetsIdsWhenCleared => {
                append.id = id.map(|id| format!("{id} {}", self.note(|note| note.clears)));
            }
            ForgetsIdsWhenEvicted => {
                append.id = id.map(|id| format!("{id} {}", self.note(|note| note.evictions)));
            }
            RemembersFailedAppends => {
                if let Some(id) = id {
                    if let Some(known) = self.note(|note| note.known.get(&id).cloned()) {
                        append.messages.clear();
                        return Ok(known);
                    }
                    return self.inner.append_with(append).inspect_err(|_| {
                        let mut known = Appended::new(end..end);
                        (known.recognised, known.repeated) = (true, true);
                        self.note(|note| note.known.insert(id, known));
                    });
                }
            }
            RemembersNothing if append.is_empty() => {
                if let Some(id) = id {
                    append.id = None;
                    let mut done = self.inner.append_with(append)?;
                    let seen = self.note(|note| note.known.insert(id, done.clone()));
                    done.repeated = seen.is_some();
                    return Ok(done);
                }
            }
            SharesIds => {
                if let Some(id) = id {
                    let mut notes = self.shared.notes.lock().unwrap();
                    let note = notes.entry("everybody".into()).or_default();
                    if let Some(mut known) = note.known.get(&id).cloned() {
                        append.messages.clear();
                        known.repeated = true;
                        return Ok(known);
                    }
                    let appended = self.inner.append_with(append)?;
                    note.known.insert(id, appended.clone());
                    return Ok(appended);
                }
            }
            IdsSurviveADelete => {
                if let Some(id) = id {
                    if let Some(mut known) = self.note(|note| note.known.get(&id).cloned()) {
                        append.messages.clear();
                        known.repeated = true;
                        return Ok(known);
                    }
                    let appended = self.inner.append_with(append)?;
                    self.note(|note| note.known.insert(id, appended.clone()));
                    return Ok(appended);
                }
            }
            FoldsAppendIds => append.id = id.map(|id| id.to_lowercase()),
            LeavesTheMessagesOfARepetition => {
                let mut copy = append.clone();
                let appended = self.inner.append_with(&mut copy)?;
                if !appended.repeated {
                    append.messages.clear();
                }
                return Ok(appended);
            }
            ComparesBeforeItRecognises => {
                self.inner.append(&mut Vec::new(), append.expected)?;
            }
            RepetitionWritesSlots => {
                let slots = append.slots.clone();
                let appended = self.inner.append_with(append)?;
                if appended.repeated {
                    let mut again = Append::default();
                    again.slots = slots;
                    self.inner.append_with(&mut again)?;
                }
                return Ok(appended);
            }
            LooksIdsUpFirst => {
                if let Some(id) = id {
                    if let Some(mut known) = self.note(|note| note.known.get(&id).cloned()) {
                        append.messages.clear();
                        known.repeated = true;
                        return Ok(known);
                    }
                    pause();
                    append.id = None;
                    let mut appended = self.inner.append_with(append)?;
                    appended.recognised = true;
                    self.note(|note| note.known.insert(id, appended.clone()));
                    return Ok(appended);
                }
            }
            CutsLongIds => {
                append.id = id.map(|id| id.chars().take(100).collect::<String>() + "_");
            }
            SlotsAfterMessages => {
                let slots = std::mem::take(&mut append.slots);
                let mut appended = self.inner.append_with(append)?;
                let mut rest = Append::default();
                rest.slots = slots;
                appended.version = self.inner.append_with(&mut rest)?.version;
                return Ok(appended);
            }
            SlotsBeforeMessages => {
                let mut first = Append::default();
                first.slots = std::mem::take(&mut append.slots);
                let version = self.inner.append_with(&mut first)?.version;
                let mut appended = self.inner.append_with(append)?;
                appended.version = version;
                return Ok(appended);
            }
            OneSlotAfterTheOther => {
                while append.slots.len() > 1 {
                    let mut one = Append::default();
                    one.slots.push(append.slots.remove(0));
                    self.inner.append_with(&mut one)?;
                }
            }
            IgnoresVersions => {
                append.slots.iter_mut().for_each(|change| change.expected = Expected::Any);
            }
            AbsentIsAny => {
                let absent = append.slots.iter_mut().filter(|it| it.expected == Expected::Absent);
                absent.for_each(|change| change.expected = Expected::Any);
            }
            LooksVersionsUpFirst => {
                for change in &mut append.slots {
                    let found = self.inner.slot(change.name.as_str())?;
                    change.holds(found.as_ref().map(Slot::version))?;
                    change.expected = Expected::Any;
                }
                pause();
            }
            FoldsNames => {
                append.slots.iter_mut().for_each(|change| change.name = change.name.to_lowercase());
            }
            TakesTheNameOfTheSystemMessage => {
                let system = append.slots.iter_mut().filter(|change| change.name == "system");
                system.for_each(|change| "the system".clone_into(&mut change.name));
            }
            IgnoresWhatWasSeen => append.since = None,
            SeesNoClear => {
                if let Some(since) = &mut append.since {
                    since.incarnation = None;
                }
            }
            SeesNoEviction => {
                if let Some(since) = &mut append.since {
                    since.newest = None;
                }
            }
            IgnoresTimes => append.times.clear(),
            TimesInSeconds => {
                for at in &mut append.times {
                    let seconds = at.duration_since(UNIX_EPOCH).unwrap().as_secs();
                    *at = UNIX_EPOCH + Duration::from_secs(seconds);
                }
            }
            OneTimeABatch => {
                if let Some(first) = append.times.first().copied() {
                    append.times.fill(first);
                }
            }
            TimesAscend => {
                let mut latest = UNIX_EPOCH;
                for at in &mut append.times {
                    latest = latest.max(*at);
                    *at = latest;
                }
            }
            SystemMessagesHaveNoTime if !append.times.is_empty() => {
                let mut times = append.times.clone().into_iter();
                let last = *append.times.last().unwrap();
                append.times = append
                    .messages
                    .iter()
                    .map(|it| if it.is_system() { last } else { times.next().unwrap_or(last) })
                    .collect();
            }
            ImportsAreAsOldAsTheirMessages => {
                append.active = append.active.or_else(|| append.times.iter().max().copied());
            }
            IgnoresClosing => append.active = None,
            ClosesWhateverWasAppended if append.active.is_some() => append.expected = None,
            ClosingIsTheLastWord if append.active.is_none() => {
                let closed = self.note(|note| note.known.get("closed").cloned()).is_some();
                append.active = before.as_ref().filter(|_| closed).map(|info| info.active);
            }
            RemovingCreates if append.slots.iter().any(|change| change.content.is_none()) => {
                let _ = self.shared.store.restore(self.inner.id(), 0, None);
            }
            NothingCreates if append.is_empty() => {
                let _ = self.shared.store.restore(self.inner.id(), 0, None);
            }
            FailuresCreate => {
                return self.inner.append_with(append).inspect_err(|_| {
                    let _ = self.shared.store.restore(self.inner.id(), 0, None);
                });
            }
            _ => {}
        }
        let closing = append.active;
        let (writes, removes) = (
            append.slots.iter().any(|change| change.content.is_some()),
            append.slots.iter().any(|change| change.content.is_none()),
        );
        let alone = append.messages.is_empty();
        let contents: Vec<_> = append.slots.iter().filter_map(|it| it.content.clone()).collect();
        let appended = if self.counts_versions() {
            self.with_counted_versions(append)
        } else {
            self.inner.append_with(append)
        };
        let mut appended = appended.map_err(|error| {
            if self.is(ErrorsTellSlots) && error.kind() == ErrorKind::SlotConflict {
                let text =
                    contents.iter().map(|it| String::from_utf8_lossy(it)).collect::<String>();
                return Error::new(error.kind(), "append", text);
            }
            error
        })?;
        match self.shared.fault {
            SaysThatIdsAreNotRecognised => appended.recognised = false,
            IgnoresIds => appended.recognised = true,
            RepetitionTellsTheEnd if appended.repeated => appended.positions = end..end,
            RepetitionTellsNoVersion if appended.repeated => appended.version = None,
            RemovingTellsAVersion => {
                appended.version = appended.version.or_else(|| removes.then(SlotVersion::random));
            }
            SlotsAreNoActivity if alone && writes => {
                if let Some(info) = before {
                    self.set_active(info.active);
                }
            }
            RemovingIsNoActivity if alone && removes && !writes => {
                if let Some(info) = before {
                    self.set_active(info.active);
                }
            }
            RepetitionIsActivity if appended.repeated => self.set_active(SystemTime::now()),
            ClosingIsTheLastWord if closing.is_some() => {
                self.note(|note| note.known.insert("closed".to_owned(), Appended::new(0..0)));
            }
            _ => {}
        }
        Ok(appended)
    }

    fn show(&self, mut snapshot: Snapshot, read: &Read) -> Result<Snapshot> {
        let existing = snapshot.incarnation.is_some();
        match self.shared.fault {
            ForgetsPositionsWhenCleared => snapshot.end -= self.note(|note| note.cleared_to),
            TimesAreMadeUpByReads => {
                snapshot.records = rows(&snapshot.records, |_| SystemTime::now());
            }
            TimesAreThoseOfTheLastAppend => {
                let active = self.info().map_or(UNIX_EPOCH, |info| info.active);
                snapshot.records = rows(&snapshot.records, |_| active);
            }
            SystemOfAnotherMoment => {
                pause();
                snapshot.system = self.inner.system()?;
            }
            EndOfAnotherMoment => {
                pause();
                snapshot.end = self.inner.next_position()?;
            }
            IncarnationOfTheRead if existing => snapshot.incarnation = Some(Incarnation::random()),
            IncarnationOutlivesClears if existing => {
                let now = snapshot.incarnation;
                snapshot.incarnation = self.note(|note| *note.lasting.get_or_insert(now));
            }
            IncarnationOfTheId if existing => {
                let bits = self
                    .id
                    .as_str()
                    .bytes()
                    .fold(7u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
                snapshot.incarnation = Some(Incarnation::from_bits(bits));
            }
            NoIncarnation => snapshot.incarnation = None,
            ReadsAnIncarnationOfNothing if !existing => {
                snapshot.incarnation = Some(Incarnation::random());
            }
            PlainReadsBringSlots if read.slots.is_empty() => {
                let names = self.inner.slots()?.into_iter().map(|(name, _)| name);
                let all = self.inner.read_with(&Read::newest(0).slots(names))?;
                snapshot = snapshot.with_slots(all.slots().iter().cloned());
            }
            _ => {}
        }
        Ok(snapshot)
    }

    fn look(&self, read: &Read) -> Result<Snapshot> {
        let mut asked = read.clone();
        match self.shared.fault {
            ReadsAllSlots if !read.slots.is_empty() => {
                asked.slots = self.inner.slots()?.into_iter().map(|(name, _)| name).collect();
            }
            FoldsNames => asked.slots.iter_mut().for_each(|name| *name = name.to_lowercase()),
            TakesTheNameOfTheSystemMessage => asked.slots.retain(|name| name != "system"),
            SlotsOfAnotherMoment => asked.slots.clear(),
            PicksOfAnotherMoment => asked.positions.clear(),
            _ => {}
        }
        let found = self.inner.read_with(&asked)?;
        let mut records = found.picked().clone();
        let mut slots: Vec<Slot> = found.slots().iter().map(|slot| self.shown(slot)).collect();
        match self.shared.fault {
            BringsASlotTwice => {
                let twice = read.slots.iter().enumerate();
                let twice = twice.filter(|(i, name)| read.slots[..*i].contains(name));
                let twice: Vec<_> =
                    twice.filter_map(|(_, name)| found.slot(name).cloned()).collect();
                slots.extend(twice);
            }
            SlotsOfAnotherMoment => {
                pause();
                let again = self.inner.read_with(&Read::newest(0).slots(read.slots.clone()))?;
                slots = again.slots().to_vec();
            }
            FoldsNames => {
                slots = slots
                    .iter()
                    .flat_map(|slot| {
                        let names =
                            read.slots.iter().filter(|name| name.to_lowercase() == slot.name());
                        names.map(|name| Slot::new(name.as_str(), slot.version(), slot.content()))
                    })
                    .collect();
            }
            PicksAmongTheNewest => {
                let newest =
                    found.records.iter().filter(|r| read.positions.contains(&r.position()));
                records = Records::from_rows(
                    newest.map(|r| (r.position(), r.appended_at(), r.message().clone())),
                );
            }
            PicksInTheOrderAsked => {
                let held = found.picked();
                let asked = read.positions.iter();
                records = Records::from_rows(asked.filter_map(|position| {
                    let record = held.iter().find(|record| record.position() == *position)?;
                    Some((*position, record.appended_at(), record.message().clone()))
                }));
            }
            PicksOfAnotherMoment => {
                pause();
                let positions = read.positions.iter().copied();
                let again = self.inner.read_with(&Read::newest(0).positions(positions))?;
                records = again.picked().clone();
            }
            _ => {}
        }
        let mut plain = found.clone();
        if self.is(PicksHideTheNewest) {
            plain.records = Records::from_rows(
                found
                    .records
                    .iter()
                    .filter(|record| !read.positions.contains(&record.position()))
                    .map(|r| (r.position(), r.appended_at(), r.message().clone())),
            );
        }
        let mut snapshot = Snapshot::new(plain.start..plain.end, plain.records);
        (snapshot.system, snapshot.incarnation) = (plain.system, plain.incarnation);
        self.show(snapshot.with_slots(slots).with_picked(records, Vec::new()), read)
    }
}

impl ChatMemory for Faulty {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let expected = expected.filter(|_| !self.is(IgnoresExpected));
        match self.shared.fault {
            TakesTheBatchOfAConflict => self.inner.append(&mut std::mem::take(batch), expected),
            StoresOneByOne if expected.is_none() => {
                let first = self.inner.next_position()?;
                for message in batch.drain(..) {
                    pause();
                    self.inner.add(message)?;
                }
                Ok(first..self.inner.next_position()?)
            }
            CutsAtNul => {
                let cut = |message: Message| {
                    let text = message.text();
                    let head = text.split('\0').next().unwrap_or_default();
                    if message.is_user() { Message::user(head) } else { message }
                };
                let mut cut: Vec<_> = batch.iter().cloned().map(cut).collect();
                self.inner.append(&mut cut, expected).inspect(|_| batch.clear())
            }
            NothingCreates | FailuresCreate | ClosingIsTheLastWord => {
                let mut append = Append::new(std::mem::take(batch));
                append.expected = expected;
                let appended = self.change(&mut append);
                *batch = append.messages;
                appended.map(|appended| appended.positions)
            }
            _ => self.inner.append(batch, expected),
        }
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        let n = if self.is(ReadsOneMore) { n.saturating_add(1) } else { n };
        self.show(self.inner.read(before, n)?, &Read::newest(n))
    }

    fn evict(&self, before: u64) -> Result<u64> {
        let gone = self.inner.evict(before)?;
        self.note(|note| note.evictions += u64::from(gone > 0));
        match self.shared.fault {
            EvictsTheSystemMessage => self.inner.clear()?,
            EvictsSlots if gone > 0 => {
                for (name, _) in self.inner.slots()? {
                    self.inner.remove_slot(name, Expected::Any)?;
                }
            }
            _ => {}
        }
        Ok(gone)
    }

    fn clear(&self) -> Result<()> {
        let end = self.inner.next_position()?;
        self.note(|note| {
            note.clears += 1;
            note.cleared_to = end;
            if self.is(VersionsBeginAnewWhenCleared) {
                note.versions.clear();
            }
        });
        let names: Vec<_> = self.inner.slots()?.into_iter().map(|(name, _)| name).collect();
        let slots = self.inner.read_with(&Read::newest(0).slots(names))?;
        self.inner.clear()?;
        match self.shared.fault {
            ClearIsActivity => self.set_active(SystemTime::now()),
            KeepsSlotsWhenCleared => {
                for slot in slots.slots() {
                    self.inner.set_slot(slot.name(), slot.content(), Expected::Any)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        // Its faults change the append, which is not to be seen.
        let mut copy = append.clone();
        let appended = self.change(&mut copy);
        append.messages = copy.messages;
        appended
    }

    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        self.look(read)
    }

    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        let names: Vec<_> = self.inner.slots()?.into_iter().map(|(name, _)| name).collect();
        let all = self.inner.read_with(&Read::newest(0).slots(names))?;
        let slots = all.slots().iter().map(|slot| self.shown(slot));
        let mut slots: Vec<_> = slots.map(|it| (it.name().to_owned(), it.version())).collect();
        match self.shared.fault {
            ListsTheSystemMessage if all.system.is_some() => {
                slots.push(("system".to_owned(), SlotVersion::random()));
            }
            ListsInAnyOrder => slots.sort_by_key(|(name, _)| name.len()),
            _ => {}
        }
        Ok(slots)
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}

impl ChatMemoryStore for FaultyStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        Ok(Arc::new(self.memory(id)))
    }

    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
        self.0.store.ids(after, n)
    }

    fn delete(&self, id: &MemoryId) -> Result<bool> {
        if self.is(VersionsBeginAnewWhenDeleted) {
            self.0.notes.lock().unwrap().remove(id);
        }
        self.0.store.delete(id)
    }

    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64> {
        self.0.store.purge_inactive(older_than)
    }

    fn ids_with_prefix(
        &self,
        prefix: &str,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        let matches = |id: &MemoryId| match self.0.fault {
            PrefixIsAPattern => id.as_str().starts_with(prefix.trim_end_matches(['%', '_', '*'])),
            PrefixFoldsCase => id.as_str().to_lowercase().starts_with(&prefix.to_lowercase()),
            PrefixIsAnywhere => id.as_str().contains(prefix),
            _ => id.as_str().starts_with(prefix),
        };
        let foreign = |after: &&MemoryId| !after.as_str().starts_with(prefix);
        let forgets = self.is(PrefixForgetsWhereItWas);
        let after = after.filter(|after| !(forgets && foreign(after)));
        let all = self.0.store.ids(after, usize::MAX)?;
        Ok(all.into_iter().filter(matches).take(n).collect())
    }

    fn slots_with_prefix(
        &self,
        prefix: &str,
        names: &str,
        after: Option<(&MemoryId, &str)>,
        n: usize,
    ) -> Result<Vec<(MemoryId, Slot)>> {
        let (names, after) = match self.0.fault {
            SlotsForgetWhereTheyWere => (names, after.map(|(id, _)| (id, "\u{10ffff}"))),
            SlotsOfAnyName => ("", after),
            _ => (names, after),
        };
        let mut found = self.0.store.slots_with_prefix(prefix, names, after, n)?;
        if self.is(OneSlotOfEach) {
            found.dedup_by(|one, other| one.0 == other.0);
        }
        Ok(found)
    }

    fn info(&self, id: &MemoryId) -> Result<Option<Info>> {
        let mut info = self.0.store.info(id)?;
        match (self.0.fault, &mut info) {
            (InfoOfNothing, info @ None) => *info = Some(Info::new(0..0, UNIX_EPOCH)),
            (InfoBeginsAt0, Some(info)) => info.start = 0,
            (InfoIsActiveNow, Some(info)) => info.active = SystemTime::now(),
            _ => {}
        }
        Ok(info)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<u64> {
        if self.is(DeletesEverything) && prefix.is_empty() {
            let all = self.0.store.ids(None, usize::MAX)?;
            return all.iter().map(|id| Ok(u64::from(self.0.store.delete(id)?))).sum();
        }
        if self.is(PrefixIsAnywhere) {
            let all = self.0.store.ids(None, usize::MAX)?;
            let all = all.iter().filter(|id| id.as_str().contains(prefix));
            return all.map(|id| Ok(u64::from(self.0.store.delete(id)?))).sum();
        }
        let deleted = self.0.store.delete_prefix(prefix)?;
        Ok(if self.is(CountsPrefixesOnce) { deleted.min(1) } else { deleted })
    }

    fn restore(&self, id: &MemoryId, start: u64, incarnation: Option<Incarnation>) -> Result<()> {
        match self.0.fault {
            RestoresOverOthers => {
                self.0.store.delete(id)?;
                self.0.store.restore(id, start, incarnation)
            }
            RestoresAt0 => self.0.store.restore(id, 0, incarnation),
            RestoresAsAnother => self.0.store.restore(id, start, None),
            RestoresAsInactive => {
                self.0.store.restore(id, start, incarnation)?;
                self.memory(id.clone()).set_active(UNIX_EPOCH);
                Ok(())
            }
            _ => self.0.store.restore(id, start, incarnation),
        }
    }
}
