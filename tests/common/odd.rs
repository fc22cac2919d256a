//! A memory that fails as it is told.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use memory_prompt::memory::{Append, Appended, Limits, Read};
use memory_prompt::record::{SlotVersion, Snapshot};
use memory_prompt::{ChatMemory, DefaultChatMemory, Error, ErrorKind, Result};

use crate::inside::inside;

/// A memory that fails as it is told, with limits as it is told.
#[derive(Debug)]
pub(crate) struct Odd {
    inner: DefaultChatMemory,
    limits: Limits,
    /// The next append is made, and its answer is lost.
    pub(crate) loses: AtomicBool,
    /// The next append is not made.
    pub(crate) fails: AtomicBool,
    /// The next append is not made yet: it is on its way.
    pub(crate) delays: AtomicBool,
    pub(crate) on_its_way: Mutex<Option<Append>>,
    /// The next append panics.
    pub(crate) panics: AtomicBool,
    /// The next read fails.
    pub(crate) is_unreadable: AtomicBool,
    /// The operations that fail, by their number, and whether each is done all the same.
    pub(crate) plan: Mutex<Vec<(usize, bool)>>,
    operations: AtomicUsize,
    /// What somebody else does around the next append.
    others: Mutex<Option<Others>>,
}

struct Others {
    /// True if it is done behind the append, and else before it.
    behind: bool,
    act: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Others").field("behind", &self.behind).finish_non_exhaustive()
    }
}

impl Odd {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            inner: DefaultChatMemory::new(),
            limits,
            loses: AtomicBool::default(),
            fails: AtomicBool::default(),
            delays: AtomicBool::default(),
            on_its_way: Mutex::default(),
            panics: AtomicBool::default(),
            is_unreadable: AtomicBool::default(),
            plan: Mutex::default(),
            operations: AtomicUsize::default(),
            others: Mutex::default(),
        })
    }

    /// Lets somebody else act once, before or behind the next append.
    #[allow(dead_code)] // not every test binary has others
    pub(crate) fn meanwhile(&self, behind: bool, act: impl FnOnce() + Send + 'static) {
        *self.others.lock().unwrap() = Some(Others { behind, act: Box::new(act) });
    }

    /// The number of operations so far.
    #[allow(dead_code)] // not every test binary counts them
    pub(crate) fn operations(&self) -> usize {
        self.operations.load(Ordering::Relaxed)
    }

    fn others_act(&self, is_behind: bool) {
        let mut others = self.others.lock().unwrap();
        let now = others.take_if(|it| it.behind == is_behind);
        drop(others);
        if let Some(now) = now {
            (now.act)();
        }
    }

    /// Returns whether this operation fails by plan, and then whether it is done all the same.
    fn planned(&self) -> Option<bool> {
        let now = self.operations.fetch_add(1, Ordering::Relaxed);
        self.plan.lock().unwrap().iter().find(|it| it.0 == now).map(|it| it.1)
    }

    fn must_be_readable(&self) -> Result<()> {
        if self.planned().is_some() || self.is_unreadable.swap(false, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Storage, "read", "the disk is gone"));
        }
        Ok(())
    }
}

impl ChatMemory for Odd {
    inside!(inner: id append evict clear);
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.must_be_readable()?;
        self.inner.read(before, n)
    }
    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        self.others_act(false);
        let planned = self.planned();
        if self.panics.swap(false, Ordering::Relaxed) {
            resume_unwind(Box::new("the memory's own")); // without a word on the terminal
        }
        if planned == Some(false) || self.fails.swap(false, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Storage, "append", "the disk is full"));
        }
        if self.delays.swap(false, Ordering::Relaxed) {
            *self.on_its_way.lock().unwrap() = Some(std::mem::take(append));
            return Err(Error::new(ErrorKind::Unacknowledged, "append", "it is on its way"));
        }
        let appended = self.inner.append_with(append)?;
        self.others_act(true);
        if planned == Some(true) || self.loses.swap(false, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unacknowledged, "append", "the answer got lost"));
        }
        Ok(appended)
    }
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        self.must_be_readable()?;
        self.inner.read_with(read)
    }
    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        self.must_be_readable()?;
        self.inner.slots()
    }
    fn limits(&self) -> Limits {
        self.limits
    }
}
