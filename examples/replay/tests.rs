//! Logs as they lie on people's disks.

use super::*;

const TALK: &str =
    r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}"#;

/// Reads a folder of these files; returns the number of conversations, and what was not read.
fn read(name: &str, files: &[(&str, &[u8])]) -> (usize, Vec<String>) {
    let (conversations, failed) = said(name, files);
    (conversations.len(), failed)
}

/// Reads a folder of these files; returns what was said, and what was not read.
fn said(name: &str, files: &[(&str, &[u8])]) -> (Vec<String>, Vec<String>) {
    let folder =
        env::temp_dir().join(format!("memory-prompt-replay-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(&folder, folder.join("again")).unwrap();
    let (mut files, mut conversations) = (Files::default(), Vec::new());
    files.find(&folder).unwrap();
    let told = files.read(|it, _| conversations.push(lines(&it.messages))).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let failed = told.failed.iter();
    let failed = failed.map(|(reason, (times, first))| {
        let file = first.rsplit(std::path::MAIN_SEPARATOR).next().unwrap();
        format!("{times} {reason}: {file}")
    });
    (conversations, failed.collect())
}

/// Writes messages with their roles, calls and ids.
fn lines(messages: &[Message]) -> String {
    let line = |message: &Message| {
        let calls = message
            .tool_calls()
            .map(|call| format!(" {}({})={}", call.name, call.arguments, call.id));
        let result = message.as_tool().map(|tool| format!(" ={}", tool.call_id()));
        let calls: String = calls.chain(result).collect();
        format!("{}{calls}: {}", message.role(), message.text())
    };
    messages.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Returns what is read of one file with this text.
fn of(name: &str, text: &str) -> Vec<String> {
    let (said, failed) = said(name, &[("log.jsonl", text.as_bytes())]);
    assert_eq!(failed, Vec::<String>::new());
    said
}

/// Of a log with a request a line, as a gateway or an SDK writes it, each request was read as a
/// conversation: two of ten calls each were taken for twenty short ones, for which everything is
/// best.
#[test]
fn requests_that_go_on_are_one_conversation() {
    let user = |text: &str| serde_json::json!({"role": "user", "content": text});
    let says = |text: &str| serde_json::json!({"role": "assistant", "content": text});
    let (mut one, mut other, mut log) = (vec![], vec![], String::new());
    for i in 0..10 {
        one.push(user(&format!("question {i}")));
        other.push(user(&format!("Frage {i}")));
        for said in [&one, &other] {
            let system =
                serde_json::json!({"role": "system", "content": format!("It is {i} o'clock.")});
            let messages: Vec<_> = [&system].into_iter().chain(said).collect();
            log += &serde_json::json!({"model": "m", "messages": messages}).to_string();
            log += "\n";
        }
        one.push(says("yes"));
        other.push(says("ja"));
    }
    let said = of("requests", &log);
    assert_eq!(said.len(), 2);
    assert!(said[0].ends_with("assistant: yes; user: question 9"), "{}", said[0]);
    assert_eq!(said[1].matches("Frage").count(), 10);

    // Others write the answer beside the request, and the newest of them has one too.
    let pair = |said: &[&str], answer: &str| {
        let messages: Vec<_> = said
            .iter()
            .enumerate()
            .map(|(i, it)| if i % 2 == 0 { user(it) } else { says(it) })
            .collect();
        serde_json::json!({"request": {"messages": messages}, "response": {"choices": [{"message": says(answer)}]}}).to_string()
    };
    let log = [pair(&["Hi"], "Hello"), pair(&["Hi", "Hello", "Bye"], "Bye!")].join("\n");
    assert_eq!(of("pairs", &log), ["user: Hi; assistant: Hello; user: Bye; assistant: Bye!"]);
    let log = r#"{"request":{"system":"Be brief.","messages":[{"role":"user","content":"Hi"}]},"response":{"content":[{"type":"text","text":"Hello"}]}}"#;
    assert_eq!(of("claude", log), ["system: Be brief.; user: Hi; assistant: Hello"]);
}

#[test]
fn a_session_of_claude_code_is_read() {
    let log = r#"
{"type":"summary","summary":"Files","leafUuid":"x"}
{"type":"user","uuid":"1","sessionId":"s","isSidechain":false,"message":{"role":"user","content":"Which files?"}}
{"type":"assistant","uuid":"2","sessionId":"s","isSidechain":false,"message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"I look."}]}}
{"type":"user","uuid":"a","sessionId":"s","isSidechain":true,"message":{"role":"user","content":"Aside"}}
{"type":"assistant","uuid":"3","sessionId":"s","isSidechain":false,"message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"ls","input":{}}]}}
{"type":"system","uuid":"5","sessionId":"s","content":"compacted"}
{"type":"user","uuid":"4","sessionId":"s","isSidechain":false,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a.rs"}]},"toolUseResult":{}}
"#;
    assert_eq!(
        of("claude-code", log),
        ["user: Which files?; assistant ls({})=t1: I look.; tool =t1: a.rs", "user: Aside"]
    );
}

#[test]
fn a_rollout_of_codex_is_read() {
    let log = r#"
{"timestamp":"2026","type":"session_meta","payload":{"id":"x","instructions":"Be brief."}}
{"timestamp":"2026","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Which files?"}]}}
{"timestamp":"2026","type":"event_msg","payload":{"type":"token_count"}}
{"timestamp":"2026","type":"turn_context","payload":{"cwd":"/"}}
{"timestamp":"2026","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{}","call_id":"c"}}
{"timestamp":"2026","type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"a.rs"}}
{"timestamp":"2026","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a.rs"}]}}
"#;
    let said = "user: Which files?; assistant shell({})=c: ; tool =c: a.rs; assistant: a.rs";
    assert_eq!(of("codex", log), [format!("system: Be brief.; {said}")]);
    let older = r#"
{"id":"x","timestamp":"2025","instructions":null}
{"record_type":"state"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"Which files?"}]}
{"type":"function_call","name":"shell","arguments":"{}","call_id":"c"}
{"type":"function_call_output","call_id":"c","output":"a.rs"}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a.rs"}]}
"#;
    assert_eq!(of("older-codex", older), [said]);
}

#[test]
fn share_gpt_and_an_export_of_claude_are_read() {
    let log = r#"[{"id":"1","conversations":[{"from":"system","value":"Be brief."},{"from":"human","value":"Hi"},
{"from":"function_call","value":"{\"name\": \"look\", \"arguments\": {\"at\": 1}}"},{"from":"observation","value":"rain"},{"from":"gpt","value":"Rain."}]}]"#;
    let said = "system: Be brief.; user: Hi; assistant look({\"at\":1})=2: ; tool =2: rain; assistant: Rain.";
    assert_eq!(of("sharegpt", log), [said]);
    let log = r#"[{"uuid":"1","name":"x","chat_messages":[{"sender":"human","text":"Hi"},{"sender":"assistant","text":"Hello"}]}]"#;
    assert_eq!(of("export-of-claude", log), ["user: Hi; assistant: Hello"]);
    let log = r#"{"conversations":[{"from":"narrator","value":"Once"}]}"#;
    let (said, failed) = said_of_one("narrator", log);
    assert_eq!((said, &*failed[0]), (0, "1 an entry of ShareGPT from \"narrator\": log.jsonl"));
}

fn said_of_one(name: &str, log: &str) -> (usize, Vec<String>) {
    read(name, &[("log.jsonl", log.as_bytes())])
}

/// Of the tree it is the branch that was shown last; what nobody saw is left out.
#[test]
fn an_export_of_chatgpt_is_read() {
    let node = |parent: &str, role: &str, to: &str, text: &str| {
        serde_json::json!({"parent": parent, "message": {"author": {"role": role}, "recipient": to,
            "content": {"content_type": "text", "parts": [text]}}})
    };
    let log = serde_json::json!([{"title": "x", "current_node": "6", "mapping": {
        "0": {"parent": null, "message": null},
        "1": node("0", "system", "all", ""),
        "2": node("1", "user", "all", "Hi"),
        "3": node("2", "assistant", "all", "another branch"),
        "4": node("2", "assistant", "python", "1 + 1"),
        "5": node("4", "tool", "all", "2"),
        "6": node("5", "assistant", "all", "Two."),
    }}]);
    let call = "assistant python({\"input\":\"1 + 1\"})=4: ";
    let said = format!("user: Hi; {call}; tool =4: 2; assistant: Two.");
    assert_eq!(of("chatgpt", &log.to_string()), [said]);
}

#[test]
fn dumps_of_langchain_are_read() {
    let said = "user: Hi; assistant look({\"at\":1})=c: ; tool =c: rain; assistant: Rain.";
    let call = r#""tool_calls":[{"name":"look","args":{"at":1},"id":"c","type":"tool_call"}]"#;
    let dicts = format!(
        r#"[{{"type":"human","data":{{"content":"Hi"}}}},{{"type":"ai","data":{{"content":"",{call}}}}},
{{"type":"tool","data":{{"content":"rain","tool_call_id":"c"}}}},{{"type":"ai","data":{{"content":"Rain."}}}}]"#
    );
    assert_eq!(of("dicts", &dicts), [said]);
    let lc = |class: &str, fields: &str| {
        let path = format!(r#"["langchain","schema","messages","{class}"]"#);
        format!(r#"{{"lc":1,"type":"constructor","id":{path},"kwargs":{{{fields}}}}}"#)
    };
    let dumped = [
        lc("HumanMessage", r#""content":"Hi""#),
        lc("AIMessageChunk", &format!(r#""content":"",{call}"#)),
        lc("ToolMessage", r#""content":"rain","tool_call_id":"c""#),
        lc("AIMessage", r#""content":"Rain.""#),
    ];
    assert_eq!(of("dumped", &format!(r#"{{"messages":[{}]}}"#, dumped.join(","))), [said]);
    assert_eq!(of("dumped-lines", &dumped.join("\n")), [said]);
    let fields =
        r#"{"messages":[{"type":"human","content":"Hi"},{"type":"ai","content":"Hello"}]}"#;
    assert_eq!(of("fields", fields), ["user: Hi; assistant: Hello"]);
}

#[test]
fn one_message_a_line_is_one_conversation() {
    let log =
        "{\"role\":\"user\",\"content\":\"Hi\"}\n{\"role\":\"assistant\",\"content\":\"Hello\"}\n";
    assert_eq!(of("lines", log), ["user: Hi; assistant: Hello"]);
    let log = r#"
{"session_id":1,"role":"user","content":"Hi"}
{"session_id":2,"role":"user","content":"Moin"}
{"session_id":1,"role":"assistant","content":"Hello"}
"#;
    assert_eq!(of("sessions", log), ["user: Hi; assistant: Hello", "user: Moin"]);
}

#[test]
fn what_is_not_read_is_refused_by_its_name() {
    let log = r#"
{"traceId":"1","name":"chat"}
{"run_type":"llm","inputs":{}}
{"custom_id":"1","response":{"body":{}}}
{"prompt":"Hi","completion":"Hello"}
{"name":"Ada"}
"#;
    let (conversations, failed) = said_of_one("refused", log);
    let failed = failed.iter().map(|it| it.split(": log").next().unwrap()).collect::<Vec<_>>();
    let reasons = [
        "1 a run of LangSmith: export its messages",
        "1 a trace of spans: export the requests",
        "1 answers of a batch, without their requests",
        "1 neither a list nor an object that holds one",
        "1 pairs of a prompt and its completion, no conversation",
    ];
    assert_eq!((conversations, failed), (0, reasons.to_vec()));
}

/// Where a setting begins to pay was for the reader to find out by cutting the logs.
#[test]
fn a_setting_pays_from_where_it_saves_most() {
    let run = |costs: &[(usize, f64)]| Run {
        by_length: costs.iter().copied().collect(),
        ..Run::default()
    };
    let all = run(&[(0, 1.0), (1, 2.0), (2, 3.0), (5, 6.0)]);
    assert_eq!(pays_from(&run(&[(0, 2.0), (1, 2.5), (2, 2.0), (5, 2.0)]), &all), "2,000");
    assert_eq!(pays_from(&run(&[(0, 0.2), (1, 2.5), (2, 2.0), (5, 2.0)]), &all), "0");
    assert_eq!(pays_from(&run(&[(0, 2.0), (1, 2.5), (2, 4.0), (5, 7.0)]), &all), "never");
}

/// A picture among the logs, or a link to the folder itself, ended the program.
#[test]
fn what_is_no_log_is_told_and_the_rest_is_read() {
    let files: [(&str, &[u8]); 4] = [
        ("a b.json", TALK.as_bytes()),
        ("notes.txt", b"hello"),
        ("picture.png", b"\x89PNG\xff\xfe"),
        ("empty.jsonl", b""),
    ];
    let failed = [
        "1 EOF while parsing a value: empty.jsonl, line 1, column 0",
        "1 expected value: notes.txt, line 1, column 1",
        "1 no text in UTF-8: picture.png",
    ];
    assert_eq!(read("others", &files), (1, failed.map(str::to_owned).to_vec()));
}

/// Editors of Windows put a mark before a text, and the first conversation was lost.
#[test]
fn a_mark_of_the_byte_order_and_line_ends_of_windows_are_no_part_of_a_log() {
    let log = format!("\u{feff}{TALK}\r\n\r\n{TALK}\r\n");
    assert_eq!(read("windows", &[("log.jsonl", log.as_bytes())]), (2, vec![]));
}

#[test]
fn a_line_that_was_not_written_to_its_end_is_told() {
    let log = format!("{TALK}\n{}", &TALK[..40]);
    let (conversations, failed) = read("half", &[("log.jsonl", log.as_bytes())]);
    assert_eq!(conversations, 1);
    assert_eq!(failed, ["1 EOF while parsing a string: log.jsonl, line 2, column 40"]);
}

#[test]
fn a_log_of_each_format_is_read_beside_the_others() {
    let gemini = r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Hello"}]}]}"#;
    let langchain4j = r#"[{"type":"USER","contents":[{"type":"TEXT","text":"Hi"}]},{"type":"AI","text":"Hello"}]"#;
    let anthropic = r#"{"system":"Be brief.","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"text","text":"Hello"}]}]}"#;
    let files: Vec<(&str, &[u8])> =
        [("a", gemini), ("b", langchain4j), ("c", anthropic), ("d", TALK)]
            .map(|(name, log)| (name, log.as_bytes()))
            .to_vec();
    assert_eq!(read("formats", &files), (4, vec![]));
}

#[test]
fn prices_that_are_none_are_refused_with_what_is_wrong() {
    let refused = |prices: &str| {
        let options = Options::read(["--prices", prices].map(str::to_owned).into_iter());
        let read = options.and_then(|options| settings(options.prices).map_err(Into::into));
        read.map(|_| ()).unwrap_err().to_string()
    };
    for prices in ["1", "", "1,", "one,two", "1;0.1"] {
        let expected = format!("--prices {prices}: no two numbers, as 1.25,0.1");
        assert_eq!(refused(prices), expected);
    }
    for prices in ["0,0", "-1,0.1", "nan,0", "inf,1"] {
        assert!(refused(prices).contains("the write price is "), "{}", refused(prices));
    }
    for prices in ["1,-1", "1,nan"] {
        assert!(refused(prices).contains("the read price is "), "{}", refused(prices));
    }
}

/// The whole table was made before it was told that the page can't be written.
#[test]
fn a_page_that_cannot_be_written_is_told_before_the_work() {
    let folder = env::temp_dir().join(format!("memory-prompt-replay-page-{}", std::process::id()));
    let page = folder.join("page.html");
    assert_eq!(writable(&page).unwrap_err().kind(), io::ErrorKind::NotFound);
    fs::create_dir_all(&folder).unwrap();
    writable(&page).unwrap();
    assert!(!page.exists(), "an empty page was left");
    fs::write(&page, "the page of yesterday").unwrap();
    writable(&page).unwrap();
    assert_eq!(fs::read(&page).unwrap(), b"the page of yesterday");
    assert!(writable(&folder).is_err());
    fs::remove_dir_all(&folder).unwrap();
}

/// The log and all that was read of it were held at once: several times its size.
#[test]
fn a_log_that_is_too_large_to_be_held_is_read_by_its_lines() {
    let filler = format!(
        "{{\"messages\":[{{\"role\":\"assistant\",\"content\":\"{}\"}}]}}\n",
        "a".repeat(1 << 10)
    );
    let long = "b".repeat(65 << 10);
    let lines = [TALK, "\n{\"messages\":\n", &filler.repeat(65), "\"", &long, "\"\r\n", TALK];
    let values = ["[\n", &format!("{TALK},\n").repeat(800), "[]]"].concat();
    let files = [("lines.jsonl", lines.concat()), ("value.json", values)];
    let files: Vec<_> = files.iter().map(|(name, log)| (*name, log.as_bytes())).collect();
    let failed = [
        "1 EOF while parsing a value: lines.jsonl, line 2, column 12",
        "1 a line of more than 64 MiB: write one conversation in each line: lines.jsonl, line 68",
        "1 more than 64 MiB in one value: write one conversation in each line, or smaller files: \
         value.json",
    ];
    let (conversations, mut found) = read("large", &files);
    found.sort();
    let mut failed = failed.map(str::to_owned).to_vec();
    failed.sort();
    assert_eq!((conversations, found), (67, failed));
}

/// Recall was the one setting of the library that the table did not have.
#[test]
fn recall_quotes_what_the_window_has_left_out_and_costs_what_it_adds() {
    let prices = Prices { write: 1.0, read: 0.1 };
    let mut messages = vec![Message::user("My sister Ada moved to Oslo."), Message::ai("Nice.")];
    for i in 0..30 {
        messages.push(Message::user(format!("Something else, number {i}.")));
        messages.push(Message::ai("I see."));
    }
    messages.push(Message::user("Where did my sister move to?"));
    messages.push(Message::ai("To Oslo."));
    let conversation = Conversation { messages, tools: vec![] };
    let settings = settings(prices).unwrap();
    let run = |name: &str| {
        let setting = settings.iter().find(|it| it.name == name).unwrap();
        let mut run = Run::default();
        run.replay(setting, &conversation, prices).unwrap();
        assert_eq!((run.calls, run.failed), (32, None));
        (run.tokens, run.cost)
    };
    let (without, with) = (run("stepped from 20"), run("stepped from 20, 500 tokens recalled"));
    assert!(with.0 > without.0 && with.1 > without.1, "{without:?} {with:?}");
    let recalling = settings.iter().filter(|it| it.recall.is_some());
    assert!(recalling.into_iter().all(|it| it.code.contains(".recall(Recall::words()")));
}
