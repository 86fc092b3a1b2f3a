//! Making answers of two servers comparable: what cannot be the same is replaced by a sign, and nothing else.
//!
//! Ids, resource versions and generated names become `<uid-1>`, `<rv-2>`, `<name-1>`, numbered by first appearance in
//! the case, so that "the same object again" and "unchanged, hence the same version" are still compared. A value that the
//! case itself wrote is never replaced.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::case::Case;
use super::play::{Answer, Content};

macro_rules! pattern {
    ($name:ident, $text:literal) => {
        #[allow(clippy::unwrap_used)] // a constant, exercised by every test
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).unwrap());
    };
}

pattern!(
    UID,
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
);
pattern!(TIME, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z");
// An object that is quoted in a message.
pattern!(QUOTED_VERSION, r#"(resourceVersion\\?":\\?")\d+"#);
pattern!(ADDRESS, r"127\.0\.0\.1:\d+");
// Revisions in messages: what they are is the server's affair, that they are there is not.
pattern!(
    REVISION,
    r"(too old resource version: |current: |\()\d+(\)?)"
);
// The hash of an OpenAPI document, which two servers with different sets of kinds cannot share.
pattern!(HASH, r"\?hash=[0-9A-F]+");
// The parameters of an age in a table: "3s", "2m5s".
pattern!(AGE, r"^(\d+[smhdy])+$");

/// The signs given so far in one case on one server.
#[derive(Debug)]
pub struct Normaliser {
    /// Everything the case says, to tell what it wrote from what a server made up.
    source: String,
    signs: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, usize>,
    generated: Vec<String>,
}

impl Normaliser {
    /// For one run of `case`.
    pub fn new(case: &Case) -> Self {
        let source = format!("{:?}", case.steps);
        Self {
            source,
            signs: BTreeMap::new(),
            counts: BTreeMap::new(),
            generated: Vec::new(),
        }
    }

    /// The answer as a value that can be compared.
    pub fn answer(&mut self, answer: &Answer) -> Value {
        let mut body = match &answer.content {
            Content::Json(value) => value.clone(),
            Content::Events(events) => Value::Array(events.clone()),
            Content::Text(text) => Value::String(text.clone()),
        };
        self.find_generated_names(&body);
        mark_ages(&mut body);
        self.value(&mut body, "", false);
        let headers = answer
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), Value::String(self.text(value))))
            .collect::<Map<_, _>>();
        serde_json::json!({"status": answer.status, "headers": headers, "body": body})
    }

    fn value(&mut self, value: &mut Value, key: &str, in_list_meta: bool) {
        match value {
            Value::Object(fields) => {
                let is_list = fields.contains_key("items")
                    || fields.contains_key("rows")
                    || fields.get("kind").is_some_and(|kind| kind == "Status");
                for (key, value) in fields.iter_mut() {
                    self.value(value, key, is_list && key == "metadata" || in_list_meta);
                }
            }
            Value::Array(items) => {
                if key == "managedFields" {
                    // The servers order equal operations by time, which is not compared.
                    items.sort_by_cached_key(manager_order);
                }
                for item in items {
                    self.value(item, "", false);
                }
            }
            Value::String(text) => *text = self.string(text, key, in_list_meta),
            _ => {}
        }
    }

    fn string(&mut self, text: &str, key: &str, in_list_meta: bool) -> String {
        if text.is_empty() || self.source.contains(&format!("\"{text}\"")) {
            return text.to_owned();
        }
        match key {
            // The version of a list is the version of the whole store, which other cases move.
            "resourceVersion" if in_list_meta => "<list-rv>".to_owned(),
            "resourceVersion" => self.sign("rv", text),
            "continue" => "<continue>".to_owned(),
            _ => self.text(text),
        }
    }

    /// Replaces what may stand in the middle of a text.
    fn text(&mut self, text: &str) -> String {
        let mut text = UID
            .replace_all(text, |found: &Captures<'_>| self.sign("uid", &found[0]))
            .into_owned();
        let source = &self.source;
        text = TIME
            .replace_all(&text, |found: &Captures<'_>| {
                if source.contains(&found[0]) {
                    found[0].to_owned()
                } else {
                    "<time>".to_owned()
                }
            })
            .into_owned();
        text = QUOTED_VERSION.replace_all(&text, "$1<rv>").into_owned();
        text = ADDRESS.replace_all(&text, "<address>").into_owned();
        text = HASH.replace_all(&text, "?hash=<hash>").into_owned();
        text = REVISION.replace_all(&text, "$1<rv>$2").into_owned();
        for (index, name) in self.generated.iter().enumerate() {
            text = text.replace(name, &format!("<name-{}>", index + 1));
        }
        text
    }

    fn sign(&mut self, kind: &'static str, text: &str) -> String {
        if let Some(sign) = self.signs.get(&format!("{kind}/{text}")) {
            return sign.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let sign = format!("<{kind}-{count}>");
        self.signs.insert(format!("{kind}/{text}"), sign.clone());
        sign
    }

    fn find_generated_names(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let text = |key: &str| fields.get(key).and_then(Value::as_str);
                if let (Some(prefix), Some(name)) = (text("generateName"), text("name")) {
                    let is_new = !self.generated.iter().any(|known| known == name);
                    // Only the form that servers make: the prefix and five characters.
                    if is_new && name.len() == prefix.len() + 5 && name.starts_with(prefix) {
                        self.generated.push(name.to_owned());
                    }
                }
                fields
                    .values()
                    .for_each(|value| self.find_generated_names(value));
            }
            Value::Array(items) => items
                .iter()
                .for_each(|item| self.find_generated_names(item)),
            _ => {}
        }
    }
}

fn manager_order(entry: &Value) -> String {
    let part = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    [
        part("manager"),
        part("operation"),
        part("subresource"),
        part("apiVersion"),
    ]
    .join("/")
}

/// Ages in a table depend on when the question was asked.
fn mark_ages(body: &mut Value) {
    let Some(rows) = body.get_mut("rows").and_then(Value::as_array_mut) else {
        return;
    };
    for row in rows {
        for cell in row["cells"].as_array_mut().into_iter().flatten() {
            if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                *cell = Value::String("<age>".to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests;
