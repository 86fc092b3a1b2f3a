//! `fieldPath` of a rule: which field below the rule's own place is to blame.

use super::super::node::SchemaRef;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A field of a structure.
    Field(String),
    /// A key of a map.
    Key(String),
}

/// Splits `.a.b['c d']` and checks each step against the schema; lists cannot be entered.
pub(crate) fn resolve(path: &str, schema: SchemaRef<'_>) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut schema = schema;
    let mut rest = path;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (name, quoted, tail) = next_name(rest)?;
        rest = tail;
        if let Some(property) = schema.property(&name) {
            schema = property;
            steps.push(Step::Field(name));
        } else if let Some(values) = schema.additional() {
            schema = values;
            steps.push(if quoted {
                Step::Key(name)
            } else {
                Step::Field(name)
            });
        } else {
            return None;
        }
    }
    Some(steps)
}

fn next_name(path: &str) -> Option<(String, bool, &str)> {
    if let Some(rest) = path.strip_prefix("['") {
        let mut name = String::new();
        let mut characters = rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => name.push(characters.next()?.1),
                '\'' => {
                    let rest = rest.get(at + 1..)?.strip_prefix(']')?;
                    return Some((name, true, rest));
                }
                other => name.push(other),
            }
        }
        return None;
    }
    let rest = path.strip_prefix('.')?;
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let simple = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    if name.is_empty() || !name.chars().all(simple) {
        return None;
    }
    Some((name.to_owned(), false, rest))
}
