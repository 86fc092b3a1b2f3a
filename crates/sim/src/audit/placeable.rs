//! Whether a pod could run: whether some pool may buy some machine that holds it. Judged by itself, in the plainest way,
//! so that it shares no mistake with the packer. It knows what simulated worlds ask for: tolerations, requests and the
//! hard rules of `rules`; pools with requirements of the operator `In`, taints and limits.

use std::collections::BTreeSet;

use joiner_core::labels;
use joiner_core::problem::{Catalog, InstanceType, Offering};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use serde_json::Value;

use super::AuditOptions;
use super::ledger::{Id, Ledger, Pool};
use super::purchases::used;
use super::rules::{Rules, Seen};
use joiner_embedded::cluster::fields::Fields as _;
use joiner_embedded::cluster::quantity;

/// A pool that could buy a machine for a pod.
pub(super) fn pool_for(ledger: &Ledger, options: &AuditOptions, pod: &Value) -> Option<String> {
    let pools: Vec<(&Id, &Pool, &Catalog)> = ledger
        .pools
        .iter()
        .filter(|(_, pool)| !pool.deleting() && pool.terms.for_pods && tolerates(pod, pool))
        .filter_map(|(id, pool)| {
            let catalog = options.classes.get(&pool.terms.class)?;
            Some((id, pool, catalog))
        })
        .collect();
    // What is on sale counts for a spread, although no node is there yet: a place that is fine by both ways of counting
    // is fine for sure.
    let plain = Rules::of(ledger, pod, Seen::Now, &|_| BTreeSet::new());
    let on_sale = |key: &str| {
        let offers = pools
            .iter()
            .flat_map(|(_, pool, catalog)| offers(pool, catalog));
        let labels = offers.filter(|offer| offer.suits(&plain));
        if key == labels::HOSTNAME {
            return BTreeSet::new();
        }
        labels.filter_map(|offer| offer.label(key)).collect()
    };
    let strict = Rules::of(ledger, pod, Seen::Now, &on_sale);
    let rules = [plain, strict];
    let mut pools = pools.into_iter();
    pools
        .find(|(id, pool, catalog)| sells(ledger, (id, pool), catalog, &rules, pod))
        .map(|((family, name), ..)| format!("{name} of {family}"))
}

/// A machine that a pool could buy.
struct Offer<'a> {
    pool: &'a Pool,
    kind: &'a InstanceType,
    offering: &'a Offering,
}

impl Offer<'_> {
    /// What its node would bear for a label.
    fn label(&self, key: &str) -> Option<String> {
        value(self.kind, self.offering, self.pool, key)
    }

    /// Whether the pool buys it, and the pod selects it.
    fn suits(&self, rules: &Rules<'_>) -> bool {
        let label = |key: &str| self.label(key);
        let mut wants = self.pool.terms.requirements.iter();
        wants.all(|(key, values)| label(key).is_some_and(|has| values.contains(&has)))
            && rules.selects(&label)
    }
}

fn offers<'a>(pool: &'a Pool, catalog: &'a Catalog) -> impl Iterator<Item = Offer<'a>> {
    let kinds = catalog.types.iter();
    kinds.flat_map(move |kind| {
        let one = move |offering| Offer {
            pool,
            kind,
            offering,
        };
        kind.offerings.iter().map(one)
    })
}

fn sells(
    ledger: &Ledger,
    (id, pool): (&Id, &Pool),
    catalog: &Catalog,
    rules: &[Rules<'_>],
    pod: &Value,
) -> bool {
    let limits = &pool.terms.limits;
    let full = limits.get("nodes").is_some_and(|most| {
        i64::try_from(ledger.claims_of(id).count()).unwrap_or(i64::MAX) >= quantity::units(most)
    });
    if full {
        return false;
    }
    let mut used = used(ledger, id);
    // Nodes report a little less memory than was promised, and the promise may count against the limit.
    let memory = used.get(MEMORY);
    used.set(MEMORY, memory + memory / 25);
    let within = |kind: &InstanceType| {
        let most = |resource: &str| limits.get(resource);
        most(CPU)
            .is_none_or(|most| used.get(CPU) + kind.capacity.get(CPU) <= quantity::millis(most))
            && most(MEMORY).is_none_or(|most| {
                used.get(MEMORY) + kind.capacity.get(MEMORY) <= quantity::units(most)
            })
    };
    let wanted = requests(ledger, pod);
    offers(pool, catalog)
        .filter(|offer| within(offer.kind) && holds(offer.kind, &wanted))
        .any(|offer| {
            let label = |key: &str| offer.label(key);
            let mut rules = rules.iter();
            rules.all(|rules| offer.suits(rules) && rules.broken(&label).is_none())
        })
}

/// What the pod and every daemon beside it ask for.
fn requests(ledger: &Ledger, pod: &Value) -> Resources {
    let mut wanted = Resources::new().with(PODS, 1);
    let mut add = |spec: &Value| {
        for container in spec.items(&["containers"]) {
            let asked = container.at(&["resources", "requests"]);
            wanted.add(
                &Resources::new()
                    .with(CPU, quantity::millis(asked.at(&["cpu"])))
                    .with(MEMORY, quantity::units(asked.at(&["memory"]))),
            );
        }
    };
    add(pod.at(&["spec"]));
    for daemon in ledger.daemons.values() {
        add(daemon.at(&["spec", "template", "spec"]));
    }
    wanted
}

fn holds(kind: &InstanceType, wanted: &Resources) -> bool {
    let allocatable = kind.allocatable();
    [CPU, MEMORY]
        .iter()
        .all(|name| wanted.get(name) <= allocatable.get(name))
}

fn tolerates(pod: &Value, pool: &Pool) -> bool {
    pool.terms.taints.iter().all(|taint| {
        pod.items(&["spec", "tolerations"]).iter().any(|one| {
            let key = one.text(&["key"]);
            let any = one.text(&["operator"]) == "Exists";
            (key.is_empty() || key == taint.text(&["key"]))
                && (any || one.text(&["value"]) == taint.text(&["value"]))
        })
    })
}

/// What a node of an offering bears for a label.
fn value(kind: &InstanceType, offering: &Offering, pool: &Pool, key: &str) -> Option<String> {
    match key {
        labels::ZONE => Some(offering.zone.to_string()),
        labels::CAPACITY_TYPE => Some(offering.capacity_type.to_string()),
        labels::INSTANCE_TYPE => Some(kind.name.to_string()),
        labels::NODEPOOL => Some(pool.name.clone()),
        // No node there is has this name.
        labels::HOSTNAME => Some("a-new-one".to_owned()),
        _ => kind
            .labels
            .get(key)
            .map(ToString::to_string)
            .or_else(|| pool.terms.labels.get(key).cloned()),
    }
}
