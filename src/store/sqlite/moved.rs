//! A file that was moved, removed or replaced while it was open.

use std::path::{Path, PathBuf};

use super::failure::TxError;

/// Files as they were when they were opened.
#[derive(Default)]
pub(super) struct Opened(Vec<(PathBuf, File)>);

/// The file that a path leads to.
#[derive(Clone, Copy, PartialEq)]
enum File {
    /// By its device and its number there.
    Is(u64, u64),
    Gone,
    /// The system does not tell.
    Unknown,
}

impl Opened {
    pub(super) fn now(path: &Path) -> Self {
        Self(vec![(path.to_owned(), which(path))])
    }

    /// Notes the file with its log, if it has one: that stays as long as the file is open
    /// anywhere.
    pub(super) fn with_log(path: &Path) -> Self {
        let mut opened = Self::now(path);
        let log = Self::now(&file_beside(path, "-wal"));
        opened.0.extend(log.0.into_iter().filter(|log| log.1 != File::Gone));
        opened
    }

    /// Returns whether the paths still lead there, as far as anybody knows.
    pub(super) fn is_there(&self) -> bool {
        self.0.iter().all(|(path, then)| {
            let now = which(path);
            now == *then || [now, *then].contains(&File::Unknown)
        })
    }

    /// Refuses to go on with a file that has lost its name. SQLite would go on, and what was
    /// acknowledged would be gone with the last connection, or be in a file without this name.
    pub(super) fn must_be_there(&self) -> Result<(), TxError> {
        if self.is_there() {
            return Ok(());
        }
        let text =
            "the file or its log was moved, removed or replaced while it was open: open it again";
        Err(TxError::Refused(text.to_owned()))
    }
}

/// Returns the path of the file beside a database that has its name with this ending, as its log
/// has.
fn file_beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn which(path: &Path) -> File {
    match std::fs::metadata(path) {
        #[cfg(unix)]
        Ok(file) => {
            use std::os::unix::fs::MetadataExt;
            File::Is(file.dev(), file.ino())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => File::Gone,
        _ => File::Unknown,
    }
}
