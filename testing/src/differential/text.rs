//! Variables in strings: `${name}`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// The variables of one case on one server.
pub(super) type Variables = BTreeMap<String, String>;

/// `text` with every `${name}` replaced.
pub(super) fn fill(text: &str, variables: &Variables) -> Result<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').context("`${` without `}`")?;
        let value = variables
            .get(name)
            .with_context(|| format!("no step saved ${{{name}}}"))?;
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// [`fill`] for every string of a value, keys too.
pub(super) fn fill_value(value: &Value, variables: &Variables) -> Result<Value> {
    Ok(match value {
        Value::String(text) => Value::String(fill(text, variables)?),
        Value::Array(items) => items
            .iter()
            .map(|item| fill_value(item, variables))
            .collect::<Result<_>>()?,
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(key, value)| Ok((fill(key, variables)?, fill_value(value, variables)?)))
                .collect::<Result<_>>()?,
        ),
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_wherever_they_stand() {
        let variables = Variables::from([("ns".to_owned(), "a".to_owned())]);
        assert_eq!(fill("/x/${ns}/y/${ns}", &variables).unwrap(), "/x/a/y/a");
        let value = serde_json::json!({"${ns}": ["${ns}", 1]});
        assert_eq!(
            fill_value(&value, &variables).unwrap(),
            serde_json::json!({"a": ["a", 1]})
        );
        assert!(fill("${other}", &variables).is_err());
    }
}
