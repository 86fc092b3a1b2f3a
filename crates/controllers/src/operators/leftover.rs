//! `LeftoverNodePools`: GPU spot capacity for Karpenter on AWS. Observes prices and placement scores, lets the core decide,
//! and keeps a NodePool and an `EC2NodeClass` for each. Buys nothing: Karpenter for AWS does.

mod metrics;
mod objects;
mod reconcile;
mod regions;
mod render;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use joiner_api::leftover::LeftoverNodePool;
use joiner_core::leftover::{Memory, Policy};
use joiner_providers::aws::Aws;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::operator::{Operator, Seat};

pub use metrics::LeftoverMetrics;
pub use render::{
    ClassDefaults, ClassVersion, Source, class_name, closed, fallback_name, fallback_pool,
    node_class, node_pool, pool_name, wanted,
};

/// How soon a pool is looked at again after something went wrong at the API server or while Karpenter is missing.
const SOON: Duration = Duration::from_secs(30);
/// How long to wait for the lease.
const NOT_LEADING: Duration = Duration::from_secs(1);

/// How the operator behaves.
#[derive(Clone, Debug, Default)]
pub struct LeftoverOptions {
    /// Role and image of nodes whose pool names none.
    pub defaults: ClassDefaults,
    /// How reluctant to change.
    pub policy: Policy,
}

/// The operator.
pub struct Leftover {
    aws: Arc<Aws>,
    options: LeftoverOptions,
    metrics: LeftoverMetrics,
}

/// What is remembered of a pool between looks; all of it can be lost.
#[derive(Default)]
struct Known {
    generation: Option<i64>,
    memory: Option<Memory>,
    due: Option<Instant>,
    /// What was applied last, by kind and name.
    applied: BTreeMap<String, Value>,
    /// Looks in a row in which another region was clearly better; `None` before the first comparison.
    behind: Option<u32>,
    /// Zones and regions that are measured.
    zones: BTreeSet<String>,
    regions: BTreeSet<String>,
}

impl Leftover {
    /// Registers its metrics; nothing is asked yet.
    pub fn new(aws: Arc<Aws>, options: LeftoverOptions, registry: &mut Registry) -> Self {
        Leftover {
            aws,
            options,
            metrics: LeftoverMetrics::register(registry),
        }
    }
}

#[async_trait]
impl Operator for Leftover {
    fn name(&self) -> &'static str {
        "leftover"
    }

    fn event_source(&self) -> &'static str {
        "leftover"
    }

    async fn run(&self, seat: Seat) {
        let api: Api<LeftoverNodePool> = Api::all(seat.clients.reads.clone());
        let mut stream = watcher(api, watcher::Config::default()).boxed();
        let mut pools: BTreeMap<String, LeftoverNodePool> = BTreeMap::new();
        let mut known: BTreeMap<String, Known> = BTreeMap::new();
        let mut listed: Vec<String> = Vec::new();
        loop {
            let due = known.values().filter_map(|one| one.due).min();
            let wait = due.unwrap_or_else(|| Instant::now() + Duration::from_hours(1));
            tokio::select! {
                biased;
                event = stream.next() => match event {
                    Some(Ok(Event::Init)) => listed.clear(),
                    Some(Ok(Event::InitApply(pool))) => {
                        listed.push(pool.name_any());
                        see(pool, &mut pools, &mut known);
                    }
                    Some(Ok(Event::InitDone)) => {
                        pools.retain(|name, _| listed.contains(name));
                        let gone = known.extract_if(.., |name, _| !listed.contains(name));
                        gone.for_each(|(name, one)| self.metrics.forget(&name, &one));
                    }
                    Some(Ok(Event::Apply(pool))) => see(pool, &mut pools, &mut known),
                    Some(Ok(Event::Delete(pool))) => {
                        let name = pool.name_any();
                        pools.remove(&name);
                        if let Some(one) = known.remove(&name) {
                            self.metrics.forget(&name, &one);
                        }
                    }
                    Some(Err(error)) => {
                        debug!(%error, "LeftoverNodePools cannot be watched now");
                        tokio::time::sleep(NOT_LEADING).await;
                    }
                    None => return,
                },
                () = tokio::time::sleep_until(wait) => {
                    if !seat.may_act() {
                        tokio::time::sleep(NOT_LEADING).await;
                        continue;
                    }
                    let now = Instant::now();
                    let ready = known.iter().filter(|(_, one)| one.due.is_some_and(|due| due <= now));
                    let ready: Vec<String> = ready.map(|(name, _)| name.clone()).collect();
                    for name in ready {
                        let (Some(pool), Some(known)) = (pools.get(&name), known.get_mut(&name)) else {
                            continue;
                        };
                        let minutes = u64::try_from(pool.spec.requeue_minutes()).unwrap_or(7);
                        let period = Duration::from_mins(minutes.clamp(1, 60 * 24));
                        let next = match Box::pin(self.reconcile(&seat, pool, known)).await {
                            Ok(again) => again.map_or(period, |again| again.min(period)),
                            Err(error) => {
                                warn!(pool = name, %error, "LeftoverNodePool is tried again");
                                SOON.min(period)
                            }
                        };
                        known.due = Some(Instant::now() + next);
                    }
                }
            }
        }
    }
}

/// A pool is looked at when its spec changes; what we write into its status changes nothing.
fn see(
    pool: LeftoverNodePool,
    pools: &mut BTreeMap<String, LeftoverNodePool>,
    known: &mut BTreeMap<String, Known>,
) {
    let name = pool.name_any();
    let one = known.entry(name.clone()).or_default();
    if one.generation != pool.metadata.generation {
        one.generation = pool.metadata.generation;
        one.due = Some(Instant::now());
    }
    pools.insert(name, pool);
}
