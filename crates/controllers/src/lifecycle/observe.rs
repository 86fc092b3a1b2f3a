//! Everything that the next step of a machine depends on, gathered from the view.

use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_providers::NodeLink;

use super::reconcile::Worker;
use super::{Observed, drain};
use crate::dialect::Dialect;
use crate::disrupt::reserve;
use crate::market::slots::Slot;
use crate::record::MachineRecord;
use crate::view::World;
use crate::view::nodes::NodeRecord;
use crate::view::pods::{PodKey, PodRecord};

impl Worker<'_> {
    /// Everything that the next step depends on.
    pub(super) fn observe(
        &mut self,
        machine: &MachineRecord,
        dialect: &dyn Dialect,
        slot: Option<&Slot>,
        now: Timestamp,
    ) -> Observed {
        let world = self.context.view.read();
        let mut links = self.memory.links.clone();
        if let Some(id) = &machine.status.provider_id {
            links.push(NodeLink::ProviderId(id.clone()));
        }
        let own = |node: &NodeRecord| {
            node.belongs_to(&machine.uid)
                || (node.unclaimed() && links.iter().any(|link| node.is(link)))
        };
        let nodes: Vec<Arc<NodeRecord>> = match &machine.status.node {
            Some(name) if machine.registered() => {
                world.nodes.get(name).cloned().into_iter().collect()
            }
            _ => world
                .nodes
                .iter()
                .filter(|node| own(node))
                .cloned()
                .collect(),
        };
        let joined = match nodes.as_slice() {
            [node] => Some(&*node.name),
            _ => None,
        };
        let node = machine
            .status
            .node
            .as_deref()
            .or(joined)
            .unwrap_or_default();
        // Who is there matters when they have to leave.
        let leaves = machine.deleting.is_some();
        let pods = world.pods_on(node).filter(|_| leaves).cloned();
        let pods: Vec<_> = pods.collect();
        let attached = attached(&world, node, &pods, now);
        // Those of pods that are gone do no harm until they outnumber the others.
        if self.memory.evictions.len() > pods.len() {
            self.memory
                .evictions
                .retain(|uid, _| pods.iter().any(|pod| pod.uid == *uid));
        }
        if leaves && self.memory.drain_began.is_none() {
            self.memory.drain_began = Some(now);
        }
        if !nodes.is_empty() {
            self.memory.joined.get_or_insert(now);
        }
        let shut = nodes.iter().any(|node| node.reserved());
        let reserved =
            (shut || !machine.initialized()) && reserve::awaits_pods(&world, machine, now);
        let served = &self.context.provision.served;
        let pioneers = served.pioneers(pods.iter().map(|pod| &pod.uid));
        let pool = machine.pool.as_ref().and_then(|pool| world.pool(pool));
        Observed {
            now,
            consolidate_after: pool.and_then(|pool| pool.pool.disruption.consolidate_after),
            last_pod_event: world.last_pod_event(node),
            timeouts: slot.map(|slot| machine.timeouts(&*slot.provider)),
            catalog_read: slot.is_some_and(|slot| slot.catalog().is_some()),
            unmet: self.context.provision.standalone.is_unmet(&machine.uid.0),
            class_missing: slot.is_none()
                && self.context.market.classes.supports(&machine.class)
                && world.classes.get(&machine.class).is_none(),
            finalizer: dialect.finalizer(),
            owner: dialect.owner(machine),
            cordons: dialect.cordons(),
            adoption: pool
                .filter(|pool| world.managed(pool))
                .and_then(|pool| dialect.adopt(pool, machine)),
            mark: self.context.mark(machine),
            node_labels: dialect.node_labels(machine),
            shows_phases: dialect.shows_phases(),
            nodes,
            pods,
            pioneers,
            reserved,
            pods_to_bind: drain::just_asked(&self.memory, now) && world.has_pods_to_bind(),
            attached,
            within_limits: machine.tried() == 0 || within_limits(&world, machine),
            memory: self.memory.clone(),
        }
    }
}

/// Volumes that are attached to a node and must not be: those of pods that stay with it may.
fn attached(world: &World, node: &str, pods: &[Arc<PodRecord>], now: Timestamp) -> Vec<Name> {
    let staying: Vec<Name> = pods
        .iter()
        .filter(|pod| !pod.terminal && !pod.awaits_eviction(now))
        .flat_map(|pod| {
            let namespace = &pod.key.namespace;
            pod.claims.iter().map(|claim| PodKey {
                namespace: namespace.clone(),
                name: claim.clone(),
            })
        })
        .filter_map(|key| world.claims.get(&key)?.value.volume.clone())
        .collect();
    let here = world
        .attachments
        .iter()
        .filter(|one| !node.is_empty() && &*one.value.node == node);
    here.filter(|one| {
        let volume = one.value.volume.as_ref();
        volume.is_none_or(|volume| !staying.contains(volume))
    })
    .map(|one| {
        let volume = one.value.volume.clone();
        volume.unwrap_or_else(|| one.key.name.clone())
    })
    .collect()
}

/// Whether the machine's present offer keeps its pool within limits.
pub(super) fn within_limits(world: &World, machine: &MachineRecord) -> bool {
    let Some(pool) = machine.pool.as_ref().and_then(|pool| world.pool(pool)) else {
        return true;
    };
    let Some(offer) = machine.offer() else {
        return true;
    };
    let mut usage = crate::guards::limits::usage(world, pool.id(), Some(&machine.key));
    usage.add(&offer.capacity, offer.purchase.price);
    usage.exceeds(&pool.pool.limits).is_none()
}
