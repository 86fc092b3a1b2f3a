//! The simple JSON paths of printer columns: fields, indices, `[*]` and one kind of filter.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// `[?(@.path=="value")]`
    Filter {
        path: Vec<String>,
        equal: bool,
        value: Value,
    },
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    source: String,
    steps: Vec<Step>,
}

impl JsonPath {
    /// Parses a path; `None` if it is beyond what printer columns use.
    pub(crate) fn parse(source: &str) -> Option<Self> {
        let inner = source
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(source);
        let mut rest = inner.strip_prefix('$').unwrap_or(inner);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let (step, remaining) = bracket(after)?;
                steps.push(step);
                rest = remaining;
            } else {
                let after = rest.strip_prefix('.').unwrap_or(rest);
                let (name, remaining) = field(after);
                match name.as_str() {
                    "" if remaining.starts_with('[') => {}
                    "" => return None,
                    "*" => steps.push(Step::All),
                    _ => steps.push(Step::Field(name)),
                }
                rest = remaining;
            }
        }
        Some(Self {
            source: source.to_owned(),
            steps,
        })
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The first value that the path finds.
    pub(crate) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let mut found = vec![object];
        for step in &self.steps {
            found = found
                .into_iter()
                .flat_map(|value| step.apply(value))
                .collect();
        }
        found.into_iter().next()
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let len = i64::try_from(items.len()).unwrap_or_default();
                let at = if *index < 0 { len + index } else { *index };
                usize::try_from(at)
                    .ok()
                    .and_then(|at| items.get(at))
                    .into_iter()
                    .collect()
            }
            Self::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                _ => Vec::new(),
            },
            Self::Filter {
                path,
                equal,
                value: wanted,
            } => value
                .as_array()
                .into_iter()
                .flatten()
                .filter(|item| {
                    let found = path.iter().try_fold(*item, |item, name| item.get(name));
                    found.is_some_and(|found| (found == wanted) == *equal)
                })
                .collect(),
        }
    }
}

/// A field name up to the next `.` or `[`; a backslash keeps the next character.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, kept)| kept)),
            '.' | '[' => return (name, &text[at..]),
            _ => name.push(character),
        }
    }
    (name, "")
}

/// What stands in brackets, and what follows them.
fn bracket(text: &str) -> Option<(Step, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        let (inside, rest) = filter.split_once(")]")?;
        return Some((filter_step(inside)?, rest));
    }
    let (inside, rest) = text.split_once(']')?;
    let inside = inside.trim();
    let quoted = |quote: char| {
        inside
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote))
    };
    let step = match inside {
        "*" => Step::All,
        _ => match quoted('\'').or_else(|| quoted('"')) {
            Some(name) => Step::Field(name.replace("\\.", ".")),
            None => Step::Index(inside.parse().ok()?),
        },
    };
    Some((step, rest))
}

fn filter_step(inside: &str) -> Option<Step> {
    let (path, equal, value) = match inside.split_once("==") {
        Some((path, value)) => (path, true, value),
        None => inside
            .split_once("!=")
            .map(|(path, value)| (path, false, value))?,
    };
    let mut names = Vec::new();
    let mut rest = path.trim().strip_prefix('@')?;
    while let Some(after) = rest.strip_prefix('.') {
        let (name, remaining) = field(after);
        names.push(name);
        rest = remaining;
    }
    let value = value.trim();
    let value = match value
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''))
    {
        Some(text) => Value::from(text),
        None => serde_json::from_str(value).ok()?,
    };
    rest.is_empty().then_some(Step::Filter {
        path: names,
        equal,
        value,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn printer_columns_find_their_values() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "dotted"}},
            "spec": {"list": [1, 2, 3], "name": "x"},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Other", "status": "False"},
            ]},
        });
        for (path, value) in [
            (".spec.name", json!("x")),
            ("{.spec.name}", json!("x")),
            (".spec.list[1]", json!(2)),
            (".spec.list[-1]", json!(3)),
            (".spec.list[*]", json!(1)),
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                json!("True"),
            ),
            (
                ".status.conditions[?(@.type=='Other')].status",
                json!("False"),
            ),
            (".metadata.labels.a\\.b/c", json!("dotted")),
            (".metadata.labels['a\\.b/c']", json!("dotted")),
        ] {
            let parsed = JsonPath::parse(path).unwrap();
            assert_eq!(parsed.first(&object), Some(&value), "{path}");
        }
        assert_eq!(
            JsonPath::parse(".spec.missing").unwrap().first(&object),
            None
        );
        assert_eq!(JsonPath::parse(".spec[?(broken"), None);
    }
}
