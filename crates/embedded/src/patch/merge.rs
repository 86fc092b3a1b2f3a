//! JSON merge patch, RFC 7386, as `evanphx/json-patch` does it.
//!
//! It differs from the letter of the RFC in one point, kept here: nulls are also dropped from objects inside lists
//! that are new or replace something that is not an object.

use serde_json::{Map, Value};

use super::{PatchError, json_type};

/// Applies a merge patch.
pub fn merge(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Object(changes) = patch else {
        return Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(patch)
        )));
    };
    let mut merged = match object {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    merge_fields(&mut merged, changes);
    Ok(Value::Object(merged))
}

fn merge_fields(fields: &mut Map<String, Value>, changes: &Map<String, Value>) {
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
            continue;
        }
        match (fields.get_mut(name), change) {
            (Some(Value::Object(current)), Value::Object(change)) => merge_fields(current, change),
            (Some(current @ Value::Object(_)), change) => *current = change.clone(),
            (_, change) => {
                let mut value = change.clone();
                drop_nulls(&mut value);
                fields.insert(name.clone(), value);
            }
        }
    }
}

/// Removes null fields at any depth; nulls that are items of a list stay.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|_, value| {
            drop_nulls(value);
            !value.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_vectors_of_rfc_7386_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (
                json!({"a": "b", "b": "c"}),
                json!({"a": null}),
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [{"b": "c"}]}),
                json!({"a": [1]}),
                json!({"a": [1]}),
            ),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ];
        for (object, patch, expected) in cases {
            assert_eq!(merge(&object, &patch).unwrap(), expected);
        }
    }

    #[test]
    fn nulls_inside_a_new_list_of_objects_are_dropped() {
        let patched = merge(&json!({}), &json!({"a": [{"b": null, "c": 1}, null]})).unwrap();
        assert_eq!(patched, json!({"a": [{"c": 1}, null]}));
    }

    #[test]
    fn a_patch_that_is_not_an_object_is_a_bad_request() {
        let error = merge(&json!({}), &json!([1])).unwrap_err();
        assert_eq!(
            error,
            PatchError::BadRequest(
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
                    .to_owned()
            )
        );
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..4i64).prop_map(Value::from),
            "[ab]".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..3)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[a-c]", tree(), 0..4)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
    }

    /// The patch that turns one object without nulls into another.
    fn difference(from: &Value, to: &Value) -> Value {
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => {
                let mut patch = Map::new();
                for name in from.keys().filter(|name| !to.contains_key(*name)) {
                    patch.insert(name.clone(), Value::Null);
                }
                for (name, value) in to {
                    match from.get(name) {
                        Some(old) if old == value => {}
                        Some(old) => {
                            patch.insert(name.clone(), difference(old, value));
                        }
                        None => {
                            patch.insert(name.clone(), value.clone());
                        }
                    }
                }
                Value::Object(patch)
            }
            (_, to) => to.clone(),
        }
    }

    proptest! {
        #[test]
        fn applying_a_difference_gives_the_other_object(from in object(), to in object()) {
            prop_assert_eq!(merge(&from, &difference(&from, &to)).unwrap(), to);
        }

        #[test]
        fn a_merge_patch_applied_twice_is_applied_once(from in object(), patch in object()) {
            let once = merge(&from, &patch).unwrap();
            prop_assert_eq!(merge(&once, &patch).unwrap(), once);
        }
    }
}
