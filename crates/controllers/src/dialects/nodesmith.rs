//! KubeNodeSmith's kinds: `NodeSmithControlPlane`, `NodeSmithPool`, `NodeSmithProvider` and `NodeSmithClaim`.
//!
//! All of them have a namespace. A pool is managed if a control plane of its namespace names it; a provider is the node
//! class of its namespace's pools; a claim is a machine. Claims cannot own nodes, so a mark on the node says whose it is.

mod claim;
mod gate;
mod pool;
mod terms;

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures::StreamExt as _;
use jiff::Timestamp;
use joiner_api::nodesmith::{NodeSmithClaim, NodeSmithControlPlane, NodeSmithPool, keys};
use joiner_core::name::{Labels, Name};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::classes::watch_class;
use super::{convert, objects};
use crate::dialect::{ClassKind, Dialect, ObjectRef, Sighting, Watch};
use crate::edge::clients::{Clients, WriteError};
use crate::record::{
    Behind, GateRecord, Key, MachineRecord, MachineStatus, MetadataChange, NewMachine, PoolRecord,
    PoolStatus, kinds,
};
use crate::view::watch::{Need, guarded};

/// Name of the dialect, and of the family in the marks on machines.
pub const NAME: &str = "nodesmith";
/// Who events come from.
const SOURCE: &str = "kubenodesmith";
const API_VERSION: &str = "kubenodesmith.parawell.cloud/v1alpha1";

/// The node class of this family. Pools of other families cannot name it.
pub const PROVIDER: ClassKind = ClassKind {
    group: "kubenodesmith.parawell.cloud",
    version: "v1alpha1",
    kind: "NodeSmithProvider",
    plural: "nodesmithproviders",
};

/// KubeNodeSmith's dialect.
pub struct NodeSmith {
    clients: Clients,
}

impl NodeSmith {
    /// Over these clients.
    pub fn new(clients: Clients) -> Self {
        NodeSmith { clients }
    }

    fn claims(&self, namespace: &str) -> Api<NodeSmithClaim> {
        Api::namespaced(self.clients.writes.clone(), namespace)
    }

    fn pools(&self, namespace: &str) -> Api<NodeSmithPool> {
        Api::namespaced(self.clients.writes.clone(), namespace)
    }
}

fn read(claim: &NodeSmithClaim) -> Result<MachineRecord, WriteError> {
    claim::lower(claim).map_err(WriteError::Refused)
}

fn read_pool(pool: &NodeSmithPool) -> Result<PoolRecord, WriteError> {
    pool::lower(pool).map_err(WriteError::Refused)
}

#[async_trait]
impl Dialect for NodeSmith {
    fn name(&self) -> &'static str {
        NAME
    }

    fn event_source(&self) -> &'static str {
        SOURCE
    }

    fn word(&self, reason: &'static str) -> &'static str {
        match reason {
            "LaunchFailed" | "InsufficientCapacityError" => "ProvisioningFailed",
            "NodeClassNotReady" => "ProviderNotReady",
            "DisruptionLaunching" => "Replacing",
            "DisruptionTerminating" => "Deprovisioning",
            other => other,
        }
    }

    fn milestone(
        &self,
        before: &MachineRecord,
        after: &MachineRecord,
    ) -> Option<(&'static str, String)> {
        let reached = |kind: &str| {
            let is = |one: &MachineRecord| one.status.conditions.is_true(kind);
            is(after) && !is(before)
        };
        let begun = |kind: &str| {
            let has = |one: &MachineRecord| one.status.conditions.get(kind).is_some();
            has(after) && !has(before)
        };
        let node = after.status.node.as_deref().unwrap_or("the machine");
        let id = after.status.provider_id.as_deref().unwrap_or("unknown");
        if reached(kinds::INSTANCE_TERMINATING) {
            return Some((
                "MachineDeprovisioned",
                format!("Machine {id} is being deleted"),
            ));
        }
        if begun(kinds::DRAINED) {
            return Some((
                "Draining",
                format!("Node {node} is cordoned and being drained"),
            ));
        }
        if reached(kinds::INITIALIZED) {
            return Some(("Ready", format!("Node {node} is ready")));
        }
        if reached(kinds::REGISTERED) {
            return Some(("Registered", format!("Node {node} joined the cluster")));
        }
        reached(kinds::LAUNCHED).then(|| ("Launched", format!("Machine provisioned: {id}")))
    }

    fn shows_phases(&self) -> bool {
        true
    }

    fn explains_failures(&self) -> bool {
        true
    }

    fn cordons(&self) -> bool {
        true
    }

    fn announces_scaling(&self) -> bool {
        true
    }

    fn shown(&self, pool: &PoolRecord, status: PoolStatus, now: Timestamp) -> PoolStatus {
        pool::shown(pool, status, now)
    }

    fn watch(&self, clients: &Clients) -> Vec<Watch> {
        let client = || clients.reads.clone();
        let pools = guarded(Api::all(client()), Need::Required, |pool: NodeSmithPool| {
            pool::lower(&pool)
        });
        let claims = guarded(
            Api::all(client()),
            Need::Required,
            |claim: NodeSmithClaim| claim::lower(&claim),
        );
        let gates = guarded(
            Api::all(client()),
            Need::Required,
            |gate: NodeSmithControlPlane| Ok(gate::lower(&gate)),
        );
        let watch = |source: &str, stream| Watch {
            source: format!("{NAME}/{source}"),
            stream,
        };
        vec![
            watch("nodesmithcontrolplanes", gates.map(Sighting::Gate).boxed()),
            watch("nodesmithpools", pools.map(Sighting::Pool).boxed()),
            watch("nodesmithclaims", claims.map(Sighting::Machine).boxed()),
            watch_class(NAME, clients, &PROVIDER),
        ]
    }

    fn finalizer(&self) -> &'static str {
        keys::CLAIM_FINALIZER
    }

    fn node_labels(&self, machine: &MachineRecord) -> Labels {
        claim::node_labels(machine)
    }

    fn owner(&self, _: &MachineRecord) -> Option<OwnerReference> {
        None
    }

    fn machine_ref(&self, machine: &MachineRecord) -> ObjectRef {
        convert::object_ref(API_VERSION, "NodeSmithClaim", &machine.key, &machine.uid.0)
    }

    fn pool_ref(&self, pool: &PoolRecord) -> ObjectRef {
        convert::object_ref(API_VERSION, "NodeSmithPool", &pool.key, &pool.uid)
    }

    async fn create_machine(&self, machine: &NewMachine) -> Result<MachineRecord, WriteError> {
        let claim = claim::render(machine).map_err(WriteError::Refused)?;
        let api = self.claims(&machine.pool.key.namespace);
        read(&api.create(&PostParams::default(), &claim).await?)
    }

    async fn get_machine(&self, key: &Key) -> Result<MachineRecord, WriteError> {
        read(&self.claims(&key.namespace).get(&key.name).await?)
    }

    async fn machine_uids(&self) -> Result<BTreeSet<Name>, WriteError> {
        let all: Api<NodeSmithClaim> = Api::all(self.clients.reads.clone());
        objects::uids(&all).await
    }

    async fn patch_machine(
        &self,
        machine: &MachineRecord,
        change: &MetadataChange,
    ) -> Result<MachineRecord, WriteError> {
        let api = self.claims(&machine.key.namespace);
        let finalizers = objects::finalizers(&api, machine, change, keys::CLAIM_FINALIZER).await?;
        let mut patch = convert::metadata_patch(machine, change, finalizers);
        if let Some(spec) = claim::spec_change(machine, change) {
            patch["spec"] = spec;
        }
        read(&objects::merge(&api, &machine.key.name, patch).await?)
    }

    async fn write_machine_status(
        &self,
        machine: &MachineRecord,
        status: &MachineStatus,
    ) -> Result<MachineRecord, WriteError> {
        let api = self.claims(&machine.key.namespace);
        let patch = claim::status_patch(machine, status);
        read(&objects::merge_status(&api, &machine.key.name, patch).await?)
    }

    async fn delete_machine(&self, machine: &MachineRecord) -> Result<(), WriteError> {
        objects::delete(&self.claims(&machine.key.namespace), machine).await
    }

    async fn write_pool_status(
        &self,
        pool: &PoolRecord,
        status: &PoolStatus,
    ) -> Result<PoolRecord, WriteError> {
        let api = self.pools(&pool.key.namespace);
        let patch = pool::status_patch(pool, status);
        read_pool(&objects::merge_status(&api, &pool.key.name, patch).await?)
    }

    async fn annotate_pool(
        &self,
        pool: &PoolRecord,
        key: &str,
        value: Option<&str>,
    ) -> Result<Option<PoolRecord>, WriteError> {
        let api = self.pools(&pool.key.namespace);
        let patch = json!({"metadata": {"uid": &*pool.uid, "annotations": {key: value}}});
        let written = objects::merge(&api, &pool.key.name, patch).await?;
        read_pool(&written).map(Some)
    }

    async fn finalize_pool(
        &self,
        pool: &PoolRecord,
        wanted: bool,
    ) -> Result<Option<PoolRecord>, WriteError> {
        let api = self.pools(&pool.key.namespace);
        let current = api.get(&pool.key.name).await?;
        if current.metadata.uid.as_deref() != Some(&*pool.uid) {
            return Ok(None);
        }
        let mut all = current.metadata.finalizers.clone().unwrap_or_default();
        all.retain(|one| one != keys::POOL_FINALIZER);
        if wanted {
            all.push(keys::POOL_FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "uid": &*pool.uid,
            "resourceVersion": current.metadata.resource_version,
            "finalizers": all,
        }});
        let written = objects::merge(&api, &pool.key.name, patch).await?;
        // The answer to the removal of the last finalizer shows an object that is gone.
        if wanted {
            read_pool(&written).map(Some)
        } else {
            Ok(None)
        }
    }

    async fn write_gate(
        &self,
        gate: &GateRecord,
        pools: &[(Name, Behind)],
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let Some(patch) = gate::status_patch(gate, pools, now) else {
            return Ok(());
        };
        let api: Api<NodeSmithControlPlane> =
            Api::namespaced(self.clients.writes.clone(), &gate.key.namespace);
        objects::merge_status(&api, &gate.key.name, patch).await?;
        Ok(())
    }

    fn adopt(&self, pool: &PoolRecord, machine: &MachineRecord) -> Option<MetadataChange> {
        terms::adopt(pool, machine)
    }

    fn template_drift(&self, pool: &PoolRecord, machine: &MachineRecord) -> Option<String> {
        terms::drifted(pool, machine)
    }
}
