//! Merges an applied configuration into a live object.
//!
//! Mirrors `structured-merge-diff/typed/merge.go`; the order of keyed lists follows the configuration where it says
//! something, and the live object elsewhere.

use serde_json::{Map, Value};

use super::element::Element;
use super::typed::{Shape, Type};

/// The live value with the configuration's laid over it.
pub(super) fn merge(live: Option<&Value>, config: Option<&Value>, ty: Type<'_>) -> Option<Value> {
    let (live, config) = match (live, config) {
        (Some(live), Some(config)) => (live, config),
        (one, other) => return one.or(other).cloned(),
    };
    // Null says nothing about what is in a live object or list.
    if config.is_null() && matches!(ty.shape(live), Shape::Map | Shape::List(_)) {
        return Some(live.clone());
    }
    match (ty.shape(config), live, config) {
        (Shape::Map, Value::Object(old), Value::Object(new)) => {
            if old.is_empty() && new.is_empty() {
                return Some(config.clone());
            }
            let mut out = Map::new();
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                let below = ty.field(name).map_or(Type::Untyped, |(below, _)| below);
                if let Some(value) = merge(old.get(name), new.get(name), below) {
                    out.insert(name.clone(), value);
                }
            }
            Some(Value::Object(out))
        }
        (Shape::List(keys), Value::Array(old), Value::Array(new)) => {
            if old.is_empty() && new.is_empty() {
                return Some(config.clone());
            }
            Some(Value::Array(merge_lists(old, new, keys, ty)))
        }
        _ => Some(config.clone()),
    }
}

fn elements<'v>(items: &'v [Value], keys: &[String], ty: Type<'_>) -> Vec<(Element, &'v Value)> {
    items
        .iter()
        .filter_map(|item| Some((ty.item(keys, item).ok()?, item)))
        .collect()
}

fn merge_lists(old: &[Value], new: &[Value], keys: &[String], ty: Type<'_>) -> Vec<Value> {
    let old = elements(old, keys, ty);
    let new = elements(new, keys, ty);
    let find = |list: &[(Element, &Value)], wanted: &Element| {
        list.iter().position(|(element, _)| element == wanted)
    };
    // Items that appear twice in the live list are not merged with, but replaced.
    let unique = |wanted: &Element| {
        let mut same = old.iter().filter(|(element, _)| element == wanted);
        match (same.next(), same.next()) {
            (Some((_, item)), None) => Some(*item),
            _ => None,
        }
    };
    let merged = |index: usize| -> Option<(Element, Value)> {
        let (element, item) = new.get(index)?;
        let value = merge(unique(element), Some(item), ty.items())?;
        Some((element.clone(), value))
    };
    let mut shared = new
        .iter()
        .map(|(element, _)| element)
        .filter(|element| find(&old, element).is_some());
    let mut next_shared = shared.next();
    let mut done: Vec<Element> = Vec::new();
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let (mut left, mut right) = (0, 0);
    while left < old.len() || right < new.len() {
        if let (Some((element, _)), Some((other, _))) = (old.get(left), new.get(right)) {
            if element == other {
                if let Some((element, value)) = merged(right) {
                    done.push(element);
                    out.push(value);
                }
                left += 1;
                right += 1;
                next_shared = shared.next();
                continue;
            }
            if find(&new, element).is_some() && next_shared.is_some_and(|next| next != element) {
                // Shared, but another one has its turn.
                left += 1;
                continue;
            }
        }
        if let Some((element, item)) = old.get(left) {
            if find(&new, element).is_none() {
                out.push((*item).clone());
                left += 1;
                continue;
            } else if done.contains(element) {
                left += 1;
            }
        }
        if let Some((element, _)) = new.get(right) {
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
            if let Some((element, value)) = merged(right) {
                done.push(element);
                out.push(value);
            }
            right += 1;
        }
    }
    out
}
