//! Karpenter's own kinds: NodePool and NodeClaim, with node classes of any kind that there is a provider for.

mod hash;
mod machine;
mod pool;
mod terms;

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use joiner_api::karpenter::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, PostParams};
use serde_json::json;

pub use hash::VERSION as HASH_VERSION;

use super::classes::watch_class;
use super::{convert, objects};
use crate::dialect::{ClassKind, Dialect, ObjectRef, Sighting, Watch, Window};
use crate::edge::clients::{Clients, WriteError};
use crate::record::{
    BufferRecord, BufferStatus, Conditions, Key, MachineRecord, MachineStatus, MetadataChange,
    NewMachine, OverlayRecord, PoolRecord, PoolStatus,
};
use crate::view::watch::{Need, guarded};

/// Name of the dialect.
pub const NAME: &str = "karpenter";
/// Finalizer on machine objects and nodes.
pub const FINALIZER: &str = "karpenter.sh/termination";

/// A pool as decisions see it, from an object that need not be in a cluster. The name of its catalogue is for the caller
/// to say.
pub fn read_pool(pool: &NodePool) -> Result<joiner_core::problem::Pool, String> {
    pool::read(pool)
}

/// Karpenter's dialect.
pub struct Karpenter {
    clients: Clients,
    classes: Vec<ClassKind>,
    window: Window,
}

impl Karpenter {
    /// For node classes of these kinds.
    pub fn new(clients: Clients, classes: Vec<ClassKind>) -> Self {
        Karpenter {
            clients,
            classes,
            window: Window::default(),
        }
    }

    /// The same with another batching window.
    #[must_use]
    pub fn with_window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.clients.writes.clone())
    }

    fn pools(&self) -> Api<NodePool> {
        Api::all(self.clients.writes.clone())
    }

    async fn annotate(
        &self,
        pool: &PoolRecord,
        annotations: serde_json::Value,
    ) -> Result<Option<PoolRecord>, WriteError> {
        let patch = json!({"metadata": {"uid": &*pool.uid, "annotations": annotations}});
        let written = objects::merge(&self.pools(), &pool.key.name, patch).await?;
        let supported = self.supports(&written);
        pool::lower(&written, supported).map_err(WriteError::Refused)
    }

    fn supports(&self, pool: &NodePool) -> bool {
        let class = &pool.spec.template.spec.node_class_ref;
        self.classes
            .iter()
            .any(|kind| kind.group == class.group && kind.kind == class.kind)
    }
}

#[async_trait]
impl Dialect for Karpenter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn window(&self) -> Window {
        self.window
    }

    fn watch(&self, clients: &Clients) -> Vec<Watch> {
        let client = || clients.reads.clone();
        // Pools and claims of classes that nobody here provides belong to another controller.
        let kinds = self.classes.clone();
        let ours = move |group: &str, kind: &str| {
            kinds
                .iter()
                .any(|one| one.group == group && one.kind == kind)
        };
        let mine = ours.clone();
        let pools = guarded(Api::all(client()), Need::Required, move |pool: NodePool| {
            let class = pool.spec.template.spec.node_class_ref.clone();
            pool::lower(&pool, ours(&class.group, &class.kind))
        });
        let claims = guarded(
            Api::all(client()),
            Need::Required,
            move |claim: NodeClaim| {
                let class = claim.spec.node_class_ref.clone();
                machine::lower(&claim, mine(&class.group, &class.kind))
            },
        );
        let claims = claims.flat_map(|event| stream::iter(machine::sightings(event)));
        let overlays = guarded(
            Api::all(client()),
            Need::Optional,
            |overlay: NodeOverlay| Ok::<_, String>(terms::lower_overlay(&overlay)),
        );
        let buffers = guarded(
            Api::all(client()),
            Need::Optional,
            |buffer: CapacityBuffer| terms::lower_buffer(&buffer),
        );
        let watch = |source: &str, stream| Watch {
            source: format!("{NAME}/{source}"),
            stream,
        };
        let mut all = vec![
            watch(
                "nodepools",
                pools
                    .filter_map(|one| async { keep(one).map(Sighting::Pool) })
                    .boxed(),
            ),
            watch("nodeclaims", claims.boxed()),
            watch("nodeoverlays", overlays.map(Sighting::Overlay).boxed()),
            watch("capacitybuffers", buffers.map(Sighting::Buffer).boxed()),
        ];
        all.extend(
            self.classes
                .iter()
                .map(|kind| watch_class(NAME, clients, kind)),
        );
        all
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn price_change(&self, machine: &MachineRecord, price: Money) -> Option<MetadataChange> {
        machine::price_change(machine, price)
    }

    fn shows_cost(&self) -> bool {
        true
    }

    fn node_labels(&self, machine: &MachineRecord) -> Labels {
        machine::node_labels(machine)
    }

    fn owner(&self, machine: &MachineRecord) -> Option<OwnerReference> {
        Some(OwnerReference {
            api_version: "karpenter.sh/v1".into(),
            kind: "NodeClaim".into(),
            name: machine.key.name.to_string(),
            uid: machine.uid.0.to_string(),
            controller: None,
            block_owner_deletion: Some(true),
        })
    }

    fn machine_ref(&self, machine: &MachineRecord) -> ObjectRef {
        convert::object_ref("karpenter.sh/v1", "NodeClaim", &machine.key, &machine.uid.0)
    }

    fn pool_ref(&self, pool: &PoolRecord) -> ObjectRef {
        convert::object_ref("karpenter.sh/v1", "NodePool", &pool.key, &pool.uid)
    }

    async fn create_machine(&self, machine: &NewMachine) -> Result<MachineRecord, WriteError> {
        let claim = machine::render(machine).map_err(WriteError::Refused)?;
        let written = self.claims().create(&PostParams::default(), &claim).await?;
        machine::read(&written)
    }

    async fn get_machine(&self, key: &Key) -> Result<MachineRecord, WriteError> {
        machine::read(&self.claims().get(&key.name).await?)
    }

    async fn machine_uids(&self) -> Result<BTreeSet<Name>, WriteError> {
        objects::uids(&self.claims()).await
    }

    async fn patch_machine(
        &self,
        machine: &MachineRecord,
        change: &MetadataChange,
    ) -> Result<MachineRecord, WriteError> {
        let api = self.claims();
        let finalizers = objects::finalizers(&api, machine, change, FINALIZER).await?;
        let patch = convert::metadata_patch(machine, change, finalizers);
        let written = objects::merge(&api, &machine.key.name, patch).await?;
        machine::read(&written)
    }

    async fn write_machine_status(
        &self,
        machine: &MachineRecord,
        status: &MachineStatus,
    ) -> Result<MachineRecord, WriteError> {
        let patch = machine::status_patch(machine, status);
        let written = objects::merge_status(&self.claims(), &machine.key.name, patch).await?;
        machine::read(&written)
    }

    async fn delete_machine(&self, machine: &MachineRecord) -> Result<(), WriteError> {
        objects::delete(&self.claims(), machine).await
    }

    async fn write_pool_status(
        &self,
        pool: &PoolRecord,
        status: &PoolStatus,
    ) -> Result<PoolRecord, WriteError> {
        let patch = pool::status_patch(pool, status);
        let written = objects::merge_status(&self.pools(), &pool.key.name, patch).await?;
        let supported = self.supports(&written);
        let lowered = pool::lower(&written, supported).map_err(WriteError::Refused)?;
        lowered.ok_or_else(|| WriteError::Gone("the pool belongs to another controller now".into()))
    }

    fn stamp(&self, pool: &PoolRecord, machine: &MachineRecord) -> Option<MetadataChange> {
        hash::stamp(pool, machine)
    }

    async fn stamp_pool(&self, pool: &PoolRecord) -> Result<Option<PoolRecord>, WriteError> {
        let Some(stamps) = hash::pool_stamp(pool) else {
            return Ok(None);
        };
        self.annotate(pool, json!(stamps)).await
    }

    async fn annotate_pool(
        &self,
        pool: &PoolRecord,
        key: &str,
        value: Option<&str>,
    ) -> Result<Option<PoolRecord>, WriteError> {
        self.annotate(pool, json!({ key: value })).await
    }

    fn template_drift(&self, pool: &PoolRecord, machine: &MachineRecord) -> Option<String> {
        hash::drifted(pool, machine)
    }

    async fn write_overlay(
        &self,
        overlay: &OverlayRecord,
        conditions: &Conditions,
    ) -> Result<(), WriteError> {
        let api: Api<NodeOverlay> = Api::all(self.clients.writes.clone());
        let patch = json!({"status": {"conditions": convert::render_conditions(conditions)}});
        objects::merge_status(&api, &overlay.key.name, patch).await?;
        Ok(())
    }

    async fn write_buffer(
        &self,
        buffer: &BufferRecord,
        status: Option<&BufferStatus>,
        conditions: &Conditions,
    ) -> Result<(), WriteError> {
        let api: Api<CapacityBuffer> =
            Api::namespaced(self.clients.writes.clone(), &buffer.key.namespace);
        let mut patch = json!({"status": {
            "conditions": convert::render_conditions(conditions)
        }});
        if let Some(status) = status {
            let template = status.template.as_ref().map(|name| json!({"name": name}));
            patch["status"]["replicas"] = json!(status.replicas);
            patch["status"]["podTemplateRef"] = json!(template);
            patch["status"]["podTemplateGeneration"] = json!(status.template_generation);
            patch["status"]["provisioningStrategy"] = json!(status.strategy);
        }
        objects::merge_status(&api, &buffer.key.name, patch).await?;
        Ok(())
    }
}

/// Drops what belongs to another controller; everything else passes.
fn keep<T>(event: crate::dialect::Event<Option<T>>) -> Option<crate::dialect::Event<T>> {
    use crate::dialect::Event;
    Some(match event {
        Event::Started => Event::Started,
        Event::Complete => Event::Complete,
        Event::Listed(one) => Event::Listed(one?),
        Event::Changed(one) => Event::Changed(one?),
        Event::Gone(one) => Event::Gone(one?),
        Event::Malformed(malformed) => Event::Malformed(malformed),
    })
}
