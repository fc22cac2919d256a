//! The web service as its users have it: many at once, tabs that are closed, servers that die.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

#[path = "../../tests/common/folder.rs"]
mod folder;
#[path = "../../tests/servers/process.rs"]
#[allow(dead_code, clippy::duration_suboptimal_units)]
// it serves other tests too, of an older Rust
mod process;
#[path = "../readme/service.rs"]
#[allow(unreachable_pub)] // as it stands in the README
mod service;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use folder::Folder;
use memory_prompt::Message;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The service in a process of its own, which is killed with the test.
struct Web {
    child: Process,
    log: PathBuf,
    url: String,
    client: Client,
}

/// Its TLS is there, since the service's own has it, and wants a cryptography.
fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::new()
}

/// Asks for what a page asks for.
fn asking(client: &Client, url: String, asked: impl Into<reqwest::Body>) -> RequestBuilder {
    client.post(url).header("content-type", "application/json").body(asked)
}

fn say(question: &str) -> String {
    json!([null, {"say": question}]).to_string()
}

/// What a page shows.
struct Page {
    branch: Value,
    /// Role, text, number of the variant, and the branches of all of them; oldest first.
    rows: Vec<(String, String, u64, Vec<Value>)>,
}

impl Page {
    /// The texts, each with `< 2/3 >`.
    fn shown(&self) -> Vec<String> {
        let row = |(_, text, variant, branches): &(_, String, u64, Vec<Value>)| match branches.len()
        {
            0 | 1 => text.clone(),
            all => format!("{text} < {variant}/{all} >"),
        };
        self.rows.iter().map(row).collect()
    }
}

impl Web {
    fn start(place: &str, folder: &Folder, settings: &[(&str, &str)]) -> Self {
        let log = folder.file(format!("log-{}", process::free_port()));
        let child = Command::new(env!("CARGO_BIN_EXE_web"))
            .arg(place)
            .env("ADDRESS", "127.0.0.1:0")
            .envs(settings.iter().copied())
            .stdout(File::create(&log).unwrap())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut web = Self { child: Process(child), log, url: String::new(), client: client() };
        web.wait_for("http://");
        let log = web.log();
        let url = &log[log.find("http://").unwrap()..];
        web.url.push_str(url.lines().next().unwrap());
        web
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    fn wait_for(&self, word: &str) {
        let since = Instant::now();
        while !self.log().contains(word) {
            assert!(since.elapsed() < Duration::from_mins(1), "{word}: {}", self.log());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns how often a tool has run.
    fn booked(&self) -> usize {
        self.log().matches("web: booked").count()
    }

    fn kill(&mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
    }

    /// Asks it to end, and waits until it has.
    fn end(&mut self) {
        let id = self.child.0.id().to_string();
        Command::new("kill").args(["-s", "INT", &id]).status().unwrap();
        assert!(self.child.0.wait().unwrap().success());
    }

    async fn send(&self, user: &str, asked: impl Into<reqwest::Body>) -> Response {
        asking(&self.client, format!("{}/{user}", self.url), asked).send().await.unwrap()
    }

    async fn post(&self, user: &str, question: impl AsRef<str>) -> Response {
        self.send(user, say(question.as_ref())).await
    }

    async fn status(&self, user: &str, question: impl AsRef<str>) -> u16 {
        self.post(user, question).await.status().as_u16()
    }

    /// Does what a page asks for that shows this branch; returns the status and the events.
    async fn act(&self, user: &str, branch: &Value, action: Value) -> (u16, Vec<(String, Value)>) {
        let response = self.send(user, json!([branch, action]).to_string()).await;
        (response.status().as_u16(), events(&response.text().await.unwrap()))
    }

    /// Asks, and returns the events of the answer.
    async fn ask(&self, user: &str, question: &str) -> Vec<(String, Value)> {
        let response = self.post(user, question.to_owned()).await;
        assert_eq!(response.status(), 200);
        events(&response.text().await.unwrap())
    }

    async fn page(&self, user: &str) -> Page {
        let response = self.client.get(format!("{}/{user}", self.url)).send().await.unwrap();
        let mut page: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        let rows: Vec<Value> = serde_json::from_value(page["entries"].take()).unwrap();
        let rows = rows.into_iter().rev().enumerate();
        let rows = rows.map(|(place, mut row)| {
            assert_eq!(row["position"], place);
            let role = row["message"]["role"].as_str().unwrap().to_owned();
            let message: Message = serde_json::from_value(row["message"].take()).unwrap();
            let branches = serde_json::from_value(row["branches"].take()).unwrap();
            (role, message.text().into_owned(), row["variant"].as_u64().unwrap(), branches)
        });
        Page { branch: page["branch"].take(), rows: rows.collect() }
    }

    /// The roles and texts that are remembered.
    async fn history(&self, user: &str) -> Vec<(String, String)> {
        let page = self.page(user).await;
        page.rows.into_iter().map(|(role, text, ..)| (role, text)).collect()
    }

    /// Follows a turn behind this event.
    async fn follow(&self, user: &str, last: Option<&str>) -> Response {
        let mut asked = self.client.get(format!("{}/{user}/events", self.url));
        if let Some(last) = last {
            asked = asked.header("last-event-id", last);
        }
        asked.send().await.unwrap()
    }

    /// Waits until so much is remembered.
    async fn remembers(&self, user: &str, messages: usize) -> Vec<(String, String)> {
        let since = Instant::now();
        loop {
            let history = self.history(user).await;
            if history.len() >= messages {
                return history;
            }
            assert!(since.elapsed() < Duration::from_mins(1), "{user}: {history:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A process that ends with whoever holds it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An event as a browser takes it: its id, its name and its data.
type Taken = (String, String, Value);

/// The whole events of a body.
fn taken(body: &str) -> Vec<Taken> {
    let whole = body.rfind("\n\n").map_or("", |end| &body[..end]);
    let field = |event: &str, name: &str| {
        event.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    };
    let event = |it: &str| {
        let data = serde_json::from_str(&field(it, "data:")?).unwrap();
        Some((field(it, "id:")?, field(it, "event:")?, data))
    };
    whole.split("\n\n").filter_map(event).collect()
}

/// The events of a body, each with its name and its data.
fn events(body: &str) -> Vec<(String, Value)> {
    events_of(&taken(body))
}

fn events_of(taken: &[Taken]) -> Vec<(String, Value)> {
    taken.iter().map(|(_, name, data)| (name.clone(), data.clone())).collect()
}

fn text(events: &[(String, Value)]) -> String {
    let texts = events.iter().filter(|(name, _)| name == "text");
    texts.map(|(_, data)| data.as_str().unwrap()).collect()
}

/// Each question with its answer right behind it, in any order.
fn pairs(history: &[(String, String)]) -> Vec<&str> {
    assert_eq!(history.len() % 2, 0, "{history:?}");
    let mut questions = Vec::new();
    for pair in history.chunks(2) {
        assert_eq!((pair[0].0.as_str(), pair[1].0.as_str()), ("user", "assistant"), "{history:?}");
        assert_eq!(pair[1].1, format!("You said: {}", pair[0].1));
        questions.push(pair[0].1.as_str());
    }
    questions.sort_unstable();
    questions
}

fn long(word: &str, words: usize) -> String {
    vec![word; words].join(" ")
}

/// 200 users at once, each with two tabs; a tab in five is closed in the middle of its answer.
async fn many_users_at_once(web: Web) {
    let web = Arc::new(web);
    let mut tabs = JoinSet::new();
    for (user, tab) in (0..200).flat_map(|user| [(user, 0), (user, 1)]) {
        let web = Arc::clone(&web);
        tabs.spawn(async move {
            let question = format!("user {user} tab {tab} {}", long("word", 20));
            let mut response = web.post(&format!("u{user}"), question.clone()).await;
            assert_eq!(response.status(), 200);
            if (user + tab) % 5 == 0 {
                assert!(response.chunk().await.unwrap().is_some());
                return; // closed
            }
            let events = events(&response.text().await.unwrap());
            assert_eq!(text(&events), format!("You said: {question}"));
            assert_eq!(events.last().unwrap().1["ended"], "answered");
        });
    }
    while let Some(tab) = tabs.join_next().await {
        tab.unwrap();
    }
    for user in 0..200 {
        let history = web.remembers(&format!("u{user}"), 4).await;
        let asked = [0, 1].map(|tab| format!("user {user} tab {tab} {}", long("word", 20)));
        assert_eq!(pairs(&history), asked);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_users_at_once_lose_and_mix_nothing() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    many_users_at_once(Web::start(place.to_str().unwrap(), &folder, &[])).await;
}

/// 1,000 clients at once, of which 200 lose their connection in the middle of an answer, up to
/// three times: each sees each event once and in order, whether the turn still runs or is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_goes_on_behind_what_was_seen() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Arc::new(Web::start(place.to_str().unwrap(), &folder, &[]));
    let mut tabs = JoinSet::new();
    for client in 0..1_000_usize {
        let web = Arc::clone(&web);
        tabs.spawn(async move {
            let (user, question) = (format!("c{client}"), format!("{client} {}", long("w", 30)));
            let mut response = web.post(&user, question.clone()).await;
            assert_eq!(response.status(), 200);
            let mut seen: Vec<Taken> = Vec::new();
            let losses = if client % 5 == 0 { 1 + client / 5 % 3 } else { 0 };
            for loss in 0..=losses {
                let (mut body, most) = (Vec::new(), 1 + client % 7 * 3);
                while let Some(bytes) = response.chunk().await.unwrap() {
                    body.extend(bytes);
                    if loss < losses && taken(&String::from_utf8_lossy(&body)).len() >= most {
                        break;
                    }
                }
                seen.extend(taken(&String::from_utf8(body).unwrap()));
                if loss == losses {
                    break;
                }
                // Some come back when the answer is stored long since.
                let away = if client % 15 == 0 { 2_000 } else { client as u64 % 40 };
                tokio::time::sleep(Duration::from_millis(away)).await;
                let last = seen.last().unwrap().0.clone();
                response = web.follow(&user, Some(&last)).await;
                if response.status() == 204 {
                    break; // all was seen
                }
            }
            let at = |it: &Taken| it.0.split('.').nth(1).unwrap().parse::<usize>().unwrap();
            assert!(seen.is_sorted_by(|a, b| at(a) < at(b)), "{seen:?}");
            let told: Vec<_> = seen.iter().map(|it| (it.1.clone(), it.2.clone())).collect();
            assert_eq!(text(&told), format!("You said: {question}"));
            assert_eq!((&*told[0].0, &told[0].1), ("question", &json!(question)));
            let done = told.iter().filter(|it| it.0 == "done").count();
            assert_eq!((done, &*told.last().unwrap().0), (1, "done"));
        });
    }
    while let Some(tab) = tabs.join_next().await {
        tab.unwrap();
    }
}

/// A tab that is opened while an answer runs sees what the first one sees, from its beginning.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_tab_sees_the_same() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    assert_eq!(web.follow("ada", None).await.status(), 204, "nothing runs");
    let question = long("word", 400); // two seconds, for the second tab to come in time
    let mut first = web.post("ada", question.as_str()).await;
    let mut body = first.chunk().await.unwrap().unwrap().to_vec();
    let second = web.follow("ada", None).await;
    let second = tokio::spawn(async { second.text().await.unwrap() });
    while let Some(bytes) = first.chunk().await.unwrap() {
        body.extend(bytes);
    }
    let first = taken(&String::from_utf8(body).unwrap());
    assert_eq!(first, taken(&second.await.unwrap()));
    assert_eq!(web.follow("ada", Some(&first.last().unwrap().0)).await.status(), 204);
    for unknown in ["1.7", "x", "", "99.", "1.99999999999999999999999"] {
        assert_eq!(web.follow("ada", Some(unknown)).await.status(), 204, "{unknown}");
    }
    // After a restart the rest is what is stored.
    let last = first[40].0.clone();
    drop(web);
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    let rest = taken(&web.follow("ada", Some(&last)).await.text().await.unwrap());
    let told = first[..=40].iter().chain(&rest).map(|it| (it.1.clone(), it.2.clone()));
    assert_eq!(text(&told.collect::<Vec<_>>()), format!("You said: {question}"));
    assert_eq!(
        rest.last().unwrap(),
        &(first.last().unwrap().0.clone(), "done".to_owned(), json!({"ended": "answered"}))
    );
}

/// The page shows `< 2/2 >` and pages, edits, answers anew and takes back; whatever it does, what
/// was said stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_edits_answers_anew_and_switches() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    assert_eq!(web.page("ada").await.branch, Value::Null);
    assert_eq!(web.act("ada", &Value::Null, json!("regenerate")).await.0, 400, "nothing was asked");
    web.ask("ada", "one").await;
    web.ask("ada", "two").await;
    let page = web.page("ada").await;
    assert_eq!(page.shown(), ["one", "You said: one", "two", "You said: two"]);

    let (status, told) = web.act("ada", &page.branch, json!("regenerate")).await;
    assert_eq!((status, &told[0]), (200, &("question".to_owned(), json!("two"))));
    assert_eq!((text(&told), &*told.last().unwrap().0), ("You said: two".to_owned(), "done"));
    let page = web.page("ada").await;
    assert_eq!(page.shown(), ["one", "You said: one", "two", "You said: two < 2/2 >"]);
    let first = page.rows[3].3[0].clone();
    assert_eq!(web.act("ada", &page.branch, json!({"switch": first})).await, (204, vec![]));
    let page = web.page("ada").await;
    assert_eq!((page.rows[3].2, &page.branch), (1, &page.rows[3].3[0]));

    let (status, told) = web.act("ada", &page.branch, json!({"edit": [0, "three"]})).await;
    assert_eq!((status, text(&told)), (200, "You said: three".to_owned()));
    let page = web.page("ada").await;
    assert_eq!(page.shown(), ["three < 2/2 >", "You said: three"]);
    assert_eq!(web.act("ada", &page.branch, json!("undo")).await.0, 204);
    let page = web.page("ada").await;
    assert_eq!(page.shown()[..2], ["one < 1/2 >", "You said: one"]);
    assert_eq!(page.shown()[2..], ["two", "You said: two < 1/2 >"]);
    assert_eq!(web.act("ada", &page.branch, json!("redo")).await.0, 204);

    let page = web.page("ada").await;
    for (action, status) in [
        (json!({"edit": [7, "four"]}), 400),
        (json!({"edit": [0, " "]}), 400),
        (json!({"switch": "0123456789abcdef"}), 400),
    ] {
        assert_eq!(web.act("ada", &page.branch, action.clone()).await.0, status, "{action}");
    }
    assert_eq!(web.page("ada").await.shown(), ["three < 2/2 >", "You said: three"]);
}

/// A tab that shows a branch which another tab has left is refused, whatever it asks for; drawn
/// anew, it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_tab_that_shows_another_branch_changes_nothing() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    web.ask("ada", "one").await;
    let second = web.page("ada").await;
    let both = [web.page("ada").await.branch, second.branch.clone()];
    for (branch, question) in both.iter().zip(["two", "three"]) {
        // They are on one branch, and both are answered.
        assert_eq!(web.act("ada", branch, json!({"say": question})).await.0, 200);
    }
    assert_eq!(web.act("ada", &second.branch, json!({"edit": [2, "four"]})).await.0, 200);
    let first = web.page("ada").await;
    let shown = ["one", "You said: one", "four < 2/2 >", "You said: four"];
    assert_eq!(first.shown(), shown);
    let to = &first.rows[2].3[0];
    for action in [
        json!({"say": "five"}),
        json!({"edit": [0, "five"]}),
        json!("regenerate"),
        json!({"switch": to}),
        json!("undo"),
    ] {
        let (status, _) = web.act("ada", &second.branch, action.clone()).await;
        assert_eq!(status, 409, "{action}");
    }
    assert_eq!(web.page("ada").await.shown(), shown);
    assert_eq!(web.act("ada", &first.branch, json!({"say": "five"})).await.0, 200);
    assert_eq!(web.page("ada").await.shown()[4..], ["five", "You said: five"]);
}

/// Until a new answer is whole the former one is shown, also where the process dies; who is
/// reloaded meanwhile is told the new one, and behind what was seen, whatever is current by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_in_the_middle_of_a_new_answer_shows_both() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let mut web = Web::start(place.to_str().unwrap(), &folder, &[]);
    let question = long("word", 500); // two and a half seconds
    let answer = format!("You said: {question}");
    web.ask("ada", &question).await;
    let former = web.page("ada").await;
    let regenerate = json!([former.branch, "regenerate"]).to_string();

    let mut dies = web.send("ada", regenerate.clone()).await;
    assert!(dies.chunk().await.unwrap().is_some());
    web.kill();
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    assert_eq!(web.page("ada").await.shown(), former.shown());

    let mut tab = web.send("ada", regenerate).await;
    let mut body = Vec::new();
    while taken(&String::from_utf8_lossy(&body)).len() < 4 {
        body.extend(tab.chunk().await.unwrap().unwrap());
    }
    drop(tab); // and is opened again
    let seen = taken(&String::from_utf8(body).unwrap());
    assert_eq!(web.page("ada").await.shown(), former.shown());
    let anew = taken(&web.follow("ada", None).await.text().await.unwrap());
    assert_eq!(anew[..seen.len()], seen);
    assert_eq!((&anew[0].2, text(&events_of(&anew))), (&json!(question), answer.clone()));
    assert_eq!(anew.last().unwrap().1, "done");

    let page = web.page("ada").await;
    assert_eq!(page.shown(), [question.clone(), format!("{answer} < 2/2 >")]);
    let back = json!({"switch": page.rows[1].3[0]});
    assert_eq!(web.act("ada", &page.branch, back).await.0, 204);
    drop(web);
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    let last = &seen.last().unwrap().0;
    let rest = taken(&web.follow("ada", Some(last)).await.text().await.unwrap());
    let all: Vec<_> = seen.iter().chain(&rest).cloned().collect();
    assert_eq!(text(&events_of(&all)), answer);
    assert_eq!(rest.last().unwrap().0, anew.last().unwrap().0);
}

/// What is stored of a turn that has called tools is found behind its checkpoint, all that was said
/// of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_with_tools_is_told_from_what_is_stored() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    let told = web.post("ada", BOOKINGS).await.text().await.unwrap();
    let told = taken(&told);
    drop(web);
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    let rest = taken(&web.follow("ada", Some(&told[0].0)).await.text().await.unwrap());
    let said = |all: &[Taken]| text(&events_of(all));
    assert_eq!(said(&rest), said(&told));
    assert!(!said(&rest).is_empty());
    assert_eq!(web.booked(), 0);
}

/// A browser that has Ada's page open, and tells what it shows; it ends with the test.
struct Browser {
    _child: Process,
    shown: Arc<Mutex<String>>,
}

impl Browser {
    /// Opens the page, which does this too, by way of a server between both. None where no browser
    /// is installed.
    fn open(folder: &Folder, web: &Web, script: &str, way: Way) -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let Some(browser) = names.into_iter().find(is_there) else {
            println!("skipped: no Chromium is installed");
            return None;
        };
        let shown = Arc::<Mutex<String>>::default();
        let url = between(&web.url, script, way, &shown);
        let child = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", folder.file("browser").display()))
            .arg(format!("{url}/#ada"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { _child: Process(child), shown })
    }

    /// Waits until it shows this, and returns all that it shows.
    async fn shows(&self, what: &str) -> String {
        let since = Instant::now();
        loop {
            let shown = self.shown.lock().unwrap().clone();
            if shown.contains(what) {
                return shown;
            }
            assert!(since.elapsed() < Duration::from_secs(40), "{what}: {shown}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The way between a browser and the service: how late the events of a turn are asked for, and how
/// many bytes of an answer come before the connection breaks.
#[derive(Clone, Copy)]
struct Way {
    late: Duration,
    bytes: u64,
}

const OPEN: Way = Way { late: Duration::ZERO, bytes: u64::MAX };

/// Tells every tenth of a second what the page shows.
const TELLS: &str = "setInterval(() => fetch('/shown', \
    { method: 'POST', body: $('said').innerHTML + $('state').outerHTML + $('question').value }), 100)";

/// Hands on to the service what a browser asks for.
fn between(url: &str, script: &str, way: Way, shown: &Arc<Mutex<String>>) -> String {
    let service = url.strip_prefix("http://").unwrap().to_owned();
    let script = format!("{script}\n{TELLS}\n</script>");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let shown = Arc::clone(shown);
    thread::spawn(move || {
        for mut browser in listener.incoming().map(Result::unwrap) {
            let (service, script, shown) = (service.clone(), script.clone(), Arc::clone(&shown));
            thread::spawn(move || {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && browser.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let length = head.lines().find_map(|it| it.strip_prefix("Content-Length: "));
                let mut body = vec![0; length.map_or(0, |it| it.parse().unwrap())];
                browser.read_exact(&mut body).unwrap();
                let own = match head.split(' ').nth(1) {
                    Some("/") => include_str!("page.html").replace("</script>", &script),
                    Some("/shown") => {
                        *shown.lock().unwrap() = String::from_utf8(body).unwrap();
                        String::new()
                    }
                    _ => {
                        let is_followed = head.contains("/events ");
                        if is_followed {
                            thread::sleep(way.late);
                        }
                        // One request a connection, so that none is overlooked.
                        let head = head.replace("Connection: keep-alive", "Connection: close");
                        let mut service = std::net::TcpStream::connect(service).unwrap();
                        service.write_all(&[head.as_bytes(), &body].concat()).unwrap();
                        let is_told = is_followed || head.starts_with("POST ");
                        let most = if is_told { way.bytes } else { u64::MAX };
                        let _ = std::io::copy(&mut service.take(most), &mut browser);
                        return;
                    }
                };
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close";
                let _ = write!(browser, "{head}\r\ncontent-length: {}\r\n\r\n{own}", own.len());
            });
        }
    });
    address
}

/// A browser is reloaded in the middle of an answer, and shows it whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_the_whole_answer_after_a_reload() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    let question = long("word", 900); // four seconds and a half
    let mut running = web.post("ada", question.clone()).await;
    assert!(running.chunk().await.unwrap().is_some());
    drop(running); // the tab was closed, and another one is opened in the middle of its answer
    let Some(browser) = Browser::open(&folder, &web, "", OPEN) else { return };
    let shown = browser.shows(&format!(">You said: {question}<")).await;
    assert_eq!(shown.matches("class=\"user\"").count(), 1, "{shown}");
}

/// An answer ended between the two questions of a page, what is stored and what runs: neither told
/// of it, and the page was empty.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_an_answer_that_ended_while_its_page_was_loaded() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    let question = long("word", 600);
    let mut running = web.post("ada", question.clone()).await;
    assert!(running.chunk().await.unwrap().is_some());
    drop(running);
    let way = Way { late: Duration::from_secs(5), ..OPEN };
    let Some(browser) = Browser::open(&folder, &web, "", way) else { return };
    let shown = browser.shows(&format!(">You said: {question}<")).await;
    assert_eq!(shown.matches("class=\"user\"").count(), 1, "{shown}");
}

/// The page showed half an answer for ever where the connection broke on which its question was
/// sent: a browser comes back by itself only where it was asked to follow. One reader serves both.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_goes_on_where_the_connection_breaks() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    // 600 events are some 40,000 bytes: three connections at least.
    let asks = "setTimeout(() => act({ say: 'word '.repeat(600) + 'end' }), 500)";
    let way = Way { bytes: 16_000, ..OPEN };
    let Some(browser) = Browser::open(&folder, &web, asks, way) else { return };
    let shown = browser.shows(">answered</span>").await;
    assert!(shown.contains(&format!(">You said: {} end<", long("word", 600))), "{shown}");
    assert_eq!(shown.matches("class=\"user\"").count(), 1, "{shown}");
}

/// What stands behind `#` was an address: of another server too, to which the page sent all that
/// was typed. A change of it showed Ada's conversation under Bob's name.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_asks_this_service_alone_and_shows_whom_its_address_names() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    web.ask("bob", "I am Bob").await;
    let goes = "if (location.hash == '#ada') setTimeout(() => location.hash = 'bob', 500)";
    let Some(browser) = Browser::open(&folder, &web, goes, OPEN) else { return };
    browser.shows(">You said: I am Bob<").await;
    drop(browser);

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let goes = format!(
        "if (location.hash == '#ada') setTimeout(() => location.hash = '//{}/x', 500)
         else setTimeout(() => act({{ say: 'a secret' }}), 500)",
        other.local_addr().unwrap()
    );
    let browser = Browser::open(&folder, &web, &goes, OPEN).unwrap();
    browser.shows("</span>a secret").await;
    assert!(other.accept().is_err(), "the question went to another server");
}

/// A question that was refused or has not arrived was gone, and so was a page that was opened while
/// the service was away.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_keeps_what_was_not_taken_and_waits_for_the_service() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let address = format!("127.0.0.1:{}", process::free_port());
    let settings = [("ADDRESS", &*address)];
    let mut web = Web::start(place.to_str().unwrap(), &folder, &settings);
    web.ask("ada", "one").await;
    let asks = "setTimeout(() => { $('question').value = 'word '.repeat(8000) + 'end'; \
        $('form').requestSubmit() }, 500)";
    let Some(browser) = Browser::open(&folder, &web, asks, OPEN) else { return };
    let shown = browser.shows(&format!("</span>{} end", long("word", 8_000))).await;
    assert!(!shown.contains("></span>"), "it says why: {shown}");
    drop(browser);

    web.kill();
    let asks =
        "setTimeout(() => { $('question').value = 'hello'; $('form').requestSubmit() }, 500)";
    let browser = Browser::open(&folder, &web, asks, OPEN).unwrap();
    browser.shows("the connection broke</span>hello").await;
    let _web = Web::start(place.to_str().unwrap(), &folder, &settings);
    browser.shows(">You said: one<").await;
}

/// A short answer took the place of a long one that was still running, and a second click wiped it.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_all_turns_that_run() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    let asks = "const ask = it => { $('question').value = it; $('form').requestSubmit() }
        setTimeout(() => { ask('word '.repeat(600) + 'end'); ask('') }, 500)
        setTimeout(() => ask('short'), 1500)";
    let Some(browser) = Browser::open(&folder, &web, asks, OPEN) else { return };
    browser.shows(">You said: short<").await;
    browser.shows(">answered</span>").await;
    browser.shows(&format!(">You said: {} end<", long("word", 600))).await;
}

/// A separator of lines in an answer broke the reader of events, and of an answer in parts nothing
/// was shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_lines_and_refusals() {
    let folder = Folder::new();
    let refuses = WHOLE.replace("\"content\":\"You said: \"", "\"refusal\":\"I do \"");
    let refuses = refuses.replace("\"content\":\"hello\"", "\"refusal\":\"not.\"");
    let lines = WHOLE.replace("hello", "a\u{2028}b\\nc");
    // It does not end, so it is shown as it comes and not as it is stored.
    let lines = lines.split("data: ").take(3).collect::<Vec<_>>().join("data: ") + HELD;
    let (place, url) = (folder.file("web.db"), serve([refuses, lines]));
    let settings = [("OPENAI_API_KEY", "secret"), ("OPENAI_BASE_URL", url.as_str())];
    let web = Web::start(place.to_str().unwrap(), &folder, &settings);
    web.ask("ada", "hello").await;
    let asks = "setTimeout(() => act({ say: 'lines' }), 500)";
    let Some(browser) = Browser::open(&folder, &web, asks, OPEN) else { return };
    browser.shows("I do not.").await;
    browser.shows("You said: a\u{2028}b\nc").await;
}

/// What was asked was booked, and then the model failed. The page showed the question and put it
/// back into its box too: who pressed Enter once more booked twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_keeps_no_question_that_is_stored() {
    let folder = Folder::new();
    let call = json!({"name": "book", "arguments": r#"{"what": "a table"}"#});
    let calls = json!([{"index": 0, "id": "c1", "type": "function", "function": call}]);
    let calls = json!({ "tool_calls": calls }).to_string();
    let calls = WHOLE.replace(r#"{"content":"You said: "}"#, &calls);
    let calls = calls.replace(r#"{"content":"hello"}"#, "{}");
    let (place, url) = (folder.file("web.db"), serve([calls, REFUSED.to_owned()]));
    let settings = [("OPENAI_API_KEY", "secret"), ("OPENAI_BASE_URL", url.as_str())];
    let web = Web::start(place.to_str().unwrap(), &folder, &settings);
    let asks = "setTimeout(() => { $('question').value = 'book a table'; \
        $('form').requestSubmit() }, 500)";
    let Some(browser) = Browser::open(&folder, &web, asks, OPEN) else { return };
    let shown = browser.shows("class=\"tool\"").await;
    assert!(shown.contains("class=\"user\">book a table<"), "{shown}");
    assert!(shown.ends_with("</span>") && !shown.ends_with("></span>"), "{shown}");
    assert_eq!(web.booked(), 1);
}

/// A question of two lines was edited in a box of one.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_edits_where_it_asks() {
    let folder = Folder::new();
    let web = Web::start(folder.file("web.db").to_str().unwrap(), &folder, &[]);
    web.ask("ada", "one\ntwo").await;
    // An edit waits until the page knows that no turn is told.
    let edits = "setTimeout(() => {
          document.querySelector('.user button').click()
          $('question').value += '\\nthree'
          const asks = setInterval(
            () => $('question').value ? $('form').requestSubmit() : clearInterval(asks), 100)
        }, 500)";
    let Some(browser) = Browser::open(&folder, &web, edits, OPEN) else { return };
    let shown = browser.shows("2/2").await;
    assert!(shown.contains(">You said: one\ntwo\nthree<"), "{shown}");
    assert_eq!(shown.matches("class=\"user\"").count(), 1, "{shown}");
}

/// A question was asked while another answer was made, and was on the branch that this left: it was
/// answered, and nowhere to be seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_asks_nothing_while_another_answer_is_made() {
    let folder = Folder::new();
    let web = Web::start(folder.file("web.db").to_str().unwrap(), &folder, &[]);
    let question = long("word", 300); // a second and a half
    web.ask("ada", &question).await;
    let asks = "setTimeout(() => act('regenerate'), 500)
        setTimeout(() => {
          $('question').value = 'next'
          const asks = setInterval(
            () => $('question').value ? $('form').requestSubmit() : clearInterval(asks), 100)
        }, 700)";
    let Some(browser) = Browser::open(&folder, &web, asks, OPEN) else { return };
    browser.shows(">You said: next<").await;
    browser.shows(">answered</span>").await;
    let answer = format!("You said: {question} < 2/2 >");
    let shown = [question, answer, "next".to_owned(), "You said: next".to_owned()];
    assert_eq!(web.page("ada").await.shown(), shown);
}

/// A double click made two new answers, and so did a click while the first one came.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_answers_anew_once() {
    let folder = Folder::new();
    let web = Web::start(folder.file("web.db").to_str().unwrap(), &folder, &[]);
    let question = long("word", 300); // a second and a half
    web.ask("ada", &question).await;
    let clicks = "for (const at of [500, 500, 1000]) setTimeout(() => $('regenerate').click(), at)";
    let Some(browser) = Browser::open(&folder, &web, clicks, OPEN) else { return };
    browser.shows(">answered</span>").await;
    let answer = format!("You said: {question} < 2/2 >");
    assert_eq!(web.page("ada").await.shown(), [question, answer]);
}

/// A server died in the middle of an answer, and the question was neither stored nor in the box.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_keeps_a_question_whose_answer_is_lost() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let address = format!("127.0.0.1:{}", process::free_port());
    let settings = [("ADDRESS", &*address)];
    let mut web = Web::start(place.to_str().unwrap(), &folder, &settings);
    let asks = "setTimeout(() => { $('question').value = 'word '.repeat(600) + 'end'; \
        $('form').requestSubmit() }, 500)";
    let Some(browser) = Browser::open(&folder, &web, asks, OPEN) else { return };
    browser.shows(">You said: word").await;
    web.kill();
    let _web = Web::start(place.to_str().unwrap(), &folder, &settings);
    browser.shows(&format!("no answer came</span>{} end", long("word", 600))).await;
}

/// The reply to an edit was lost and the edit was stored, but its text stayed in the box to be
/// refused again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_keeps_no_edit_that_is_stored() {
    let folder = Folder::new();
    let web = Web::start(folder.file("web.db").to_str().unwrap(), &folder, &[]);
    web.ask("ada", "one").await;
    let edits = "const all = fetch
        globalThis.fetch = async (to, how) => {
          const it = await all(to, how)
          if (to == user && how) { await it.text(); throw 'lost' }
          return it
        }
        setTimeout(() => { document.querySelector('.user button').click(); \
        $('question').value += ' or two'; $('form').requestSubmit() }, 500)";
    let Some(browser) = Browser::open(&folder, &web, edits, OPEN) else { return };
    let shown = browser.shows(">You said: one or two<").await;
    assert!(shown.ends_with("</span>"), "{shown}");
}

/// An answer that could not be followed for a while, as another process gave it, was not shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_asks_again_for_an_answer_whose_end_it_has_not_seen() {
    let folder = Folder::new();
    let web = Web::start(folder.file("web.db").to_str().unwrap(), &folder, &[]);
    let asks = "const all = fetch
        let unseen = 3
        globalThis.fetch = async (to, how) => how?.headers?.['last-event-id'] && unseen-- > 0
          ? new Response(null, { status: 204 }) : all(to, how)
        setTimeout(() => act({ say: 'word '.repeat(600) + 'end' }), 500)";
    let way = Way { bytes: 16_000, ..OPEN };
    let Some(browser) = Browser::open(&folder, &web, asks, way) else { return };
    browser.shows("waiting for the answer</span>").await;
    let shown = browser.shows(">answered</span>").await;
    assert!(shown.contains(&format!(">You said: {} end<", long("word", 600))), "{shown}");
}

/// A PostgreSQL of the test's own, run by somebody who is not root, with its address.
fn postgres() -> (process::Server, String) {
    let (folder, port) = (process::folder("web-postgres"), process::free_port());
    let versions = std::fs::read_dir("/usr/lib/postgresql").unwrap();
    let programs = versions.map(|it| it.unwrap().path().join("bin")).max().unwrap();
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let command = move |program: &str| {
        if !is_root {
            return Command::new(programs.join(program));
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
        command.arg(programs.join(program));
        command
    };
    if is_root {
        Command::new("chown").arg("postgres:").arg(&folder).status().unwrap();
    }
    let data = folder.join("data");
    let mut initdb = command("initdb");
    initdb.args(["-A", "trust", "-U", "test", "-E", "UTF8", "--locale=C", "-N", "-D"]).arg(&data);
    assert!(initdb.stdout(Stdio::null()).status().unwrap().success());
    let start = move || {
        let mut command = command("postgres");
        command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        command
    };
    let ready = move || {
        let mut ready = Command::new("pg_isready");
        ready.args(["-h", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null());
        ready.status().unwrap().success()
    };
    let server = process::Server::start(folder, start, ready);
    (server, format!("postgres://test@127.0.0.1:{port}/postgres"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn the_same_holds_in_postgresql() {
    let folder = Folder::new();
    let (_server, address) = postgres();
    many_users_at_once(Web::start(&address, &folder, &[])).await;
    restarts(&address, &folder).await;
}

/// Kills it in the middle of fifty answers, and asks it to end in the middle of others.
async fn restarts(place: &str, folder: &Folder) {
    let mut web = Web::start(place, folder, &[]);
    let mut asked = JoinSet::new();
    for user in 0..50 {
        let (client, url) = (web.client.clone(), format!("{}/r{user}", web.url));
        asked.spawn(async move {
            let question = format!("first {}", long("word", user * 16));
            let body = asking(&client, url, say(&question));
            let body = async { body.send().await?.text().await }.await;
            body.is_ok_and(|it| events(&it).last().is_some_and(|(name, _)| name == "done"))
                .then_some(user)
        });
    }
    while web.log().matches("ended=Answered").count() < 10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    web.kill();
    let mut answered = Vec::new();
    while let Some(user) = asked.join_next().await {
        answered.extend(user.unwrap());
    }
    let mut web = Web::start(place, folder, &[]);
    let mut kept = 0;
    for user in 0..50 {
        let history = web.history(&format!("r{user}")).await;
        kept += pairs(&history).len();
        assert!(!answered.contains(&user) || history.len() == 2, "{user} was told it is done");
    }
    println!("{} were told that they are done, {kept} are kept", answered.len());
    assert!((10..50).contains(&kept), "{kept}");
    // A tab that is closed, and a server that is asked to end: the answer was paid for.
    let mut response = web.post("closed", long("word", 100)).await;
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    web.end();
    let web = Web::start(place, folder, &[]);
    assert_eq!(pairs(&web.history("closed").await), [long("word", 100)]);
    web.ask("r0", "second").await;
    assert!(pairs(&web.history("r0").await).contains(&"second"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_what_was_answered_and_no_half_turn() {
    let folder = Folder::new();
    restarts(folder.file("web.db").to_str().unwrap(), &folder).await;
}

const BOOKINGS: &str = "book a and b and c and d and e and f";

/// Kills the service while it books for Ada; returns its file and how often it has booked. A busy
/// machine may see the first booking when the last one is made: then it is tried again.
async fn dies_while_it_books(folder: &Folder) -> (PathBuf, usize) {
    for number in 0..10 {
        let place = folder.file(format!("web-{number}.db"));
        let mut web = Web::start(place.to_str().unwrap(), folder, &[("TURN_SECONDS", "4")]);
        let asked = asking(&web.client, format!("{}/ada", web.url), say(BOOKINGS));
        let asked = tokio::spawn(asked.send());
        web.wait_for("booked");
        web.kill();
        drop(asked.await);
        let booked = web.booked();
        if booked < 6 {
            return (place, booked);
        }
    }
    panic!("it books all at once");
}

/// A server that dies between two tools: what it has booked stays booked, is not booked again, and
/// is not denied.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_between_two_tools_books_nothing_twice() {
    let folder = Folder::new();
    let (place, booked) = dies_while_it_books(&folder).await;
    let web = Web::start(place.to_str().unwrap(), &folder, &[("TURN_SECONDS", "4")]);
    assert_eq!(web.history("ada").await, []);
    // Nobody else may go on with it yet; another question can be asked meanwhile.
    web.ask("ada", "hello").await;
    assert_eq!(pairs(&web.history("ada").await), ["hello"]);
    tokio::time::sleep(Duration::from_millis(8_100)).await;
    web.ask("ada", "and now").await;
    let history = web.history("ada").await;
    let turn = &history[2..history.len() - 2];
    assert_eq!(turn[0].1, BOOKINGS);
    let results: Vec<_> = turn.iter().filter(|(role, _)| role == "tool").collect();
    let done = results.iter().filter(|(_, text)| text.ends_with("is booked")).count();
    let unknown = results.iter().filter(|(_, text)| text.contains("not known")).count();
    // The last one may have been booked, or not.
    assert!(done == booked || (done + 1 == booked && unknown == 1), "{booked}: {history:?}");
    assert_eq!(web.booked(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_has_a_status_and_is_not_stored() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    assert_eq!(web.status("ada", "").await, 400);
    assert_eq!(web.status("ada", " \n").await, 400);
    let bytes = b"[null, {\"say\": \"a\xff\"}]";
    for unread in [&b""[..], b"hello", bytes, b"[null, {\"say\": \"hello\"}"] {
        assert_eq!(web.send("ada", unread.to_vec()).await.status(), 400);
    }
    for unknown in ["[]", "[null, \"nothing\"]", "[\"x\", \"undo\"]"] {
        assert_eq!(web.send("ada", unknown).await.status(), 422, "{unknown}");
    }
    let plain = web.client.post(format!("{}/ada", web.url)).body(say("hello"));
    assert_eq!(plain.send().await.unwrap().status(), 415); // as a form of another site sends it
    assert_eq!(web.status("%ff", "hello").await, 400);
    assert_eq!(web.status("ada", long("large", 20_000)).await, 413); // for the service
    assert_eq!(web.status("ada", long("large", 8_000)).await, 413); // for the budget
    assert_eq!(web.history("ada").await, []);
    assert_eq!(web.history("%E2%82%AC%2F..").await, []);
    web.ask("%E2%82%AC%2F..", "€").await;
    assert_eq!(pairs(&web.history("%E2%82%AC%2F..").await), ["€"]);
    let forget = || web.client.delete(format!("{}/%E2%82%AC%2F..", web.url)).send();
    assert_eq!(forget().await.unwrap().status(), 204);
    assert_eq!(forget().await.unwrap().status(), 404);
    // The words of nobody are in the log, and neither is who said them.
    let log = web.log();
    assert!(log.contains("invoke_agent") && log.contains("gen_ai.request.model=\"toy\""), "{log}");
    assert!(!log.contains("large") && !log.contains('€') && !log.contains("ada"), "{log}");
}

/// A reader that rests for a second costs nobody else anything, and gets all.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_everything() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[]);
    let question = long("word", 700);
    let mut slow = web.post("slow", question.clone()).await;
    let mut body = slow.chunk().await.unwrap().unwrap().to_vec();
    web.ask("quick", "hello").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    while let Some(chunk) = slow.chunk().await.unwrap() {
        body.extend(chunk);
    }
    let events = events(&String::from_utf8(body).unwrap());
    assert_eq!(text(&events), format!("You said: {question}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_conversations_are_deleted() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[("IDLE_SECONDS", "6")]);
    web.ask("idle", "hello").await;
    assert_eq!(pairs(&web.history("idle").await), ["hello"]);
    let since = Instant::now();
    while !web.history("idle").await.is_empty() {
        assert!(since.elapsed() < Duration::from_mins(1));
        web.ask("active", "hello").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(!web.history("active").await.is_empty());
}

/// The end of an answer behind which the connection stays open.
const HELD: &str = ": held open\n\n";

/// Answers one request after the other in these words, byte for byte.
fn serve(answers: impl IntoIterator<Item = String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers: Vec<_> = answers.into_iter().collect();
    thread::spawn(move || {
        let mut held = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !String::from_utf8_lossy(&asked).contains("\"stream\":true") {
                let mut bytes = [0; 4096];
                let n = stream.read(&mut bytes).unwrap();
                asked.extend(&bytes[..n]);
            }
            let is_right = asked.starts_with(b"POST /v1/chat/completions ");
            write!(stream, "{}", if is_right { &answer } else { MISSING }).unwrap();
            if answer.ends_with(HELD) {
                held.push(stream);
            }
        }
        thread::park();
    });
    url
}

const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"You said: \"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n\
    data: [DONE]\n\n";
const CUT: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n";
const BUSY: &str =
    "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const REFUSED: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const MISSING: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The same with a server in the place of the toy.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_models_is_asked_by_the_same_parts() {
    let folder = Folder::new();
    let answers = [WHOLE, REFUSED, BUSY, CUT].map(str::to_owned);
    let (place, url) = (folder.file("web.db"), serve(answers));
    let settings = [("OPENAI_API_KEY", "secret"), ("OPENAI_BASE_URL", url.as_str())];
    let web = Web::start(place.to_str().unwrap(), &folder, &settings);
    let events = web.ask("ada", "hello").await;
    assert_eq!(text(&events), "You said: hello");
    assert_eq!(events.last().unwrap().1["usage"]["input"], json!(9));
    assert_eq!(web.status("ada", "hello again").await, 502);
    assert_eq!(pairs(&web.history("ada").await), ["hello"]);
    // It is busy at first. What was said before the connection broke is kept.
    assert_eq!(web.ask("ada", "once more").await.last().unwrap().1["ended"], "interrupted");
    assert_eq!(web.history("ada").await[3].1, "half");
    assert!(!web.log().contains("secret"), "{}", web.log());
}

/// An answer was read to the end of its connection: a server that stayed open behind `[DONE]` took
/// all the time of the turn, and then the answer that was paid for was lost; one that cut it there
/// made of a whole answer a broken one.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_ends_where_it_says_so() {
    let folder = Folder::new();
    let undone = WHOLE.replace("data: [DONE]\n\n", "");
    let cut = WHOLE.replace("connection: close", "content-length: 9999");
    let late = WHOLE[..WHOLE.find("data:").unwrap()].to_owned() + HELD;
    let answers = [WHOLE.to_owned() + HELD, undone.clone() + HELD, undone, cut, late];
    // Written with a stroke at its end, an address went to `//chat/completions`.
    let (place, url) = (folder.file("web.db"), serve(answers) + "/v1/");
    let settings = [("OPENAI_API_KEY", "secret"), ("OPENAI_BASE_URL", &url), ("TURN_SECONDS", "9")];
    let web = Web::start(place.to_str().unwrap(), &folder, &settings);
    for user in ["held", "undone and held", "undone", "cut"] {
        let events = web.ask(user, "hello").await;
        assert_eq!(text(&events), "You said: hello", "{user}");
        assert_eq!(events.last().unwrap().1["ended"], "answered", "{user}: {events:?}");
        assert_eq!(events.last().unwrap().1["usage"]["input"], json!(9), "{user}");
        assert_eq!(pairs(&web.history(user).await), ["hello"]);
    }
    assert_eq!(web.status("late", "hello").await, 504);
    assert_eq!(web.history("late").await, []);
}

/// A redirect carried the messages to whomever it named.
#[tokio::test(flavor = "multi_thread")]
async fn messages_go_nowhere_else() {
    let folder = Folder::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let elsewhere = format!(
        "HTTP/1.1 307 Elsewhere\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n",
        other.local_addr().unwrap()
    );
    let (place, url) = (folder.file("web.db"), serve([elsewhere]));
    let settings =
        [("OPENAI_API_KEY", "secret"), ("OPENAI_BASE_URL", &url), ("TURN_SECONDS", "20")];
    let web = Web::start(place.to_str().unwrap(), &folder, &settings);
    assert_eq!(web.status("ada", "hello").await, 502);
    assert!(other.accept().is_err(), "the messages went to another server");
    assert_eq!(web.history("ada").await, []);
}

/// The time of a turn was that of its commit too: where a store took long, the tab was told that
/// the time is up, the turn was stored all the same, and who asked again had it twice.
#[tokio::test(flavor = "multi_thread")]
async fn what_takes_long_to_store_is_waited_for() {
    let folder = Folder::new();
    let place = folder.file("web.db");
    let web = Web::start(place.to_str().unwrap(), &folder, &[("TURN_SECONDS", "2")]);
    web.ask("ada", "hello").await;
    let other = rusqlite::Connection::open(&place).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writing = thread::spawn(move || {
        // Longer than a turn, and shorter than the service waits for somebody who writes.
        thread::sleep(Duration::from_secs(3));
        other.execute_batch("COMMIT").unwrap();
    });
    let events = web.ask("ada", "and now").await;
    assert_eq!(events.last().unwrap().0, "done", "{events:?}");
    assert_eq!(pairs(&web.history("ada").await), ["and now", "hello"]);
    writing.join().unwrap();
}

/// One turn of a process that died, which could not be stored, failed each later question.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_turn_that_can_not_be_stored_keeps_nobody_from_asking() {
    let folder = Folder::new();
    let (place, _) = dies_while_it_books(&folder).await;
    let other = rusqlite::Connection::open(&place).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER refused BEFORE INSERT ON message
             WHEN instr(NEW.payload, CAST('book a and b' AS BLOB)) > 0
             BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .unwrap();
    tokio::time::sleep(Duration::from_millis(8_100)).await;
    let web = Web::start(place.to_str().unwrap(), &folder, &[("TURN_SECONDS", "4")]);
    web.ask("ada", "hello").await;
    assert_eq!(pairs(&web.history("ada").await), ["hello"]);
    // As soon as it can be stored, it is.
    other.execute_batch("DROP TRIGGER refused").unwrap();
    tokio::time::sleep(Duration::from_millis(8_100)).await;
    web.ask("ada", "and now").await;
    let history = web.history("ada").await;
    assert!(history.iter().any(|(_, text)| text == BOOKINGS), "{history:?}");
}

/// The README's service, over a file and a server of models.
#[tokio::test(flavor = "multi_thread")]
async fn the_service_of_the_readme_answers_and_remembers() {
    use memory_prompt::adapt::ToAsync;
    use memory_prompt::{AsyncChatMemoryStore, InMemoryStore, Provider, Transport};

    let shown = include_str!("../../README.md");
    assert!(
        shown.contains(include_str!("../readme/service.rs")),
        "the README shows another service"
    );
    let model = Transport::new(Provider::OpenAi, "m").key("secret").unwrap();
    let model = model.base_url(&serve([WHOLE.to_owned(), WHOLE.to_owned()])).unwrap();
    let store: Arc<dyn AsyncChatMemoryStore> = Arc::new(ToAsync::new(InMemoryStore::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/ada", listener.local_addr().unwrap());
    let service = service::service((store.clone(), model));
    tokio::spawn(async { axum::serve(listener, service).await });
    for _ in 0..2 {
        let answer = client().post(&url).body("hello").send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "You said: hello");
    }
    let memory = store.memory("ada".into()).unwrap();
    assert_eq!(memory.read(None, 10).await.unwrap().records.len(), 4);
}

/// Where no browser is installed, its language is checked at least.
#[test]
fn the_page_is_javascript() {
    let page = include_str!("page.html");
    let (_, script) = page.split_once("<script>").unwrap();
    let folder = Folder::new();
    let place = folder.file("page.js");
    std::fs::write(&place, script.split_once("</script>").unwrap().0).unwrap();
    match Command::new("node").arg("--check").arg(&place).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => println!("skipped: {error}"),
    }
}

/// All of its Rust but this file.
#[test]
fn the_service_is_short() {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let folder = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    let is_its = |file: &PathBuf| {
        file.extension().is_some_and(|it| it == "rs") && !file.ends_with("tests.rs")
    };
    let files = folder.map(|it| it.unwrap().path()).filter(is_its);
    let lines =
        |file: PathBuf| std::fs::read_to_string(file).unwrap().lines().filter(is_code).count();
    let all: usize = files.map(lines).sum();
    assert!((100..=150).contains(&all), "{all}");
}
