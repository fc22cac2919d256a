//! The version of the layout, and what is done about others.

use redis::{Cmd, Value, cmd};

use super::Shared;
use crate::error::{Error, ErrorKind, Result};

/// The version of the layout that is written. One that differs gets the next number, and `prepare`
/// the step that leads there.
const CURRENT: u64 = 2;

impl Shared {
    /// Finds out of which version the data under the prefix are, and refuses what is of another
    /// one. Marks what is new with this version.
    pub(super) async fn prepare(&self, upgrade: bool) -> Result<()> {
        const OPERATION: &str = "open";
        let key = self.keys.version();
        let find = async || self.link.ask(OPERATION, &find(&key)).await;
        let mut found = find().await?;
        if found == Value::Nil {
            // Of several that come at the same time one sets the version, and all read what it has
            // set.
            self.link.ask(OPERATION, &mark(&key)).await?;
            found = find().await?;
        } else if upgrade && version(&found) == Some(1) {
            self.upgrade().await?;
            self.link.ask(OPERATION, cmd("SET").arg(&key).arg(CURRENT)).await?;
            found = find().await?;
        }
        check(&key, &found)
            .map_err(|why| Error::new(ErrorKind::Storage, OPERATION, format!("redis: {why}")))
    }
}

/// Asks for the version that is at a key.
pub(super) fn find(key: &str) -> Cmd {
    let mut find = cmd("GET");
    find.arg(key);
    find
}

/// Marks what is new with this version.
pub(super) fn mark(key: &str) -> Cmd {
    let mut mark = cmd("SET");
    mark.arg(key).arg(CURRENT).arg("NX");
    mark
}

/// Says why data of this version are refused, unless it is the current one.
pub(super) fn check(key: &str, found: &Value) -> Result<(), String> {
    Err(match version(found) {
        Some(CURRENT) => return Ok(()),
        Some(1) => {
            "the data are of version 1: set `RedisOptions::upgrade` to open them, once no older \
             program uses them"
                .to_owned()
        }
        Some(version) if version > CURRENT => {
            format!(
                "the data are of version {version}, and this program knows versions up to {CURRENT}"
            )
        }
        _ => format!("the key {key} holds something else than a version"),
    })
}

fn version(found: &Value) -> Option<u64> {
    redis::from_redis_value_ref(found).ok()
}
