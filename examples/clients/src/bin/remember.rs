//! The README's program, twice, against a server in this process that speaks OpenAI's language.

use std::io::Write as _;
use std::process::{Command, Stdio};

use memory_prompt_clients::Stub;

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let readme = include_str!("../../../../README.md");
    assert!(readme.contains(include_str!("../remember.rs")), "the README shows another program");
    let says = |text: &str| {
        format!(
            r#"{{"choices": [{{"index": 0, "message": {{"role": "assistant", "content": "{text}"}}}}]}}"#
        )
    };
    let stub = Stub::start([says("Hello, Ada."), says("Ada, you said.")])?;
    let folder = std::env::temp_dir().join(format!("remember-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    // What the first process was told, the second still knows.
    let (said, first) = (run(&stub, &folder, "I am Ada.")?, stub.asked());
    assert_eq!(said, "Hello, Ada.\n");
    assert_eq!(first.body["messages"].as_array().map(Vec::len), Some(2));
    let (said, second) = (run(&stub, &folder, "Who am I?")?, stub.asked());
    assert_eq!(said, "Ada, you said.\n");
    assert_eq!(second.body["messages"][1]["content"], "I am Ada.");
    assert_eq!(second.body["messages"].as_array().map(Vec::len), Some(4));
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Runs the program in this folder with one line; returns what it printed.
fn run(stub: &Stub, folder: &std::path::Path, line: &str) -> Result<String, Failed> {
    let mut program = Command::new(std::env::current_exe()?.with_file_name("readme"))
        .current_dir(folder)
        .envs([("OPENAI_API_KEY", "key"), ("OPENAI_BASE_URL", &stub.url)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    program.stdin.take().ok_or("it has no input")?.write_all(line.as_bytes())?;
    let output = program.wait_with_output()?;
    assert!(output.status.success(), "{}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
