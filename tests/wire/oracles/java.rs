//! LangChain4j itself reads what is written for it.

use std::io::Write;
use std::process::Command;

use memory_prompt::Message;
use memory_prompt::wire::langchain4j::{Messages, history};

use crate::counted::cases;
use crate::oracles::written::Generated;
use crate::oracles::{ask, file};

/// What some release must refuse: the reader is no oracle otherwise.
const WRONG: &str = r#"[{"mood":"good","type":"AI"}]"#;

/// The first release that reads what is written, and the newest.
const RELEASES: [&str; 2] = ["1.13.0", "1.20.0"];

fn written(history: &[Message]) -> String {
    serde_json::to_string(&Messages::of(history)).unwrap()
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
fn java_langchain4j_reads_what_is_written() {
    let wanted = cases(10_000);
    for release in RELEASES {
        let mut generated = Generated::new();
        let lines: Vec<_> = (0..wanted).map(|_| written(&generated.history())).collect();
        let told = ask(&mut reader(release), |java| {
            for line in [WRONG].into_iter().chain(lines.iter().map(String::as_str)) {
                writeln!(java, "{line}").unwrap();
            }
        });
        let mut told = told.lines();
        assert!(told.next().unwrap().starts_with("refused: "), "{release}");
        let mut count = 0;
        for (line, again) in lines.iter().zip(told) {
            assert!(!again.starts_with("refused"), "{release}: {line}\n{again}");
            // What Java writes of it says the same here.
            let [said, says] = [line, again].map(|json| history(json).unwrap());
            assert_eq!(says, said, "{release}: {line}\n{again}");
            count += 1;
        }
        assert_eq!(count, wanted);
        println!("counted: histories that LangChain4j {release} read and wrote again: {count}");
    }
}
