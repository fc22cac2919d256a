//! From version 1 of the tables, which had neither slots nor ids, to version 2.
//!
//! Version 1 put large batches aside, under a log of their own, before it moved them into buckets;
//! what it was about to leave behind, it wrote down. Both are done to an end here. Whatever of it
//! was done already, by somebody who died or who does it now too, is done again or passed over.

use std::ops::Range;
use std::sync::Arc;

use scylla::value::MaybeUnset;
use uuid::Uuid;

use super::BUCKET;
use super::ask::{Client, Sure, Swap, buckets};
use super::change::{Active, Change};
use super::rows::{Head, Row};
use super::schema::Schema;
use crate::error::Result;

const COLUMNS: [(&str, &str); 5] = [
    ("swept", "bigint"),
    ("ids", "bigint"),
    ("ended", "boolean"),
    ("name", "text"),
    ("stamp", "bigint"),
];

/// A batch that lies aside: its log, its first position and the one behind its last.
type Aside = (Uuid, i64, i64);

pub(super) async fn from_version_1(schema: &Schema<'_>) -> Result<()> {
    for (name, kind) in COLUMNS {
        if !schema.has("columns", &["conversation", name]).await? {
            schema.run(&format!("ALTER TABLE {{}}.conversation ADD {name} {kind}"), ()).await?;
        }
    }
    let client = Client::new(Arc::clone(schema.session), schema.options).await?;
    if schema.has("columns", &["conversation", "large"]).await? {
        let select = "SELECT id, large FROM {}.conversation PER PARTITION LIMIT 1";
        let mut aside: Vec<(String, Aside)> = Vec::new();
        let collect = |(id, large): (String, Option<Aside>)| {
            aside.extend(large.map(|large| (id, large)));
            true
        };
        schema.each(select, &client, collect).await?;
        for (id, aside) in aside {
            move_aside(&client, &id, aside).await?;
        }
        // Who still runs with version 1 is refused by the server from here on.
        schema.run("ALTER TABLE {}.conversation DROP large", ()).await?;
    }
    if schema.has("tables", &["garbage"]).await? {
        let select = "SELECT id, log, first, past FROM {}.garbage";
        let mut notes: Vec<(String, Uuid, i64, i64)> = Vec::new();
        let collect = |note| {
            notes.push(note);
            true
        };
        schema.each(select, &client, collect).await?;
        for (id, log, first, past) in notes {
            let head = client.head("open", &id, Sure::Begun).await?;
            let own = head.filter(|head| head.log == log);
            let unused = own.map_or(past, |head| past.min(head.start / BUCKET));
            client.drop_buckets("open", log, first..unused).await?;
        }
        schema.run("DROP TABLE IF EXISTS {}.garbage", ()).await?;
    }
    Ok(())
}

/// Moves a batch that lies aside, and what comes before it, into buckets.
async fn move_aside(client: &Client, key: &str, (log, first, past): Aside) -> Result<()> {
    loop {
        let head = client.head("open", key, Sure::Begun).await?;
        let Some(head) = head.filter(|head| head.sealed < past) else { break };
        let from = head.sealed.max(head.start);
        for bucket in buckets(&(from..past)) {
            let range = from.max(bucket * BUCKET)..past.min((bucket + 1) * BUCKET);
            let rows = rows(client, key, log, first, range).await?;
            let rows: Vec<_> = rows.iter().map(|row| (row.seq, row.at, &*row.payload)).collect();
            client.put("open", head.log, &rows).await?;
        }
        let mut next = Head { sealed: past, ..head.clone() };
        let mut change =
            Change::set(client, key, Some(&head), &mut next, MaybeUnset::Unset, &Active::Kept);
        change.forget(past);
        if let Swap::Done = client.swap("open", key, &change).await? {
            break;
        }
    }
    client.drop_buckets("open", log, buckets(&(0..past - first))).await
}

/// Returns the messages at these positions, of which those from `first` on lie aside.
async fn rows(
    client: &Client,
    key: &str,
    log: Uuid,
    first: i64,
    range: Range<i64>,
) -> Result<Vec<Row>> {
    let mut rows = client.beside("open", key, range.start..range.end.min(first)).await?;
    rows.reverse();
    let aside = range.start.max(first) - first..range.end.max(first) - first;
    let aside = client.of_log("open", log, aside).await?;
    rows.extend(aside.into_iter().map(|row| Row { seq: row.seq + first, ..row }));
    rows.sort_unstable_by_key(|row| row.seq);
    Ok(rows)
}
