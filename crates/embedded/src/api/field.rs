//! Collecting what is wrong with an object, field by field.
//!
//! Messages are those of `k8s.io/apimachinery/pkg/util/validation/field`.

use serde_json::Value;

use super::status::Cause;

/// What is wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<Cause>);

impl Errors {
    fn push(&mut self, reason: &str, field: &str, message: String) {
        self.0.push(Cause {
            reason: reason.to_owned(),
            message,
            field: field.to_owned(),
        });
    }

    /// Takes over causes that were found elsewhere.
    pub(crate) fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        self.0.extend(causes);
    }

    pub(crate) fn required(&mut self, field: &str, detail: &str) {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        self.push("FieldValueRequired", field, message);
    }

    pub(crate) fn invalid(&mut self, field: &str, value: &Value, detail: &str) {
        self.push(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {}: {detail}", shown(value)),
        );
    }

    /// An invalid value whose text is not plain JSON.
    pub(crate) fn shown_invalid(&mut self, field: &str, shown: &str, detail: &str) {
        self.push(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {shown}: {detail}"),
        );
    }

    pub(crate) fn unsupported(&mut self, field: &str, value: &Value, supported: &[&str]) {
        let quoted: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            quoted.join(", ")
        );
        self.push("FieldValueNotSupported", field, message);
    }

    pub(crate) fn forbidden(&mut self, field: &str, detail: &str) {
        self.push("FieldValueForbidden", field, format!("Forbidden: {detail}"));
    }

    pub(crate) fn duplicate(&mut self, field: &str, value: &Value) {
        self.push(
            "FieldValueDuplicate",
            field,
            format!("Duplicate value: {}", shown(value)),
        );
    }

    /// A duplicate whose text is not plain JSON.
    pub(crate) fn shown_duplicate(&mut self, field: &str, shown: &str, detail: &str) {
        self.push(
            "FieldValueDuplicate",
            field,
            format!("Duplicate value: {shown}: {detail}"),
        );
    }

    pub(crate) fn not_found(&mut self, field: &str, value: &Value) {
        self.push(
            "FieldValueNotFound",
            field,
            format!("Not found: {}", shown(value)),
        );
    }

    pub(crate) fn too_long(&mut self, field: &str, limit: usize) {
        self.push(
            "FieldValueTooLong",
            field,
            format!("Too long: may not be more than {limit} bytes"),
        );
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every problem a name check found becomes one error.
    pub(crate) fn name_problems(&mut self, field: &str, value: &str, problems: Vec<String>) {
        for problem in problems {
            self.invalid(field, &Value::from(value), &problem);
        }
    }

    pub(crate) fn into_causes(self) -> Vec<Cause> {
        self.0
    }
}

/// A value as Go's field errors print it: text quoted, everything else as JSON.
fn shown(value: &Value) -> String {
    value.to_string()
}
