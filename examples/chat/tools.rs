//! What the model can call.

use std::time::{SystemTime, UNIX_EPOCH};

use memory_prompt::turn::ToolError;

use super::toy::value;

#[derive(serde::Deserialize)]
pub(crate) struct Sum {
    expression: String,
}

pub(crate) fn calculate(Sum { expression }: Sum) -> Result<String, ToolError> {
    let value = value(&expression).filter(|it| it.is_finite());
    Ok(value.ok_or("that can't be calculated")?.to_string())
}

pub(crate) fn clock(_: serde_json::Value) -> Result<String, ToolError> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(format!("{:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60))
}
