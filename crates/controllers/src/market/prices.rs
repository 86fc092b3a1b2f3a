//! What machines cost now and how many pods they hold, on the objects of families that say so.
//!
//! A node label follows what its machine object says; both are read by other tools, and neither is read by a decision
//! while a catalogue lists the machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_providers::Uid;
use tracing::debug;

use crate::context::{Context, Mode};
use crate::edge::clock;
use crate::record::{Key, MANAGED_BY, MachineRecord, MachineStatus, MetadataChange};
use crate::view::World;
use crate::view::problem::{listed_price, price};

/// How old the time of the last look may get on an object on which nothing else changes: every look written down would
/// be a write for each node every half minute.
const SHOWN: Duration = Duration::from_mins(10);

/// No machine's price is written beside its status more often than this: where prices move all the time, each of them would
/// be two writes, one of the machine object and one of its node, at every look.
const PAUSE: Duration = Duration::from_mins(5);
/// How many of them are written at one look, however many prices have changed.
const AT_ONCE: usize = 50;

/// Looks prices up for ever, as often as catalogues are read.
pub(crate) async fn run(context: Arc<Context>) {
    let usual = context.settings.catalog_period;
    let period = context.market.classes.shortest_period(usual);
    let mut written = Written::default();
    loop {
        tokio::time::sleep(period).await;
        if context.may_act() && context.settings.mode == Mode::Act {
            look(&context, &mut written).await;
        }
    }
}

/// What machines cost at the prices of today.
pub(crate) struct Today<'c> {
    context: &'c Context,
    /// Only where overlays change what catalogues say.
    terms: Option<crate::view::problem::Terms>,
}

impl<'c> Today<'c> {
    /// The prices of this moment.
    pub(crate) fn new(context: &'c Context, world: &World) -> Self {
        let overlays = crate::market::overlays::accepted(context, world);
        let terms = || crate::market::terms::terms(context, world, context.now());
        Today {
            context,
            terms: (!overlays.is_empty()).then(terms),
        }
    }

    /// What a machine costs an hour: as its catalogue says, else as was agreed.
    pub(crate) fn price(&self, machine: &MachineRecord) -> Option<Money> {
        if let Some(terms) = &self.terms {
            return price(machine, terms);
        }
        let slot = self.context.market.classes.slot(&machine.class);
        let catalog = slot.and_then(|slot| slot.catalog());
        listed_price(machine, catalog.as_deref())
    }

    /// What all machines of a pool cost an hour.
    pub(crate) fn of_pool(&self, world: &World, pool: &str) -> Money {
        let own = world.machines.iter();
        let own = own.filter(|one| one.pool.as_deref() == Some(pool));
        own.filter_map(|machine| self.price(machine)).sum()
    }
}

/// What is to be written for one machine.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    /// Its status.
    Status(Box<MachineStatus>),
    /// What stands beside it.
    Metadata(MetadataChange),
}

/// When the price of a machine was last written beside its status.
#[derive(Debug, Default)]
struct Written(BTreeMap<Uid, Timestamp>);

impl Written {
    /// Those of these machines whose turn it is, longest not written first.
    fn due(&self, mut changed: Vec<(Uid, Key)>, now: Timestamp) -> Vec<Key> {
        let last = |uid: &Uid| self.0.get(uid).copied();
        changed.retain(|(uid, _)| last(uid).is_none_or(|at| clock::since(now, at) >= PAUSE));
        changed.sort_by_cached_key(|(uid, key)| (last(uid), key.clone()));
        changed
            .into_iter()
            .take(AT_ONCE)
            .map(|(_, key)| key)
            .collect()
    }

    /// Forgets machines that may be written again in any case.
    fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, at| clock::since(now, *at) < PAUSE);
    }
}

async fn look(context: &Context, written: &mut Written) {
    let now = context.now();
    written.forget(now);
    for (machine, change) in changes(context, written, now) {
        let Some(dialect) = context.dialect(&machine.key) else {
            continue;
        };
        let answer = match &change {
            Change::Status(status) => dialect.write_machine_status(&machine, status).await,
            Change::Metadata(change) => {
                written.0.insert(machine.uid.clone(), now);
                dialect.patch_machine(&machine, change).await
            }
        };
        match answer {
            Ok(written) => context.view.note_machine(written),
            // Whoever changed it meanwhile did not change what it costs: the next look will do.
            Err(error) => debug!(machine = %machine.key, %error, "its price was not written down"),
        }
    }
}

/// What is to be written of our own machines: another's are never touched.
fn changes(
    context: &Context,
    written: &Written,
    now: Timestamp,
) -> Vec<(Arc<MachineRecord>, Change)> {
    let world = context.view.read();
    let today = Today::new(context, &world);
    let ours = |machine: &&Arc<MachineRecord>| {
        let manager = machine.annotations.get(MANAGED_BY);
        machine.launched()
            && machine.deleting.is_none()
            && manager.is_some_and(|name| *name == context.mark(machine).managed_by)
    };
    let mut changes: BTreeMap<Key, (Arc<MachineRecord>, Change)> = BTreeMap::new();
    let mut wanted = Vec::new();
    for machine in world.machines.iter().filter(ours) {
        let Some(dialect) = context.dialect(&machine.key) else {
            continue;
        };
        let price = today.price(machine);
        let change = if dialect.keeps_prices() {
            let node = machine.status.node.as_deref().unwrap_or_default();
            let pods = world.pods_on(node).filter(|pod| !pod.terminal).count();
            let pods = u32::try_from(pods).unwrap_or(u32::MAX);
            let price = price.map(Money::to_micros);
            let status = refreshed(&machine.status, price, pods, now);
            status.map(|status| Change::Status(Box::new(status)))
        } else {
            let change = price.and_then(|price| dialect.price_change(machine, price));
            wanted.extend(
                change
                    .iter()
                    .map(|_| (machine.uid.clone(), machine.key.clone())),
            );
            change.map(Change::Metadata)
        };
        if let Some(change) = change {
            changes.insert(machine.key.clone(), (machine.clone(), change));
        }
    }
    let due = written.due(wanted, now);
    changes.retain(|key, (_, change)| matches!(change, Change::Status(_)) || due.contains(key));
    changes.into_values().collect()
}

/// The status with the price of today, or `None` if that is what it says.
fn refreshed(
    known: &MachineStatus,
    price: Option<joiner_core::money::Money>,
    pods: u32,
    now: Timestamp,
) -> Option<MachineStatus> {
    let recent = known
        .price_checked
        .is_some_and(|at| clock::since(now, at) < SHOWN);
    if recent && known.price == price && known.pods == Some(pods) {
        return None;
    }
    Some(MachineStatus {
        price,
        price_checked: Some(now),
        pods: Some(pods),
        ..known.clone()
    })
}

#[cfg(test)]
mod tests {
    use joiner_core::money::Money;

    use super::*;

    #[test]
    fn nothing_is_written_while_nothing_changes() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let price = Some(Money::from_dollars(0.02));
        let written = refreshed(&MachineStatus::default(), price, 3, at(0)).unwrap();
        assert_eq!(refreshed(&written, price, 3, at(30)), None);
        assert!(refreshed(&written, price, 4, at(30)).is_some());
        assert!(refreshed(&written, None, 3, at(30)).is_some());
        assert!(refreshed(&written, price, 3, at(600)).is_some());
    }

    #[test]
    fn the_price_of_a_machine_is_written_once_in_five_minutes_and_the_longest_not_written_first() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let key = |name: &str| Key {
            dialect: "karpenter",
            namespace: "".into(),
            name: name.into(),
        };
        let all = || ["a", "b", "c"].map(|name| (Uid(name.into()), key(name)));
        let mut written = Written::default();
        assert_eq!(
            written.due(all().to_vec(), at(0)),
            ["a", "b", "c"].map(key),
            "nothing was written yet"
        );
        written.0.insert(Uid("a".into()), at(0));
        written.0.insert(Uid("b".into()), at(10));
        assert_eq!(written.due(all().to_vec(), at(299)), [key("c")]);
        assert_eq!(
            written.due(all().to_vec(), at(310)),
            ["c", "a", "b"].map(key)
        );
        let many: Vec<(Uid, Key)> = (0..AT_ONCE * 2)
            .map(|number| (Uid(number.to_string().into()), key(&number.to_string())))
            .collect();
        assert_eq!(written.due(many, at(0)).len(), AT_ONCE);
        written.forget(at(305));
        assert_eq!(written.0.len(), 1);
    }
}
