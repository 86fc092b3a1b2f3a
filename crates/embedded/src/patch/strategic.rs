//! Strategic merge patch: a merge patch that knows which lists are keyed.
//!
//! Mirrors `apimachinery/pkg/util/strategicpatch`, with merge keys and strategies from the `OpenAPI` extensions
//! `x-kubernetes-patch-merge-key` and `x-kubernetes-patch-strategy`.

use serde_json::{Map, Value};

use super::merge::drop_nulls;
use super::order::{Identity, normalize};
use super::{PatchError, go_print, go_type};
use crate::schema::{Schema, SchemaRef};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Fields = Map<String, Value>;

/// Applies a strategic merge patch to an object of a built-in kind.
pub fn strategic(object: &Value, patch: &Value, schema: &Schema) -> Result<Value, PatchError> {
    let Value::Object(changes) = patch else {
        return Err(PatchError::BadRequest(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            super::json_type(patch)
        )));
    };
    let fields = object.as_object().cloned().unwrap_or_default();
    let merged = merge_map(fields, changes.clone(), Some(schema.root()))?;
    Ok(Value::Object(merged))
}

/// How the place of a field wants to be merged.
struct Meta<'a> {
    schema: Option<SchemaRef<'a>>,
    strategy: &'a str,
    merge_key: Option<&'a str>,
}

impl<'a> Meta<'a> {
    fn of(parent: Option<SchemaRef<'a>>, name: &str) -> Result<Self, PatchError> {
        let schema = parent.and_then(|parent| parent.field(name));
        if let (Some(parent), None) = (parent, schema)
            && parent.has_properties()
        {
            let owner = parent.definition().and_then(|name| name.rsplit('.').next());
            return Err(PatchError::Internal(format!(
                "unable to find api field in struct {} for the json field \"{name}\"",
                owner.unwrap_or_default()
            )));
        }
        let strategies = schema.map(SchemaRef::patch_strategies).unwrap_or_default();
        let strategy = strategies
            .iter()
            .map(String::as_str)
            .find(|strategy| *strategy != "retainKeys");
        Ok(Self {
            schema,
            strategy: strategy.unwrap_or_default(),
            merge_key: schema.and_then(SchemaRef::merge_key),
        })
    }

    fn items(&self) -> Option<SchemaRef<'a>> {
        self.schema.and_then(SchemaRef::items)
    }
}

fn merge_map(
    mut original: Fields,
    mut patch: Fields,
    schema: Option<SchemaRef<'_>>,
) -> Result<Fields, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Fields::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_element_orders(&mut original, &mut patch, schema)?;
    for (name, change) in patch {
        let (name, deletes) = match name.strip_prefix(DELETE_FROM) {
            Some(rest) => {
                let name = rest.strip_prefix('/').ok_or_else(bad_primitive_list)?;
                (name.to_owned(), true)
            }
            None => (name, false),
        };
        merge_field(&mut original, name, change, deletes, schema)?;
    }
    Ok(original)
}

fn merge_field(
    original: &mut Fields,
    name: String,
    change: Value,
    deletes: bool,
    schema: Option<SchemaRef<'_>>,
) -> Result<(), PatchError> {
    if change.is_null() {
        original.remove(&name);
        return Ok(());
    }
    let same_type = original
        .get(&name)
        .is_some_and(|current| go_type(current) == go_type(&change));
    if !same_type {
        if !deletes {
            let mut value = change;
            drop_nulls(&mut value);
            set(original, name, value);
        }
        return Ok(());
    }
    match (original.get_mut(&name), change) {
        (Some(Value::Object(current)), Value::Object(change)) => {
            let meta = Meta::of(schema, &name)?;
            *current = if meta.strategy == "replace" {
                change
            } else {
                merge_map(std::mem::take(current), change, meta.schema)?
            };
        }
        (Some(Value::Array(current)), Value::Array(change)) => {
            let meta = Meta::of(schema, &name)?;
            *current = merge_list(std::mem::take(current), change, &meta, deletes)?;
        }
        (_, change) => set(original, name, change),
    }
    Ok(())
}

/// Takes a value over as it is, without the directives in it; an object that is itself a directive is nothing.
fn set(fields: &mut Fields, name: String, mut value: Value) {
    if strip_directives(&mut value) {
        fields.insert(name, value);
    } else {
        fields.remove(&name);
    }
}

fn strip_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => {
            if fields.contains_key(DIRECTIVE) {
                return false;
            }
            fields.retain(|name, value| {
                // These would fall away when the real server decodes the result into its Go type.
                let directive = name == RETAIN_KEYS
                    || name.starts_with(DELETE_FROM)
                    || name.starts_with(SET_ORDER);
                !directive && strip_directives(value)
            });
        }
        Value::Array(items) => items.retain_mut(strip_directives),
        _ => {}
    }
    true
}

/// `$retainKeys`: what is not listed goes.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let keys = directive.as_array().ok_or_else(bad)?;
    let listed = |name: &String| keys.iter().any(|key| key.as_str() == Some(name));
    for (name, change) in &*patch {
        let directive = name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
        if !change.is_null() && !directive && !listed(name) {
            return Err(bad());
        }
    }
    original.retain(|name, _| listed(name));
    Ok(())
}

/// `$setElementOrder/list`: merges the list at once and then puts it into that order.
fn set_element_orders(
    original: &mut Fields,
    patch: &mut Fields,
    schema: Option<SchemaRef<'_>>,
) -> Result<(), PatchError> {
    let orders: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in orders {
        let Some(order) = patch.remove(&directive) else {
            continue;
        };
        let order = expect_list(&order)?.clone();
        let name = directive
            .strip_prefix(SET_ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(bad_order_list)?;
        let current = original.get(name).map(expect_list).transpose()?.cloned();
        let change = patch.get(name).map(expect_list).transpose()?.cloned();
        let meta = Meta::of(schema, name)?;
        check_order(change.as_deref().unwrap_or_default(), &order, &meta)?;

        let merged = match (&current, &change) {
            (None, None) => continue,
            (Some(current), None) => current.clone(),
            (None, Some(change)) => {
                let mut change = change.clone();
                change.retain_mut(strip_directives);
                change
            }
            (Some(current), Some(change)) => {
                merge_list(current.clone(), change.clone(), &meta, false)?
            }
        };
        let before = current.unwrap_or_default();
        let after = change.unwrap_or_default();
        element_type(&before, &after)?;
        if let Some(key) = meta.merge_key {
            require_key(&merged, key)?;
        }
        let ordered = normalize(merged, &order, &before, Identity(meta.merge_key));
        original.insert(name.to_owned(), Value::Array(ordered));
        patch.remove(name);
    }
    Ok(())
}

/// The items of a patch must stand in the order that it asks for.
fn check_order(change: &[Value], order: &[Value], meta: &Meta<'_>) -> Result<(), PatchError> {
    if change.is_empty() || order.is_empty() {
        return Ok(());
    }
    let identity = Identity(meta.merge_key);
    let mut rest = order.iter();
    for item in change.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if let Some(key) = meta.merge_key {
            require_key(std::slice::from_ref(item), key)?;
        }
        if !rest.any(|wanted| identity.of(wanted) == identity.of(item)) {
            return Err(PatchError::Internal(format!(
                "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                go_print(&Value::from(change.to_vec())),
                go_print(&Value::from(order.to_vec())),
            )));
        }
    }
    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    meta: &Meta<'_>,
    deletes: bool,
) -> Result<Vec<Value>, PatchError> {
    if meta.strategy != "merge" && !deletes {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if element_type(&original, &patch)? != "map[string]interface {}" {
        if deletes {
            let gone = |item: &Value| patch.contains(item);
            return Ok(original.into_iter().filter(|item| !gone(item)).collect());
        }
        let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
        for item in original.iter().chain(&patch) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return Ok(normalize(merged, &patch, &original, Identity(None)));
    }
    let Some(key) = meta.merge_key else {
        let owner = meta.items().and_then(SchemaRef::definition);
        let owner = owner.and_then(|name| name.rsplit('.').next());
        return Err(PatchError::Internal(format!(
            "cannot merge lists without merge key for {}",
            owner.unwrap_or_default()
        )));
    };
    merge_keyed(original, patch, key, meta.items())
}

fn merge_keyed(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    schema: Option<SchemaRef<'_>>,
) -> Result<Vec<Value>, PatchError> {
    let mut changes = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            changes.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let gone = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                original.retain(|other| other.get(key) != Some(gone));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::Internal(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            _ => {
                let item = item.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(
                    item.get(DIRECTIVE).unwrap_or(&Value::Null),
                    &item,
                ));
            }
        }
    }
    if replace {
        return Ok(changes);
    }
    let mut merged = original.clone();
    for change in &changes {
        let identity = change.get(key).ok_or_else(|| no_merge_key(change, key))?;
        let found = merged
            .iter_mut()
            .find(|item| item.get(key) == Some(identity));
        if let (Some(Value::Object(current)), Value::Object(change)) = (found, change) {
            *current = merge_map(std::mem::take(current), change.clone(), schema)?;
            continue;
        }
        let mut added = change.clone();
        drop_nulls(&mut added);
        if strip_directives(&mut added) {
            merged.push(added);
        }
    }
    require_key(&merged, key)?;
    Ok(normalize(merged, &changes, &original, Identity(Some(key))))
}

fn require_key(items: &[Value], key: &str) -> Result<(), PatchError> {
    match items.iter().find(|item| item.get(key).is_none()) {
        Some(item) => Err(no_merge_key(item, key)),
        None => Ok(()),
    }
}

/// The type that all items share.
fn element_type(original: &[Value], patch: &[Value]) -> Result<&'static str, PatchError> {
    let mut items = original.iter().chain(patch).map(go_type);
    let Some(first) = items.next() else {
        return Err(PatchError::Internal(
            "no elements in any of the given slices".to_owned(),
        ));
    };
    if first == "[]interface {}" {
        return Err(PatchError::Unprocessable(
            "lists of lists are not supported".to_owned(),
        ));
    }
    if items.any(|item| item != first) {
        let lists = Value::from(vec![
            Value::from(original.to_vec()),
            Value::from(patch.to_vec()),
        ]);
        return Err(PatchError::Internal(format!(
            "list element types are not identical: {}",
            go_print(&lists)
        )));
    }
    Ok(first)
}

fn expect_list(value: &Value) -> Result<&Vec<Value>, PatchError> {
    value.as_array().ok_or_else(|| {
        PatchError::Internal(format!(
            "expected a []interface {{}}, but received a {}",
            go_type(value)
        ))
    })
}

fn unknown_directive(directive: &Value, patch: &Fields) -> PatchError {
    PatchError::Internal(format!(
        "unknown patch type: {} in map: {}",
        go_print(directive),
        go_print(&Value::Object(patch.clone()))
    ))
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    PatchError::Internal(format!(
        "map: {} does not contain declared merge key: {key}",
        go_print(item)
    ))
}

fn bad_primitive_list() -> PatchError {
    PatchError::BadRequest("invalid patch format of primitive list".to_owned())
}

fn bad_order_list() -> PatchError {
    PatchError::BadRequest("invalid patch format of setElementOrder list".to_owned())
}

#[cfg(test)]
mod tests;
