//! Kubernetes YAML as a problem: what a cluster with these objects would need, without a cluster.
//!
//! Workloads stand for the pods that they would make; nodes are empty unless a pod names one; pools buy from the
//! catalogue of their node class, which is a file.

mod catalog;
mod nodes;
mod objects;
mod pods;
mod pools;
mod volumes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use joiner_core::name::{Labels, Name};
use joiner_core::problem::{DaemonSet, PodDisruptionBudget, Problem};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::objects::{DisruptionBudget, Meta, Workload};
use self::volumes::Storage;
use crate::failure::Failure;
use crate::input;

/// An object and the file that it stands in.
struct Object {
    path: PathBuf,
    kind: String,
    meta: Meta,
    value: Value,
}

impl Object {
    /// The object as one of the forms that matter here.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        T::deserialize(&self.value).map_err(|error| self.fault(&error.to_string()))
    }

    /// A part of it as one of Kubernetes' own forms; what is not there is as empty.
    fn read_as<T: DeserializeOwned + Default>(&self, part: &Value) -> Result<T, Failure> {
        if part.is_null() {
            return Ok(T::default());
        }
        T::deserialize(part).map_err(|error| self.fault(&error.to_string()))
    }

    fn fault(&self, what: &str) -> Failure {
        Failure::Manifest(format!(
            "{}: {} {}: {what}",
            self.path.display(),
            self.kind,
            self.meta.name
        ))
    }
}

/// Reads manifests: files, and every one of a directory, subdirectories included. Also says what was passed over.
pub(crate) fn problem(
    paths: &[PathBuf],
    default_catalog: Option<&Path>,
) -> Result<(Problem, Vec<String>), Failure> {
    let mut objects = Vec::new();
    for path in paths {
        for file in files(path)? {
            objects.extend(documents(&file)?);
        }
    }
    let named: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let named = named.join(", ");
    let mut problem = Problem {
        name: named.clone(),
        namespaces: namespaces(&objects),
        ..Problem::default()
    };
    let mut notes = Vec::new();
    let storage = Storage::collect(&objects)?;
    nodes::add(&objects, &mut problem)?;
    for object in &objects {
        add(object, &storage, &mut problem)?;
        notes.extend(missing_claims(object, &storage)?);
    }
    notes.extend(passed_over(&objects));
    let without_catalog = pools::add(&objects, default_catalog, &mut problem)?;
    if problem.pools.is_empty() {
        return Err(without_catalog.into_iter().next().unwrap_or_else(|| {
            let said = [
                "there is no NodePool, so nothing can be bought; add one (karpenter.sh/v1)"
                    .to_owned(),
            ];
            let said = said.into_iter().chain(notes.iter().cloned());
            Failure::Manifest(format!("{named}: {}", said.collect::<Vec<_>>().join("; ")))
        }));
    }
    notes.extend(
        without_catalog
            .iter()
            .map(|one| format!("passed over: {one}")),
    );
    Ok((problem, notes))
}

/// The waiting pods and the pools of one file, for a cluster that is there already.
pub(crate) fn parts(path: &Path) -> Result<Problem, Failure> {
    let objects = documents(path)?;
    let mut problem = Problem::default();
    let storage = Storage::collect(&objects)?;
    for object in &objects {
        add(object, &storage, &mut problem)?;
        if object.kind == "NodePool" {
            problem.pools.push(pools::of_cluster(object)?);
        }
    }
    Ok(problem)
}

/// Kinds that a plan reads, and kinds that say nothing about where pods can be.
const UNDERSTOOD: [&str; 20] = [
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "Job",
    "DaemonSet",
    "Pod",
    "PodDisruptionBudget",
    "Namespace",
    "Node",
    "CSINode",
    "NodePool",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "ConfigMap",
    "Secret",
    "Service",
    "ServiceAccount",
    "Ingress",
    "CustomResourceDefinition",
];

/// Names objects that a plan takes no account of, by kind.
fn passed_over(objects: &[Object]) -> Vec<String> {
    let mut by_kind: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for object in objects {
        let class = object.kind.ends_with("NodeClass");
        if !class && !UNDERSTOOD.contains(&object.kind.as_str()) {
            by_kind
                .entry(&object.kind)
                .or_default()
                .push(&object.meta.name);
        }
    }
    by_kind
        .into_iter()
        .map(|(kind, names)| format!("passed over: {kind} {}", names.join(", ")))
        .collect()
}

/// Names claims that pods mount and that no manifest has.
fn missing_claims(object: &Object, storage: &Storage) -> Result<Vec<String>, Failure> {
    let template = match object.kind.as_str() {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "Job" | "DaemonSet" => {
            pods::template(object, &object.read::<Workload>()?.spec.template)?
        }
        "Pod" => pods::template(object, &object.value)?,
        _ => return Ok(Vec::new()),
    };
    let namespace = object.meta.namespace();
    let mounted = template
        .spec
        .into_iter()
        .filter_map(|spec| spec.volumes)
        .flatten();
    let claims = mounted.filter_map(|volume| Some(volume.persistent_volume_claim?.claim_name));
    let missing = claims.filter(|claim| storage.volume(&namespace, claim, None).is_none());
    let note = |claim: String| {
        format!(
            "{} {}/{}: PersistentVolumeClaim {claim} is not among the manifests; its pods are planned as if it could be \
             in any zone, and would wait for it in a cluster",
            object.kind, namespace, object.meta.name
        )
    };
    Ok(missing.map(note).collect())
}

/// Manifests in order of their names, so that the same directory makes the same problem everywhere; or the one file.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if folder.is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let failed = |source| Failure::Read {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn documents(path: &Path) -> Result<Vec<Object>, Failure> {
    let text = input::text(path)?;
    // Only true and false are booleans: `n` is a fine name for a node.
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options)
        .map_err(|error| Failure::Manifest(format!("{}: {error}", path.display())))?;
    let mut objects = Vec::new();
    for value in documents {
        flatten(path, value, &mut objects)?;
    }
    Ok(objects)
}

/// Lists are as good as their items.
fn flatten(path: &Path, value: Value, objects: &mut Vec<Object>) -> Result<(), Failure> {
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    // A file for kustomize names objects and is none.
    if value.is_null() || kind == "Kustomization" {
        return Ok(());
    }
    if kind.is_empty() {
        return Err(Failure::Manifest(format!(
            "{}: a document has no kind; every Kubernetes object names one",
            path.display()
        )));
    }
    if let (true, Some(items)) = (kind.ends_with("List"), value["items"].as_array()) {
        for item in items {
            flatten(path, item.clone(), objects)?;
        }
        return Ok(());
    }
    let meta = serde_json::from_value(value["metadata"].clone())
        .map_err(|error| Failure::Manifest(format!("{}: {kind}: {error}", path.display())))?;
    objects.push(Object {
        path: path.to_owned(),
        kind,
        meta,
        value,
    });
    Ok(())
}

fn namespaces(objects: &[Object]) -> BTreeMap<Name, Labels> {
    let found = objects.iter().filter(|object| object.kind == "Namespace");
    found
        .map(|object| (object.meta.name.clone(), object.meta.labels.clone()))
        .collect()
}

/// Adds the pods that an object stands for.
fn add(object: &Object, storage: &Storage, problem: &mut Problem) -> Result<(), Failure> {
    match object.kind.as_str() {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "Job" => {
            let workload: Workload = object.read()?;
            problem
                .pods
                .extend(pods::of_workload(object, &workload, storage)?);
        }
        "DaemonSet" => {
            let workload: Workload = object.read()?;
            let template = pods::template(object, &workload.spec.template)?;
            let mut spec = pods::spec(object, &template, storage);
            // One on each node: nothing is left to be spread.
            spec.spread.clear();
            problem.daemon_sets.push(DaemonSet {
                name: object.meta.name.clone(),
                spec: spec.into(),
            });
        }
        "Pod" => {
            pods::place(object, storage, problem)?;
        }
        "PodDisruptionBudget" => {
            let budget: DisruptionBudget = object.read()?;
            problem.pod_disruption_budgets.push(PodDisruptionBudget {
                namespace: object.meta.namespace(),
                name: object.meta.name.clone(),
                selector: budget.spec.selector,
                disruptions_allowed: budget.status.disruptions_allowed,
                ..PodDisruptionBudget::default()
            });
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
