//! What is told of pools and nodes to those who watch: everything of those that this cluster made, and of others only
//! that they were touched.

use jiff::Timestamp;
use joiner_core::name::Labels;
use joiner_core::problem::CapacityType;
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use joiner_providers::ovhcloud::pools::{OWNER_MARK, SINGLE_ZONE};
use joiner_providers::{Machine, MachineId, MachineState, NodeLink};

use super::{Node, Pool, State};
use crate::clouds::ovhcloud::options::OvhCloudOptions;
use crate::clouds::watched::{CloudEvent, GroupEvent};

/// What the world calls a node.
pub(in crate::clouds::ovhcloud) fn machine_id(node: &str) -> MachineId {
    MachineId(format!("ovhcloud:///node-{node}").into())
}

/// The node that is called so.
pub(in crate::clouds::ovhcloud) fn node_id(id: &MachineId) -> Option<&str> {
    id.0.strip_prefix("ovhcloud:///node-")
}

impl Node {
    pub(super) fn stopped(&self) -> CloudEvent {
        CloudEvent::Terminating(machine_id(&self.id))
    }

    pub(super) fn announced(&self) -> CloudEvent {
        CloudEvent::Announced(machine_id(&self.id))
    }

    pub(super) fn gone(&self) -> CloudEvent {
        CloudEvent::Gone {
            id: machine_id(&self.id),
            taken: self.lost,
        }
    }
}

impl Pool {
    /// Whether it was made over the wire by a Joiner.
    pub(super) fn is_ours(&self) -> bool {
        !self.foreign && self.template["metadata"]["annotations"][OWNER_MARK].is_string()
    }

    fn says(&self, event: GroupEvent) -> CloudEvent {
        CloudEvent::Group(self.name.clone(), event)
    }

    /// Another's pool was touched: there is no machine of this name that the auditor knows.
    fn touched(&self) -> CloudEvent {
        CloudEvent::Terminating(MachineId(format!("ovhcloud:///pool-{}", self.name).into()))
    }

    pub(super) fn made(&self) -> Vec<CloudEvent> {
        if !self.is_ours() {
            return Vec::new();
        }
        let mut news = vec![self.says(GroupEvent::Made)];
        if self.desired > 0 {
            news.push(self.says(GroupEvent::Told {
                before: 0,
                wanted: self.desired,
            }));
        }
        news
    }

    /// What to say before it is told how many nodes it is to have.
    pub(super) fn told(&self, wanted: u32) -> Option<CloudEvent> {
        if !self.is_ours() {
            return Some(self.touched());
        }
        let before = self.desired;
        (before != wanted).then(|| self.says(GroupEvent::Told { before, wanted }))
    }

    pub(super) fn ended(&self) -> Vec<CloudEvent> {
        if !self.is_ours() {
            return vec![self.touched()];
        }
        let mut news: Vec<CloudEvent> = self.told(0).into_iter().collect();
        news.push(self.says(GroupEvent::Ended));
        news
    }

    pub(super) fn gone(&self) -> Option<CloudEvent> {
        self.is_ours().then(|| self.says(GroupEvent::Gone))
    }

    pub(super) fn added(
        &self,
        node: &Node,
        options: &OvhCloudOptions,
        now: Timestamp,
    ) -> Option<CloudEvent> {
        self.is_ours().then(|| {
            let machine = Box::new(self.machine(node, options, now));
            self.says(GroupEvent::Added(machine))
        })
    }

    /// A node as a machine, with what it will report. The wire does not say whose it is.
    fn machine(&self, node: &Node, options: &OvhCloudOptions, now: Timestamp) -> Machine {
        let mut flavors = options.flavors.iter();
        let flavor = flavors.find(|one| one.name == self.flavor);
        let capacity = flavor.map_or_else(Resources::new, |flavor| {
            let memory = i64::from(flavor.ram) * (1 << 30) / 10_000 * 9463;
            Resources::new()
                .with(CPU, i64::from(flavor.vcpus) * 1000)
                .with(MEMORY, memory)
                .with(PODS, 110)
        });
        let provider_id = format!("openstack:///{}", node.instance);
        Machine {
            id: machine_id(&node.id),
            uid: None,
            state: MachineState::Pending("installing".to_owned()),
            links: vec![NodeLink::ProviderId(provider_id.into())],
            instance_type: self.flavor.as_str().into(),
            zone: self.zone.as_deref().unwrap_or(SINGLE_ZONE).into(),
            region: options.region.as_str().into(),
            capacity_type: CapacityType::OnDemand,
            price: None,
            allocatable: capacity.clone(),
            capacity,
            labels: Labels::new(),
            created: Some(now),
        }
    }
}

impl State {
    /// Nodes of our pools that run and are not to go.
    pub(in crate::clouds::ovhcloud) fn running(&self) -> Vec<MachineId> {
        let pools = self.pools.values().filter(|pool| pool.is_ours());
        let nodes = pools.flat_map(|pool| pool.nodes.values());
        nodes
            .filter(|node| node.up && node.leaves.is_none())
            .map(|node| machine_id(&node.id))
            .collect()
    }
}
