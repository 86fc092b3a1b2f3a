//! Field errors, printed as `k8s.io/apimachinery/pkg/util/validation/field` prints them.

use std::fmt;

use serde_json::Value;

use super::number::go_float;

/// Why a field was refused; the names are the `reason` of a Status cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// A referenced value does not exist.
    NotFound,
    /// A value must be given.
    Required,
    /// A value that must be unique is not.
    Duplicate,
    /// A malformed value.
    Invalid,
    /// A value outside of a closed set.
    NotSupported,
    /// A well-formed value that is not allowed here.
    Forbidden,
    /// A text that is too long; the value is not repeated.
    TooLong,
    /// Too many items.
    TooMany,
    /// Not the sender's fault.
    Internal,
    /// A value of another type than the schema says.
    TypeInvalid,
}

impl ErrorKind {
    /// The machine-readable reason, e.g. `FieldValueRequired`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::Internal
        )
    }
}

/// One refused field. `Display` gives `field: body`; [`FieldError::body`] is a Status cause's message.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field}: {}", self.body())]
pub struct FieldError {
    /// Why.
    pub kind: ErrorKind,
    /// Where, e.g. `spec.containers[0].name`; `<nil>` for the object as a whole.
    pub field: String,
    /// The refused value; `None` leaves it out of the text.
    pub value: Option<Value>,
    /// The rest of the sentence.
    pub detail: String,
}

impl FieldError {
    /// Builds an error of any kind.
    pub fn new(
        kind: ErrorKind,
        field: impl Into<String>,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        let mut field = field.into();
        if field.is_empty() {
            // A nil *field.Path prints so.
            field.push_str("<nil>");
        }
        Self {
            kind,
            field,
            value,
            detail: detail.into(),
        }
    }

    /// A malformed value.
    pub fn invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(ErrorKind::Invalid, field, Some(value.into()), detail)
    }

    /// A value of the wrong type.
    pub fn type_invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(ErrorKind::TypeInvalid, field, Some(value.into()), detail)
    }

    /// A missing value.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, field, None, detail)
    }

    /// A value that is not allowed.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, field, None, detail)
    }

    /// A value that must be unique.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::Duplicate, field, Some(value.into()), "")
    }

    /// A value outside of a closed set.
    pub fn not_supported<S: AsRef<str>>(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[S],
    ) -> Self {
        let mut detail = String::new();
        for (index, name) in supported.iter().enumerate() {
            detail.push_str(if index == 0 {
                "supported values: "
            } else {
                ", "
            });
            detail.push_str(&quote(name.as_ref()));
        }
        Self::new(ErrorKind::NotSupported, field, Some(value.into()), detail)
    }

    /// A text that is too long.
    pub fn too_long(field: impl Into<String>, most: i64) -> Self {
        let unit = if most == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {most} {unit}");
        Self::new(ErrorKind::TooLong, field, None, detail)
    }

    /// A list or map that is too long.
    pub fn too_many(field: impl Into<String>, actual: usize, most: i64) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {unit}");
        Self::new(ErrorKind::TooMany, field, Some(actual.into()), detail)
    }

    /// A fault that is not the sender's.
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, field, None, detail)
    }

    /// The text without the field.
    pub fn body(&self) -> String {
        let mut body = self.kind.text().to_owned();
        if self.kind.shows_value()
            && let Some(value) = &self.value
        {
            body.push_str(": ");
            match value {
                Value::String(text) => body.push_str(&quote(text)),
                Value::Number(number) if number.is_f64() => {
                    body.push_str(&go_float(number.as_f64().unwrap_or_default()));
                }
                other => body.push_str(&go_json(other)),
            }
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

/// A value as Go's `json.Marshal` writes it: safe inside of HTML.
pub(crate) fn go_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&']) {
        return text;
    }
    // These stand in strings only, where the escape means the same.
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// Quotes a text as Go's `%q` does.
pub(crate) fn quote(text: &str) -> String {
    use fmt::Write as _;

    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c == '\u{7f}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_print_as_the_real_server_prints_them() {
        let cases = [
            (
                FieldError::type_invalid(
                    "spec.replicas",
                    "string",
                    "spec.replicas in body must be of type integer: \"string\"",
                ),
                r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#,
            ),
            (
                FieldError::required("spec.image", ""),
                "spec.image: Required value",
            ),
            (
                FieldError::not_supported("spec.mode", "x", &["a", "b"]),
                r#"spec.mode: Unsupported value: "x": supported values: "a", "b""#,
            ),
            (
                FieldError::duplicate("spec.list[1]", json!({"name": "a"})),
                r#"spec.list[1]: Duplicate value: {"name":"a"}"#,
            ),
            (
                FieldError::duplicate("spec.list[1]", json!({"a": "1 < 2"})),
                r#"spec.list[1]: Duplicate value: {"a":"1 \u003c 2"}"#,
            ),
            (
                FieldError::too_many("spec.list", 5, 3),
                "spec.list: Too many: 5: must have at most 3 items",
            ),
            (
                FieldError::too_long("spec.name", 1),
                "spec.name: Too long: may not be more than 1 byte",
            ),
            (
                FieldError::invalid("", "", "whole"),
                r#"<nil>: Invalid value: "": whole"#,
            ),
            (FieldError::forbidden("spec", "no"), "spec: Forbidden: no"),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn quoting_escapes_as_go_does() {
        assert_eq!(quote("a\"b\\c\nd\u{1}é"), "\"a\\\"b\\\\c\\nd\\x01é\"");
    }
}
