//! The cloud as a world sees it: each pool is a machine.

use async_trait::async_trait;
use joiner_core::name::Labels;
use joiner_core::problem::CapacityType;
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use joiner_providers::rackspace::client::PoolKind;
use joiner_providers::rackspace::pools::{
    CLUSTER_MARK, FAMILY_MARK, MACHINE_MARK, POOL_LABEL, machine_id, parse_id, pool_name,
};
use joiner_providers::{Machine, MachineId, MachineState, NodeLink, Uid};
use serde_json::json;

use super::RackspaceCloud;
use super::state::{Kind, Pool, later};
use crate::clouds::rackspace::{Class, RackspaceCloudOptions};
use crate::clouds::watched::{CloudEvent, Observer, Watched};
use joiner_embedded::clock::Clock;

/// In stock of every class once the market is calm.
const PLENTY: u32 = 100;

impl From<Kind> for PoolKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Spot => PoolKind::Spot,
            Kind::OnDemand => PoolKind::OnDemand,
        }
    }
}

impl Pool {
    /// What its machine is called.
    pub(super) fn id(&self) -> MachineId {
        let space = self.spec["cloudSpace"].as_str().unwrap_or_default();
        machine_id(space, self.kind.into(), &self.name)
    }

    /// The UID that Joiner marked it with, if it did.
    pub(super) fn mark(&self) -> Option<&str> {
        self.spec["customLabels"][MACHINE_MARK].as_str()
    }

    /// As a machine, with what its node will report.
    pub(super) fn machine(&self, class: Option<&Class>) -> Machine {
        let capacity = class.map_or_else(Resources::new, |class| {
            Resources::new()
                .with(CPU, i64::from(class.cpu) * 1000)
                .with(
                    MEMORY,
                    i64::try_from(class.memory_kib() * 1024).unwrap_or(i64::MAX),
                )
                .with(PODS, 110)
        });
        let region = class.map_or("", |class| class.region.as_str());
        Machine {
            id: self.id(),
            uid: self.mark().map(|uid| Uid(uid.into())),
            state: MachineState::Pending("bid".to_owned()),
            links: vec![NodeLink::Label {
                key: POOL_LABEL.into(),
                value: self.name.as_str().into(),
            }],
            instance_type: self.spec["serverClass"].as_str().unwrap_or_default().into(),
            zone: region.into(),
            region: region.into(),
            capacity_type: CapacityType::from(PoolKind::from(self.kind)),
            price: None,
            allocatable: capacity.clone(),
            capacity,
            labels: Labels::new(),
            created: Some(self.created),
        }
    }
}

impl RackspaceCloud {
    fn with_pool(&self, id: &MachineId, change: impl FnOnce(&mut Pool, &RackspaceCloudOptions)) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Ok((kind, name)) = parse_id(&inner.options.cloudspace, id) else {
            return;
        };
        let kind = match kind {
            PoolKind::Spot => Kind::Spot,
            PoolKind::OnDemand => Kind::OnDemand,
        };
        if let Some(pool) = inner.state.pools.get_mut(&(kind, name)) {
            change(pool, &inner.options);
        }
    }
}

#[async_trait]
impl Watched for RackspaceCloud {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn observe(&self, observer: Observer) {
        self.lock().observers.push(observer);
    }

    fn marked(&self) -> Vec<MachineId> {
        let inner = self.lock();
        let pools = inner.state.pools.values();
        pools
            .filter(|pool| inner.state.is_marked(pool))
            .map(Pool::id)
            .collect()
    }

    fn interrupt(&self, id: &MachineId) {
        let now = self.clock.now();
        let mut told = false;
        self.with_pool(id, |pool, options| {
            if pool.has_server() && pool.taken.is_none() && pool.ends.is_none() {
                pool.taken = Some(later(now, options.notice));
                told = true;
            }
        });
        let mut inner = self.lock();
        if told {
            inner.state.news.push(CloudEvent::Announced(id.clone()));
        }
        inner.tell();
        drop(inner);
        self.changed.notify_one();
    }

    fn calm(&self) {
        self.change(|options| {
            options.auctions.swing_percent = 0;
            for class in &mut options.classes {
                class.pinned = None;
                class.stuck = false;
                class.available = class.available.max(PLENTY);
            }
        });
    }

    async fn plant(&self, name: &str) {
        let (space, class) = {
            let inner = self.lock();
            let class = inner
                .options
                .classes
                .iter()
                .find(|class| class.region == inner.options.region && class.reserve.is_some());
            let class = class.map(|class| class.name.clone()).unwrap_or_default();
            (inner.options.cloudspace.clone(), class)
        };
        // As another cluster's Joiner would have made it, for a bid that no market passes.
        let uid = Uid(name.into());
        let spec = json!({
            "serverClass": class, "desired": 1, "bidPrice": "0.5", "cloudSpace": space,
            "customLabels": {CLUSTER_MARK: "another-cluster", FAMILY_MARK: "karpetrack", MACHINE_MARK: name},
        });
        let name = pool_name(&uid);
        self.lock().state.foreign.insert(name.clone());
        RackspaceCloud::plant(self, &name, &spec);
    }

    async fn run(&self) {
        RackspaceCloud::run(self).await;
    }
}
