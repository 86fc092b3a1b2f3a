//! Custom resource definitions: checked, established, served, and taken away again.
//!
//! A definition is served the moment it is committed. On the real server a controller does that a
//! little later; here the conditions follow in a commit of their own right behind the creation, so
//! that clients see the same two steps.

pub(crate) mod jsonpath;
mod validate;

use std::{cmp::Ordering, collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

pub(crate) use validate::{validate, validate_update};

use super::{
    delete::DeleteOptions,
    evict::set_condition,
    meta,
    registry::{Custom, Resource, table_name},
    scale::ScalePaths,
    state::State,
    store,
    table::custom::PrinterColumn,
};
use crate::schema::Posted;

pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in names and conversion.
pub(crate) fn default(definition: &mut Value) {
    let Some(spec) = definition
        .as_object_mut()
        .and_then(|map| meta::child(map, "spec"))
    else {
        return;
    };
    if let Some(names) = meta::child(spec, "names") {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if !kind.is_empty() {
            let empty = |value: Option<&Value>| {
                value.and_then(Value::as_str).unwrap_or_default().is_empty()
            };
            if empty(names.get("singular")) {
                names.insert("singular".to_owned(), json!(kind.to_lowercase()));
            }
            if empty(names.get("listKind")) {
                names.insert("listKind".to_owned(), json!(format!("{kind}List")));
            }
        }
    }
    spec.entry("conversion")
        .or_insert_with(|| json!({"strategy": "None"}));
}

/// The status of a definition that nobody has looked at yet.
pub(crate) fn prepare_create(definition: &mut Value) {
    let stored: Vec<Value> = versions(definition)
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    meta::put(
        definition,
        "status",
        Some(json!({
            "acceptedNames": {"kind": "", "plural": ""},
            "conditions": null,
            "storedVersions": stored,
        })),
    );
}

/// Stored versions remember every version that objects may still be stored in.
pub(crate) fn prepare_update(definition: &mut Value) {
    let storage: Vec<Value> = versions(definition)
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    let Some(status) = definition
        .as_object_mut()
        .and_then(|map| meta::child(map, "status"))
    else {
        return;
    };
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(stored) = stored.as_array_mut() {
        for version in storage {
            if !stored.contains(&version) {
                stored.push(version);
            }
        }
    }
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
}

/// Deletion waits until the instances are gone.
pub(crate) fn mark_deleting(definition: &mut Value, now: &str) {
    let mut finalizers: Vec<String> = meta::finalizers(definition).map(str::to_owned).collect();
    if !finalizers.iter().any(|one| one == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
        meta::set_finalizers(definition, finalizers);
    }
    set_condition(
        definition,
        &json!({
            "type": "Terminating",
            "status": "True",
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }),
        now,
    );
}

/// Serves a definition that was just committed, or begins to take it away.
pub(crate) fn after_commit(state: &mut State, definition: &Value) {
    let name = meta::name(definition).to_owned();
    if meta::is_deleting(definition) {
        delete_instances(state, definition);
        finish_deletion(state, &name);
        return;
    }
    let Names { accepted, conflict } = negotiate_names(state, definition);
    if let Some((reason, message)) = conflict {
        refuse_names(state, definition, accepted, reason, &message);
        return;
    }
    state.registry.remove_custom(&name);
    for resource in resources(definition) {
        state.store.open_table(&resource.table);
        state.registry.add(resource);
    }
    establish(state, definition);
}

/// What came of the names that a definition asks for.
struct Names {
    /// Those that nobody else in the group has.
    accepted: Value,
    /// Reason and message of the last conflict.
    conflict: Option<(&'static str, String)>,
}

/// Looks which names other definitions of the group have taken.
fn negotiate_names(state: &State, definition: &Value) -> Names {
    let (spec, name) = (&definition["spec"], meta::name(definition));
    let (mut words, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for (_, other) in state.store.iter(DEFINITIONS, "") {
        let taken = &other["status"]["acceptedNames"];
        if meta::name(other) == name || other["spec"]["group"] != spec["group"] {
            continue;
        }
        let short = taken["shortNames"].as_array().into_iter().flatten();
        let names = [&taken["plural"], &taken["singular"]]
            .into_iter()
            .chain(short);
        words.extend(
            names
                .filter_map(Value::as_str)
                .filter(|word| !word.is_empty())
                .map(str::to_owned),
        );
        let both = [&taken["kind"], &taken["listKind"]].into_iter();
        kinds.extend(
            both.filter_map(Value::as_str)
                .filter(|word| !word.is_empty())
                .map(str::to_owned),
        );
    }
    let wanted = &spec["names"];
    let mut accepted = json!({"kind": "", "plural": ""});
    let mut conflict = None;
    for (field, reason, taken) in [
        ("plural", "PluralConflict", &words),
        ("singular", "SingularConflict", &words),
        ("shortNames", "ShortNamesConflict", &words),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let Some(value) = wanted.get(field).filter(|value| !value.is_null()) else {
            continue;
        };
        let each = value
            .as_array()
            .map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        match each
            .iter()
            .filter_map(Value::as_str)
            .find(|word| taken.contains(*word))
        {
            Some(word) => conflict = Some((reason, format!("{word:?} is already in use"))),
            None => accepted[field] = value.clone(),
        }
    }
    if let Some(categories) = wanted.get("categories") {
        accepted["categories"] = categories.clone();
    }
    Names { accepted, conflict }
}

fn is_established(definition: &Value) -> bool {
    definition["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Writes the conditions that say why the definition is not served.
fn refuse_names(state: &mut State, definition: &Value, names: Value, reason: &str, message: &str) {
    let now = state.clock.rfc3339();
    let mut refused = definition.clone();
    if let Some(status) = refused
        .as_object_mut()
        .and_then(|map| meta::child(map, "status"))
    {
        status.insert("acceptedNames".to_owned(), names);
    }
    let accepted =
        json!({"type": "NamesAccepted", "status": "False", "reason": reason, "message": message});
    set_condition(&mut refused, &accepted, &now);
    if !is_established(definition) {
        let established = json!({
            "type": "Established", "status": "False", "reason": "NotAccepted",
            "message": "not all names are accepted",
        });
        set_condition(&mut refused, &established, &now);
    }
    if refused != *definition
        && let Ok(resource) = state.resource(DEFINITIONS)
    {
        state.commit(&resource, store::key("", meta::name(definition)), refused);
    }
}

/// Writes the conditions that say that the definition is served.
fn establish(state: &mut State, definition: &Value) {
    let now = state.clock.rfc3339();
    let mut established = definition.clone();
    if let Some(status) = established
        .as_object_mut()
        .and_then(|map| meta::child(map, "status"))
    {
        status.insert(
            "acceptedNames".to_owned(),
            definition["spec"]["names"].clone(),
        );
    }
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ] {
        let condition =
            json!({"type": kind, "status": "True", "reason": reason, "message": message});
        set_condition(&mut established, &condition, &now);
    }
    if established != *definition
        && let Ok(resource) = state.resource(DEFINITIONS)
    {
        let key = store::key("", meta::name(definition));
        state.commit(&resource, key, established);
    }
}

fn delete_instances(state: &mut State, definition: &Value) {
    let Some(resource) = storage_resource(state, definition) else {
        return;
    };
    let instances: Vec<Arc<Value>> = state
        .store
        .iter(&resource.table, "")
        .map(|(_, object)| object.clone())
        .collect();
    for instance in instances {
        let (namespace, name) = (meta::namespace(&instance), meta::name(&instance));
        // Finalizers may hold it; the definition then waits.
        let _ = state.delete(&resource, namespace, name, &DeleteOptions::default());
    }
}

fn storage_resource(state: &State, definition: &Value) -> Option<Arc<Resource>> {
    let spec = &definition["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let plural = spec["names"]["plural"].as_str().unwrap_or_default();
    state.registry.table(&table_name(group, plural)).cloned()
}

/// An instance went: perhaps its definition was waiting for that.
pub(crate) fn after_instance_removal(state: &mut State, resource: &Resource) {
    if let Some(custom) = &resource.custom {
        finish_deletion(state, &custom.definition.clone());
    }
}

fn finish_deletion(state: &mut State, name: &str) {
    let Some(definition) = state.store.get(DEFINITIONS, name).cloned() else {
        return;
    };
    if !meta::is_deleting(&definition) {
        return;
    }
    let table = storage_resource(state, &definition).map(|resource| resource.table.clone());
    if table
        .as_ref()
        .is_some_and(|table| state.store.len(table) > 0)
    {
        return;
    }
    let Ok(definitions) = state.resource(DEFINITIONS) else {
        return;
    };
    let rest: Vec<String> = meta::finalizers(&definition)
        .filter(|one| *one != CLEANUP)
        .map(str::to_owned)
        .collect();
    if !rest.is_empty() {
        let mut waiting = (*definition).clone();
        meta::set_finalizers(&mut waiting, rest);
        state.commit(&definitions, store::key("", name), waiting);
        return;
    }
    state.commit_removal(&definitions, name);
    remove(state, name, table.as_deref());
}

/// Stops serving a definition.
fn remove(state: &mut State, name: &str, table: Option<&str>) {
    state.registry.remove_custom(name);
    if let Some(table) = table {
        state.store.drop_table(table);
    }
}

/// A definition whose last foreign finalizer went was removed by that update.
pub(crate) fn after_removal(state: &mut State, definition: &Value) {
    let table = storage_resource(state, definition).map(|resource| resource.table.clone());
    remove(state, meta::name(definition), table.as_deref());
}

/// The resources that a definition serves, one per version.
fn resources(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(text).collect()
    };
    let storage = versions(definition)
        .find(|version| version["storage"] == true)
        .map(|version| text(&version["name"]))
        .unwrap_or_default();
    let (group, plural) = (text(&spec["group"]), text(&names["plural"]));
    versions(definition)
        .filter(|version| version["served"] == true || version["storage"] == true)
        .map(|version| {
            let scale = read_scale(&version["subresources"]["scale"]);
            let mut subresources = Vec::new();
            if scale.is_some() {
                subresources.push("scale".to_owned());
            }
            Resource {
                group: group.clone(),
                version: text(&version["name"]),
                plural: plural.clone(),
                singular: text(&names["singular"]),
                kind: text(&names["kind"]),
                list_kind: text(&names["listKind"]),
                short_names: texts(&names["shortNames"]),
                categories: texts(&names["categories"]),
                namespaced: spec["scope"] == "Namespaced",
                table: table_name(&group, &plural),
                has_status: version["subresources"]["status"].is_object(),
                has_generation: true,
                subresources,
                custom: Some(Arc::new(read_custom(definition, version, &storage, scale))),
            }
        })
        .collect()
}

fn read_custom(
    definition: &Value,
    version: &Value,
    storage: &str,
    scale: Option<ScalePaths>,
) -> Custom {
    let columns: Vec<PrinterColumn> = version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(PrinterColumn::read)
        .collect();
    Custom {
        storage_version: storage.to_owned(),
        definition: meta::name(definition).to_owned(),
        served: version["served"] == true,
        posted: Posted::read(&version["schema"]["openAPIV3Schema"]),
        columns: if columns.is_empty() {
            vec![PrinterColumn::age()]
        } else {
            columns
        },
        selectable: version["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|field| field["jsonPath"].as_str())
            .map(|path| path.trim_start_matches('.').to_owned())
            .collect(),
        openapi: version["schema"]["openAPIV3Schema"].clone(),
        scale,
    }
}

fn read_scale(scale: &Value) -> Option<ScalePaths> {
    let text = |field: &str| scale[field].as_str().map(str::to_owned);
    Some(ScalePaths {
        spec_replicas: text("specReplicasPath")?,
        status_replicas: text("statusReplicasPath")?,
        label_selector: text("labelSelectorPath"),
    })
}

/// Orders versions as Kubernetes prefers them: stable before beta before alpha, new before old,
/// anything else last and by name.
pub(crate) fn version_order(a: &str, b: &str) -> Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability (2 stable, 1 beta, 0 alpha), major, minor.
fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let major = rest[..end].parse().ok()?;
    let tail = &rest[end..];
    if tail.is_empty() {
        return Some((2, major, 0));
    }
    [("beta", 1), ("alpha", 0)]
        .into_iter()
        .find_map(|(word, stability)| {
            tail.strip_prefix(word)?
                .parse()
                .ok()
                .map(|minor| (stability, major, minor))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_age() {
        let mut versions = vec![
            "foo1",
            "v1alpha2",
            "v1",
            "v2beta1",
            "v10",
            "v11alpha1",
            "v1beta2",
            "v2",
        ];
        versions.sort_by(|a, b| version_order(a, b));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v2beta1",
                "v1beta2",
                "v11alpha1",
                "v1alpha2",
                "foo1"
            ]
        );
    }
}
