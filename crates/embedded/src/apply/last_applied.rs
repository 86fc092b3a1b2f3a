//! The move from client-side to server-side apply: what `kubectl apply` wrote down, `kubectl apply --server-side` owns.

use serde_json::Value;

use super::set::FieldSet;
use super::typed::Type;
use super::walk;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn annotation(object: &Value) -> Option<&str> {
    let text = object
        .get("metadata")?
        .get("annotations")?
        .get(ANNOTATION)?
        .as_str()?;
    (!text.is_empty()).then_some(text)
}

/// The fields that were last applied by the client and still have those values.
pub(super) fn owned(live: &Value, api_version: &str, ty: Type<'_>) -> Option<FieldSet> {
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    if applied.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    let comparison = walk::compare(&applied, live, ty);
    let set = walk::field_set(&applied, ty)
        .difference(&comparison.modified)
        .difference(&comparison.added)
        .difference(&comparison.removed);
    Some(set)
}

/// Brings the annotation up to date, if there is one.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        let text = format!("{config}\n");
        annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    }
}
