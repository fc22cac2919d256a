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
    let mut logs = Logs::default();
    logs.read(&folder).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let failed = logs.failed.iter();
    let failed = failed.map(|(reason, (times, first))| {
        let file = first.rsplit(std::path::MAIN_SEPARATOR).next().unwrap();
        format!("{times} {reason}: {file}")
    });
    (logs.conversations.len(), failed.collect())
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
