//! The three kinds of patches that are not server-side apply.
//!
//! All are pure: the object goes in by reference, the patched object comes out. Errors carry the status code and the
//! words of kube-apiserver v1.34.

mod json;
mod merge;
mod order;
mod strategic;

pub use json::json;
pub use merge::merge;
pub use strategic::strategic;

use serde_json::Value;

/// Why a patch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: the patch is not well formed.
    #[error("{0}")]
    BadRequest(String),
    /// 413: too many operations.
    #[error("{0}")]
    TooLarge(String),
    /// 422: the patch does not fit the object.
    #[error("{0}")]
    Unprocessable(String),
    /// 500: the real server does not classify these.
    #[error("{0}")]
    Internal(String),
}

/// A value as Go's `%v` prints it.
pub(crate) fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_print).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", go_print(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// The JSON type of a value in Go's words.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The JSON type of a value in the words of Go's JSON decoder.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
