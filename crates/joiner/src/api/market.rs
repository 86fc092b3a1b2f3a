//! What is for sale: what we hold, and the cheapest of the rest.

use std::collections::BTreeMap;

use joiner_controllers::context::Context;
use joiner_core::resources::CPU;

use super::fleet::Fleet;
use super::history::History;
use super::model::{Market, OfferingView, SCHEMA};

/// How many offerings are shown that we do not hold.
const CHEAPEST: usize = 24;

/// Offerings; with `query`, those whose type, zone or capacity type contains it.
pub(crate) fn market(context: &Context, fleet: &Fleet, history: &History, query: &str) -> Market {
    let mut held: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for node in fleet.nodes.iter().filter(|node| node.machine.is_some()) {
        let offer = (&*node.instance_type, &*node.zone, &*node.capacity_type);
        *held.entry(offer).or_default() += 1;
    }
    let (mut all, mut for_sale) = (Vec::new(), 0);
    let mut offerings = 0;
    for catalog in fleet.costs.terms.catalogs.values() {
        for kind in &catalog.types {
            #[expect(clippy::cast_precision_loss, reason = "cores are few")]
            let cores = kind.capacity.get(CPU).max(1) as f64 / 1000.0;
            for offering in &kind.offerings {
                offerings += 1;
                let available = offering.available && offering.left != Some(0);
                for_sale += usize::from(available);
                let way: &str = offering.capacity_type.into();
                let held = held.get(&(&*kind.name, &*offering.zone, way));
                let text = [&*kind.name, &*offering.zone, way];
                if !query.is_empty() && !text.iter().any(|one| one.contains(query)) {
                    continue;
                }
                let price = offering.price.dollars();
                let offer = (
                    catalog.name.clone(),
                    kind.name.clone(),
                    offering.zone.clone(),
                    offering.capacity_type,
                );
                all.push((
                    OfferingView {
                        catalog: catalog.name.to_string(),
                        instance_type: kind.name.to_string(),
                        zone: offering.zone.to_string(),
                        capacity_type: way.to_owned(),
                        price,
                        per_core: price / cores,
                        available,
                        held: held.copied().unwrap_or_default(),
                        history: Vec::new(),
                    },
                    offer,
                ));
            }
        }
    }
    all.sort_by(|(a, _), (b, _)| {
        let rank = |one: &OfferingView| (one.held == 0, !one.available);
        let price = a.per_core.total_cmp(&b.per_core);
        rank(a)
            .cmp(&rank(b))
            .then(price)
            .then(a.instance_type.cmp(&b.instance_type))
    });
    let ours = all.iter().filter(|(one, _)| one.held > 0).count();
    all.truncate(ours + CHEAPEST);
    let shown = all.into_iter().map(|(mut one, offer)| {
        one.history = history.prices(&offer);
        one
    });
    let switches = context.decisions.activity(0, usize::MAX);
    let switches = switches
        .into_iter()
        .filter(|one| &*one.code == "Underutilized");
    Market {
        schema_version: SCHEMA,
        at: fleet.at,
        offerings,
        for_sale,
        shown: shown.collect(),
        switches: switches.map(|one| one.at).collect(),
    }
}
