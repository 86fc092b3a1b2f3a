//! Promises, checked every minute on what is really there. A violation is a mistake of ours: it is counted, so that an
//! alert can be set on it, and said in the log with what is needed to find it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use joiner_core::name::Name;
use joiner_providers::MachineState;
use tracing::error;

use crate::context::Context;
use crate::guards::limits;
use crate::market::slots::Slot;
use crate::record::{Conditions, MachineRecord, Truth, kinds};
use crate::upkeep::visits::Visits;
use crate::view::World;

/// How often.
const PERIOD: Duration = Duration::from_mins(1);
/// How many things may be remembered beside those that are there.
const SLACK: usize = 1000;

/// The promises that are checked, by their number.
pub(crate) const INVARIANTS: [&str; 6] = ["S1", "S3", "S5", "S15", "S22", "S25"];

/// A promise that does not hold: its number and what is wrong.
type Violation = (&'static str, String);

/// Checks for ever.
pub(crate) async fn run(context: Arc<Context>) {
    let mut seen = Seen::default();
    let visits = Visits::new("selfcheck");
    loop {
        tokio::time::sleep(PERIOD).await;
        if !context.may_act() {
            continue;
        }
        let mut found = {
            let world = context.view.read();
            let mut found = identity(&world);
            found.extend(conditions(&world));
            found.extend(seen.limits(&world));
            found.extend(promises(&world));
            found
        };
        found.extend(memory(&context));
        report(&context, found);
        visits.start(&context, machines);
    }
}

fn report(context: &Context, found: Vec<Violation>) {
    for (invariant, said) in found {
        error!(invariant, said, "a promise does not hold");
        context.edge.metrics.violation(invariant);
    }
}

/// What limits were when they were last looked at.
#[derive(Default)]
struct Seen {
    limits: BTreeMap<Name, (i64, u32)>,
}

impl Seen {
    /// No pool has more than it may. One whose limits were lowered keeps what it has, and gets no more.
    fn limits(&mut self, world: &World) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut present = BTreeMap::new();
        for pool in world.pools.iter() {
            let usage = limits::usage(world, pool.id(), None);
            let before = self.limits.get(pool.id());
            let grown = before.is_some_and(|(generation, nodes)| {
                *generation == pool.generation && usage.nodes > *nodes
            });
            if grown && let Some(said) = usage.exceeds(&pool.pool.limits) {
                found.push(("S5", format!("pool {}: {said}", pool.id())));
            }
            present.insert(pool.id().clone(), (pool.generation, usage.nodes));
        }
        self.limits = present;
        found
    }
}

/// One machine has one object and one node.
fn identity(world: &World) -> Vec<Violation> {
    let mut ids: BTreeMap<&Name, &MachineRecord> = BTreeMap::new();
    let mut nodes: BTreeMap<&Name, &MachineRecord> = BTreeMap::new();
    let mut found = Vec::new();
    for machine in world.machines.iter() {
        let status = &machine.status;
        for (what, known) in [(&status.provider_id, &mut ids), (&status.node, &mut nodes)] {
            if let Some(what) = what
                && let Some(other) = known.insert(what, machine)
            {
                let said = format!("{} and {} are both {what}", other.key, machine.key);
                found.push(("S3", said));
            }
        }
    }
    found
}

/// Conditions are about what is there, and `Ready` is the sum of its parts.
fn conditions(world: &World) -> Vec<Violation> {
    let mut found = Vec::new();
    let machines = world.machines.iter().filter(|one| one.deleting.is_none());
    for machine in machines {
        let said = wrong(
            &machine.status.conditions,
            machine.generation,
            &kinds::LIFECYCLE,
        );
        found.extend(said.map(|said| ("S25", format!("{}: {said}", machine.key))));
    }
    for pool in world.pools.iter() {
        let parts = [kinds::VALIDATION_SUCCEEDED, kinds::NODE_CLASS_READY];
        let said = wrong(&pool.status.conditions, pool.generation, &parts);
        found.extend(said.map(|said| ("S25", format!("pool {}: {said}", pool.id()))));
    }
    found
}

fn wrong(conditions: &Conditions, generation: i64, parts: &[&str]) -> Option<String> {
    let all = conditions.sorted();
    if let Some(one) = all.iter().find(|one| one.generation > generation) {
        let said = format!("{} is about generation {}", one.kind, one.generation);
        return Some(format!("{said}, and there are only {generation}"));
    }
    let ready = conditions.get(kinds::READY)?;
    let sum = parts.iter().all(|part| conditions.is_true(part));
    (sum != (ready.status == Truth::True))
        .then(|| format!("Ready is {}, and its parts say otherwise", ready.status))
}

/// Everybody who waits waits once, and nobody waits who has a place.
fn promises(world: &World) -> Vec<Violation> {
    let mut uids: BTreeSet<&Name> = BTreeSet::new();
    let waiting = world.pods.iter().filter(|pod| pod.provisionable());
    waiting
        .filter(|pod| !uids.insert(&pod.uid) || pod.node.is_some())
        .map(|pod| ("S15", format!("pod {} counts more than once", pod.key)))
        .collect()
}

/// What is remembered is bounded by what is there.
fn memory(context: &Context) -> Vec<Violation> {
    let (machines, pools) = {
        let world = context.view.read();
        (world.machines.len(), world.pools.len())
    };
    let offerings: usize = context
        .market
        .classes
        .slots()
        .iter()
        .filter_map(|slot| slot.catalog())
        .map(|catalog| {
            let places = catalog.types.iter().map(|one| one.offerings.len());
            let hosts = catalog.ranges.iter().map(|one| one.hosts.len());
            places.chain(hosts).sum::<usize>()
        })
        .sum();
    let all = [
        (
            "machines that want attention",
            context.queue.len(),
            machines,
        ),
        ("waits", context.market.backoffs.len(), offerings + pools),
        ("decisions", context.disruptions.len(), machines),
        ("purchases", context.provision.served.len(), machines),
    ];
    all.into_iter()
        .filter(|(_, kept, there)| *kept > there + SLACK)
        .map(|(what, kept, there)| ("S22", format!("{kept} {what} are kept for {there}")))
        .collect()
}

/// No object has more than one machine.
async fn machines(context: Arc<Context>, slot: Arc<Slot>) {
    // A list that cannot be had says nothing.
    let Ok(all) = slot.call(slot.provider.list()).await else {
        return;
    };
    let mut found = Vec::new();
    let mut known: BTreeMap<Name, String> = BTreeMap::new();
    for machine in all {
        let going = matches!(
            machine.state,
            MachineState::Stopping | MachineState::Failed(_)
        );
        let Some(uid) = machine.uid.filter(|_| !going) else {
            continue;
        };
        if let Some(other) = known.insert(uid.0.clone(), machine.id.to_string()) {
            let said = format!("{} and {other} were both bought for {}", machine.id, uid.0);
            found.push(("S1", said));
        }
    }
    report(&context, found);
}
