//! Price overlays: which of them count, and what each is told about itself.
//!
//! karpenter: pkg/controllers/nodeoverlay

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::problem::Catalog;
use joiner_core::requirements::Requirements;
use tracing::warn;

use crate::context::{Context, Mode};
use crate::market::terms::offering_labels;
use crate::record::{Condition, Conditions, OverlayRecord, PoolRecord, Truth, kinds};
use crate::view::World;

/// Why an overlay does not count: a word for programs and a sentence for people.
type Rejection = (&'static str, String);
/// What is for sale to each pool.
type Sales = Vec<(Arc<PoolRecord>, Arc<Catalog>)>;

/// The overlays that count, heaviest first.
pub(crate) fn accepted<'w>(context: &Context, world: &'w World) -> Vec<&'w Arc<OverlayRecord>> {
    let sorted = sorted(world);
    if sorted.is_empty() {
        return sorted;
    }
    let judged = judge(&sorted, &sales(context, world));
    let pairs = sorted.into_iter().zip(judged);
    pairs
        .filter(|(_, rejection)| rejection.is_none())
        .map(|(overlay, _)| overlay)
        .collect()
}

/// The heaviest first, then the later name.
fn sorted(world: &World) -> Vec<&Arc<OverlayRecord>> {
    let mut all: Vec<&Arc<OverlayRecord>> = world.overlays.iter().collect();
    all.sort_by_key(|one| Reverse((one.weight, one.key.name.clone())));
    all
}

fn sales(context: &Context, world: &World) -> Sales {
    let pools = world.pools.iter().filter_map(|pool| {
        let catalog = context.market.classes.slot(&pool.class)?.catalog()?;
        Some((pool.clone(), catalog))
    });
    pools.collect()
}

/// What an overlay changes: a price of an offering, or an amount of a type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Touched {
    Price(Name, Name, usize),
    Capacity(Name, Name, Name),
}

/// Why each does not count, in the same order. Two of the same weight that change the same thing cannot both be right:
/// the one that comes later is out.
fn judge(sorted: &[&Arc<OverlayRecord>], sales: &Sales) -> Vec<Option<Rejection>> {
    let mut taken: BTreeMap<(Touched, i32), &OverlayRecord> = BTreeMap::new();
    let mut all = Vec::new();
    for overlay in sorted {
        if let Some(said) = &overlay.invalid {
            all.push(Some(("RuntimeValidation", said.clone())));
            continue;
        }
        let wanted = match Requirements::parse(&overlay.requirements) {
            Ok(wanted) => wanted,
            Err(error) => {
                let said = format!("spec.requirements: {error}");
                all.push(Some(("RuntimeValidation", said)));
                continue;
            }
        };
        let touched: Vec<(Touched, i32)> = touched(overlay, &wanted, sales)
            .into_iter()
            .map(|one| (one, overlay.weight))
            .collect();
        let rival = touched.iter().find_map(|one| taken.get(one));
        if let Some(rival) = rival {
            let said = format!(
                "conflicts with overlay {}: both have weight {} and change the same; give one of them another weight",
                rival.key.name, overlay.weight
            );
            all.push(Some(("Conflict", said)));
            continue;
        }
        for one in touched {
            taken.entry(one).or_insert(overlay);
        }
        all.push(None);
    }
    all
}

fn touched(overlay: &OverlayRecord, wanted: &Requirements, sales: &Sales) -> Vec<Touched> {
    let mut all = Vec::new();
    for (pool, catalog) in sales {
        for kind in &catalog.types {
            let mut any = false;
            for (position, offering) in kind.offerings.iter().enumerate() {
                let has = Requirements::from_labels(&offering_labels(kind, offering, pool));
                if has.compatible(wanted, |_| false).is_err() {
                    continue;
                }
                any = true;
                if overlay.price.is_some() {
                    all.push(Touched::Price(
                        pool.id().clone(),
                        kind.name.clone(),
                        position,
                    ));
                }
            }
            if any {
                let amounts = overlay.capacity.iter().map(|(name, _)| {
                    Touched::Capacity(pool.id().clone(), kind.name.clone(), name.clone())
                });
                all.extend(amounts);
            }
        }
    }
    all
}

/// Tells every overlay whether it counts.
pub(crate) async fn report(context: &Context) {
    let now = context.now();
    let changed: Vec<(Arc<OverlayRecord>, Conditions)> = {
        let world = context.view.read();
        let sorted = sorted(&world);
        let judged = judge(&sorted, &sales(context, &world));
        let pairs = sorted.into_iter().zip(judged);
        pairs
            .map(|(overlay, rejection)| (overlay.clone(), conditions(overlay, rejection, now)))
            .filter(|(overlay, conditions)| overlay.conditions != *conditions)
            .collect()
    };
    if context.settings.mode == Mode::ObserveOnly {
        return;
    }
    for (overlay, conditions) in changed {
        let Some(dialect) = context.dialect(&overlay.key) else {
            continue;
        };
        if let Err(error) = dialect.write_overlay(&overlay, &conditions).await {
            warn!(overlay = %overlay.key, %error, "status of the NodeOverlay could not be written");
        }
    }
}

fn conditions(overlay: &OverlayRecord, rejection: Option<Rejection>, now: Timestamp) -> Conditions {
    let mut conditions = overlay.conditions.clone();
    let (status, reason, message) = match rejection {
        None => (Truth::True, kinds::VALIDATION_SUCCEEDED, String::new()),
        Some((reason, said)) => (Truth::False, reason, said),
    };
    conditions.ensure(Condition {
        kind: kinds::VALIDATION_SUCCEEDED.into(),
        status,
        reason: reason.into(),
        message,
        since: now,
        generation: overlay.generation,
    });
    conditions.ensure_ready(&[kinds::VALIDATION_SUCCEEDED], overlay.generation, now);
    conditions
}
