//! The version of the layout, and the check of it.

use redis::{Value, cmd};

use super::Shared;
use crate::error::{Error, ErrorKind, Result};

const CURRENT: u64 = 1;

impl Shared {
    /// Refuses data of another version; marks an empty database with this one.
    pub(super) async fn check_version(&self) -> Result<()> {
        const OPERATION: &str = "open";
        let key = self.keys.version();
        let mut found = self.link.ask(OPERATION, cmd("GET").arg(&key)).await?;
        if found == Value::Nil {
            // If several processes do this at once, one sets the version, and all read what it has
            // set.
            self.link.ask(OPERATION, cmd("SET").arg(&key).arg(CURRENT).arg("NX")).await?;
            found = self.link.ask(OPERATION, cmd("GET").arg(&key)).await?;
        }
        let why = match redis::from_redis_value_ref::<u64>(&found) {
            Ok(CURRENT) => return Ok(()),
            Ok(version) if version > CURRENT => format!(
                "the data are of version {version}, and this program knows versions up to {CURRENT}"
            ),
            _ => format!("the key {key} holds something else than a version"),
        };
        Err(Error::new(ErrorKind::Storage, OPERATION, format!("redis: {why}")))
    }
}
