//! Gives each call an answer of its own, for chat templates without parallel calls.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::message::{AiMessage, AiPart, Message};
use crate::prompt::{Origin, Pieces};
use crate::record::Records;

/// Returns the pieces with each call in an answer of its own, directly before its result. Also
/// returns how many of the new pieces are cacheable if `cacheable` of `pieces` are. The text of an
/// answer goes with its first call.
pub(super) fn one_by_one(
    pieces: &Pieces,
    records: &Records,
    cacheable: usize,
    mut told: impl FnMut(Option<u64>),
) -> (Pieces, usize) {
    let mut out = Pieces::default();
    let mut settled = None;
    let mut unsent = Unsent { answers: VecDeque::new(), origin: Origin::Added }; // of none yet
    for (i, item) in pieces.items(records).enumerate() {
        let item = item.shared();
        if !item.message().is_tool() && !item.message().is_private() {
            unsent.flush(&mut out);
        }
        if i == cacheable {
            settled = Some(out.len());
        }
        match item.message() {
            Message::Ai(ai) if ai.tool_calls().nth(1).is_some() => {
                let origin = item.origin();
                told(origin.position());
                let origin = origin.position().map_or(origin, Origin::Adapted);
                unsent = Unsent { answers: alone(ai), origin };
            }
            Message::Tool(tool) => {
                unsent.send(tool.call_id(), &mut out);
                out.add(item);
            }
            _ => out.add(item),
        }
    }
    unsent.flush(&mut out);
    let len = out.len();
    (out, settled.unwrap_or(len))
}

/// Answers with one call each whose results are not sent yet.
struct Unsent {
    answers: VecDeque<(String, AiMessage)>,
    origin: Origin,
}

impl Unsent {
    fn send(&mut self, id: &str, out: &mut Pieces) {
        let at = self.answers.iter().position(|(of, _)| of == id);
        if let Some((_, answer)) = at.and_then(|at| self.answers.remove(at)) {
            out.push(Arc::new(answer.into()), self.origin);
        }
    }

    fn flush(&mut self, out: &mut Pieces) {
        for (_, answer) in self.answers.drain(..) {
            out.push(Arc::new(answer.into()), self.origin);
        }
    }
}

/// Returns one answer per call, by the call's id.
fn alone(ai: &AiMessage) -> VecDeque<(String, AiMessage)> {
    let mut said: Vec<AiPart> = Vec::new();
    let mut answers: VecDeque<(String, AiMessage)> = VecDeque::new();
    for part in ai.parts() {
        let AiPart::ToolCall(call) = part else {
            match answers.front_mut() {
                // Parts between the calls go into the first answer, before its call.
                Some((_, first)) => {
                    let mut parts = std::mem::replace(first, AiMessage::new("")).into_parts();
                    parts.insert(parts.len().saturating_sub(1), part.clone());
                    *first = ai.with_other_parts(parts);
                }
                None => said.push(part.clone()),
            }
            continue;
        };
        let mut parts = std::mem::take(&mut said);
        parts.push(part.clone());
        answers.push_back((call.id.clone(), ai.with_other_parts(parts)));
    }
    answers
}
