//! The controllers: what kube-controller-manager does for workloads, nodes and what is left behind.
//!
//! ```text
//!   watches ──► World (a mirror with indexes) ──► which objects to look at ──► queues
//!                                                                                │
//!   API server ◄── actions ◄── plan(observed) -> Plan: pure, one per controller ◄┘
//! ```
//!
//! All controllers share one task and one mirror, as the real ones share one process and its informers. Before each plan
//! the mirror takes in everything that was committed, the controllers' own writes too, so no plan is made on old news
//! and none of upstream's "expectations" are needed.

mod action;
mod daemonset;
mod deployment;
mod disruption;
mod garbage;
mod history;
mod job;
mod namespace;
mod nodes;
mod podgc;
mod pods;
mod replicaset;
mod rollout;
mod service_account;
mod statefulset;
mod volumes;
mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use self::action::Performer;
pub(crate) use self::action::{Action, Plan};
pub(crate) use self::world::{Event, World};
use super::Key;
use super::feed::Feed;
use super::queue::Queue;
use super::recorder::Recorder;
use crate::api::{Change, Local};

/// Work done between two chances for other tasks.
const BATCH: usize = 64;

/// Options of the controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerOptions {
    /// How long a node may be silent before it is called unreachable.
    pub node_grace: Duration,
    /// How long a node must have been gone before the pods on it are removed.
    pub pod_gc_every: Duration,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            node_grace: Duration::from_secs(50),
            pod_gc_every: Duration::from_secs(20),
        }
    }
}

/// One controller: it says which objects a change concerns, and what to do about one of them.
pub(crate) trait Controller: Send {
    /// The name in logs.
    fn name(&self) -> &'static str;

    /// Which keys to look at because of a change.
    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>);

    /// What to do about one key. Pure but for the controller's own memory.
    fn plan(&mut self, key: &Key, world: &World, now: Moment) -> Plan;
}

/// The present, for plans.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) at: jiff::Timestamp,
    /// The same as Kubernetes writes it.
    pub(crate) stamp: String,
}

/// Runs all controllers.
pub(crate) struct Manager {
    api: Local,
    feed: Feed,
    world: World,
    performer: Performer,
    controllers: Vec<(Box<dyn Controller>, Queue<Key>)>,
}

impl Manager {
    /// All controllers of a cluster.
    pub(crate) fn new(api: &Local, options: ControllerOptions, events: bool) -> Self {
        let controllers: Vec<Box<dyn Controller>> = vec![
            Box::new(nodes::NodeLifecycle::new(options)),
            Box::new(nodes::TaintEviction::default()),
            Box::new(service_account::ServiceAccounts),
            Box::new(volumes::Volumes),
            Box::new(deployment::Deployments),
            Box::new(replicaset::ReplicaSets),
            Box::new(statefulset::StatefulSets),
            Box::new(daemonset::DaemonSets),
            Box::new(job::Jobs),
            Box::new(disruption::Disruption),
            Box::new(podgc::PodGc::new(options)),
            Box::new(namespace::Namespaces),
            Box::new(garbage::Garbage),
        ];
        Self {
            api: api.clone(),
            feed: Feed::default(),
            world: World::default(),
            performer: Performer::new(api, Recorder::new(api, "controllermanager", events)),
            controllers: controllers
                .into_iter()
                .map(|one| (one, Queue::default()))
                .collect(),
        }
    }

    /// Works until it is dropped.
    pub(crate) async fn run(mut self) {
        self.watch_new_resources();
        loop {
            let mut done = 0;
            self.catch_up();
            while done < BATCH && self.work_once() {
                done += 1;
                self.catch_up();
            }
            if done > 0 {
                tokio::task::yield_now().await;
                continue;
            }
            let due = self
                .controllers
                .iter()
                .filter_map(|(_, queue)| queue.next_due())
                .min();
            if let Some((resource, change)) = self.feed.wait(due).await {
                self.take_in(&resource, &change);
            }
        }
    }

    /// Takes in everything that was committed up to now.
    fn catch_up(&mut self) {
        for (resource, change) in self.feed.drain() {
            self.take_in(&resource, &change);
        }
    }

    fn take_in(&mut self, resource: &str, change: &Change) {
        let old = self.world.take_in(resource, change);
        let gone = change.kind == crate::api::ChangeKind::Deleted;
        let event = Event {
            resource,
            old: if gone {
                Some(&change.object)
            } else {
                old.as_ref()
            },
            new: (!gone).then_some(&change.object),
        };
        let mut keys = Vec::new();
        for (controller, queue) in &mut self.controllers {
            controller.concerned(&event, &self.world, &mut keys);
            keys.drain(..).for_each(|key| queue.add(key));
        }
        if resource == "customresourcedefinitions.apiextensions.k8s.io" {
            self.watch_new_resources();
        }
    }

    /// Garbage collection and namespaces are about every resource, also those that come later.
    fn watch_new_resources(&mut self) {
        let served = self.api.resources();
        self.world.set_resources(&served);
        let names: BTreeSet<&str> = served
            .iter()
            .map(|resource| resource.name.as_str())
            .collect();
        for name in names {
            // Events own nothing, are owned by nobody, and are more than everything else.
            if !name.starts_with("events") && !self.feed.has(name) {
                self.feed.add(&self.api, name);
            }
        }
    }

    /// Does one piece of work, if there is any.
    fn work_once(&mut self) -> bool {
        let now = Instant::now();
        for (controller, queue) in &mut self.controllers {
            let Some(key) = queue.pop(now) else { continue };
            let clock = self.api.clock();
            let moment = Moment {
                at: clock.now(),
                stamp: clock.rfc3339(),
            };
            let plan = controller.plan(&key, &self.world, moment);
            let again = plan.again;
            match self.performer.perform(plan.actions) {
                Ok(()) => {
                    queue.forget(&key);
                    if let Some(wait) = again {
                        queue.add_at(key, now + wait);
                    }
                }
                Err(error) => {
                    tracing::debug!(controller = controller.name(), %key, %error, "will try again");
                    queue.retry(key, now);
                }
            }
            return true;
        }
        false
    }
}
