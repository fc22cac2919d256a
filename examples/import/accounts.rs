//! What people export from their accounts at `ChatGPT` and Claude: a `conversations.json`, with all
//! that was said in the place of something else.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_prompt::message::{AiMessage, Part, Reasoning};
use memory_prompt::{Message, ToolCall};
use serde_json::{Map, Value};

/// A conversation as an account has it.
pub(crate) struct Account {
    /// All that was said; what stands before something comes before it here too.
    pub(crate) said: Vec<Said>,
    /// The last of what was shown, among them.
    pub(crate) shown: Option<usize>,
}

/// What was said at once: of an answer that has run tools, several messages.
pub(crate) struct Said {
    pub(crate) messages: Vec<Message>,
    pub(crate) at: Option<SystemTime>,
    /// What stands before it; several that stand behind the same are variants.
    pub(crate) behind: Option<usize>,
}

/// Something of an export, before it is clear where it stands.
struct Node<'a> {
    messages: Vec<Message>,
    at: Option<SystemTime>,
    parent: Option<&'a str>,
    /// Its place among those behind the same parent.
    place: usize,
}

/// Reads a conversation; `None` if it is of neither account, and an error says what is damaged.
pub(crate) fn read(of: &Value) -> Option<Result<Account, String>> {
    match (of["mapping"].as_object(), of["chat_messages"].as_array()) {
        (Some(mapping), _) => Some(chatgpt(of, mapping)),
        (_, Some(said)) => Some(claude(of, said)),
        _ => None,
    }
}

/// Returns the name of a conversation, as its owner knows it.
pub(crate) fn name(of: &Value) -> &str {
    let names = ["title", "name", "conversation_id", "uuid", "id"].into_iter();
    let mut names = names.filter_map(|key| of[key].as_str()).filter(|name| !name.is_empty());
    names.next().unwrap_or("without a name")
}

impl Account {
    /// Returns what was shown last, oldest first.
    pub(crate) fn shown(&self) -> Vec<Message> {
        let mut path = Vec::new();
        let mut next = self.shown;
        while let Some(said) = next.and_then(|place| self.said.get(place)) {
            path.push(said);
            next = said.behind;
        }
        path.into_iter().rev().flat_map(|said| said.messages.iter().cloned()).collect()
    }

    /// Puts everything where it stands. What says nothing is passed over, and what stands behind it
    /// stands behind what is before it.
    fn of(nodes: &HashMap<&str, Node<'_>>, shown: Option<&str>) -> Result<Self, String> {
        let mut behind: HashMap<Option<&str>, Vec<&str>> = HashMap::new();
        for (id, node) in nodes {
            if node.parent.is_some_and(|parent| !nodes.contains_key(parent)) {
                return Err(format!("what stands before {id:?} is not there"));
            }
            behind.entry(node.parent).or_default().push(id);
        }
        for ids in behind.values_mut() {
            let order = |id: &&str| nodes.get(id).map(|node| (node.place, node.at));
            ids.sort_by(|a, b| order(a).cmp(&order(b)).then(a.cmp(b)));
        }
        let mut account = Self { said: Vec::new(), shown: None };
        let mut seen = 0;
        let mut next: Vec<(&str, Option<usize>)> = Vec::new();
        let roots = behind.get(&None).into_iter().flatten().rev();
        next.extend(roots.map(|id| (*id, None)));
        while let Some((id, before)) = next.pop() {
            let Some(node) = nodes.get(id) else { continue };
            seen += 1;
            let mut place = before;
            if !node.messages.is_empty() {
                place = Some(account.said.len());
                let messages = node.messages.clone();
                account.said.push(Said { messages, at: node.at, behind: before });
            }
            if shown == Some(id) {
                account.shown = place;
            }
            next.extend(behind.get(&Some(id)).into_iter().flatten().rev().map(|id| (*id, place)));
        }
        if seen < nodes.len() {
            return Err("some of it stands behind itself".into());
        }
        match shown {
            Some(id) if !nodes.contains_key(id) => {
                return Err(format!("what was shown last, {id:?}, is not there"));
            }
            Some(_) => {}
            None => account.shown = account.said.len().checked_sub(1),
        }
        Ok(account)
    }
}

fn chatgpt(of: &Value, mapping: &Map<String, Value>) -> Result<Account, String> {
    let mut nodes = HashMap::new();
    for (id, it) in mapping {
        let parent = match &it["parent"] {
            Value::Null => None,
            Value::String(parent) => Some(parent.as_str()),
            _ => return Err(format!("what stands before {id:?} has no name")),
        };
        let siblings = parent.and_then(|parent| mapping.get(parent)?["children"].as_array());
        let place = siblings.and_then(|ids| ids.iter().position(|it| it == id.as_str()));
        let messages = of_chatgpt(id, it, mapping)?;
        let at = it["message"]["create_time"].as_f64();
        let at = at.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let at = at.and_then(|since| UNIX_EPOCH.checked_add(since));
        nodes.insert(id.as_str(), Node { messages, at, parent, place: place.unwrap_or(0) });
    }
    Account::of(&nodes, of["current_node"].as_str())
}

/// Returns what a node says that a person or the model was shown: what a tool has said without a
/// call has one of its own.
fn of_chatgpt(
    id: &str,
    node: &Value,
    mapping: &Map<String, Value>,
) -> Result<Vec<Message>, String> {
    let message = &node["message"];
    if message.is_null() {
        return Ok(Vec::new());
    }
    let content = &message["content"];
    if !content.is_object() {
        return Err(format!("the message {id:?} has no content"));
    }
    let text = text_of_chatgpt(content);
    let is_empty = text.is_empty();
    let kind = content["content_type"].as_str().unwrap_or_default();
    let to = message["recipient"].as_str().filter(|to| *to != "all");
    let said = match (message["author"]["role"].as_str(), to) {
        // What people say of themselves, and what the account remembers of them.
        (Some(_), None) if kind.ends_with("_editable_context") => Message::system(text),
        (Some("assistant"), None) if kind == "thoughts" => {
            Message::Ai(AiMessage::new("").with_reasoning(Reasoning::new(text)))
        }
        (Some("assistant"), Some(tool)) => {
            let input = serde_json::json!({"input": text}).to_string();
            return Ok(vec![Message::ai_calls([ToolCall::new(id, tool, input)])]);
        }
        (Some("tool"), _) => {
            let tool = message["author"]["name"].as_str().unwrap_or("tool");
            return Ok(match called(node, mapping) {
                _ if !is_result(message) => Vec::new(),
                Some((id, tool)) => vec![Message::tool(id, tool, text)],
                None if text.is_empty() => Vec::new(),
                None => vec![
                    Message::ai_calls([ToolCall::new(id, tool, "{}")]),
                    Message::tool(id, tool, text),
                ],
            });
        }
        (Some("system"), None) => Message::system(text),
        (Some("user"), None) => Message::user(text),
        (Some("assistant"), None) => Message::ai(text),
        (Some("system" | "user"), Some(_)) => return Ok(Vec::new()),
        (Some(role), _) => return Err(format!("the message {id:?} is of the role {role:?}")),
        (None, _) => return Err(format!("the message {id:?} is of nobody")),
    };
    Ok(if is_empty { Vec::new() } else { vec![said] })
}

fn text_of_chatgpt(content: &Value) -> String {
    let keys = ["text", "result", "user_profile", "user_instructions", "model_set_context"];
    let alone = keys.iter().filter_map(|key| content[key].as_str()).map(str::to_owned);
    let thoughts = content["thoughts"].as_array().into_iter().flatten();
    let thoughts = thoughts.filter_map(|it| it["content"].as_str()).map(str::to_owned);
    let parts = content["parts"].as_array().into_iter().flatten();
    let parts = parts.filter_map(|part| {
        let text = part.as_str().or_else(|| part["text"].as_str()).map(str::to_owned);
        // What lies beside the export under this name: no provider has it.
        text.or_else(|| Some(format!("[the file {}]", part["asset_pointer"].as_str()?)))
    });
    parts.chain(alone).chain(thoughts).collect::<Vec<_>>().join("\n")
}

/// Returns false for what stands in the place of a result until there is one.
fn is_result(message: &Value) -> bool {
    message["weight"] != 0.0 || !text_of_chatgpt(&message["content"]).is_empty()
}

/// Returns the id and the tool of the call that a result answers: the newest one before it, unless
/// it has its result.
fn called<'a>(result: &'a Value, mapping: &'a Map<String, Value>) -> Option<(&'a str, &'a str)> {
    let mut id = result["parent"].as_str()?;
    for _ in 0..mapping.len() {
        let node = mapping.get(id)?;
        let message = &node["message"];
        match message["author"]["role"].as_str() {
            Some("assistant") => {
                let tool = message["recipient"].as_str().filter(|to| *to != "all")?;
                return Some((id, tool));
            }
            Some("user") => return None,
            Some("tool") if is_result(message) => return None,
            _ => id = node["parent"].as_str()?,
        }
    }
    None
}

fn claude(of: &Value, said: &[Value]) -> Result<Account, String> {
    let ids: Vec<String> = (0..said.len()).map(|place| format!("message {place}")).collect();
    let id = |place: usize| {
        let own = said.get(place).and_then(|it| it["uuid"].as_str());
        own.or_else(|| ids.get(place).map(String::as_str)).unwrap_or_default()
    };
    let mut nodes = HashMap::new();
    for (place, it) in said.iter().enumerate() {
        let parent = match &it["parent_message_uuid"] {
            // An older export has no variants, and no parents.
            Value::Null => place.checked_sub(1).map(id),
            Value::String(root) if root.starts_with("00000000-0000-4000-8000-") => None,
            Value::String(parent) => Some(parent.as_str()),
            _ => return Err(format!("what stands before {:?} has no name", id(place))),
        };
        let messages = of_claude(id(place), it)?;
        let at = it["created_at"].as_str().and_then(moment);
        if nodes.insert(id(place), Node { messages, at, parent, place }).is_some() {
            return Err(format!("the message {:?} is there twice", id(place)));
        }
    }
    let newest = said.len().checked_sub(1).map(id);
    Account::of(&nodes, of["current_leaf_message_uuid"].as_str().or(newest))
}

/// Returns what a message of Claude's account says: with what tools have said within an answer.
fn of_claude(id: &str, of: &Value) -> Result<Vec<Message>, String> {
    let whole = of["text"].as_str().unwrap_or_default();
    match of["sender"].as_str() {
        Some("human" | "user") => {
            let written = texts(&of["content"]);
            let written = if written.is_empty() { whole.to_owned() } else { written };
            let name = |file: &Value| {
                let name = file["file_name"].as_str().filter(|it| !it.is_empty());
                name.unwrap_or("a file").to_owned()
            };
            let mut parts: Vec<Part> = Vec::new();
            for file in of["attachments"].as_array().into_iter().flatten() {
                let content = file["extracted_content"].as_str().unwrap_or_default();
                parts.push(Part::text(format!("{}:\n{content}", name(file))));
            }
            for file in of["files"].as_array().into_iter().flatten() {
                parts.push(Part::text(format!("[{}]", name(file))));
            }
            if parts.is_empty() && !written.is_empty() {
                return Ok(vec![Message::user(written)]);
            }
            parts.extend(Some(written).filter(|it| !it.is_empty()).map(Part::text));
            Ok(if parts.is_empty() { Vec::new() } else { vec![Message::user(parts)] })
        }
        Some("assistant") => {
            let blocks = of["content"].as_array().map_or(&[][..], Vec::as_slice);
            if blocks.is_empty() && !whole.is_empty() {
                return Ok(vec![Message::ai(whole)]);
            }
            answer_of_claude(id, blocks)
        }
        Some(sender) => Err(format!("the message {id:?} is from {sender:?}")),
        None => Err(format!("the message {id:?} is of nobody")),
    }
}

/// Returns an answer as messages: each result of a tool stands behind its call.
fn answer_of_claude(id: &str, blocks: &[Value]) -> Result<Vec<Message>, String> {
    let (mut messages, mut answer) = (Vec::new(), AiMessage::new(""));
    let (mut calls, mut open) = (0, Vec::<(String, String)>::new());
    let end = |answer: &mut AiMessage, messages: &mut Vec<Message>| {
        if !answer.parts().is_empty() || !answer.text().is_empty() {
            messages.push(Message::Ai(std::mem::replace(answer, AiMessage::new(""))));
        }
    };
    for block in blocks {
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        match text("type") {
            "tool_result" => {
                end(&mut answer, &mut messages);
                let own = open.iter().position(|call| call.0 == text("tool_use_id"));
                let call = own.or_else(|| (!open.is_empty()).then_some(0));
                let call = call.map(|place| open.remove(place));
                let (call, tool) =
                    call.ok_or_else(|| format!("a result in {id:?} answers no call"))?;
                let said = block["content"].as_str().map(str::to_owned);
                let said = said.unwrap_or_else(|| texts(&block["content"]));
                messages.push(match block["is_error"].as_bool() {
                    Some(true) => Message::tool_error(call, tool, said),
                    _ => Message::tool(call, tool, said),
                });
            }
            "tool_use" => {
                calls += 1;
                let own = block["id"].as_str().map(str::to_owned);
                let call = own.unwrap_or_else(|| format!("{id}-{calls}"));
                let tool = block["name"].as_str().unwrap_or("tool");
                open.push((call.clone(), tool.to_owned()));
                let input = block["input"].to_string();
                answer = answer.with_tool_call(ToolCall::new(call, tool, input));
            }
            "thinking" => answer = answer.with_reasoning(Reasoning::new(text("thinking"))),
            _ if !text("text").is_empty() => answer = answer.with_part(Part::text(text("text"))),
            _ => {}
        }
    }
    end(&mut answer, &mut messages);
    Ok(messages)
}

fn texts(of: &Value) -> String {
    let list = of.as_array().into_iter().flatten();
    let texts: Vec<&str> = list.filter_map(|it| it["text"].as_str()).collect();
    texts.join("\n")
}

/// Reads a time as `2024-05-01T10:00:00.123456Z`, to the second.
fn moment(text: &str) -> Option<SystemTime> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // From the first of March of the year 0, so that the leap day is the last of its year.
    let years = if month < 3 { year.checked_sub(1)? } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let days = years * 365 + years / 4 - years / 100 + years / 400 + of_year;
    let seconds = days.checked_sub(719_468)? * 86_400 + hour * 3_600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}
