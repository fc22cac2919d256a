//! LangChain4j itself reads what is written for it.

use std::io::Write;
use std::process::Command;

use memory_prompt::Message;
use memory_prompt::wire::langchain4j::{Messages, history};

use crate::counted::cases;
use crate::written::Generated;
use crate::{ask, file};

/// What some release must refuse: the reader is no oracle otherwise.
const WRONG: &str = r#"[{"mood":"good","type":"AI"}]"#;

/// A result as releases write it since 1.13.0, and as they did before.
const CONTENTS: &str = r#"[{"id":"c","contents":[{"text":"x","type":"TEXT"}],"attributes":{},"type":"TOOL_EXECUTION_RESULT"}]"#;
const TEXT: &str = r#"[{"id":"c","text":"x","type":"TOOL_EXECUTION_RESULT"}]"#;

/// The first release that reads `contents`, the newest, the first of all, and the last before.
const RELEASES: [(&str, bool); 4] =
    [("1.13.0", false), ("1.20.0", false), ("1.0.0", true), ("1.12.2", true)];

fn written(history: &[Message], before_1_13: bool) -> String {
    let view = Messages::of(history);
    let view = if before_1_13 { view.before_1_13() } else { view };
    serde_json::to_string(&view).unwrap()
}

/// A JVM with the jars of this release.
fn reader(release: &str) -> Command {
    let folder = std::env::var("MEMORY_PROMPT_LANGCHAIN4J")
        .expect("MEMORY_PROMPT_LANGCHAIN4J names the folder of LangChain4j's releases");
    let mut java = Command::new("java");
    java.arg("-cp").arg(format!("{folder}/{release}/*")).arg(file("java/Reader.java"));
    java
}

#[test]
#[ignore = "needs java with the jars of tests/java/pom.xml"]
fn java_langchain4j_reads_what_is_written_for_its_release() {
    let wanted = cases(10_000);
    for (release, before_1_13) in RELEASES {
        let mut generated = Generated::new();
        let lines: Vec<_> =
            (0..wanted).map(|_| written(&generated.history(), before_1_13)).collect();
        let told = ask(&mut reader(release), |java| {
            for line in [WRONG, CONTENTS, TEXT].into_iter().chain(lines.iter().map(String::as_str))
            {
                writeln!(java, "{line}").unwrap();
            }
        });
        let mut told = told.lines();
        let mut refused = || told.next().unwrap().starts_with("refused: ");
        // Where results changed, release by release.
        assert_eq!([refused(), refused(), refused()], [true, before_1_13, false], "{release}");
        let mut count = 0;
        for (line, again) in lines.iter().zip(told) {
            assert!(!again.starts_with("refused"), "{release}: {line}\n{again}");
            // What Java writes of it says the same here.
            assert_eq!(
                history(again).unwrap(),
                history(line).unwrap(),
                "{release}: {line}\n{again}"
            );
            count += 1;
        }
        assert_eq!(count, wanted);
        println!("counted: histories that LangChain4j {release} read and wrote again: {count}");
    }
}
