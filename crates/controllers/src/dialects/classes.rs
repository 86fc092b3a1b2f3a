//! Node classes of any kind, as objects that only their provider understands.

use std::sync::Arc;

use futures::StreamExt as _;
use joiner_api::condition::Condition as ApiCondition;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::{ResourceExt as _, core::GroupVersionKind};

use super::convert::lower_conditions;
use crate::dialect::{ClassKind, Malformed, Sighting, Watch};
use crate::edge::clients::Clients;
use crate::record::{ClassKey, ClassRecord, kinds};
use crate::view::version;
use crate::view::watch::{Need, events};

/// Watches the classes of one kind, in all namespaces.
pub(super) fn watch_class(dialect: &str, clients: &Clients, kind: &ClassKind) -> Watch {
    let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
    let api: Api<DynamicObject> = Api::all_with(clients.reads.clone(), &resource);
    let (group, name) = (kind.group, kind.kind);
    let stream = events(
        api,
        kind.kind,
        Need::Optional,
        move |object: DynamicObject| Ok::<_, Malformed>(lower_class(&object, group, name)),
    );
    Watch {
        source: format!("{dialect}/{}.{}", kind.plural, kind.group),
        stream: stream.map(Sighting::Class).boxed(),
    }
}

/// A node class as the engine keeps it: only its provider understands its settings.
fn lower_class(object: &DynamicObject, group: &str, kind: &str) -> ClassRecord {
    let conditions: Vec<ApiCondition> = object
        .data
        .pointer("/status/conditions")
        .and_then(|value| serde_json::from_value(value.clone()).ok())
        .unwrap_or_default();
    let spec = object.data.get("spec").cloned().unwrap_or_default();
    ClassRecord {
        key: ClassKey {
            group: group.into(),
            kind: kind.into(),
            namespace: object.namespace().unwrap_or_default().into(),
            name: object.name_any().into(),
        },
        uid: object.uid().unwrap_or_default().into(),
        version: version(object.resource_version().as_deref()),
        generation: object.metadata.generation.unwrap_or(0),
        deleting: object.metadata.deletion_timestamp.is_some(),
        finalizers: object
            .finalizers()
            .iter()
            .map(|one| one.as_str().into())
            .collect(),
        ready: lower_conditions(&conditions).get(kinds::READY).cloned(),
        spec: Arc::new(spec),
    }
}
