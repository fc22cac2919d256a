//! The README's program, against a server in its own process that speaks OpenAI's language.

use memory_prompt_clients::Stub;

#[path = "../remember.rs"]
mod remember;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
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
    std::env::set_current_dir(&folder)?;
    // Two processes' worth: what the first was told, the second still knows.
    for line in ["I am Ada.", "Who am I?"] {
        remember::chat(&stub.url, "key", &mut [line.to_owned()].into_iter())?;
    }
    let (first, second) = (stub.asked(), stub.asked());
    assert_eq!(first.body["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!(second.body["messages"][1]["content"], "I am Ada.");
    assert_eq!(second.body["messages"].as_array().map(Vec::len), Some(4));
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
