//! Where two normalised answers differ, in words.

use serde_json::Value;

/// One place where two answers differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where: `/body/metadata/name`.
    pub path: String,
    /// What the real server said; nothing if it said nothing there.
    pub real: Option<Value>,
    /// What the embedded server said.
    pub embedded: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: &Option<Value>| {
            value
                .as_ref()
                .map_or_else(|| "(nothing)".to_owned(), Value::to_string)
        };
        writeln!(f, "at {}", self.path)?;
        writeln!(f, "  real:     {}", show(&self.real))?;
        write!(f, "  embedded: {}", show(&self.embedded))
    }
}

/// Every place where the two differ, in the order of the paths.
pub fn differences(real: &Value, embedded: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    collect(String::new(), Some(real), Some(embedded), &mut found);
    found
}

fn collect(
    path: String,
    real: Option<&Value>,
    embedded: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    match (real, embedded) {
        (real, embedded) if real == embedded => {}
        (Some(Value::Object(real)), Some(Value::Object(embedded))) => {
            let mut keys: Vec<&String> = real.keys().chain(embedded.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                collect(path, real.get(key), embedded.get(key), found);
            }
        }
        (Some(Value::Array(real)), Some(Value::Array(embedded))) => {
            for index in 0..real.len().max(embedded.len()) {
                collect(
                    format!("{path}/{index}"),
                    real.get(index),
                    embedded.get(index),
                    found,
                );
            }
        }
        (real, embedded) => {
            found.push(Difference {
                path,
                real: real.cloned(),
                embedded: embedded.cloned(),
            });
        }
    }
}

/// The part of `value` at `path`: names of fields, `key=value` for the item of a list that has it; `~1` is a slash.
pub(super) fn look(value: &Value, path: &str) -> Option<Value> {
    let mut part = value;
    for word in path.split('/').filter(|word| !word.is_empty()) {
        part = match (part, word.split_once('=')) {
            (Value::Array(items), Some((key, wanted))) => {
                let wanted = wanted.replace("~1", "/");
                items.iter().find(|item| item[key] == wanted)?
            }
            (Value::Array(items), None) => items.get(word.parse::<usize>().ok()?)?,
            (other, _) => other.get(word.replace("~1", "/"))?,
        };
    }
    Some(part.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_answers_have_no_differences() {
        assert_eq!(differences(&json!({"a": [1]}), &json!({"a": [1]})), vec![]);
    }

    #[test]
    fn each_difference_names_its_place_and_both_values() {
        let found = differences(&json!({"a": [1, 2], "b": 1}), &json!({"a": [1], "b": 2}));
        let text: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "at /a/1\n  real:     2\n  embedded: (nothing)",
                "at /b\n  real:     1\n  embedded: 2"
            ]
        );
    }

    #[test]
    fn a_part_is_found_by_name_and_by_key() {
        let value = json!({"resources": [{"name": "pods"}, {"name": "nodes", "namespaced": false}, {"name": "a/b"}]});
        assert_eq!(look(&value, "resources/name=a~1b/name"), Some(json!("a/b")));
        assert_eq!(
            look(&value, "resources/name=nodes/namespaced"),
            Some(json!(false))
        );
        assert_eq!(look(&value, "resources/name=jobs"), None);
    }
}
