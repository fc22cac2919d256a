//! Reads logs, one conversation after the other, and keeps none of them.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use memory_prompt::{Message, Tool, wire};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::forms::{self, Form};

/// The most bytes that are read at once: a file that is larger is read by its lines.
const MOST: u64 = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// The conversations that may go on in a later line.
const OPEN: usize = 32;

/// So many lines that are none of a log, at the beginning of a large file, and it is one value.
const NO_LOG: usize = 100;

/// The fields of an object in which the list of its messages may stand.
const LISTS: [&str; 6] = ["messages", "contents", "input", "traj", "history", "conversation"];

/// The messages of a log, and the tools that its requests define.
pub(super) struct Conversation {
    pub(super) messages: Vec<Message>,
    pub(super) tools: Vec<Tool>,
}

/// The files that are to be read.
#[derive(Default)]
pub(super) struct Files {
    /// Each file, and whether it was named itself: then it is an error if it can't be read.
    all: Vec<(PathBuf, bool)>,
    /// The bytes of all of them.
    pub(super) bytes: u64,
    failed: Failed,
    /// The paths that were found: a link may lead to one once more, or around in a circle.
    seen: HashSet<PathBuf>,
}

/// The reasons why conversations could not be read, each with how often and where first.
type Failed = BTreeMap<String, (usize, String)>;

/// What was found besides conversations.
pub(super) struct Told {
    pub(super) failed: Failed,
    /// The number of logs that go on with a conversation before them.
    pub(super) continued: usize,
}

fn fail(failed: &mut Failed, reason: &str, place: &str) {
    failed.entry(reason.to_owned()).or_insert_with(|| (0, place.to_owned())).0 += 1;
}

impl Files {
    /// Finds the files of a folder, or takes this one.
    pub(super) fn find(&mut self, path: &Path) -> io::Result<()> {
        self.look(path, true)
    }

    /// Finds the files of a folder, and notes what can't be read there.
    fn look(&mut self, path: &Path, named: bool) -> io::Result<()> {
        let found = fs::metadata(path)?;
        if !self.seen.insert(fs::canonicalize(path).unwrap_or_else(|_| path.into())) {
            return Ok(());
        }
        if !found.is_dir() {
            if !named && !found.is_file() {
                // A pipe makes wait for ever.
                return Err(io::Error::other("neither a file nor a folder"));
            }
            self.bytes += found.len();
            self.all.push((path.into(), named));
            return Ok(());
        }
        let inside = fs::read_dir(path)?.map(|entry| entry.map(|it| it.path()));
        let mut inside: Vec<_> = inside.collect::<io::Result<_>>()?;
        inside.sort();
        for path in inside {
            if let Err(error) = self.look(&path, false) {
                fail(&mut self.failed, &error.to_string(), &path.display().to_string());
            }
        }
        Ok(())
    }

    /// Hands on each conversation, with the bytes that were read before it; returns what could not
    /// be read.
    pub(super) fn read(self, each: impl FnMut(Conversation, u64)) -> io::Result<Told> {
        let (open, entries) = (Vec::new(), BTreeMap::new());
        let mut logs = Logs { each, failed: self.failed, read: 0, open, entries, continued: 0 };
        for (path, named) in self.all {
            let place = path.display().to_string();
            match logs.file(&path, &place) {
                Err(error) if named => return Err(error_in(&place, &error)),
                Err(error) => fail(&mut logs.failed, &error.to_string(), &place),
                Ok(()) => {}
            }
            for (_, (place, list)) in std::mem::take(&mut logs.entries) {
                logs.list(&Value::Null, &list, &place);
            }
        }
        for (_, conversation) in std::mem::take(&mut logs.open) {
            (logs.each)(conversation, logs.read);
        }
        Ok(Told { failed: logs.failed, continued: logs.continued })
    }
}

pub(super) fn error_in(place: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{place}: {error}"))
}

struct Logs<E> {
    each: E,
    failed: Failed,
    /// The bytes of what was read.
    read: u64,
    /// Conversations that may go on: what was said in each as hashes, and all of it.
    open: Vec<(Vec<u64>, Conversation)>,
    /// The conversations of a file that are written line by line: where each begins, and its lines.
    entries: BTreeMap<String, (String, Vec<Value>)>,
    continued: usize,
}

impl<E: FnMut(Conversation, u64)> Logs<E> {
    fn file(&mut self, path: &Path, place: &str) -> io::Result<()> {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        file.by_ref().take(MOST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST {
            return self.large(BufReader::new(Cursor::new(bytes).chain(file)), place);
        }
        let text = str::from_utf8(&bytes).map_err(|_| io::Error::other("no text in UTF-8"))?;
        self.text(text.trim_start_matches('\u{feff}'), place);
        self.read += bytes.len() as u64;
        Ok(())
    }

    /// Reads a file of JSON lines that is too large to be read at once.
    fn large(&mut self, mut file: impl BufRead, place: &str) -> io::Result<()> {
        // What is broken before the first conversation: there may come none.
        let (mut line, mut broken, mut found) = (Vec::new(), Vec::new(), false);
        for number in 1.. {
            line.clear();
            let bytes = file.by_ref().take(MOST).read_until(b'\n', &mut line)? as u64;
            if bytes == 0 || (!found && broken.len() == NO_LOG) {
                break;
            }
            if bytes == MOST && !line.ends_with(b"\n") {
                let reason = "a line of more than 64 MiB: write one conversation in each line";
                self.fail(reason, &format!("{place}, line {number}"));
                self.read += bytes + skip_line(&mut file)?;
                continue;
            }
            let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line).trim_ascii();
            match serde_json::from_slice::<Value>(text) {
                _ if text.is_empty() => {}
                Ok(value) => {
                    found |= value.is_object() || value.is_array();
                    self.value(&value, &format!("{place}, line {number}"));
                }
                Err(error) if found => self.broken(place, number, &error),
                Err(error) => broken.push((number, error)),
            }
            self.read += bytes;
        }
        if !found && broken.len() == NO_LOG {
            let reason = "more than 64 MiB in one value: write one conversation in each line, \
                          or smaller files";
            self.fail(reason, place);
            return Ok(());
        }
        for (number, error) in broken {
            self.broken(place, number, &error);
        }
        Ok(())
    }

    fn text(&mut self, text: &str, file: &str) {
        let whole = match serde_json::from_str(text) {
            Ok(value) => return self.value(&value, file),
            Err(error) => error,
        };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let is_log = |line: &str| {
            line.trim_start().starts_with(['{', '['])
                && serde_json::from_str::<IgnoredAny>(line).is_ok()
        };
        if !lines.clone().any(|(_, line)| is_log(line)) {
            return self.broken(file, whole.line(), &whole); // one value over many lines
        }
        let before = self.read;
        for (i, line) in lines {
            self.read = before + (line.as_ptr() as usize - text.as_ptr() as usize) as u64;
            match serde_json::from_str(line) {
                Ok(value) => self.value(&value, &format!("{file}, line {}", i + 1)),
                Err(error) => self.broken(file, i + 1, &error),
            }
        }
        self.read = before;
    }

    /// Notes a line that is no JSON.
    fn broken(&mut self, file: &str, line: usize, error: &serde_json::Error) {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        self.fail(reason, &format!("{file}, line {line}, column {}", error.column()));
    }

    /// Reads a conversation, or a list of them.
    fn value(&mut self, value: &Value, place: &str) {
        let inner = LISTS.iter().find_map(|key| value.get(key).filter(|it| it.is_array()));
        let list = inner.or(Some(value)).and_then(Value::as_array);
        let is_message = |it: &Value| ["role", "type"].iter().any(|key| it[key].is_string());
        if let Some(list) = list {
            let is_list = value.is_array();
            if is_list && !list.iter().any(is_message) && !list.iter().any(|it| it["lc"] == 1) {
                let numbered = list.iter().enumerate();
                return numbered
                    .for_each(|(i, it)| self.value(it, &format!("{place}, item {}", i + 1)));
            }
            if !list.iter().any(|it| forms::speaker(it).is_some()) {
                return self.list(value, list, place);
            }
        }
        let request = ["request", "body"].iter().find_map(|key| value.get(key));
        if let Some(request) = request.filter(|it| it.is_object()) {
            let mut whole = request.clone();
            let key = LISTS.iter().find(|key| whole[**key].is_array());
            if let Some(list) = key.and_then(|key| whole[*key].as_array_mut()) {
                list.extend(forms::answer(&value["response"]));
            }
            return self.value(&whole, place);
        }
        match forms::form(value) {
            Ok(Form::List(list)) => self.list(&Value::Null, &list, place),
            Ok(Form::Entry(name, entry)) => {
                let new = || (place.to_owned(), Vec::new());
                forms::add(&mut self.entries.entry(name).or_insert_with(new).1, entry);
            }
            Ok(Form::Passed) => {}
            Ok(Form::Unknown) => {
                self.fail("neither a list nor an object that holds one", place);
            }
            Err(reason) => self.fail(&reason, place),
        }
    }

    /// Reads the messages of a request, or of a list.
    fn list(&mut self, request: &Value, list: &[Value], place: &str) {
        match decode(request, list) {
            Ok(messages) => {
                let tools = request.get("tools").and_then(Value::as_array);
                let tools = tools.into_iter().flatten().flat_map(defined).collect();
                self.take(Conversation { messages, tools });
            }
            Err(error) => self.fail(&error.to_string(), place),
        }
    }

    /// Takes a conversation, which may be one of before that has gone on: a log of requests has each
    /// again and again, with what was said since.
    fn take(&mut self, conversation: Conversation) {
        let said: Vec<u64> =
            conversation.messages.iter().filter(|it| !it.is_system()).map(hash).collect();
        let is_asked = conversation.messages.last().is_some_and(|it| it.as_ai().is_none());
        let goes_on =
            |before: &[u64]| said.starts_with(before) && (said.len() > before.len() || is_asked);
        let before = self.open.iter().rposition(|(before, _)| goes_on(before));
        if let Some(before) = before {
            self.continued += 1;
            self.open[before] = (said, conversation);
            return;
        }
        self.open.push((said, conversation));
        if self.open.len() > OPEN {
            (self.each)(self.open.remove(0).1, self.read);
        }
    }

    fn fail(&mut self, reason: &str, place: &str) {
        fail(&mut self.failed, reason, place);
    }
}

/// Returns a hash of what a message says, whatever stands beside it.
fn hash(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    (message.role(), message.text()).hash(&mut hasher);
    message.tool_calls().for_each(|call| (&call.name, &call.arguments).hash(&mut hasher));
    hasher.finish()
}

/// Reads to the end of a line, which may be long; returns its bytes.
fn skip_line(file: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = file.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let bytes = end.map_or(buffer.len(), |end| end + 1);
        file.consume(bytes);
        skipped += bytes as u64;
        if end.is_some() || bytes == 0 {
            return Ok(skipped);
        }
    }
}

/// Reads messages in the format that they look like, and the system text that stands beside them in
/// a request.
fn decode(request: &Value, list: &[Value]) -> memory_prompt::Result<Vec<Message>> {
    if list.iter().any(|it| forms::langchain(it).is_some()) {
        let list = list.iter().map(|it| forms::langchain(it).unwrap_or_else(|| it.clone()));
        return wire::openai::history(list.collect::<Value>().to_string());
    }
    let has = |key: &str| list.iter().any(|it| it.get(key).is_some());
    let kinds = || list.iter().filter_map(|it| it["type"].as_str());
    let blocks = || list.iter().filter_map(|it| it["content"].as_array()).flatten();
    let of_anthropic = |kind: &str| ["tool_use", "tool_result", "thinking"].contains(&kind);
    let read = if has("parts") {
        wire::gemini::history
    } else if request.get("system").is_some() {
        wire::anthropic::history
    } else if kinds().any(|kind| kind.chars().all(char::is_uppercase)) {
        wire::langchain4j::history
    } else if blocks().filter_map(|block| block["type"].as_str()).any(of_anthropic) {
        wire::anthropic::history
    } else if kinds().next().is_some() || request["input"].is_array() {
        wire::responses::history
    } else {
        wire::openai::history
    };
    let is_request = ["messages", "contents", "input"].iter().any(|key| request[*key].is_array());
    let read_from = if is_request { request.clone() } else { Value::from(list.to_vec()) };
    read(&read_from.to_string())
}

/// Reads the tools of an entry: one of OpenAI's or Anthropic's, or a list of Gemini's.
fn defined(entry: &Value) -> Vec<Tool> {
    let mut declared = ["functionDeclarations", "function_declarations"].iter();
    let declared = declared.find_map(|key| entry.get(key)?.as_array());
    let alone = std::slice::from_ref(entry.get("function").unwrap_or(entry));
    declared.map_or(alone, Vec::as_slice).iter().filter_map(tool).collect()
}

/// Reads a definition; one of another type is of a tool that the provider runs.
fn tool(definition: &Value) -> Option<Tool> {
    let kind = definition.get("type").and_then(Value::as_str);
    if kind.is_some_and(|kind| !["function", "custom"].contains(&kind)) {
        return None;
    }
    let description = definition["description"].as_str().unwrap_or_default();
    let tool = Tool::new(definition["name"].as_str()?, description);
    let schemas = ["parameters", "input_schema", "parametersJsonSchema"];
    let schema = schemas.iter().find_map(|key| definition.get(key).filter(|it| it.is_object()));
    Some(match schema {
        Some(schema) => tool.parameters(schema.clone()),
        None => tool,
    })
}
