//! Detects a file that was moved, removed or replaced while it is open.

use std::path::{Path, PathBuf};

use super::failure::TxError;

/// The files as they were when they were opened.
#[derive(Default)]
pub(super) struct Opened(Vec<(PathBuf, File)>);

#[derive(Clone, Copy, PartialEq)]
enum File {
    /// The device and the inode number.
    Is(u64, u64),
    Gone,
    /// The system does not say.
    Unknown,
}

impl Opened {
    pub(super) fn now(path: &Path) -> Self {
        Self(vec![(path.to_owned(), which(path))])
    }

    /// Notes the file and its log, if there is one: the log stays while the file is open anywhere.
    pub(super) fn with_log(path: &Path) -> Self {
        let mut opened = Self::now(path);
        // SQLite follows a link to the file, and the log is there.
        let real = path.canonicalize();
        let log = Self::now(&file_beside(real.as_deref().unwrap_or(path), "-wal"));
        opened.0.extend(log.0.into_iter().filter(|log| log.1 != File::Gone));
        opened
    }

    /// Returns whether the paths still lead to these files, as far as is known.
    pub(super) fn is_there(&self) -> bool {
        self.0.iter().all(|(path, then)| {
            let now = which(path);
            now == *then || [now, *then].contains(&File::Unknown)
        })
    }

    /// Refuses to continue with a file that has lost its name. SQLite would continue, and
    /// acknowledged data would be gone with the last connection, or be in a file without this name.
    pub(super) fn must_be_there(&self) -> Result<(), TxError> {
        if self.is_there() {
            return Ok(());
        }
        let text =
            "the file or its log was moved, removed or replaced while it was open: open it again";
        Err(TxError::Refused(text.to_owned()))
    }
}

/// Returns the path of a file next to the database, with this ending added to its name, such as the
/// log.
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
