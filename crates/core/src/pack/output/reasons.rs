//! Why a pod finds no place: how many types were left after each filter, and what ended it.

use crate::labels;
use crate::name::{Labels, Name};
use crate::pack::assign::Lot;
use crate::pack::assign::topology::Topology;
use crate::pack::compile::Compiled;
use crate::pack::compile::ids::{ClassId, ColumnId, OfferId};
use crate::pack::compile::offers::{Item, Offer};
use crate::pack::compile::profile::Level;
use crate::pack::compile::sizing;
use crate::pack::compile::supply::{Ledger, Scarce};
use crate::pack::dense::typed::Id as _;
use crate::pack::dense::vector::Vector;
use crate::plan::{Code, LACKS, Reason, Shortfall};
use crate::problem::{CapacityType, Host, InstanceType, Offering, PoolId, Problem, Range};
use crate::requirements::{Incompatible, Requirements};
use crate::resources::{described, figure};

/// A request of a million cores is a slip of the unit.
const ABSURD_CPU_MILLIS: i64 = 1_000_000_000;

/// Why no node and no new machine can hold a class.
pub(crate) fn no_place(compiled: &Compiled<'_>, class: ClassId, topology: &Topology) -> Reason {
    let profile = compiled.profile(class);
    let said = profile.invalid.clone().or_else(|| {
        let resource = compiled.class(class).uncounted.as_ref()?;
        Some(format!(
            "resource {resource} is not counted: pods request too many different resources"
        ))
    });
    if let Some(text) = said {
        return Reason::NoMachine {
            pools: vec![Shortfall {
                ended_by: text,
                code: Code::Invalid,
                ..Shortfall::default()
            }],
        };
    }
    if compiled.pools.is_empty() {
        return Reason::NoPool;
    }
    let Some(level) = profile.levels.last() else {
        return Reason::NoPool;
    };
    let mut shortfalls: Vec<(usize, Shortfall)> = compiled
        .pools
        .iter()
        .map(|pool| {
            let obstacles = obstacles(compiled, pool.pool, level);
            (obstacles, shortfall(compiled, pool.pool, class, level))
        })
        .collect();
    // The first pool that is named should be the one that was meant: the one with the least in the way.
    shortfalls.sort_by_key(|(obstacles, _)| *obstacles);
    let shortfalls: Vec<Shortfall> = shortfalls.into_iter().map(|(_, one)| one).collect();
    if shortfalls.iter().any(|one| one.large_enough > 0) {
        let refusal = compiled
            .cells
            .ids()
            .find_map(|cell| topology.refusal(compiled, profile, level, cell));
        let host_affinity = level.host_affinity.first().map(|rule| rule.group);
        let group = refusal.or(host_affinity);
        let rule = group.map_or_else(
            || "a rule about other pods".to_owned(),
            |group| compiled.groups.all.get(group).describe(),
        );
        return Reason::NoDomain { rule };
    }
    Reason::NoMachine { pools: shortfalls }
}

/// Why a lot that has machines in principle was not packed: something scarce ran out, or its neighbours left no room.
pub(crate) fn not_packed(compiled: &Compiled<'_>, lot: &Lot, ledger: &Ledger) -> Reason {
    let level = &compiled.profile(lot.class).levels[lot.level];
    let requests = &compiled.class(lot.class).requests;
    let bits = &compiled.demand_columns[level.demand];
    let short = bits.iter().find_map(|index| {
        let column = compiled.column(ColumnId::at(index));
        if !requests.fits(&column.room) {
            return None;
        }
        let (counter, left) = ledger.short(&column.uses)?;
        Some((column.pool, counter, left))
    });
    if let Some((pool, counter, left)) = short {
        let problem = compiled.problem;
        return Reason::Limit {
            pool: problem.title(problem.pool_at(pool)).clone(),
            limit: describe(problem, compiled.supply.name(counter), left),
        };
    }
    let rule = level
        .host_affinity
        .first()
        .map(|rule| rule.group)
        .map_or_else(
            || "a rule about other pods on its node".to_owned(),
            |group| compiled.groups.all.get(group).describe(),
        );
    Reason::NoDomain { rule }
}

fn describe(problem: &Problem, scarce: &Scarce, left: i64) -> String {
    let catalog = |at: &u32| problem.catalog_at(*at);
    match scarce {
        Scarce::PoolResource(pool, name) => {
            let most = problem.pool_at(*pool).limits.resources.get(name);
            let used = figure(name, most.saturating_sub(left));
            format!("limits.{name} ({used} of {})", figure(name, most))
        }
        Scarce::PoolNodes(pool) => {
            let most = problem.pool_at(*pool).limits.nodes.unwrap_or_default();
            let used = i64::from(most).saturating_sub(left);
            format!("limits.nodes ({used} of {most})")
        }
        Scarce::PoolCost(pool) => {
            let most = problem.pool_at(*pool).limits.cost.unwrap_or_default();
            let used = most - crate::money::Money::from_nanos(left);
            format!("limits.cost ({used} of {most} an hour)")
        }
        Scarce::Offering(at, kind, offering) => {
            let one = &catalog(at).types[*kind as usize];
            let offering = &one.offerings[*offering as usize];
            let (zone, way) = (&offering.zone, offering.capacity_type);
            format!("{} as {way} in zone {zone} is sold out", one.name)
        }
        Scarce::Reservation(id) => format!("reservation {id} is used up"),
        Scarce::Stock(name) => format!("stock {name} is sold out"),
        Scarce::Host(_, host, name) => format!("host {host} has {} left", described(name, left)),
        Scarce::Quota(quota, name) => format!("quota {quota} has {} left", described(name, left)),
        Scarce::Range(at, range) => {
            let range = &catalog(at).ranges[*range as usize];
            format!("no more machines of {} may be created", range.name)
        }
        Scarce::Nodes => format!("maxNewNodes of this plan is reached ({left} left)"),
        Scarce::SpotShare(_, kind, zone) => {
            format!("spotShare of {kind} in zone {zone} is reached ({left} left)")
        }
    }
}

/// How many kinds of things keep a pod from a pool: a taint, and requirements that do not meet.
fn obstacles(compiled: &Compiled<'_>, pool: PoolId, level: &Level) -> usize {
    let demand = compiled.demands.get(level.demand);
    let owner = compiled.problem.pool_at(pool);
    let tainted = demand.tolerated.refuses(&owner.taints).is_some();
    let Some(terms) = compiled.pools.iter().find(|one| one.pool == pool) else {
        return usize::from(tainted);
    };
    let mut offered = terms.requirements.clone();
    offered.require_all(&Requirements::from_labels(&owner.labels));
    let known = |key: &str| labels::is_well_known(key) || on_some_type(compiled, key);
    let meets = demand.terms.is_empty()
        || demand
            .terms
            .iter()
            .any(|term| offered.compatible(term, known).is_ok());
    usize::from(tainted) + usize::from(!meets)
}

fn shortfall(compiled: &Compiled<'_>, pool: PoolId, class: ClassId, level: &Level) -> Shortfall {
    let problem = compiled.problem;
    let owner = problem.pool_at(pool);
    let requests = &compiled.class(class).requests;
    let demand = compiled.demands.get(level.demand);
    let types = problem
        .catalog(&owner.catalog)
        .map_or(0, |catalog| catalog.types.len() + catalog.ranges.len());
    let allowed_offers = &compiled.demand_offers[level.demand];
    let mut allowed = Vec::new();
    let mut large = Vec::new();
    for index in allowed_offers.iter() {
        let offer = &compiled.offers[OfferId::at(index)];
        if offer.pool == pool {
            allowed.push(type_of(offer));
            if requests.fits(&offer.room) {
                large.push(type_of(offer));
            }
        }
    }
    for list in [&mut allowed, &mut large] {
        list.sort_unstable();
        list.dedup();
    }
    let missed = if demand.tolerated.refuses(&owner.taints).is_none() {
        sold_out(compiled, pool, level, &allowed)
    } else {
        Vec::new()
    };
    let offered = allowed.len();
    let enough = |one: &&Missed| requests.fits(&one.room);
    let held = missed.iter().filter(enough).map(|one| one.name.clone());
    let sold_out: Vec<Name> = held.collect();
    let (code, ended_by) = if let Some(taint) = demand.tolerated.refuses(&owner.taints) {
        let equals = if taint.value.is_empty() { "" } else { "=" };
        let said = format!(
            "pod does not tolerate taint {}{equals}{}:{}",
            taint.key, taint.value, taint.effect
        );
        (Code::Taint, said)
    } else if offered == 0 && !missed.is_empty() {
        let said = "every instance type that the pod could use is sold out".to_owned();
        (Code::SoldOut, said)
    } else if offered == 0 {
        (Code::Requirement, incompatibility(compiled, pool, level))
    } else if large.is_empty() {
        (Code::TooLarge, too_large(compiled, pool, level, requests))
    } else {
        let said = "a rule about other pods is in the way".to_owned();
        (Code::PodRules, said)
    };
    Shortfall {
        pool: problem.title(owner).clone(),
        types: types as u32,
        allowed: (offered + missed.len()) as u32,
        offered: offered as u32,
        large_enough: large.len() as u32,
        sold_out,
        ended_by,
        code,
    }
}

/// A type that cannot be bought right now.
struct Missed {
    name: Name,
    /// What pods could use.
    room: Vector,
}

/// Types with offerings that pool and pod allow, if only they were for sale; without those that are `for_sale`.
fn sold_out(
    compiled: &Compiled<'_>,
    pool: PoolId,
    level: &Level,
    for_sale: &[(u32, u32, u32)],
) -> Vec<Missed> {
    let problem = compiled.problem;
    let owner = problem.pool_at(pool);
    let found = problem.catalogs.iter().enumerate();
    let mut found = found.filter(|(_, catalog)| catalog.name == owner.catalog);
    let terms = compiled.pools.iter().find(|one| one.pool == pool);
    let (Some((index, catalog)), Some(terms)) = (found.next(), terms) else {
        return Vec::new();
    };
    let demand = compiled.demands.get(level.demand);
    let mut base = terms.requirements.clone();
    base.require_all(&Requirements::from_labels(&owner.labels));
    let open = |key: &str| labels::is_well_known(key) && !on_some_type(compiled, key);
    let allowed = |mut own: Labels| {
        if let Some(said) = owner.nodepool_label() {
            own.insert(labels::NODEPOOL.into(), said.clone());
        }
        let node = Requirements::from_labels(&own);
        let mut whole = base.clone();
        whole.require_all(&node);
        let mut terms = demand.terms.iter();
        base.compatible(&node, |_| true).is_ok()
            && terms.any(|term| whole.compatible(term, open).is_ok())
    };
    let mut missed = Vec::new();
    for (position, one) in catalog.types.iter().enumerate() {
        let at = (index as u32, 0, position as u32);
        if for_sale.binary_search(&at).is_ok() {
            continue;
        }
        let gone = |offering: &&Offering| !offering.available || offering.left == Some(0);
        let mut gone = one.offerings.iter().filter(gone);
        if gone.any(|offering| allowed(of_offering(one, offering))) {
            missed.push(Missed {
                name: one.name.clone(),
                room: compiled.table.vector(&one.allocatable()),
            });
        }
    }
    for (position, range) in catalog.ranges.iter().enumerate() {
        let at = (index as u32, 1, position as u32);
        let mut hosts = range.hosts.iter();
        // With no room on a host for the smallest machine there is nothing to choose from.
        let gone = for_sale.binary_search(&at).is_err();
        if gone && hosts.any(|host| allowed(of_host(range, host))) {
            missed.push(Missed {
                name: range.name.clone(),
                room: compiled
                    .table
                    .vector(&sizing::allocatable(range, &range.max)),
            });
        }
    }
    missed
}

/// Labels of a machine as far as its type and offering decide them.
fn of_offering(one: &InstanceType, offering: &Offering) -> Labels {
    let place = (&offering.zone, &offering.region);
    let mut all = labels_of(&one.labels, &one.name, place, offering.capacity_type);
    if let Some(id) = &offering.reservation {
        all.insert(labels::RESERVATION_ID.into(), id.clone());
    }
    all
}

/// Labels of a machine as far as its range and host decide them.
fn of_host(range: &Range, host: &Host) -> Labels {
    let place = (&host.zone, &range.region);
    labels_of(&range.labels, &range.name, place, range.capacity_type)
}

fn labels_of(
    own: &Labels,
    name: &Name,
    (zone, region): (&Name, &Name),
    way: CapacityType,
) -> Labels {
    let way: &'static str = way.into();
    let mut all = own.clone();
    all.insert(labels::INSTANCE_TYPE.into(), name.clone());
    all.insert(labels::ZONE.into(), zone.clone());
    all.insert(labels::CAPACITY_TYPE.into(), way.into());
    if !region.is_empty() {
        all.insert(labels::REGION.into(), region.clone());
    }
    all
}

fn type_of(offer: &Offer) -> (u32, u32, u32) {
    match offer.item {
        Item::Fixed { instance_type, .. } => (offer.catalog, 0, instance_type),
        Item::Custom { range, .. } => (offer.catalog, 1, range),
    }
}

/// The resource that no allowed type has enough of.
fn too_large(compiled: &Compiled<'_>, pool: PoolId, level: &Level, requests: &Vector) -> String {
    let mut most = Vector::ZERO;
    for index in compiled.demand_offers[level.demand].iter() {
        let offer = &compiled.offers[OfferId::at(index)];
        if offer.pool == pool {
            for (top, amount) in most.0.iter_mut().zip(&offer.room.0) {
                *top = (*top).max(*amount);
            }
        }
    }
    let lacking = (0..compiled.table.width()).find(|index| requests.0[*index] > most.0[*index]);
    match lacking {
        Some(index) => {
            let name = compiled.table.name(index);
            let (wanted, most) = (requests.0[index], most.0[index]);
            let slip = if name == crate::resources::CPU && wanted >= ABSURD_CPU_MILLIS {
                " (is M written for m?)"
            } else {
                ""
            };
            let wanted = described(name, wanted);
            match most {
                0 => format!("needs {wanted}; no instance type offers {name}"),
                most => format!(
                    "needs {wanted}; the largest type offers {}{slip}",
                    figure(name, most)
                ),
            }
        }
        None => "no instance type offers everything the pod requests at once".to_owned(),
    }
}

/// The requirement that excludes every type, with a hint if a key looks mistyped.
fn incompatibility(compiled: &Compiled<'_>, pool: PoolId, level: &Level) -> String {
    let demand = compiled.demands.get(level.demand);
    let Some(term) = demand.terms.first() else {
        return "no instance type meets all requirements".to_owned();
    };
    let terms = compiled.pools.iter().find(|one| one.pool == pool);
    if let Some(terms) = terms {
        let mut offered = terms.requirements.clone();
        offered.require_all(&Requirements::from_labels(
            &compiled.problem.pool_at(pool).labels,
        ));
        let known = |key: &str| labels::is_well_known(key) || on_some_type(compiled, key);
        match offered.compatible(term, known) {
            Err(Incompatible::Undefined { key }) => {
                return match similar(compiled, &key) {
                    Some(meant) => format!("{LACKS}label {key} (is {meant} meant?)"),
                    None => format!("{LACKS}label {key}"),
                };
            }
            Err(Incompatible::Disjoint {
                key,
                wanted,
                offered,
            }) => return format!("pod requires {key} {wanted}; the NodePool allows {offered}"),
            Ok(()) => {}
        }
    }
    for (key, requirement) in term.iter() {
        let alone = crate::pack::compile::demand::Demand {
            terms: vec![single(key, requirement)],
            tolerated: crate::pack::compile::demand::Tolerated::All,
        };
        let offers = compiled.offers.iter().filter(|offer| offer.pool == pool);
        let rows: Vec<&[u32]> = offers.map(|offer| &*offer.values).collect();
        if alone
            .admits(&compiled.keys, &rows.iter().copied())
            .is_empty()
        {
            return format!("no instance type has {key} {requirement}");
        }
    }
    format!("no instance type meets all requirements: {term}")
}

fn single(key: &Name, requirement: &crate::requirement::Requirement) -> Requirements {
    let mut only = Requirements::new();
    only.require(key, requirement);
    only
}

fn on_some_type(compiled: &Compiled<'_>, key: &str) -> bool {
    let catalogs = compiled.problem.catalogs.iter();
    catalogs
        .flat_map(|catalog| &catalog.types)
        .any(|one| one.labels.contains_key(key))
}

/// A known key that differs little from an unknown one.
fn similar(compiled: &Compiled<'_>, key: &str) -> Option<String> {
    let pools = compiled.problem.pools.iter().flat_map(|pool| {
        let required = pool.requirements.iter().map(|one| &*one.key);
        pool.labels.keys().map(|key| &**key).chain(required)
    });
    let catalogs = compiled.problem.catalogs.iter();
    let types = catalogs.flat_map(|catalog| &catalog.types);
    let types = types.flat_map(|one| one.labels.keys().map(|key| &**key));
    labels::WELL_KNOWN
        .into_iter()
        .chain(pools)
        .chain(types)
        .filter(|known| *known != key)
        .map(|known| (distance(key, known), known))
        .filter(|(distance, known)| *distance <= known.len().min(key.len()) / 5)
        .min()
        .map(|(_, known)| known.to_owned())
}

/// How many single-character edits lie between two texts.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn edits_are_counted() {
        assert_eq!(distance("zone", "zone"), 0);
        assert_eq!(distance("zone", "zones"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
