//! What becomes of pools and nodes as time passes.

use jiff::Timestamp;

use super::{Node, Order, Pool, State, digest, hex, later, uuid};
use crate::clouds::ovhcloud::options::OvhCloudOptions;
use crate::clouds::watched::CloudEvent;

impl State {
    /// Does what is due. Says when there is something to do again.
    pub(in crate::clouds::ovhcloud) fn due(
        &mut self,
        options: &mut OvhCloudOptions,
        now: Timestamp,
    ) -> (Vec<Order>, Option<Timestamp>) {
        let mut orders = Vec::new();
        let mut next: Option<Timestamp> = None;
        let mut wake = |at: Timestamp| next = Some(next.map_or(at, |next| next.min(at)));
        let ids: Vec<String> = self.pools.keys().cloned().collect();
        for id in ids {
            let Some(mut pool) = self.pools.remove(&id) else {
                continue;
            };
            self.resize(&mut pool, options, now);
            self.peaks.1 = self.peaks.1.max(pool.staying());
            let flavor = options
                .flavors
                .iter()
                .find(|one| one.name == pool.flavor)
                .cloned();
            let gone: Vec<String> = pool
                .nodes
                .values()
                .filter(|node| node.leaves.is_some_and(|at| at <= now))
                .map(|node| node.id.clone())
                .collect();
            for id in gone {
                let Some(node) = pool.nodes.remove(&id) else {
                    continue;
                };
                self.news.extend(pool.is_ours().then(|| node.gone()));
                if node.up {
                    orders.push(Order::Kill(node.name));
                }
            }
            let mut boots = Vec::new();
            for node in pool.nodes.values() {
                for at in [
                    node.leaves,
                    Some(node.listed),
                    Some(node.instance_at),
                    Some(node.ready),
                ] {
                    at.filter(|at| *at > now).into_iter().for_each(&mut wake);
                }
                if !node.up && node.ready <= now && !node.out_of_stock && node.leaves.is_none() {
                    boots.push(node.id.clone());
                }
            }
            for id in boots {
                if let (Some(node), Some(flavor)) = (pool.nodes.get(&id), &flavor) {
                    orders.push(Order::Boot(Box::new(pool.node_spec(node, flavor, options))));
                }
                let ours = pool.is_ours();
                if let Some(node) = pool.nodes.get_mut(&id) {
                    node.up = true;
                    let booted = CloudEvent::Booted(node.name.clone());
                    self.news.extend(ours.then_some(booted));
                }
            }
            for at in [Some(pool.appears), Some(pool.installed), pool.leaves] {
                at.filter(|at| *at > now).into_iter().for_each(&mut wake);
            }
            let over = pool.leaves.is_some_and(|at| at <= now) && pool.nodes.is_empty();
            if over {
                self.news.extend(pool.gone());
            } else {
                self.pools.insert(id, pool);
            }
        }
        self.enforce(options, now, &mut orders, &mut wake);
        (orders, next)
    }

    fn enforce(
        &mut self,
        options: &OvhCloudOptions,
        now: Timestamp,
        orders: &mut Vec<Order>,
        wake: &mut impl FnMut(Timestamp),
    ) {
        let mut up = false;
        let due = self
            .enforced
            .is_none_or(|last| later(last, options.enforce_every) <= now);
        for pool in self.pools.values() {
            for node in pool.nodes.values().filter(|node| node.up) {
                up = true;
                if due {
                    orders.push(Order::Enforce(node.name.clone(), pool.template.clone()));
                }
            }
        }
        if due {
            self.enforced = Some(now);
        }
        if up {
            wake(later(self.enforced.unwrap_or(now), options.enforce_every));
        }
    }

    /// Makes the nodes that a pool lacks, and removes those that it has too many: the oldest first, as it likes.
    fn resize(&mut self, pool: &mut Pool, options: &mut OvhCloudOptions, now: Timestamp) {
        if pool.leaves.is_some() {
            return;
        }
        let desired = usize::try_from(pool.desired).unwrap_or(usize::MAX);
        while pool.staying() < desired && !pool.broken {
            self.made += 1;
            let id = uuid(options.seed, "node", self.made);
            let bytes = digest(options.seed, &id, 1);
            let flavor = options
                .flavors
                .iter_mut()
                .find(|one| one.name == pool.flavor);
            let gpus = flavor.as_ref().is_some_and(|flavor| flavor.gpus > 0);
            let stock = flavor.and_then(|flavor| flavor.stock.as_mut());
            let out_of_stock = stock.as_ref().is_some_and(|left| **left == 0);
            if let Some(left) = stock {
                *left = left.saturating_sub(1);
            }
            let span = options.ready_max.saturating_sub(options.ready_min);
            let part = f64::from(bytes.first().copied().unwrap_or(0)) / 255.0;
            let boot = if gpus {
                options.gpu_ready
            } else {
                options.ready_min + span.mul_f64(part)
            };
            let listed = later(now, options.node_appears);
            let instance_at = later(listed, options.instance_after);
            let tail = hex(bytes.get(1..4).unwrap_or_default());
            let node = Node {
                name: format!("{}-node-{tail}", pool.name),
                instance: uuid(options.seed, "instance", self.made),
                created: now,
                listed,
                instance_at,
                ready: later(instance_at, boot),
                up: false,
                leaves: None,
                out_of_stock,
                lost: false,
                id: id.clone(),
            };
            self.news.extend(pool.added(&node, options, now));
            pool.nodes.insert(id, node);
            pool.updated = now;
        }
        let mut over = pool.staying().saturating_sub(desired);
        let mut all: Vec<(Timestamp, String)> = pool
            .nodes
            .values()
            .filter(|node| node.leaves.is_none())
            .map(|node| (node.created, node.id.clone()))
            .collect();
        all.sort();
        let ours = pool.is_ours();
        for (_, id) in all {
            if over == 0 {
                break;
            }
            over -= 1;
            if let Some(node) = pool.nodes.get_mut(&id) {
                node.leaves = Some(later(now, options.gone_after));
                self.news.extend(ours.then(|| node.stopped()));
                // Of a pool that is to be empty nothing is chosen.
                self.removals.push((id, desired == 0));
            }
        }
    }
}
