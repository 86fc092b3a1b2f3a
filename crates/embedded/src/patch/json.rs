//! JSON patch, RFC 6902, with the reading and the words of `evanphx/json-patch` v4.12.
//!
//! Two of its habits are kept because clients may lean on them: `replace` of a missing key of an object adds it, and
//! negative list indices count from the end.

use serde_json::Value;

use super::{PatchError, json_type};

const MAX_OPERATIONS: usize = 10_000;
const MISSING: &str = "missing value";
const BAD_INDEX: &str = "invalid index referenced";

/// Applies a list of operations, all or none.
pub fn json(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Array(operations) = patch else {
        return Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            json_type(patch)
        )));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    for operation in operations {
        if !operation.is_object() {
            return Err(PatchError::BadRequest(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                json_type(operation)
            )));
        }
        for key in ["op", "path", "from"] {
            if let Some(value) = operation.get(key)
                && !value.is_string()
                && !value.is_null()
            {
                return Err(PatchError::BadRequest(format!(
                    "error decoding patch: json: cannot unmarshal {} into Go struct field jsonPatchOp.{key} of type string",
                    json_type(value)
                )));
            }
        }
    }
    let mut patched = object.clone();
    for operation in operations {
        apply(&mut patched, operation).map_err(PatchError::Unprocessable)?;
    }
    Ok(patched)
}

fn apply(document: &mut Value, operation: &Value) -> Result<(), String> {
    let kind = text(operation, "op").unwrap_or("unknown");
    let value = || operation.get("value").cloned().unwrap_or_default();
    let path = |words: &str| text(operation, "path").ok_or_else(|| format!("{words}: {MISSING}"));
    let from = |words: &str| {
        text(operation, "from")
            .ok_or_else(|| format!("{words}: operation, missing from field: {MISSING}"))
    };
    match kind {
        "add" => {
            let path = path("add operation failed to decode path")?;
            let (place, key) = find(document, path).ok_or_else(|| {
                format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
            })?;
            add(place, &key, value()).map_err(|e| format!("error in add for path: '{path}': {e}"))
        }
        "remove" => {
            let path = path("remove operation failed to decode path")?;
            let (place, key) = find(document, path).ok_or_else(|| {
                format!(
                    "remove operation does not apply: doc is missing path: \"{path}\": {MISSING}"
                )
            })?;
            remove(place, &key)
                .map(drop)
                .map_err(|e| format!("error in remove for path: '{path}': {e}"))
        }
        "replace" => {
            let path =
                path("replace operation failed to decode path: operation missing path field")?;
            replace(document, path, value())
        }
        "test" => {
            let path = path("test operation failed to decode path: operation missing path field")?;
            test(document, path, &value())
        }
        "move" => {
            let from = from("move operation failed to decode from")?;
            let (place, key) = find(document, from).ok_or_else(|| {
                format!(
                    "move operation does not apply: doc is missing from path: {from}: {MISSING}"
                )
            })?;
            get(place, &key).map_err(|e| format!("error in move for path: '{key}': {e}"))?;
            let moved =
                remove(place, &key).map_err(|e| format!("error in move for path: '{key}': {e}"))?;
            let path = path("move operation failed to decode path: operation missing path field")?;
            let (place, key) = find(document, path).ok_or_else(|| {
                format!(
                    "move operation does not apply: doc is missing destination path: {path}: {MISSING}"
                )
            })?;
            add(place, &key, moved).map_err(|e| format!("error in move for path: '{path}': {e}"))
        }
        "copy" => {
            let from = from("copy operation failed to decode from")?;
            let (place, key) = find(document, from).ok_or_else(|| {
                format!(
                    "copy operation does not apply: doc is missing from path: {from}: {MISSING}"
                )
            })?;
            let copied = get(place, &key)
                .map_err(|e| format!("error in copy for from: '{from}': {e}"))?
                .cloned()
                .unwrap_or_default();
            let path = path("copy operation failed to decode path")?;
            let (place, key) = find(document, path).ok_or_else(|| {
                format!(
                    "copy operation does not apply: doc is missing destination path: {path}: {MISSING}"
                )
            })?;
            add(place, &key, copied)
                .map_err(|e| format!("error while adding value during copy: {e}"))
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned());
        }
        *document = value;
        return Ok(());
    }
    let (place, key) = find(document, path).ok_or_else(|| {
        format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
    })?;
    if get(place, &key).is_err() {
        return Err(format!(
            "replace operation does not apply: doc is missing key: {path}: {MISSING}"
        ));
    }
    match place {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            if let Some(item) = items.get_mut(index) {
                *item = value;
            }
        }
        _ => {}
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, value: &Value) -> Result<(), String> {
    let failed = || format!("testing value {path} failed: test failed");
    if path.is_empty() {
        return if document == value {
            Ok(())
        } else {
            Err(failed())
        };
    }
    let (place, key) = find(document, path).ok_or_else(|| {
        format!("test operation does not apply: is missing path: {path}: {MISSING}")
    })?;
    let found = get(place, &key).map_err(|e| format!("error in test for path: '{path}': {e}"))?;
    if found.unwrap_or(&Value::Null) == value {
        Ok(())
    } else {
        Err(failed())
    }
}

fn text<'a>(operation: &'a Value, key: &str) -> Option<&'a str> {
    operation.get(key).and_then(Value::as_str)
}

/// The container that holds the last part of a pointer, and that part.
fn find<'d>(document: &'d mut Value, path: &str) -> Option<(&'d mut Value, String)> {
    let (parents, key) = path.rsplit_once('/')?;
    let mut place = document;
    for part in parents.split('/').skip(1) {
        let part = decode(part);
        place = match place {
            Value::Object(fields) => fields.get_mut(&part)?,
            Value::Array(items) => {
                let index = index(&part, items.len()).ok()?;
                items.get_mut(index)?
            }
            _ => return None,
        };
    }
    if !place.is_object() && !place.is_array() {
        return None;
    }
    Some((place, decode(key)))
}

fn decode(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

fn parse_index(key: &str) -> Result<i64, String> {
    key.parse()
        .map_err(|_| format!("strconv.Atoi: parsing \"{key}\": invalid syntax"))
}

/// The place of a key in a list of `length` items.
fn index(key: &str, length: usize) -> Result<usize, String> {
    let number = parse_index(key)?;
    let bad = || format!("Unable to access invalid index: {number}: {BAD_INDEX}");
    let length = i64::try_from(length).map_err(|_| bad())?;
    let place = if number < 0 { number + length } else { number };
    if place >= length {
        return Err(bad());
    }
    usize::try_from(place).map_err(|_| bad())
}

fn get<'v>(place: &'v Value, key: &str) -> Result<Option<&'v Value>, String> {
    match place {
        Value::Object(fields) => Ok(fields.get(key)),
        Value::Array(items) => Ok(items.get(index(key, items.len())?)),
        _ => Ok(None),
    }
}

fn add(place: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match place {
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            if parse_index(key).is_err() {
                return Err(format!(
                    "value was not a proper array index: '{key}': strconv.Atoi: parsing \"{key}\": invalid syntax"
                ));
            }
            let index = index(key, items.len() + 1)?;
            items.insert(index, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(place: &mut Value, key: &str) -> Result<Value, String> {
    match place {
        Value::Object(fields) => fields
            .remove(key)
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}")),
        Value::Array(items) => {
            let index = index(key, items.len())?;
            Ok(items.remove(index))
        }
        _ => Ok(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::needless_pass_by_value,
        reason = "helpers take json!() literals"
    )]

    use serde_json::json;

    use super::*;

    fn patched(object: Value, patch: Value) -> Result<Value, PatchError> {
        super::json(&object, &patch)
    }

    #[test]
    fn operations_do_what_rfc_6902_says() {
        let cases = [
            (
                json!({"foo": "bar"}),
                json!([{"op": "add", "path": "/baz", "value": "qux"}]),
                json!({"baz": "qux", "foo": "bar"}),
            ),
            (
                json!({"foo": ["bar", "baz"]}),
                json!([{"op": "add", "path": "/foo/1", "value": "qux"}]),
                json!({"foo": ["bar", "qux", "baz"]}),
            ),
            (
                json!({"foo": ["bar"]}),
                json!([{"op": "add", "path": "/foo/-", "value": ["abc"]}]),
                json!({"foo": ["bar", ["abc"]]}),
            ),
            (
                json!({"foo": ["bar", "qux", "baz"]}),
                json!([{"op": "remove", "path": "/foo/1"}]),
                json!({"foo": ["bar", "baz"]}),
            ),
            (
                json!({"a": {"b": 1}, "c": {}}),
                json!([{"op": "move", "from": "/a/b", "path": "/c/d"}]),
                json!({"a": {}, "c": {"d": 1}}),
            ),
            (
                json!({"a": {"b": 1}}),
                json!([{"op": "copy", "from": "/a", "path": "/c"}]),
                json!({"a": {"b": 1}, "c": {"b": 1}}),
            ),
            (
                json!({"a/b": 1, "m~n": 2}),
                json!([
                    {"op": "test", "path": "/a~1b", "value": 1},
                    {"op": "replace", "path": "/m~0n", "value": 3}
                ]),
                json!({"a/b": 1, "m~n": 3}),
            ),
            (
                json!({"a": [1, 2, 3]}),
                json!([{"op": "remove", "path": "/a/-1"}]),
                json!({"a": [1, 2]}),
            ),
            (
                json!({"a": 1}),
                json!([{"op": "replace", "path": "/b", "value": 2}]),
                json!({"a": 1, "b": 2}),
            ),
        ];
        for (object, patch, expected) in cases {
            assert_eq!(patched(object, patch).unwrap(), expected);
        }
    }

    #[test]
    fn refusals_have_the_words_of_the_real_server() {
        let cases = [
            (
                json!([{"op": "test", "path": "/a", "value": 2}]),
                "testing value /a failed: test failed",
            ),
            (
                json!([{"op": "remove", "path": "/x"}]),
                "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!([{"op": "add", "path": "/x/y", "value": 1}]),
                "add operation does not apply: doc is missing path: \"/x/y\": missing value",
            ),
            (
                json!([{"op": "add", "path": "/l/7", "value": 1}]),
                "error in add for path: '/l/7': Unable to access invalid index: 7: invalid index referenced",
            ),
            (
                json!([{"op": "replace", "path": "/l/7", "value": 1}]),
                "replace operation does not apply: doc is missing key: /l/7: missing value",
            ),
            (
                json!([{"op": "jump", "path": "/a"}]),
                "Unexpected kind: jump",
            ),
        ];
        for (patch, message) in cases {
            let error = patched(json!({"a": 1, "l": [1]}), patch).unwrap_err();
            assert_eq!(error, PatchError::Unprocessable(message.to_owned()));
        }
    }

    #[test]
    fn a_failing_operation_undoes_the_ones_before_it() {
        let object = json!({"a": 1});
        let patch = json!([
            {"op": "add", "path": "/b", "value": 2},
            {"op": "test", "path": "/a", "value": 9}
        ]);
        assert!(super::json(&object, &patch).is_err());
        assert_eq!(object, json!({"a": 1}));
    }
}
