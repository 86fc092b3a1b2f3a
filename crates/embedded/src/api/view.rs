//! Stored objects as a served version shows them, and back.
//!
//! Objects are stored in one version. Custom resources convert by renaming the version; the two
//! event APIs are two vocabularies for one object.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value, json};

use super::{meta, registry::Resource};

/// Field names of `v1` events and what `events.k8s.io/v1` calls them.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// A stored object in the served version.
pub(crate) fn to_served<'a>(resource: &Resource, object: &'a Arc<Value>) -> Cow<'a, Value> {
    if !needs_conversion(resource) {
        return Cow::Borrowed(object);
    }
    Cow::Owned(convert(
        resource,
        (**object).clone(),
        &resource.api_version(),
        |(old, new)| (old, new),
    ))
}

/// An object of the served version as it is stored.
pub(crate) fn to_stored(resource: &Resource, object: Value) -> Value {
    if !needs_conversion(resource) {
        return object;
    }
    let stored = match &resource.custom {
        Some(custom) => format!("{}/{}", resource.group, custom.storage_version),
        None => "v1".to_owned(),
    };
    convert(resource, object, &stored, |(old, new)| (new, old))
}

fn needs_conversion(resource: &Resource) -> bool {
    is_new_event(resource)
        || resource
            .custom
            .as_ref()
            .is_some_and(|custom| custom.storage_version != resource.version)
}

fn is_new_event(resource: &Resource) -> bool {
    resource.group == "events.k8s.io"
}

fn convert(
    resource: &Resource,
    mut object: Value,
    api_version: &str,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    meta::put(&mut object, "apiVersion", Some(json!(api_version)));
    if is_new_event(resource)
        && let Some(map) = object.as_object_mut()
    {
        for pair in EVENT_FIELDS {
            let (from, to) = direction(pair);
            if let Some(value) = map.remove(from) {
                map.insert(to.to_owned(), value);
            }
        }
    }
    object
}

/// `metav1.PartialObjectMetadata` of an object.
pub(crate) fn metadata_only(object: &Value) -> Value {
    let mut out = Map::new();
    out.insert("kind".to_owned(), json!("PartialObjectMetadata"));
    out.insert("apiVersion".to_owned(), json!("meta.k8s.io/v1"));
    out.insert("metadata".to_owned(), object["metadata"].clone());
    Value::Object(out)
}
