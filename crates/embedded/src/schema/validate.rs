//! Checks values against a structural schema, with the words of kube-openapi's validator.
//!
//! On update, errors in parts that did not change are forgiven ("ratcheting"), so that a schema that became stricter
//! does not lock its objects. Mirrors `kube-openapi/pkg/validation/validate` and
//! `apiextensions-apiserver/pkg/apiserver/validation`.

use serde_json::{Map, Number, Value};

use super::error::{ErrorKind, FieldError, quote};
use super::formats;
use super::node::{Additional, Limits, ListType, Schema, SchemaRef};
use super::number;
use super::path::Path;

/// Checks a new object.
pub fn validate(object: &Value, schema: &Schema) -> Vec<FieldError> {
    check(object, None, schema.root(), &Path::ROOT).errors
}

/// Checks a changed object; what did not change is not held against it.
pub fn validate_update(object: &Value, old: &Value, schema: &Schema) -> Vec<FieldError> {
    ratchet(object, Some(old), schema.root(), &Path::ROOT).errors
}

/// Checks a value that is not an object of its own, e.g. a default; paths are relative to it.
pub(crate) fn validate_value(value: &Value, schema: SchemaRef<'_>) -> Vec<FieldError> {
    check(value, None, schema, &Path::ROOT).errors
}

/// Errors, and how many checks passed: `anyOf` reports the branch that came closest.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    matches: usize,
}

impl Outcome {
    fn add(&mut self, error: FieldError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Self) {
        for error in other.errors {
            self.add(error);
        }
        self.matches += other.matches;
    }
}

fn ratchet(value: &Value, old: Option<&Value>, schema: SchemaRef<'_>, path: &Path<'_>) -> Outcome {
    let outcome = check(value, old, schema, path);
    if !outcome.errors.is_empty() && old == Some(value) {
        return Outcome::default();
    }
    outcome
}

fn check(value: &Value, old: Option<&Value>, schema: SchemaRef<'_>, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    if value.is_null() {
        check_type(value, schema, path, &mut outcome);
        if let Some(limits) = schema.limits() {
            check_enum(value, limits, path, &mut outcome);
        }
        return outcome;
    }
    // The counting follows the order and the applicability of the real server's eight validators.
    if schema.kind().is_some() || schema.int_or_string() || checked_format(schema).is_some() {
        check_type(value, schema, path, &mut outcome);
        outcome.matches += 1;
    }
    let empty = Limits::default();
    let limits = schema.limits().unwrap_or(&empty);
    check_combinations(value, old, schema, limits, path, &mut outcome);
    outcome.matches += 1;
    match value {
        Value::String(text) => {
            check_text(text, limits, path, &mut outcome);
            outcome.matches += 1;
            if let Some(format) = checked_format(schema) {
                check_format(text, format, path, &mut outcome);
                outcome.matches += 1;
            }
        }
        Value::Number(number) => {
            check_number(number, limits, path, &mut outcome);
            outcome.matches += 2;
        }
        Value::Array(items) => {
            check_items(items, old, schema, limits, path, &mut outcome);
            outcome.matches += 2;
        }
        _ => {}
    }
    check_enum(value, limits, path, &mut outcome);
    outcome.matches += 1;
    if let Value::Object(fields) = value {
        check_fields(fields, old, schema, limits, path, &mut outcome);
        outcome.matches += 1;
    }
    outcome.matches += 1;
    outcome
}

fn checked_format(schema: SchemaRef<'_>) -> Option<&str> {
    schema
        .format()
        .filter(|format| formats::conforms(format, "").is_some())
}

fn type_error(path: &Path<'_>, expected: &str, actual: &str) -> FieldError {
    let place = path.to_string();
    let detail = format!(
        "{place} in body must be of type {expected}: {}",
        quote(actual)
    );
    FieldError::type_invalid(place, actual, detail)
}

fn check_type(value: &Value, schema: SchemaRef<'_>, path: &Path<'_>, outcome: &mut Outcome) {
    let expected = match (schema.int_or_string(), schema.kind()) {
        (true, _) => "integer,string",
        (false, Some(kind)) => kind.name(),
        (false, None) => "",
    };
    let accepts = |name: &str| expected.split(',').any(|expected| expected == name);
    let (actual, actual_format) = match value {
        Value::Null => {
            if expected.is_empty() || schema.nullable() {
                outcome.matches += 1;
            } else {
                outcome.add(type_error(path, expected, "null"));
            }
            return;
        }
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number::as_i64(number).is_some() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    };
    let whole = matches!(value, Value::Number(n) if n.as_f64().is_some_and(|n| n.fract() == 0.0));
    let suits = accepts(actual)
        || (actual == "number" && whole && accepts("integer"))
        || (actual == "integer" && accepts("number"));
    let text_or_list = matches!(value, Value::String(_) | Value::Array(_));
    if let Some(format) = checked_format(schema) {
        if !text_or_list && !suits {
            outcome.add(type_error(path, format, actual_format));
            return;
        }
        if text_or_list && !accepts("number") && !accepts("integer") {
            outcome.matches += 1;
            return;
        }
    }
    if suits {
        outcome.matches += 1;
    } else {
        outcome.add(type_error(path, expected, actual));
    }
}

fn check_text(text: &str, limits: &Limits, path: &Path<'_>, outcome: &mut Outcome) {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = limits.max_length.filter(|most| length > *most) {
        outcome.add(FieldError::too_long(path.to_string(), most));
        return;
    }
    if let Some(least) = limits.min_length.filter(|least| length < *least) {
        let place = path.to_string();
        let detail = format!("{place} in body should be at least {least} chars long");
        outcome.add(FieldError::invalid(place, text, detail));
        return;
    }
    if let Some(pattern) = &limits.pattern {
        let shown = match pattern.matches(text) {
            Ok(true) => return,
            Ok(false) => pattern.source().to_owned(),
            Err(problem) => format!("{}, but pattern is invalid: {problem}", pattern.source()),
        };
        let place = path.to_string();
        let detail = format!("{place} in body should match '{shown}'");
        outcome.add(FieldError::invalid(place, text, detail));
    }
}

fn check_format(text: &str, format: &str, path: &Path<'_>, outcome: &mut Outcome) {
    if formats::conforms(format, text) == Some(false) {
        outcome.add(type_error(path, format, text));
    }
}

fn check_number(number: &Number, limits: &Limits, path: &Path<'_>, outcome: &mut Outcome) {
    let whole = number::as_i64(number);
    let float = number.as_f64().unwrap_or(f64::NAN);
    let mut refuse = |words: &str, bound: f64| {
        let bound = if whole.is_some() {
            number::truncate(bound).to_string()
        } else {
            number::go_float(bound)
        };
        let place = path.to_string();
        let detail = format!("{place} in body should be {words} {bound}");
        outcome.add(FieldError::invalid(place, number.clone(), detail));
    };
    let below = |bound: f64| match whole {
        Some(whole) => whole.cmp(&number::truncate(bound)).is_lt(),
        None => float < bound,
    };
    let equal = |bound: f64| match whole {
        Some(whole) => whole == number::truncate(bound),
        // Bounds are compared exactly, as the real server does.
        None => float.total_cmp(&bound).is_eq(),
    };
    if let Some(factor) = limits.multiple_of {
        let multiple = match whole {
            Some(whole) => number::truncate(factor) != 0 && whole % number::truncate(factor) == 0,
            None if factor < 1.0 => (1.0 / factor * float).fract() == 0.0,
            None => (float / factor).fract() == 0.0,
        };
        if !multiple {
            refuse("a multiple of", factor);
        }
    }
    if let Some(least) = limits.minimum {
        if limits.exclusive_minimum && (below(least) || equal(least)) {
            refuse("greater than", least);
        } else if below(least) {
            refuse("greater than or equal to", least);
        }
    }
    if let Some(most) = limits.maximum {
        let above = !below(most) && !equal(most);
        if limits.exclusive_maximum && (above || equal(most)) {
            refuse("less than", most);
        } else if above {
            refuse("less than or equal to", most);
        }
    }
}

fn check_items(
    items: &[Value],
    old: Option<&Value>,
    schema: SchemaRef<'_>,
    limits: &Limits,
    path: &Path<'_>,
    outcome: &mut Outcome,
) {
    if let Some(item_schema) = schema.items() {
        for (index, item) in items.iter().enumerate() {
            let old = old_item(item, old, schema);
            outcome.merge(ratchet(item, old, item_schema, &path.index(index)));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(least) = limits.min_items.filter(|least| size < *least) {
        let place = path.to_string();
        let detail = format!("{place} in body should have at least {least} items");
        outcome.add(FieldError::invalid(place, size, detail));
    }
    if let Some(most) = limits.max_items.filter(|most| size > *most) {
        outcome.add(FieldError::too_many(path.to_string(), items.len(), most));
    }
    let repeats = |(index, item): (usize, &Value)| items.iter().take(index).any(|i| i == item);
    if limits.unique_items && items.iter().enumerate().any(repeats) {
        let place = path.to_string();
        let detail = format!("{place} in body shouldn't contain duplicates");
        outcome.add(FieldError::invalid(place, "", detail));
    }
}

/// The item that a list of type map held under the same keys before.
pub(crate) fn old_item<'o>(
    item: &Value,
    old: Option<&'o Value>,
    schema: SchemaRef<'_>,
) -> Option<&'o Value> {
    if schema.list_type() != Some(ListType::Map) {
        return None;
    }
    let keys = schema.list_map_keys();
    let same = |other: &&Value| keys.iter().all(|key| other.get(key) == item.get(key));
    old?.as_array()?.iter().find(same)
}

fn check_fields(
    fields: &Map<String, Value>,
    old: Option<&Value>,
    schema: SchemaRef<'_>,
    limits: &Limits,
    path: &Path<'_>,
    outcome: &mut Outcome,
) {
    let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(least) = limits.min_properties.filter(|least| size < *least) {
        let place = path.to_string();
        let detail = format!("{place} in body should have at least {least} properties");
        outcome.add(FieldError::invalid(place, size, detail));
    }
    if let Some(most) = limits.max_properties.filter(|most| size > *most) {
        outcome.add(FieldError::too_many(path.to_string(), fields.len(), most));
    }
    for (name, value) in fields {
        // Which version an object is sent in says nothing about whether it changed.
        let type_meta = path.is_root() && matches!(name.as_str(), "kind" | "apiVersion");
        let old = old.and_then(|old| old.get(name)).filter(|_| !type_meta);
        let below = path.child(name);
        if let Some(property) = schema.property(name) {
            outcome.merge(ratchet(value, old, property, &below));
            continue;
        }
        match schema.additional_rule() {
            Some(Additional::Schema(id)) => {
                outcome.merge(ratchet(value, old, schema.at(id), &below));
            }
            Some(Additional::Allowed(false)) => {
                let place = path.to_string();
                let detail = format!("{place}.{name} in body is a forbidden property");
                outcome.add(FieldError::invalid(place, name.as_str(), detail));
            }
            _ => {}
        }
    }
    for name in &limits.required {
        if !fields.contains_key(name) {
            outcome.add(FieldError::required(path.child(name).to_string(), ""));
        }
    }
}

fn check_enum(value: &Value, limits: &Limits, path: &Path<'_>, outcome: &mut Outcome) {
    if limits.enumeration.is_empty() {
        return;
    }
    let equal = |allowed: &Value| match (allowed, value) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    };
    if limits.enumeration.iter().any(equal) {
        return;
    }
    let allowed: Vec<String> = limits
        .enumeration
        .iter()
        .map(|allowed| match allowed {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect();
    outcome.add(FieldError::not_supported(
        path.to_string(),
        value.clone(),
        &allowed,
    ));
}

/// `allOf` and its kin. Their own errors have no field: the real server prints them under `<nil>`.
fn check_combinations(
    value: &Value,
    old: Option<&Value>,
    schema: SchemaRef<'_>,
    limits: &Limits,
    path: &Path<'_>,
    outcome: &mut Outcome,
) {
    outcome.matches += 1;
    let complain = |detail: &str| {
        let detail = format!("{} {detail}", quote(&path.to_string()));
        FieldError::new(ErrorKind::Invalid, "", Some("".into()), detail)
    };
    let branch = |id| check(value, old, schema.at(id), path);

    if !limits.any_of.is_empty() {
        let (valid, best) = best_branch(limits.any_of.iter().map(|id| branch(*id)), true);
        if valid == 0 {
            outcome.add(complain("must validate at least one schema (anyOf)"));
        }
        outcome.merge(best);
    }
    if !limits.one_of.is_empty() {
        let (valid, best) = best_branch(limits.one_of.iter().map(|id| branch(*id)), false);
        match valid {
            1 => outcome.merge(best),
            0 => {
                outcome.add(complain(
                    "must validate one and only one schema (oneOf). Found none valid",
                ));
                outcome.merge(best);
            }
            many => outcome.add(complain(&format!(
                "must validate one and only one schema (oneOf). Found {many} valid alternatives"
            ))),
        }
    }
    if !limits.all_of.is_empty() {
        let mut valid = 0;
        for id in &limits.all_of {
            let result = branch(*id);
            valid += usize::from(result.errors.is_empty());
            outcome.merge(result);
        }
        if valid != limits.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.add(complain(&format!(
                "must validate all the schemas (allOf){none}"
            )));
        }
    }
    if let Some(not) = limits.not
        && branch(not).errors.is_empty()
    {
        outcome.add(complain("must not validate the schema (not)"));
    }
}

/// How many branches are valid, and the first valid one or else the one with the most passed checks.
fn best_branch(branches: impl Iterator<Item = Outcome>, stop_at_first: bool) -> (usize, Outcome) {
    let mut valid = 0;
    let mut best: Option<Outcome> = None;
    for result in branches {
        if result.errors.is_empty() {
            valid += 1;
            if valid == 1 {
                best = Some(result);
            }
            if stop_at_first {
                break;
            }
        } else if valid == 0
            && best
                .as_ref()
                .is_none_or(|best| result.matches > best.matches)
        {
            best = Some(result);
        }
    }
    (valid, best.unwrap_or_default())
}
