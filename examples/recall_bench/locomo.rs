//! `LoCoMo`: ten long conversations of two people, with questions whose evidence is marked; and other
//! sets that were brought into its layout.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_prompt::Message;
use memory_prompt::message::UserMessage;
use memory_prompt::recall::Candidate;
use serde_json::Value;

use crate::generated::{Conversation, Question};

/// Reads `locomo10.json`.
pub(crate) fn read(json: &str) -> Result<Vec<Conversation>, Box<dyn std::error::Error>> {
    let all: Vec<Value> = serde_json::from_str(json)?;
    Ok(all.iter().map(conversation).collect())
}

fn conversation(of: &Value) -> Conversation {
    let said = &of["conversation"];
    let mut messages = Vec::new();
    let mut places = HashMap::new();
    for session in 1.. {
        let Some(turns) = said[format!("session_{session}")].as_array() else { break };
        let at = said[format!("session_{session}_date_time")].as_str().and_then(time);
        for (i, turn) in turns.iter().enumerate() {
            let text = |field: &str| turn[field].as_str().unwrap_or_default();
            let mut words = text("text").to_owned();
            if !text("blip_caption").is_empty() {
                words = format!("{words} [photo: {}]", text("blip_caption"));
            }
            let message = match text("speaker") {
                "assistant" => Message::ai(words),
                "user" => Message::user(words),
                name => Message::from(UserMessage::new(words).with_name(name)),
            };
            places.insert(text("dia_id").to_owned(), messages.len() as u64);
            let at = at.unwrap_or(UNIX_EPOCH) + Duration::from_secs(i as u64);
            messages.push((at, message));
        }
    }
    let questions = of["qa"].as_array().into_iter().flatten();
    let questions = questions.filter_map(|it| {
        let marks = it["evidence"].as_array()?.iter().filter_map(Value::as_str);
        let marks = marks.flat_map(|mark| mark.split([';', ' '])).filter(|mark| !mark.is_empty());
        let evidence: Vec<u64> = marks.filter_map(|mark| places.get(mark).copied()).collect();
        let kind = match (&it["category"], it["category"].as_u64()) {
            (Value::String(kind), _) => kind.clone().into(),
            (_, Some(1)) => "chained facts".into(),
            (_, Some(2)) => "times".into(),
            (_, Some(3)) => "world knowledge".into(),
            (_, Some(4)) => "one fact".into(),
            _ => "no answer".into(),
        };
        let text = it["question"].as_str()?.to_owned();
        let found = it["candidates"].as_array().into_iter().flatten();
        let candidates = found.filter_map(|it| {
            #[expect(clippy::cast_possible_truncation, reason = "a cosine")]
            let fit = it[1].as_f64()? as f32;
            Some(Candidate { position: *places.get(it[0].as_str()?)?, fit })
        });
        let found = candidates.collect();
        let new = Question { lead: Vec::new(), text, evidence, kind, found };
        (!new.evidence.is_empty()).then_some(new)
    });
    Conversation { name: "LoCoMo", questions: questions.collect(), messages }
}

/// Reads "1:56 pm on 8 May, 2023".
fn time(text: &str) -> Option<SystemTime> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (clock, date) = text.split_once(" on ")?;
    let mut date = date.split([' ', ',']).filter(|part| !part.is_empty());
    let day: u64 = date.next()?.parse().ok()?;
    let month = MONTHS.find(date.next()?.get(..3)?)? as u64 / 3 + 1;
    let year: u64 = date.next()?.parse().ok()?;
    let (hour, rest) = clock.split_once(':')?;
    let hour = hour.parse::<u64>().ok()? % 12 + if rest.ends_with("pm") { 12 } else { 0 };
    // Days from 1970, in years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some(UNIX_EPOCH + Duration::from_secs((days - 719_468) * 86_400 + hour * 3600))
}
