//! What machines cost now and how many pods they hold, on the objects of families that say so.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use tracing::debug;

use crate::context::{Context, Mode};
use crate::edge::clock;
use crate::record::{MachineRecord, MachineStatus};
use crate::view::World;
use crate::view::problem::{listed_price, price};

/// How old the time of the last look may get on an object on which nothing else changes: every look written down would
/// be a write for each node every half minute.
const SHOWN: Duration = Duration::from_mins(10);

/// Looks prices up for ever, as often as catalogues are read.
pub(crate) async fn run(context: Arc<Context>) {
    let usual = context.settings.catalog_period;
    let period = context.market.classes.shortest_period(usual);
    loop {
        tokio::time::sleep(period).await;
        let keeps = context.dialects.values().any(|one| one.keeps_prices());
        if keeps && context.may_act() && context.settings.mode == Mode::Act {
            look(&context).await;
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

async fn look(context: &Context) {
    let now = context.now();
    let changed: Vec<(Arc<MachineRecord>, MachineStatus)> = {
        let world = context.view.read();
        let terms = crate::market::terms::terms(context, &world, now);
        let keeps = |one: &&Arc<MachineRecord>| {
            let dialect = context.dialect(&one.key);
            one.launched()
                && one.deleting.is_none()
                && dialect.is_some_and(|one| one.keeps_prices())
        };
        let fresh = |machine: &Arc<MachineRecord>| {
            let node = machine.status.node.as_deref().unwrap_or_default();
            let pods = world.pods_on(node).filter(|pod| !pod.terminal).count();
            let price = price(machine, &terms).map(joiner_core::money::Money::to_micros);
            let pods = u32::try_from(pods).unwrap_or(u32::MAX);
            refreshed(&machine.status, price, pods, now).map(|status| (machine.clone(), status))
        };
        world
            .machines
            .iter()
            .filter(keeps)
            .filter_map(fresh)
            .collect()
    };
    for (machine, status) in changed {
        let Some(dialect) = context.dialect(&machine.key) else {
            continue;
        };
        match dialect.write_machine_status(&machine, &status).await {
            Ok(written) => context.view.note_machine(written),
            // Whoever changed it meanwhile did not change what it costs: the next look will do.
            Err(error) => debug!(machine = %machine.key, %error, "its price was not written down"),
        }
    }
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
}
