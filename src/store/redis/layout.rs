//! The version of the layout, and what is done about others.

use redis::{Value, cmd};

use super::keys::Keys;
use super::link::Link;
use crate::error::{Error, ErrorKind, Result};

/// What this version writes. One that differs gets the next number, and `prepare` what leads there.
const CURRENT: u64 = 2;

/// Finds out of which version the data under a prefix are, and refuses what is of a later one. Marks what
/// is new with this version.
pub(super) async fn prepare(link: &Link, keys: &Keys) -> Result<()> {
    let key = keys.version();
    let found = match link.ask("open", cmd("GET").arg(&key)).await? {
        Value::Nil => {
            // Of several that come first at the same time, one is; all read what it wrote.
            link.ask("open", cmd("SET").arg(&key).arg(CURRENT).arg("NX")).await?;
            link.ask("open", cmd("GET").arg(&key)).await?
        }
        found => found,
    };
    let version = redis::from_redis_value_ref::<u64>(&found).ok();
    let text = match version {
        Some(CURRENT) => return Ok(()),
        Some(version) if version > CURRENT => format!(
            "redis: the data are of version {version}, and this program knows versions up to {CURRENT}"
        ),
        _ => format!("redis: the key {key} holds something else than a version"),
    };
    Err(Error::new(ErrorKind::Storage, "open", text))
}
