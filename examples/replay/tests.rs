//! Logs as they lie on people's disks.

use super::*;

const TALK: &str =
    r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}"#;

/// Reads a folder of these files; returns the number of conversations, and what was not read.
fn read(name: &str, files: &[(&str, &[u8])]) -> (usize, Vec<String>) {
    let folder =
        env::temp_dir().join(format!("memory-prompt-replay-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(&folder, folder.join("again")).unwrap();
    let (mut files, mut conversations) = (Files::default(), 0);
    files.find(&folder).unwrap();
    let failed = files.read(|_, _| conversations += 1).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let failed = failed.iter();
    let failed = failed.map(|(reason, (times, first))| {
        let file = first.rsplit(std::path::MAIN_SEPARATOR).next().unwrap();
        format!("{times} {reason}: {file}")
    });
    (conversations, failed.collect())
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
        "{{\"messages\":[{{\"role\":\"user\",\"content\":\"{}\"}}]}}\n",
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
    let (without, with) = (run("stepped from 10"), run("stepped from 10, 500 tokens recalled"));
    assert!(with.0 > without.0 && with.1 > without.1, "{without:?} {with:?}");
    let recalling = settings.iter().filter(|it| it.recall.is_some());
    assert!(recalling.into_iter().all(|it| it.code.contains(".recall(Recall::words()")));
}
