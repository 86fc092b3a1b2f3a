//! Karpetrack's kinds: SpotNodePool and SpotNode, for one cloudspace of Rackspace Spot.
//!
//! The family has no node class: which cloudspace, and with which token, is said where the controller is started. So
//! the dialect itself yields the one class that all its pools buy from, `Cloudspace.karpetrack.io/<name>`.

mod class;
mod machine;
mod pool;
mod terms;

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream;
use jiff::{SignedDuration, Timestamp};
use joiner_api::karpetrack::{Phase, SpotNode, SpotNodePool, keys};
use joiner_core::labels as well_known;
use joiner_core::name::{Labels, Name};
use joiner_providers::rackspace::catalog::CATEGORY_LABEL;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, PostParams};

pub use class::{Branded, CLOUDSPACE, class_key};

use super::{convert, objects};
use crate::dialect::{Dialect, Event, ObjectRef, Sighting, Watch, Window};
use crate::edge::clients::{Clients, WriteError};
use crate::record::{
    ClassKey, Key, MachineRecord, MachineStatus, MetadataChange, NewMachine, PoolRecord,
    PoolStatus, kinds,
};
use crate::view::watch::{Need, guarded};

/// Name of the dialect.
pub const NAME: &str = "karpetrack";
const API_VERSION: &str = "karpetrack.io/v1alpha1";

/// What is set where the controller is started, not in objects.
#[derive(Clone, Debug, PartialEq)]
pub struct KarpetrackOptions {
    /// Cloudspace that all pools buy for.
    pub cloudspace: String,
    /// How long pods are gathered.
    pub batch_window: Duration,
    /// What a replacement must save, in percent of what it replaces.
    pub min_savings: u32,
    /// How old a node must be before its price is reason enough to replace it: a server takes long to come, and
    /// prices move both ways.
    pub min_age: Duration,
    /// Whether empty and underused nodes go.
    pub consolidation: bool,
    /// How long a node must have been empty, where its pool does not say.
    pub empty_grace: Duration,
}

impl KarpetrackOptions {
    /// The defaults of the document.
    pub fn new(cloudspace: impl Into<String>) -> Self {
        KarpetrackOptions {
            cloudspace: cloudspace.into(),
            batch_window: Duration::from_secs(10),
            min_savings: 20,
            min_age: Duration::from_mins(10),
            consolidation: true,
            empty_grace: Duration::from_mins(5),
        }
    }

    fn min_age(&self) -> SignedDuration {
        SignedDuration::try_from(self.min_age).unwrap_or(SignedDuration::MAX)
    }
}

/// Karpetrack's dialect.
pub struct Karpetrack {
    clients: Clients,
    options: KarpetrackOptions,
}

impl Karpetrack {
    /// For one cloudspace.
    pub fn new(clients: Clients, options: KarpetrackOptions) -> Self {
        Karpetrack { clients, options }
    }

    fn class(&self) -> ClassKey {
        class_key(&self.options.cloudspace)
    }

    fn nodes(&self) -> Api<SpotNode> {
        Api::all(self.clients.writes.clone())
    }

    fn pools(&self) -> Api<SpotNodePool> {
        Api::all(self.clients.writes.clone())
    }

    fn read(&self, node: &SpotNode) -> Result<MachineRecord, WriteError> {
        machine::lower(node, &self.class()).map_err(WriteError::Refused)
    }
}

#[async_trait]
impl Dialect for Karpetrack {
    fn name(&self) -> &'static str {
        NAME
    }

    fn window(&self) -> Window {
        // The document's window is of one length, however many pods keep coming.
        Window {
            idle: self.options.batch_window,
            max: self.options.batch_window,
        }
    }

    fn event_source(&self) -> &'static str {
        NAME
    }

    fn word(&self, reason: &'static str) -> &'static str {
        match reason {
            "LaunchFailed"
            | "InsufficientCapacityError"
            | "Failed"
            | "ValidationFailed"
            | "NodeClassNotReady"
            | "CapacityUnavailable" => "ProvisioningFailed",
            "DisruptionLaunching" => "Replacing",
            "DisruptionTerminating" => "ScalingDown",
            other => other,
        }
    }

    fn milestone(
        &self,
        before: &MachineRecord,
        after: &MachineRecord,
    ) -> Option<(&'static str, String)> {
        // What was asked to go is on its way from the first condition of its end on, not from the request.
        let going = |one: &MachineRecord| {
            let begun = [kinds::DRAINED, kinds::INSTANCE_TERMINATING];
            begun
                .iter()
                .any(|kind| one.status.conditions.get(kind).is_some())
        };
        let phase = |one: &MachineRecord| machine::phase(one, &one.status);
        let reached = phase(after);
        if phase(before) == reached && going(before) == going(after) {
            return None;
        }
        let node = after.status.node.as_deref().unwrap_or("the server");
        match reached {
            Phase::Pending => None,
            Phase::Provisioning => {
                let kind = after.labels.get(well_known::INSTANCE_TYPE);
                let kind = kind.map_or("a server", AsRef::as_ref);
                Some(("Provisioning", format!("{kind} is asked for")))
            }
            Phase::Running => Some(("NodeReady", format!("{node} is running and ready"))),
            Phase::Draining => Some(("Draining", format!("pods are moved away from {node}"))),
            Phase::Terminating => Some(("NodeTerminated", format!("{node} is given back"))),
        }
    }

    fn shows_phases(&self) -> bool {
        true
    }

    fn keeps_prices(&self) -> bool {
        true
    }

    fn field(&self, label: &str) -> String {
        match label {
            well_known::ZONE | well_known::REGION => "spec.regions".to_owned(),
            CATEGORY_LABEL => "spec.categories".to_owned(),
            other => format!("the requirement on {other} in spec.requirements"),
        }
    }

    fn shown(&self, _: &PoolRecord, status: PoolStatus, _: Timestamp) -> PoolStatus {
        pool::shown(status)
    }

    fn watch(&self, clients: &Clients) -> Vec<Watch> {
        let (class, options) = (self.class(), self.options.clone());
        let own = class.clone();
        let pools = guarded(
            Api::all(clients.reads.clone()),
            Need::Required,
            move |pool: SpotNodePool| pool::lower(&pool, &options),
        );
        let nodes = guarded(
            Api::all(clients.reads.clone()),
            Need::Required,
            move |node: SpotNode| machine::lower(&node, &own),
        );
        // It never changes: what it is made of is read when the process starts.
        let classes = stream::iter([
            Event::Started,
            Event::Listed(class::record(class)),
            Event::Complete,
        ])
        .chain(stream::pending());
        let watch = |source: &str, stream| Watch {
            source: format!("{NAME}/{source}"),
            stream,
        };
        vec![
            watch("spotnodepools", pools.map(Sighting::Pool).boxed()),
            watch("spotnodes", nodes.map(Sighting::Machine).boxed()),
            watch("cloudspace", classes.map(Sighting::Class).boxed()),
        ]
    }

    fn finalizer(&self) -> &'static str {
        keys::SPOTNODE_FINALIZER
    }

    fn node_labels(&self, machine: &MachineRecord) -> Labels {
        machine::node_labels(machine)
    }

    fn owner(&self, machine: &MachineRecord) -> Option<OwnerReference> {
        Some(OwnerReference {
            api_version: API_VERSION.into(),
            kind: "SpotNode".into(),
            name: machine.key.name.to_string(),
            uid: machine.uid.0.to_string(),
            controller: None,
            block_owner_deletion: Some(true),
        })
    }

    fn machine_ref(&self, machine: &MachineRecord) -> ObjectRef {
        convert::object_ref(API_VERSION, "SpotNode", &machine.key, &machine.uid.0)
    }

    fn pool_ref(&self, pool: &PoolRecord) -> ObjectRef {
        convert::object_ref(API_VERSION, "SpotNodePool", &pool.key, &pool.uid)
    }

    async fn create_machine(&self, machine: &NewMachine) -> Result<MachineRecord, WriteError> {
        let node = machine::render(machine).map_err(WriteError::Refused)?;
        let written = self.nodes().create(&PostParams::default(), &node).await?;
        self.read(&written)
    }

    async fn get_machine(&self, key: &Key) -> Result<MachineRecord, WriteError> {
        self.read(&self.nodes().get(&key.name).await?)
    }

    async fn machine_uids(&self) -> Result<BTreeSet<Name>, WriteError> {
        objects::uids(&self.nodes()).await
    }

    async fn patch_machine(
        &self,
        machine: &MachineRecord,
        change: &MetadataChange,
    ) -> Result<MachineRecord, WriteError> {
        let api = self.nodes();
        let finalizers =
            objects::finalizers(&api, machine, change, keys::SPOTNODE_FINALIZER).await?;
        let mut patch = convert::metadata_patch(machine, change, finalizers);
        if let Some(spec) = machine::spec_change(machine, change) {
            patch["spec"] = spec;
        }
        let written = objects::merge(&api, &machine.key.name, patch).await?;
        self.read(&written)
    }

    async fn write_machine_status(
        &self,
        machine: &MachineRecord,
        status: &MachineStatus,
    ) -> Result<MachineRecord, WriteError> {
        let patch = machine::status_patch(machine, status);
        let written = objects::merge_status(&self.nodes(), &machine.key.name, patch).await?;
        self.read(&written)
    }

    async fn delete_machine(&self, machine: &MachineRecord) -> Result<(), WriteError> {
        objects::delete(&self.nodes(), machine).await
    }

    async fn write_pool_status(
        &self,
        pool: &PoolRecord,
        status: &PoolStatus,
    ) -> Result<PoolRecord, WriteError> {
        let patch = pool::status_patch(pool, status);
        let written = objects::merge_status(&self.pools(), &pool.key.name, patch).await?;
        pool::lower(&written, &self.options).map_err(WriteError::Refused)
    }

    fn stamp(&self, pool: &PoolRecord, machine: &MachineRecord) -> Option<MetadataChange> {
        terms::stamp(pool, machine)
    }

    fn template_drift(&self, pool: &PoolRecord, machine: &MachineRecord) -> Option<String> {
        terms::drifted(pool, machine)
    }
}
