//! This test program once more, as a process that can be killed.

use std::process::{Command, Stdio};

/// Runs this test alone, which may be told something in its environment; what it says can be read.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).stdout(Stdio::piped());
    command
}
