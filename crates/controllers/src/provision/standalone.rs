//! Machine objects that Joiner did not write do not say what to buy: it is decided here, and written on them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use joiner_core::name::Name;
use joiner_core::problem::{Limits, Pool};
use tokio::time::Instant;
use tracing::warn;

use super::offers;
use crate::context::Context;
use crate::edge::clients::WriteError;
use crate::lifecycle::queue::Queue;
use crate::market::terms::terms;
use crate::record::{Key, MachineRecord, MetadataChange, annotations};

/// How soon a machine is tried again whose offers could not be written.
const AGAIN: Duration = Duration::from_secs(10);

/// Machines that wait to be told what to buy.
#[derive(Debug, Default)]
pub struct Standalone {
    undecided: Queue<Key>,
    unmet: Mutex<BTreeSet<Name>>,
}

impl Standalone {
    /// Asks what to buy for a machine; the answer is written on its object.
    pub(crate) fn ask(&self, machine: Key) {
        self.undecided.add(machine);
    }

    /// Whether no offering meets the requirements of the machine with this UID.
    pub(crate) fn is_unmet(&self, uid: &Name) -> bool {
        self.unmet().contains(uid)
    }

    fn unmet(&self) -> MutexGuard<'_, BTreeSet<Name>> {
        self.unmet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides for one machine after the other, for ever.
pub(crate) async fn run(context: Arc<Context>) {
    let standalone = &context.provision.standalone;
    loop {
        let ticket = standalone.undecided.next().await;
        if !context.may_act() {
            standalone
                .undecided
                .add_at(ticket.key.clone(), Instant::now() + AGAIN);
            continue;
        }
        let Some(machine) = undecided(&context, &ticket.key) else {
            continue;
        };
        let decided = decide(&context, &machine).await.unwrap_or_else(|error| {
            warn!(machine = %machine.key, %error, "what to launch could not be written; it is tried again");
            false
        });
        if decided {
            context.queue.add(machine.key.clone());
        } else {
            standalone
                .undecided
                .add_at(ticket.key.clone(), Instant::now() + AGAIN);
        }
    }
}

/// The machine, if it is still there and does not say what to buy. Answers about machines that are gone are forgotten.
fn undecided(context: &Context, key: &Key) -> Option<Arc<MachineRecord>> {
    let world = context.view.read();
    let known = |uid: &Name| world.machines.iter().any(|one| one.uid.0 == *uid);
    context.provision.standalone.unmet().retain(known);
    let machine = world.machines.get(key)?;
    let open = machine.deleting.is_none() && machine.offers.is_empty();
    open.then(|| machine.clone())
}

/// Whether it is known now what to buy, or that there is nothing.
async fn decide(context: &Context, machine: &MachineRecord) -> Result<bool, WriteError> {
    let Some(dialect) = context.dialect(&machine.key) else {
        return Ok(false);
    };
    match choose(context, machine).await {
        Some(Choice::Offers(change)) => {
            let written = dialect.patch_machine(machine, &change).await?;
            context.view.note_machine(written);
        }
        Some(Choice::Unmet) => {
            let uid = machine.uid.0.clone();
            context.provision.standalone.unmet().insert(uid);
        }
        None => return Ok(false),
    }
    Ok(true)
}

/// What there is for a machine.
enum Choice {
    /// These offers, as they are written on its object.
    Offers(MetadataChange),
    /// Nothing that meets its requirements.
    Unmet,
}

/// What to buy for a machine; `None` if that cannot be told now.
async fn choose(context: &Context, machine: &MachineRecord) -> Option<Choice> {
    let now = context.now();
    let terms = {
        let world = context.view.read();
        terms(context, &world, now)
    };
    let name = machine.class.catalog();
    let slot = context.market.classes.slot(&machine.class)?;
    let mut catalog = match terms.catalogs.get(&name) {
        Some(catalog) => (**catalog).clone(),
        None => (*slot.catalog()?).clone(),
    };
    context.market.backoffs.close_offerings(&mut catalog, now);
    let pool = Pool {
        name: "chosen".into(),
        catalog: name,
        requirements: machine.requirements.clone(),
        limits: Limits::default(),
        ..Pool::default()
    };
    let problem = offers::single(context, catalog, pool, machine.requests.clone());
    let (problem, plan) = context.provide(problem).await?;
    let Some(launch) = plan.launches.first() else {
        return Some(Choice::Unmet);
    };
    let offers = offers::offers(&problem, launch);
    let text = serde_json::to_string(&offers).ok()?;
    let mut change = MetadataChange::annotation(annotations::OFFERS, Some(text.into()));
    let labels = offers.first()?.labels.iter();
    change.labels = labels
        .map(|(key, value)| (key.clone(), Some(value.clone())))
        .collect();
    Some(Choice::Offers(change))
}
