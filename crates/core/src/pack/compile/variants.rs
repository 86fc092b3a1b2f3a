//! Labels that a catalogue leaves open: one variant of a machine for each combination of values that some pod asks for.
//!
//! A pool that requires a key of its own gives it whatever value its pods ask for, and so does a cloud with the
//! well-known labels that its catalogue does not mention. A machine has one value all the same: pods that ask for
//! different ones do not share it.

use crate::pack::compile::ids::DemandId;
use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::labels;
use crate::name::Name;
use crate::pack::compile::demand::Demand;
use crate::pack::compile::groups::Groups;
use crate::pack::compile::labels::{ABSENT, Keys};
use crate::pack::dense::intern::Interner;
use crate::problem::Problem;
use crate::requirement::Requirement;
use crate::requirements::Requirements;

/// Up to so many combinations all are looked at, beyond only those that some pod asks for.
const MANY: usize = 32;

/// And never more than these.
const MOST: usize = 1 << 14;

/// Number of a tracked key, number of its value.
pub(crate) type Variant = SmallVec<[(u32, u32); 2]>;

/// What pods ask of labels that may be left open.
pub(crate) struct Variants<'d> {
    demands: &'d Interner<Demand, DemandId>,
    /// By tracked key: what some pod wants of it.
    wanted: Vec<BTreeSet<&'d Requirement>>,
    /// By tracked key: what some daemon wants of it.
    by_daemons: Vec<BTreeSet<Requirement>>,
    /// Whether some rule spreads or gathers over a tracked key: all its values matter then.
    domains: Vec<bool>,
}

/// A key that is left open and the values that it may get.
struct Open {
    key: u32,
    name: Name,
    /// The first is the default; `None` is no label.
    values: Vec<Option<Name>>,
}

impl<'d> Variants<'d> {
    pub(crate) fn new(
        problem: &Problem,
        keys: &Keys,
        demands: &'d Interner<Demand, DemandId>,
        groups: &Groups,
    ) -> Self {
        let mut wanted = vec![BTreeSet::new(); keys.values.len()];
        for (key, requirement) in demands
            .iter()
            .flat_map(|demand| &demand.terms)
            .flat_map(Requirements::iter)
        {
            if let Some(id) = keys.find(key) {
                wanted[id as usize].insert(requirement);
            }
        }
        let mut by_daemons = vec![BTreeSet::new(); keys.values.len()];
        // A daemon that cannot be understood runs nowhere.
        for daemon in problem.daemon_sets.iter().flat_map(Demand::daemon) {
            for (key, requirement) in daemon.terms.iter().flat_map(Requirements::iter) {
                if let Some(id) = keys.find(key) {
                    by_daemons[id as usize].insert(requirement.clone());
                }
            }
        }
        let mut domains = vec![false; keys.values.len()];
        for group in groups.all.iter() {
            if let Some(id) = keys.find(&group.key) {
                domains[id as usize] = true;
            }
        }
        Variants {
            demands,
            wanted,
            by_daemons,
            domains,
        }
    }

    /// The combinations of values that a pool gives to keys that are `open`, at least one.
    pub(crate) fn of_pool(
        &self,
        keys: &mut Keys,
        requirements: &Requirements,
        open: impl Fn(&str) -> bool,
    ) -> Vec<Variant> {
        let open: Vec<Open> = keys
            .iter()
            .enumerate()
            .filter(|(_, name)| open(name))
            .filter_map(|(key, name)| {
                let well_known = labels::is_well_known(name);
                let anything = || well_known.then(|| Requirement::none_of([]));
                let own = requirements.get(name).cloned().or_else(anything)?;
                let mut values = self.values(key, &own);
                if values.is_empty() {
                    // The cloud gives a label of its own, and daemons for another value do not run there.
                    let daemons = self.by_daemons[key].iter().filter(|_| well_known);
                    let theirs = daemons
                        .map(|one| own.intersection(one))
                        .filter_map(|one| one.listed()?.first().cloned());
                    values = theirs
                        .min()
                        .map_or_else(|| any(&own), |one| vec![Some(one)]);
                }
                Some(Open {
                    key: key as u32,
                    name: name.clone(),
                    values,
                })
            })
            .collect();
        let all = open.iter().map(|one| one.values.len());
        let all = all.fold(1_usize, usize::saturating_mul);
        let mut found: Interner<Variant> = Interner::default();
        if all <= MANY {
            let every: Vec<Vec<&Option<Name>>> =
                open.iter().map(|one| one.values.iter().collect()).collect();
            combine(keys, &open, &every, &mut found);
        } else {
            let nothing = Requirements::new();
            let terms = self.demands.iter().flat_map(|demand| &demand.terms);
            for term in std::iter::once(&nothing).chain(terms) {
                if found.len() >= MOST {
                    break;
                }
                let suiting: Vec<Vec<&Option<Name>>> =
                    open.iter().map(|one| self.suiting(one, term)).collect();
                combine(keys, &open, &suiting, &mut found);
            }
        }
        found.iter().cloned().collect()
    }

    /// Values that a key may get: those that the pool lists, or enough that whatever a pod asks for is among them; none
    /// if no pod asks.
    fn values(&self, key: usize, own: &Requirement) -> Vec<Option<Name>> {
        if let Some(listed) = own.listed() {
            let mut values: Vec<Option<Name>> = listed.iter().cloned().map(Some).collect();
            if values.is_empty() {
                values.push(None);
            }
            return values;
        }
        let wanted = self.wanted[key].iter().map(|one| own.intersection(one));
        let (listed, open): (Vec<_>, Vec<_>) = wanted.partition(|one| one.listed().is_some());
        let listed: BTreeSet<Name> = listed
            .iter()
            .filter_map(Requirement::listed)
            .flatten()
            .cloned()
            .collect();
        let mut values: Vec<Option<Name>> = listed.into_iter().map(Some).collect();
        for one in open {
            if !values.iter().any(|value| allows(&one, value.as_ref())) {
                values.extend(any(&one));
            }
        }
        values
    }

    /// The values with which a machine suits one term.
    fn suiting<'v>(&self, open: &'v Open, term: &Requirements) -> Vec<&'v Option<Name>> {
        let wanted = term.get(&open.name);
        let fitting = open
            .values
            .iter()
            .filter(|value| wanted.is_none_or(|wanted| allows(wanted, value.as_ref())));
        let choice = wanted.is_some_and(|wanted| wanted.listed().is_some());
        if choice || self.domains[open.key as usize] {
            fitting.collect()
        } else {
            fitting.take(1).collect()
        }
    }
}

fn allows(requirement: &Requirement, value: Option<&Name>) -> bool {
    match value {
        Some(value) => requirement.allows(value),
        None => requirement.allows_absence(),
    }
}

/// No label if that will do, or some value; nothing if there is none.
fn any(requirement: &Requirement) -> Vec<Option<Name>> {
    if requirement.allows_absence() {
        return vec![None];
    }
    requirement.some_value().into_iter().map(Some).collect()
}

/// Adds every combination of one value of each key, as long as there are not too many.
fn combine(
    keys: &mut Keys,
    open: &[Open],
    values: &[Vec<&Option<Name>>],
    found: &mut Interner<Variant>,
) {
    let mut product = vec![Variant::new()];
    for (one, values) in open.iter().zip(values) {
        let ids: Vec<u32> = values
            .iter()
            .map(|value| match value {
                Some(value) => keys.values[one.key as usize].id(value),
                None => ABSENT,
            })
            .collect();
        let mut longer = Vec::new();
        for (variant, id) in itertools::iproduct!(&product, &ids) {
            let mut next = variant.clone();
            next.push((one.key, *id));
            longer.push(next);
        }
        longer.truncate(MOST);
        product = longer;
    }
    for variant in product {
        if found.len() < MOST {
            found.id(variant);
        }
    }
}
