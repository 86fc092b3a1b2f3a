//! Volumes: bind claims to volumes, make volumes for claims, and let go of those nobody uses.
//!
//! kubernetes: `pkg/controller/volume/{persistentvolume,ephemeral,pvcprotection}`, with the provisioner that a storage
//! driver would bring.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Action, Controller, Event, Moment, Plan, World, pods};
use crate::cluster::Key;
use crate::cluster::fields::{Fields as _, controller_ref, remove_finalizer, set};
use crate::cluster::quantity;
use crate::cluster::scheduler::claim_names;
use crate::cluster::scheduler::volumes::{
    NO_PROVISIONER, SELECTED_NODE, is_bound, volume_suits, waits_for_consumer,
};

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const ZONE: &str = "topology.kubernetes.io/zone";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// The controller. Keys with a namespace are claims, those without are volumes.
#[derive(Debug)]
pub(crate) struct Volumes;

impl Controller for Volumes {
    fn name(&self) -> &'static str {
        "volumes"
    }

    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>) {
        let Some(object) = event.object() else { return };
        match event.resource {
            CLAIMS => {
                keys.push(Key::of(object));
                let volume = object.text(&["spec", "volumeName"]);
                if event.new.is_none() && !volume.is_empty() {
                    keys.push(Key::new("", volume));
                }
            }
            VOLUMES => {
                keys.push(Key::of(object));
                let unbound = world.list(CLAIMS).filter(|claim| !is_bound(claim));
                keys.extend(unbound.map(|claim| Key::of(claim)));
            }
            "storageclasses.storage.k8s.io" => {
                let unbound = world.list(CLAIMS).filter(|claim| !is_bound(claim));
                keys.extend(unbound.map(|claim| Key::of(claim)));
            }
            "pods" => {
                // A new pod may need an ephemeral claim; one that has gone or ended may have been the last user of one.
                let ended = |pod: &Arc<Value>| pods::finished(pod);
                let news = event.old.is_none() || event.new.is_none_or(ended);
                if news {
                    let claims = claim_names(object);
                    keys.extend(claims.iter().map(|name| Key::new(object.namespace(), name)));
                }
            }
            _ => {}
        }
    }

    fn plan(&mut self, key: &Key, world: &World, _: Moment) -> Plan {
        if key.namespace.is_empty() {
            return world
                .get(VOLUMES, key)
                .map(|volume| keep_volume(volume, world))
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .into();
        }
        match world.get(CLAIMS, key) {
            Some(claim) if claim.deleting() => release_claim(claim, world).into(),
            Some(claim) => keep_claim(claim, world).into(),
            None => make_ephemeral_claim(key, world).into(),
        }
    }
}

/// Binds a claim to a volume that is kept for it or suits it, or has one made.
fn keep_claim(claim: &Arc<Value>, world: &World) -> Vec<Action> {
    let named = claim.text(&["spec", "volumeName"]);
    if is_bound(claim) {
        let lost = world.get(VOLUMES, &Key::new("", named)).is_none();
        if lost && claim.text(&["status", "phase"]) != "Lost" {
            let mut object = Value::clone(claim);
            set(&mut object, &["status", "phase"], "Lost");
            return vec![Action::UpdateStatus {
                resource: CLAIMS,
                object,
            }];
        }
        return Vec::new();
    }
    if !named.is_empty() {
        let volume = world.get(VOLUMES, &Key::new("", named));
        return match volume {
            Some(volume) if volume_suits(volume, claim) => bind(claim, volume),
            _ => pending(claim),
        };
    }
    let kept = |volume: &&Arc<Value>| {
        volume.at(&["spec", "claimRef"]).is_object() && volume_suits(volume, claim)
    };
    if let Some(volume) = world.list(VOLUMES).find(kept) {
        return bind(claim, volume);
    }
    let class_key = Key::new("", claim.text(&["spec", "storageClassName"]));
    let class = world.get("storageclasses.storage.k8s.io", &class_key);
    let waits = class.is_some_and(|class| waits_for_consumer(class));
    let selected = claim.annotation(SELECTED_NODE);
    if waits && selected.is_none() {
        return pending(claim);
    }
    let smallest = world
        .list(VOLUMES)
        .filter(|volume| !waits && volume_suits(volume, claim))
        .min_by_key(|volume| {
            (
                quantity::units(volume.at(&["spec", "capacity", "storage"])),
                volume.name().to_owned(),
            )
        });
    if let Some(volume) = smallest {
        return bind(claim, volume);
    }
    match class {
        Some(class) if !matches!(class.text(&["provisioner"]), NO_PROVISIONER | "") => {
            let node = selected.and_then(|name| world.get("nodes", &Key::new("", name)));
            provision(claim, class, node)
        }
        _ => pending(claim),
    }
}

fn pending(claim: &Arc<Value>) -> Vec<Action> {
    if claim.text(&["status", "phase"]) == "Pending" {
        return Vec::new();
    }
    let mut object = Value::clone(claim);
    set(&mut object, &["status", "phase"], "Pending");
    vec![Action::UpdateStatus {
        resource: CLAIMS,
        object,
    }]
}

fn claim_reference(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace(), "name": claim.name(), "uid": claim.uid(),
    })
}

/// Writes on both sides that they belong together.
fn bind(claim: &Arc<Value>, volume: &Arc<Value>) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut held = Value::clone(volume);
    if volume.text(&["spec", "claimRef", "uid"]) != claim.uid() {
        set(&mut held, &["spec", "claimRef"], claim_reference(claim));
        set(
            &mut held,
            &["metadata", "annotations", BOUND_BY_CONTROLLER],
            "yes",
        );
        actions.push(Action::Update {
            resource: VOLUMES.to_owned(),
            object: held.clone(),
        });
    }
    set(&mut held, &["status", "phase"], "Bound");
    actions.push(Action::UpdateStatus {
        resource: VOLUMES,
        object: held,
    });
    let mut bound = Value::clone(claim);
    set(&mut bound, &["spec", "volumeName"], volume.name());
    set(
        &mut bound,
        &["metadata", "annotations", BIND_COMPLETED],
        "yes",
    );
    set(
        &mut bound,
        &["metadata", "annotations", BOUND_BY_CONTROLLER],
        "yes",
    );
    actions.push(Action::Update {
        resource: CLAIMS.to_owned(),
        object: bound.clone(),
    });
    set(
        &mut bound,
        &["status"],
        json!({
            "phase": "Bound", "accessModes": volume.at(&["spec", "accessModes"]),
            "capacity": volume.at(&["spec", "capacity"]),
        }),
    );
    actions.push(Action::UpdateStatus {
        resource: CLAIMS,
        object: bound,
    });
    actions
}

/// Makes a volume for a claim, reachable from the node that was chosen for its pod.
fn provision(claim: &Arc<Value>, class: &Value, node: Option<&Arc<Value>>) -> Vec<Action> {
    let name = format!("pvc-{}", claim.uid());
    let driver = class.text(&["provisioner"]);
    let policy = match class.text(&["reclaimPolicy"]) {
        "" => "Delete",
        policy => policy,
    };
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": name, "annotations": {"pv.kubernetes.io/provisioned-by": driver},
        },
        "spec": {
            "capacity": {"storage": claim.at(&["spec", "resources", "requests", "storage"])},
            "accessModes": claim.at(&["spec", "accessModes"]),
            "persistentVolumeReclaimPolicy": policy, "storageClassName": class.name(),
            "volumeMode": match claim.text(&["spec", "volumeMode"]) {
                "" => "Filesystem",
                mode => mode,
            },
            "claimRef": claim_reference(claim),
            "csi": {"driver": driver, "volumeHandle": name},
        },
        "status": {"phase": "Pending"},
    });
    // A block device can be reached from its zone only; without zones it is taken to be reachable from everywhere.
    if let Some(zone) = node.and_then(|node| node.label(ZONE)) {
        set(
            &mut volume,
            &["spec", "nodeAffinity"],
            json!({"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]},
            ]}}),
        );
    }
    let message = format!("Successfully provisioned volume {name}");
    vec![
        Action::Create {
            resource: VOLUMES,
            namespace: String::new(),
            object: volume,
        },
        Action::note(claim, "ProvisioningSucceeded", message),
    ]
}

/// A claim that is being deleted goes when no pod uses it.
fn release_claim(claim: &Arc<Value>, world: &World) -> Vec<Action> {
    const PROTECTION: &str = "kubernetes.io/pvc-protection";
    let in_use = world.in_namespace("pods", claim.namespace()).any(|pod| {
        !pods::finished(pod) && claim_names(pod).iter().any(|name| name == claim.name())
    });
    if in_use || !claim.has_finalizer(PROTECTION) {
        return Vec::new();
    }
    let mut object = Value::clone(claim);
    remove_finalizer(&mut object, PROTECTION);
    vec![Action::Update {
        resource: CLAIMS.to_owned(),
        object,
    }]
}

/// Keeps a volume's phase, and takes it away with its claim where its policy says so.
fn keep_volume(volume: &Arc<Value>, world: &World) -> Vec<Action> {
    const PROTECTION: &str = "kubernetes.io/pv-protection";
    let reference = volume.at(&["spec", "claimRef"]);
    let key = Key::new(reference.text(&["namespace"]), reference.text(&["name"]));
    let claim = world.get(CLAIMS, &key).filter(|claim| {
        reference.text(&["uid"]).is_empty() || claim.uid() == reference.text(&["uid"])
    });
    if volume.deleting() {
        if claim.is_some() || !volume.has_finalizer(PROTECTION) {
            return Vec::new();
        }
        let mut object = Value::clone(volume);
        remove_finalizer(&mut object, PROTECTION);
        return vec![Action::Update {
            resource: VOLUMES.to_owned(),
            object,
        }];
    }
    let phase = match (
        reference.is_object() && !reference.text(&["uid"]).is_empty(),
        claim,
    ) {
        (false, _) => "Available",
        (true, Some(claim)) if is_bound(claim) => "Bound",
        (true, Some(_)) => return Vec::new(),
        (true, None) => {
            let made = volume
                .annotation("pv.kubernetes.io/provisioned-by")
                .is_some();
            if made && volume.text(&["spec", "persistentVolumeReclaimPolicy"]) == "Delete" {
                return vec![Action::delete(VOLUMES, volume)];
            }
            "Released"
        }
    };
    if volume.text(&["status", "phase"]) == phase {
        return Vec::new();
    }
    let mut object = Value::clone(volume);
    set(&mut object, &["status", "phase"], phase);
    vec![Action::UpdateStatus {
        resource: VOLUMES,
        object,
    }]
}

/// The claim of a pod's generic ephemeral volume, owned by the pod.
fn make_ephemeral_claim(key: &Key, world: &World) -> Vec<Action> {
    for pod in world.in_namespace("pods", &key.namespace) {
        for volume in pod.items(&["spec", "volumes"]) {
            let template = volume.at(&["ephemeral", "volumeClaimTemplate"]);
            let name = format!("{}-{}", pod.name(), volume.text(&["name"]));
            if template.is_null() || name != key.name || pod.deleting() {
                continue;
            }
            let mut metadata = template.at(&["metadata"]).clone();
            set(&mut metadata, &["name"], name);
            set(&mut metadata, &["namespace"], key.namespace.as_str());
            set(
                &mut metadata,
                &["ownerReferences"],
                json!([controller_ref(pod, "v1", "Pod")]),
            );
            let object = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": metadata, "spec": template.at(&["spec"]),
            });
            let namespace = key.namespace.clone();
            return vec![Action::Create {
                resource: CLAIMS,
                namespace,
                object,
            }];
        }
    }
    Vec::new()
}
