//! What all families do with their objects at the API server.

use std::collections::BTreeSet;
use std::fmt::Debug;

use joiner_core::name::Name;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::edge::clients::WriteError;
use crate::lifecycle::reconcile::exactly;
use crate::record::{MachineRecord, MetadataChange};

/// Lays a change over an object.
pub(super) async fn merge<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    name: &Name,
    patch: Value,
) -> Result<K, WriteError> {
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
    Ok(api.patch(name, &parameters, &patch).await?)
}

/// Lays a change over the status of an object.
pub(super) async fn merge_status<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    name: &Name,
    patch: Value,
) -> Result<K, WriteError> {
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
    Ok(api.patch_status(name, &parameters, &patch).await?)
}

/// Asks for the object of a machine to be deleted: this very one, not another of its name.
pub(super) async fn delete<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    machine: &MachineRecord,
) -> Result<(), WriteError> {
    api.delete(&machine.key.name, &exactly(&machine.uid.0))
        .await?;
    Ok(())
}

/// UIDs of all objects of a kind. The list names no version, so the API server answers with the latest.
pub(super) async fn uids<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
) -> Result<BTreeSet<Name>, WriteError> {
    let list = api.list_metadata(&ListParams::default()).await?;
    let uids = list.items.into_iter().filter_map(|one| one.metadata.uid);
    Ok(uids.map(Into::into).collect())
}

/// All finalizers of a machine's object after a change, if the change is about ours: others' are in the object, not in
/// the record.
pub(super) async fn finalizers<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    machine: &MachineRecord,
    change: &MetadataChange,
    own: &str,
) -> Result<Option<Vec<String>>, WriteError> {
    let Some(wanted) = change.finalizer else {
        return Ok(None);
    };
    let current = api.get_metadata(&machine.key.name).await?;
    if current.metadata.uid.as_deref() != Some(&*machine.uid.0) {
        return Err(WriteError::Gone("another object has its name".into()));
    }
    let mut all = current.metadata.finalizers.unwrap_or_default();
    all.retain(|one| one != own);
    if wanted {
        all.push(own.to_owned());
    }
    Ok(Some(all))
}
