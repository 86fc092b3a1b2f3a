//! Walks over typed values: which fields they have, how two differ, and how fields are taken out.
//!
//! Mirrors `structured-merge-diff/typed`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;
use super::set::FieldSet;
use super::typed::{Shape, Type};

/// What changed from one object to another.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    pub(super) fn without(self, ignored: &FieldSet) -> Self {
        Self {
            removed: self.removed.without_trees(ignored),
            modified: self.modified.without_trees(ignored),
            added: self.added.without_trees(ignored),
        }
    }
}

/// The fields of an object.
pub(super) fn field_set(value: &Value, ty: Type<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(value, ty, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, ty: Type<'_>, path: &mut Vec<Element>, set: &mut FieldSet) {
    match (ty.shape(value), value) {
        (Shape::Map, Value::Object(fields)) => {
            for (name, value) in fields {
                let Some((below, named)) = ty.field(name) else {
                    continue;
                };
                path.push(Element::field(name));
                collect(value, below, path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !named {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Shape::List(keys), Value::Array(items)) => {
            for (element, same) in grouped(items, keys, ty) {
                path.push(element);
                // Items that share a key are owned as one.
                if let [only] = same.as_slice() {
                    collect(only, ty.items(), path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        _ => set.insert(path),
    }
}

/// The items of a list by what tells them apart; items that cannot be told apart are left out.
fn grouped<'v>(
    items: &'v [Value],
    keys: &[String],
    ty: Type<'_>,
) -> BTreeMap<Element, Vec<&'v Value>> {
    let mut groups: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = ty.item(keys, item) {
            groups.entry(element).or_default().push(item);
        }
    }
    groups
}

/// How an object became another.
pub(super) fn compare(old: &Value, new: &Value, ty: Type<'_>) -> Comparison {
    let mut comparison = Comparison::default();
    differ(Some(old), Some(new), ty, &mut Vec::new(), &mut comparison);
    comparison
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn differ(
    old: Option<&Value>,
    new: Option<&Value>,
    ty: Type<'_>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    // Most of two objects is the same most of the time.
    if old == new {
        return;
    }
    let shape = match (old, new) {
        (Some(old), Some(new)) if !old.is_null() && !new.is_null() => {
            let (before, after) = (ty.shape(old), ty.shape(new));
            if std::mem::discriminant(old) != std::mem::discriminant(new) {
                // Another kind of thing: what was inside is gone, what is inside is new.
                differ_inside(Some(old), None, before, ty, path, out);
                differ_inside(None, Some(new), after, ty, path, out);
                if matches!(before, Shape::Leaf) || matches!(after, Shape::Leaf) {
                    out.modified.insert(path);
                }
                return;
            }
            after
        }
        (_, Some(value)) if !value.is_null() => ty.shape(value),
        (Some(value), _) | (None, Some(value)) => ty.shape(value),
        (None, None) => return,
    };
    let leaf = matches!(shape, Shape::Leaf) || (is_empty(old) && is_empty(new));
    if leaf {
        match (old, new) {
            (None, _) => out.added.insert(path),
            (_, None) => out.removed.insert(path),
            _ => out.modified.insert(path),
        }
        return;
    }
    differ_inside(old, new, shape, ty, path, out);
    if old.is_none() {
        out.added.insert(path);
    } else if new.is_none() {
        out.removed.insert(path);
    }
}

fn differ_inside(
    old: Option<&Value>,
    new: Option<&Value>,
    shape: Shape<'_>,
    ty: Type<'_>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    match shape {
        Shape::Map => {
            let none = Map::new();
            let old_fields = old.and_then(Value::as_object).unwrap_or(&none);
            let new_fields = new.and_then(Value::as_object).unwrap_or(&none);
            let added = new_fields
                .keys()
                .filter(|name| !old_fields.contains_key(*name));
            for name in old_fields.keys().chain(added) {
                let below = ty.field(name).map_or(Type::Untyped, |(below, _)| below);
                path.push(Element::field(name));
                differ(old_fields.get(name), new_fields.get(name), below, path, out);
                path.pop();
            }
        }
        Shape::List(keys) => differ_lists(old, new, keys, ty, path, out),
        Shape::Leaf => {}
    }
}

fn differ_lists(
    old: Option<&Value>,
    new: Option<&Value>,
    keys: &[String],
    ty: Type<'_>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    let items = |value: Option<&Value>| -> Vec<Value> {
        value.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (old_items, new_items) = (items(old), items(new));
    let mut old_groups = grouped(&old_items, keys, ty);
    for (element, new_group) in grouped(&new_items, keys, ty) {
        let old_group = old_groups.remove(&element).unwrap_or_default();
        path.push(element);
        differ_groups(&old_group, &new_group, ty.items(), path, out);
        path.pop();
    }
    for (element, old_group) in old_groups {
        path.push(element);
        differ_groups(&old_group, &[], ty.items(), path, out);
        path.pop();
    }
}

fn differ_groups(
    old: &[&Value],
    new: &[&Value],
    ty: Type<'_>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    match (old, new) {
        ([] | [_], [] | [_]) => {
            differ(old.first().copied(), new.first().copied(), ty, path, out);
        }
        ([_, _, ..], [_, _, ..]) => {
            if old != new {
                out.modified.insert(path);
            }
        }
        ([_, _, ..], _) => {
            differ(None, new.first().copied(), ty, path, out);
            out.removed.insert(path);
        }
        (_, _) => {
            differ(old.first().copied(), None, ty, path, out);
            out.added.insert(path);
        }
    }
}

/// Takes fields and items out. What becomes empty by that becomes null, as in the real library.
pub(super) fn remove(value: &Value, set: &FieldSet, ty: Type<'_>) -> Value {
    match (ty.shape(value), value) {
        (Shape::Map, Value::Object(fields)) => {
            let mut kept = Map::new();
            for (name, value) in fields {
                let element = Element::field(name);
                if set.has(&element) {
                    continue;
                }
                let value = match (set.below(&element), ty.field(name)) {
                    (Some(below), Some((ty, _))) => remove(value, below, ty),
                    _ => value.clone(),
                };
                kept.insert(name.clone(), value);
            }
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        (Shape::List(keys), Value::Array(items)) => {
            let mut kept = Vec::with_capacity(items.len());
            for item in items {
                let Ok(element) = ty.item(keys, item) else {
                    kept.push(item.clone());
                    continue;
                };
                if set.has(&element) {
                    continue;
                }
                kept.push(match set.below(&element) {
                    Some(below) => remove(item, below, ty.items()),
                    None => item.clone(),
                });
            }
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        _ => value.clone(),
    }
}

/// Counts structure fields as members of a set when they lead to members.
pub(super) fn with_named_fields(set: &FieldSet, root: Type<'_>) -> FieldSet {
    set.with_named_fields(root, &|ty, element| match element {
        Element::Field(name) => ty.field(name).unwrap_or((Type::Untyped, false)),
        _ => (ty.items(), false),
    })
}
