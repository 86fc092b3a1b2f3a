//! What is bought: is it for sale, at that price, on the pool's terms, and would the alternatives do as well.

use std::collections::{BTreeMap, BTreeSet};

use super::fit::reachable;
use super::sales;
use super::site::{Kind, Site, World, daemons, keeps_away, selected};
use super::{Findings, Rule};
use crate::labels;
use crate::money::Money;
use crate::name::{Labels, Name};
use crate::plan::{Launch, Purchase};
use crate::problem::{
    Host, InstanceType, MinValuesPolicy, Offering, Pool, Problem, Range, Spread, WhenUnsatisfiable,
};
use crate::requirements::Requirements;
use crate::resources::{CPU, MEMORY, Resources};
use crate::taints::{Toleration, untolerated};

/// What a purchase takes from a catalogue.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Type(&'a InstanceType, &'a Offering),
    Range(&'a Range, &'a Host),
}

/// What is bought. A purchase names no region: the labels that the node will have tell it where they are known, or else
/// the price.
pub(super) fn source<'a>(
    problem: &'a Problem,
    purchase: &Purchase,
    will_have: Option<&Labels>,
) -> Result<Source<'a>, String> {
    let catalog = problem
        .catalog(&purchase.catalog)
        .ok_or_else(|| format!("there is no catalogue {}", purchase.catalog))?;
    if let Some(range) = catalog
        .ranges
        .iter()
        .find(|range| purchase.host.is_some() && range.name == purchase.instance_type)
    {
        let host = range
            .hosts
            .iter()
            .find(|host| Some(&host.name) == purchase.host.as_ref() && host.zone == purchase.zone);
        return host
            .map(|host| Source::Range(range, host))
            .ok_or_else(|| format!("{} has no such host in {}", range.name, purchase.zone));
    }
    let kind = catalog
        .types
        .iter()
        .find(|kind| kind.name == purchase.instance_type)
        .ok_or_else(|| format!("there is no type {}", purchase.instance_type))?;
    let region = will_have.and_then(|labels| labels.get(labels::REGION));
    let meant = |offering: &&Offering| {
        offering.zone == purchase.zone
            && offering.capacity_type == purchase.capacity_type
            && offering.reservation == purchase.reservation
    };
    let there = |offering: &&Offering| {
        let known = region.filter(|_| !offering.region.is_empty());
        known.is_none_or(|region| offering.region == *region)
    };
    let mut offerings = kind.offerings.iter().filter(meant).filter(there);
    let first = offerings.clone().next();
    offerings
        .find(|offering| offering.price == purchase.price)
        .or(first)
        .map(|offering| Source::Type(kind, offering))
        .ok_or_else(|| {
            format!(
                "{} is not offered in {} as {}",
                kind.name, purchase.zone, purchase.capacity_type
            )
        })
}

/// What a machine bought this way has for pods and daemons.
pub(super) fn allocatable(
    problem: &Problem,
    launch: &Launch,
    purchase: &Purchase,
) -> Option<Resources> {
    match source(problem, purchase, None).ok()? {
        Source::Type(kind, _) => Some(kind.allocatable()),
        Source::Range(range, _) => {
            let made = InstanceType {
                name: range.name.clone(),
                labels: Labels::new(),
                capacity: launch.capacity.clone(),
                overhead: range.overhead.clone(),
                offerings: Vec::new(),
                quotas: Vec::new(),
            };
            Some(made.allocatable())
        }
    }
}

/// Labels that come with a machine, whatever the pods want.
fn given_labels(pool: &Pool, purchase: &Purchase, source: Source<'_>) -> Labels {
    let (own, region) = match source {
        Source::Type(kind, offering) => (&kind.labels, &offering.region),
        Source::Range(range, _) => (&range.labels, &range.region),
    };
    let mut all = pool.labels.clone();
    all.extend(own.clone());
    all.insert(labels::ZONE.into(), purchase.zone.clone());
    all.insert(
        labels::CAPACITY_TYPE.into(),
        purchase.capacity_type.to_string().into(),
    );
    if let Some(said) = pool.nodepool_label() {
        all.insert(labels::NODEPOOL.into(), said.clone());
    }
    all.insert(labels::INSTANCE_TYPE.into(), purchase.instance_type.clone());
    if !region.is_empty() {
        all.insert(labels::REGION.into(), region.clone());
    }
    if let Some(reservation) = &purchase.reservation {
        all.insert(labels::RESERVATION_ID.into(), reservation.clone());
    }
    all
}

/// Every value of a key that some pool can still give a new node after what the plan buys. With tolerations, pools whose taints they do not cover
/// give none.
///
/// karpenter: pkg/controllers/provisioning/scheduling/topology.go, `buildDomainGroups`
pub(super) fn domains(
    world: &World<'_>,
    key: &Name,
    tolerations: Option<&[Toleration]>,
) -> BTreeSet<Name> {
    let World { problem, sales, .. } = world;
    let mut all = BTreeSet::new();
    let pools = problem.pools.iter().filter(|pool| {
        let taints = keeps_away(&pool.taints);
        pool.closed.is_none()
            && pool.replicas.is_none()
            && tolerations.is_none_or(|own| untolerated(taints, own).is_none())
    });
    for pool in pools {
        let (Some(catalog), Ok(wanted)) = (
            problem.catalog(&pool.catalog),
            Requirements::parse(&pool.requirements),
        ) else {
            continue;
        };
        if wanted.contradiction().is_some() {
            continue;
        }
        let known = known_keys(problem, pool);
        let own = (!known.contains(key)).then(|| wanted.get(key)).flatten();
        let mut offer = |purchase: Purchase, source: Source<'_>| {
            let mut given = given_labels(pool, &purchase, source);
            // What the pool leaves to the pods is not there yet; it can be had all the same.
            for (open, requirement) in wanted.iter().filter(|(open, _)| !known.contains(*open)) {
                if let Some(value) = requirement.listed().and_then(BTreeSet::first) {
                    given.entry(open.clone()).or_insert_with(|| value.clone());
                }
            }
            let closed: Vec<_> = wanted
                .iter()
                .filter(|(open, _)| known.contains(*open) || given.contains_key(*open))
                .collect();
            let fits = closed
                .iter()
                .all(|(key, requirement)| match given.get(*key) {
                    Some(value) => requirement.allows(value),
                    None => requirement.allows_absence(),
                });
            if !fits {
                return;
            }
            match own.and_then(|requirement| requirement.listed()) {
                Some(values) => all.extend(values.iter().cloned()),
                None => all.extend(given.get(key).cloned()),
            }
        };
        for kind in &catalog.types {
            let left = |offering: &&Offering| {
                offering.available && sales.has_left(catalog, kind, offering)
            };
            for offering in kind.offerings.iter().filter(left) {
                let purchase = purchase_of(catalog, kind, offering);
                offer(purchase, Source::Type(kind, offering));
            }
        }
        for range in &catalog.ranges {
            let left = |host: &&Host| sales.has_room(catalog, range, host);
            for host in range.hosts.iter().filter(left) {
                let purchase = Purchase {
                    catalog: catalog.name.clone(),
                    instance_type: range.name.clone(),
                    zone: host.zone.clone(),
                    capacity_type: range.capacity_type,
                    reservation: None,
                    host: Some(host.name.clone()),
                    price: Money::ZERO,
                };
                offer(purchase, Source::Range(range, host));
            }
        }
    }
    all
}

fn purchase_of(
    catalog: &crate::problem::Catalog,
    kind: &InstanceType,
    offering: &Offering,
) -> Purchase {
    Purchase {
        catalog: catalog.name.clone(),
        instance_type: kind.name.clone(),
        zone: offering.zone.clone(),
        capacity_type: offering.capacity_type,
        reservation: offering.reservation.clone(),
        host: None,
        price: offering.price,
    }
}

/// Keys that the pool or its catalogue decides: a machine without one does not have it, whatever pods ask for.
fn known_keys(problem: &Problem, pool: &Pool) -> BTreeSet<Name> {
    let always = [
        labels::NODEPOOL,
        labels::CAPACITY_TYPE,
        labels::ZONE,
        labels::INSTANCE_TYPE,
        labels::RESERVATION_ID,
        labels::HOSTNAME,
    ];
    let mut keys: BTreeSet<Name> = always.into_iter().map(Name::from).collect();
    if let Some(catalog) = problem.catalog(&pool.catalog) {
        let types = catalog.types.iter().flat_map(|kind| kind.labels.keys());
        let ranges = catalog.ranges.iter().flat_map(|range| range.labels.keys());
        keys.extend(types.chain(ranges).map(|key| labels::canonical(key).into()));
        let offerings = catalog.types.iter().flat_map(|kind| &kind.offerings);
        let mut regions = offerings
            .map(|offering| &offering.region)
            .chain(catalog.ranges.iter().map(|range| &range.region));
        if regions.any(|region| !region.is_empty()) {
            keys.insert(labels::REGION.into());
        }
    }
    keys.extend(pool.labels.keys().cloned());
    keys
}

pub(super) fn check(world: &World<'_>, findings: &mut Findings) {
    let mut known = BTreeMap::new();
    for site in &world.sites {
        let Kind::Launch(launch) = site.kind else {
            continue;
        };
        let Some(pool) = world.pools.get(&*launch.pool).copied() else {
            let text = format!(
                "{} is for pool {}, which there is not",
                site.title, launch.pool
            );
            findings.add(Rule::Purchase, text);
            continue;
        };
        if let Some(why) = &pool.closed {
            let text = format!(
                "{} is for pool {}, which is closed: {why}",
                site.title, pool.name
            );
            findings.add(Rule::Purchase, text);
        }
        if pool.replicas.is_some() {
            let text = format!(
                "{} is for pool {}, which keeps a fixed number of nodes",
                site.title, pool.name
            );
            findings.add(Rule::Purchase, text);
        }
        let keys = known
            .entry(&pool.name)
            .or_insert_with(|| known_keys(world.problem, pool));
        if let Err(fault) = terms(
            world.problem,
            pool,
            keys,
            launch,
            &launch.purchase,
            &launch.labels,
        ) {
            findings.add(Rule::Purchase, format!("{}: {fault}", site.title));
        }
        capacity(world.problem, site, launch, findings);
        for (rank, purchase) in launch.alternatives.iter().enumerate() {
            if let Err(fault) = alternative(world, site, pool, keys, launch, purchase) {
                let text = format!("{}, alternative {rank}: {fault}", site.title);
                findings.add(Rule::Purchase, text);
            }
        }
        min_values(world.problem, site, pool, launch, findings);
    }
    sales::check(world, findings);
}

/// Whether this may be bought for the pool, and the node will have these labels.
fn terms(
    problem: &Problem,
    pool: &Pool,
    known: &BTreeSet<Name>,
    launch: &Launch,
    purchase: &Purchase,
    will_have: &Labels,
) -> Result<(), String> {
    if purchase.catalog != pool.catalog {
        return Err(format!(
            "pool {} buys from {}, not from {}",
            pool.name, pool.catalog, purchase.catalog
        ));
    }
    let source = source(problem, purchase, Some(will_have))?;
    let price = match source {
        Source::Type(_, offering) if !offering.available => {
            return Err("the offering is sold out".to_owned());
        }
        Source::Type(_, offering) => offering.price,
        Source::Range(range, _) => {
            if range.capacity_type != purchase.capacity_type {
                return Err(format!("{} is not sold that way", range.name));
            }
            made_price(range, &launch.capacity)
        }
    };
    // Prices made of parts may be rounded part by part.
    let apart = (price.nanos() - purchase.price.nanos()).abs();
    if apart
        > if matches!(source, Source::Range(..)) {
            4
        } else {
            0
        }
    {
        return Err(format!("it costs {price}, not {}", purchase.price));
    }
    let given = given_labels(pool, purchase, source);
    for (key, value) in &given {
        if will_have.get(key) != Some(value) {
            return Err(format!("the node will have the label {key}={value}"));
        }
    }
    let wanted = Requirements::parse(&pool.requirements).map_err(|error| error.to_string())?;
    if let Some(key) = will_have.keys().find(|key| {
        !given.contains_key(*key)
            && (known.contains(*key) || (wanted.get(key).is_none() && !labels::is_well_known(key)))
    }) {
        return Err(format!("nothing gives the node the label {key}"));
    }
    if !Requirements::from_labels(&pool.labels).satisfied_by(will_have) {
        return Err(format!(
            "it does not carry the labels of pool {}",
            pool.name
        ));
    }
    if !wanted.satisfied_by(will_have) {
        return Err(format!("pool {} wants {wanted}", pool.name));
    }
    Ok(())
}

fn made_price(range: &Range, size: &Resources) -> Money {
    let part = |price: Money, amount: i64, unit: i64| {
        let nanos = i128::from(price.nanos()) * i128::from(amount) / i128::from(unit);
        Money::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    };
    let cores = part(range.prices.core, size.get(CPU), 1000);
    let memory = part(range.prices.memory_gib, size.get(MEMORY), 1 << 30);
    range
        .prices
        .machine
        .saturating_add(cores)
        .saturating_add(memory)
}

fn capacity(problem: &Problem, site: &Site<'_>, launch: &Launch, findings: &mut Findings) {
    match source(problem, &launch.purchase, Some(&launch.labels)) {
        Ok(Source::Type(kind, _)) if kind.capacity != launch.capacity => {
            let text = format!(
                "{} does not have the capacity that the plan says",
                site.title
            );
            findings.add(Rule::Purchase, text);
        }
        Ok(Source::Range(range, _)) => {
            for (name, most) in range.max.iter() {
                let (amount, least) = (launch.capacity.get(name), range.min.get(name));
                let step = range.step.get(name);
                let on_grid = if step > 0 {
                    (amount - least) % step == 0 || amount == most
                } else {
                    amount == most
                };
                if amount < least || amount > most || !on_grid {
                    let text = format!(
                        "{} has {amount} of {name}: {} comes from {least} to {most} in steps of {step}",
                        site.title, range.name
                    );
                    findings.add(Rule::Purchase, text);
                }
            }
        }
        _ => {}
    }
}

fn alternative(
    world: &World<'_>,
    site: &Site<'_>,
    pool: &Pool,
    known: &BTreeSet<Name>,
    launch: &Launch,
    purchase: &Purchase,
) -> Result<(), String> {
    let source = source(world.problem, purchase, None)?;
    let mut will_have = given_labels(pool, purchase, source);
    for (key, value) in &launch.labels {
        // The reservation comes and goes with the purchase.
        if !known.contains(key) && &**key != labels::RESERVATION_ID {
            will_have
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
    }
    terms(world.problem, pool, known, launch, purchase, &will_have)?;
    let room = allocatable(world.problem, launch, purchase).unwrap_or_default();
    let mut taken = Resources::new();
    for spec in daemons(world.problem, &will_have, &site.taints) {
        taken.add(&spec.requests);
    }
    for pod in &site.placed {
        taken.add(&pod.spec().requests);
        if !selected(pod.spec(), &will_have, None) {
            return Err(format!("pod {} does not select its labels", pod.name()));
        }
        if let Some(volume) = pod
            .spec()
            .volumes
            .iter()
            .find(|volume| !reachable(volume, &will_have))
        {
            return Err(format!("volume {} cannot be reached from it", volume.claim));
        }
        let spec = pod.spec();
        let ruled = |one: &&Spread| one.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
        let spread = spec.spread.iter().filter(ruled);
        let spread = spread.map(|spread| &spread.topology_key);
        let near = spec.affinity.iter().chain(&spec.anti_affinity);
        let near = near.filter(|term| term.selector.is_some());
        for key in spread.chain(near.map(|term| &term.topology_key)) {
            if will_have.get(key) != site.labels.get(key) {
                return Err(format!("it would take pod {} to another {key}", pod.name()));
            }
        }
    }
    if !room.fits(&taken) {
        return Err("it does not hold the pods".to_owned());
    }
    Ok(())
}

/// The types left to choose from must offer as many different values as the pool asks for.
fn min_values(
    problem: &Problem,
    site: &Site<'_>,
    pool: &Pool,
    launch: &Launch,
    findings: &mut Findings,
) {
    if problem.settings.min_values == MinValuesPolicy::BestEffort {
        return;
    }
    for expression in &pool.requirements {
        let Some(least) = expression.min_values else {
            continue;
        };
        let key = labels::canonical(&expression.key);
        let mut values = BTreeSet::new();
        for purchase in launch.alternatives.iter().chain([&launch.purchase]) {
            match (key, source(problem, purchase, None)) {
                (labels::INSTANCE_TYPE, _) => {
                    values.insert(purchase.instance_type.clone());
                }
                (labels::ZONE, Ok(Source::Type(kind, _))) => {
                    values.extend(kind.offerings.iter().map(|offering| offering.zone.clone()));
                }
                (labels::CAPACITY_TYPE, Ok(Source::Type(kind, _))) => values.extend(
                    kind.offerings
                        .iter()
                        .map(|offering| Name::from(offering.capacity_type.to_string())),
                ),
                (_, Ok(Source::Type(kind, _))) => values.extend(kind.labels.get(key).cloned()),
                (_, Ok(Source::Range(range, _))) => values.extend(range.labels.get(key).cloned()),
                (_, Err(_)) => {}
            }
        }
        if (values.len() as u64) < u64::from(least) {
            let text = format!(
                "{} leaves {} values of {key} to choose from, pool {} wants {least}",
                site.title,
                values.len(),
                pool.name
            );
            findings.add(Rule::Purchase, text);
        }
    }
}
