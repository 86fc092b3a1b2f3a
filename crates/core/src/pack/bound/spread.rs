//! Pods that a spread sends to every domain, whatever the plan: so many of them cost at least what they cost there.

use crate::pack::assign::topology::Topology;
use crate::pack::assign::{ANYWHERE, Lot, LotId};
use crate::pack::compile::Compiled;
use crate::pack::compile::column_sets::{NOTHING, Sets};
use crate::pack::compile::groups::GroupKind;
use crate::pack::compile::ids::GroupId;
use crate::pack::dense::bits::Bits;
use crate::pack::dense::intern::FixedMap;
use crate::pack::dense::typed::IdVec;

/// How many of `count` pods every one of `domains` has at least if none is ahead of another by more than `skew`.
fn least(count: u32, domains: usize, skew: i32) -> u32 {
    let (count, domains) = (i64::from(count), domains as i64);
    let ahead = (domains - 1) * i64::from(skew);
    let least = (count - ahead + domains - 1).div_euclid(domains);
    least.clamp(0, count / domains) as u32
}

/// The same pods, those of each lot that are in a domain in every valid plan confined to what is sold there. There are
/// no nodes, and all that a group counts wait for a machine.
pub(crate) fn confined(
    compiled: &Compiled<'_>,
    sets: &mut Sets,
    topology: &Topology,
    lots: &IdVec<LotId, Lot>,
) -> IdVec<LotId, Lot> {
    // Where a group counts pods of another class too, those may be what is in a domain.
    let mut counted: FixedMap<GroupId, u32> = FixedMap::default();
    for lot in lots {
        for group in &compiled.profile(lot.class).matched {
            *counted.entry(*group).or_insert(0) += 1;
        }
    }
    let mut confined = IdVec::default();
    for lot in lots {
        let mut rest = lot.count;
        for part in shares(compiled, sets, topology, &counted, lot) {
            rest -= part.count;
            confined.push(part);
        }
        if rest > 0 {
            confined.push(Lot {
                count: rest,
                ..lot.clone()
            });
        }
    }
    confined
}

/// What of a lot is in each domain at least, by the first spread that says so.
fn shares(
    compiled: &Compiled<'_>,
    sets: &mut Sets,
    topology: &Topology,
    counted: &FixedMap<GroupId, u32>,
    lot: &Lot,
) -> Vec<Lot> {
    let level = &compiled.profile(lot.class).levels[lot.level];
    let alone = |group: GroupId| counted.get(&group) == Some(&1);
    for rule in &level.rules {
        let GroupKind::Spread {
            skew, min_domains, ..
        } = compiled.groups.all.get(rule.group).kind
        else {
            continue;
        };
        let domains = topology.eligible(rule.group);
        let even = domains.len() >= (min_domains as usize).max(2);
        if rule.soft || !rule.own || !even || !alone(rule.group) {
            continue;
        }
        let count = least(lot.count, domains.len(), skew);
        let parts: Vec<Lot> = domains
            .iter()
            .map(|domain| {
                let sold = sold_in(compiled, topology.axis(rule.group), *domain);
                let set = sets.within(compiled, lot.set, &sold);
                Lot {
                    set,
                    count,
                    cell: ANYWHERE,
                    ..lot.clone()
                }
            })
            .collect();
        if count > 0 && parts.iter().all(|part| part.set != NOTHING) {
            return parts;
        }
    }
    Vec::new()
}

/// Columns whose machines are in a domain.
fn sold_in(compiled: &Compiled<'_>, axis: usize, domain: u32) -> Bits {
    let mut sold = Bits::empty(compiled.columns.len());
    for cell in compiled.cells.ids() {
        if compiled.cells.get(cell)[axis] == domain {
            sold.unite(&compiled.cell_columns[cell]);
        }
    }
    sold
}

#[cfg(test)]
mod tests {
    use super::least;

    #[test]
    fn every_domain_has_what_the_skew_leaves_it() {
        assert_eq!(least(9, 3, 1), 3);
        assert_eq!(least(10, 3, 1), 3);
        assert_eq!(least(8, 3, 1), 2);
        assert_eq!(least(10, 3, 2), 2, "4 + 4 + 2");
        assert_eq!(least(10, 3, 5), 0, "5 + 5 + 0");
        assert_eq!(least(2, 3, 1), 0);
    }
}
