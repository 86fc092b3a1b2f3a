//! How many pods of each group are in each domain, and where the rules allow one more.
//!
//! Rules are those of the moment a pod is bound: what comes later may unbalance a spread. The order in which pods are
//! recorded here is therefore an order in which they can be bound.

use crate::pack::compile::Compiled;
use crate::pack::compile::demand::Tolerated;
use crate::pack::compile::drain::is_counted;
use crate::pack::compile::groups::GroupKind;
use crate::pack::compile::ids::{CellId, DemandId, GroupId};
use crate::pack::compile::labels::ABSENT;
use crate::pack::compile::profile::{DomainRule, Level, Profile};
use crate::pack::dense::bits::Bits;
use crate::pack::dense::typed::IdVec;
use crate::problem::{NodeId, PoolId, Problem};

/// No owner of an anti-affinity has narrowed the domain.
const FREE: i32 = i32::MAX;

/// Counts by group and domain. Groups whose domain is the host are not in here.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    groups: IdVec<GroupId, Domains>,
}

#[derive(Clone, Debug, Default)]
struct Domains {
    /// Position of the key among the topology keys.
    axis: usize,
    /// Domains a pod of the group could be in, for spreads.
    eligible: Vec<u32>,
    counts: Vec<i32>,
    caps: Vec<i32>,
    total: i32,
}

impl Topology {
    /// Counts of pods bound to nodes that stay.
    pub(crate) fn new(compiled: &Compiled<'_>, removed: &Bits) -> Self {
        let mut topology = Topology {
            groups: compiled
                .groups
                .all
                .iter()
                .map(|group| {
                    let key = compiled.keys.find(&group.key);
                    let axis = key
                        .and_then(|key| compiled.topology_keys.iter().position(|own| *own == key));
                    let (Some(axis), Some(key), false) = (axis, key, group.is_host()) else {
                        return Domains::default();
                    };
                    let size = compiled.keys.values[key as usize].count();
                    Domains {
                        axis,
                        eligible: eligible(compiled, removed, group.kind, key),
                        counts: vec![0; size],
                        caps: vec![FREE; size],
                        total: 0,
                    }
                })
                .collect(),
        };
        if compiled.topology_keys.is_empty() {
            return topology;
        }
        for (id, classes) in compiled.bound.pairs() {
            let node = compiled.problem.node_at(id);
            for (pod, class) in node.pods.iter().zip(classes) {
                if !is_counted(compiled.problem, removed, id, pod) {
                    continue;
                }
                let profile = compiled.profile(*class);
                let cell = compiled.nodes[id].cell;
                let counted = |filter: DemandId| compiled.demand_nodes[filter].contains(id.index());
                if let Some(level) = profile.levels.last() {
                    topology.add(compiled, profile, level, cell, pod.count as i32, counted);
                }
            }
        }
        topology
    }

    /// Whether one more pod may come to a cell now.
    pub(crate) fn allows(
        &self,
        compiled: &Compiled<'_>,
        profile: &Profile<'_>,
        level: &Level,
        cell: CellId,
    ) -> bool {
        self.refusal(compiled, profile, level, cell).is_none()
    }

    /// The group that keeps a pod from a cell now.
    pub(crate) fn refusal(
        &self,
        compiled: &Compiled<'_>,
        profile: &Profile<'_>,
        level: &Level,
        cell: CellId,
    ) -> Option<GroupId> {
        let values = compiled.cells.get(cell);
        let refused = level
            .rules
            .iter()
            .find(|rule| !self.rule_allows(compiled, level, **rule, values));
        if let Some(rule) = refused {
            return Some(rule.group);
        }
        profile.matched.iter().copied().find(|group| {
            let domains = &self.groups[*group];
            if domains.caps.is_empty() {
                return false;
            }
            let domain = values[domains.axis] as usize;
            domain as u32 != ABSENT
                && domains.caps[domain] != FREE
                && domains.counts[domain] + 1 > domains.caps[domain]
        })
    }

    fn rule_allows(
        &self,
        compiled: &Compiled<'_>,
        level: &Level,
        rule: DomainRule,
        values: &[u32],
    ) -> bool {
        let domains = &self.groups[rule.group];
        if domains.counts.is_empty() {
            return true;
        }
        let domain = values[domains.axis];
        let count = domains.counts[domain as usize];
        match compiled.groups.all.get(rule.group).kind {
            GroupKind::Spread {
                skew, min_domains, ..
            } => {
                domain != ABSENT
                    && domains.eligible.contains(&domain)
                    && count + i32::from(rule.own) - domains.least(min_domains) <= skew
            }
            GroupKind::Affinity => {
                domain != ABSENT
                    && (count > 0 || (rule.own && self.none_anywhere(compiled, level, rule)))
            }
            GroupKind::Anti => domain == ABSENT || count == 0,
            GroupKind::Port => true,
        }
    }

    /// Whether no pod that an affinity asks for is anywhere yet. Rules count the same pods over different keys, and one
    /// that is where only some of the keys are is somewhere all the same; a preference stands for itself.
    fn none_anywhere(&self, compiled: &Compiled<'_>, level: &Level, rule: DomainRule) -> bool {
        let none_anywhere = |rule: &DomainRule| self.groups[rule.group].total == 0;
        if rule.soft {
            return none_anywhere(&rule);
        }
        let required_affinity = |other: &&DomainRule| {
            !other.soft && compiled.groups.all.get(other.group).kind == GroupKind::Affinity
        };
        level
            .rules
            .iter()
            .filter(required_affinity)
            .all(none_anywhere)
    }

    /// Records pods in a cell. `counted` says whether a spread's node filter lets the place count.
    pub(crate) fn add(
        &mut self,
        compiled: &Compiled<'_>,
        profile: &Profile<'_>,
        level: &Level,
        cell: CellId,
        count: i32,
        counted: impl Fn(DemandId) -> bool,
    ) {
        let values = compiled.cells.get(cell);
        for group in &profile.matched {
            let domains = &mut self.groups[*group];
            if domains.counts.is_empty() {
                continue;
            }
            if let GroupKind::Spread { filter, .. } = compiled.groups.all.get(*group).kind
                && !counted(filter)
            {
                continue;
            }
            // Where the key is not, there is no domain to share.
            let domain = values[domains.axis];
            if domain != ABSENT {
                domains.counts[domain as usize] += count;
                domains.total += count;
            }
        }
        for rule in level.rules.iter().filter(|rule| !rule.soft) {
            if compiled.groups.all.get(rule.group).kind == GroupKind::Anti {
                let domains = &mut self.groups[rule.group];
                let cap = &mut domains.caps[values[domains.axis] as usize];
                *cap = (*cap).min(i32::from(rule.own));
            }
        }
    }

    /// Domains over which a spread is counted; none if it is not one, or over hosts.
    pub(crate) fn eligible(&self, group: GroupId) -> &[u32] {
        &self.groups[group].eligible
    }

    /// The position of a group's key among the topology keys.
    pub(crate) fn axis(&self, group: GroupId) -> usize {
        self.groups[group].axis
    }

    /// How many pods of a level's groups a cell has: less is more even.
    pub(crate) fn crowd(&self, compiled: &Compiled<'_>, level: &Level, cell: CellId) -> i32 {
        let values = compiled.cells.get(cell);
        level
            .rules
            .iter()
            .map(|rule| &self.groups[rule.group])
            .filter(|domains| !domains.counts.is_empty())
            .map(|domains| domains.counts[values[domains.axis] as usize])
            .sum()
    }
}

impl Domains {
    fn least(&self, min_domains: u32) -> i32 {
        if self.eligible.len() < min_domains as usize {
            return 0;
        }
        let counts = self.eligible.iter();
        let counts = counts.map(|domain| self.counts[*domain as usize]);
        counts.min().unwrap_or(0)
    }
}

/// Domains that some purchase can give or some node that counts and stays has, and that the pod's own requirement on the key
/// allows.
fn eligible(compiled: &Compiled<'_>, removed: &Bits, kind: GroupKind, key: u32) -> Vec<u32> {
    let GroupKind::Spread { filter, .. } = kind else {
        return Vec::new();
    };
    let counted = &compiled.demand_nodes[filter];
    let filter = compiled.demands.get(filter);
    let problem: &Problem = compiled.problem;
    let refused = |pool: PoolId| {
        filter.tolerated != Tolerated::All
            && filter
                .tolerated
                .refuses(&problem.pool_at(pool).taints)
                .is_some()
    };
    // Whatever is for sale counts, also machines that are too small for any pod.
    let offered = compiled
        .offers
        .iter()
        .filter(|offer| !refused(offer.pool))
        .map(|offer| offer.values[key as usize]);
    let stays = |node: &usize| !removed.contains(*node) && !problem.nodes[*node].deleting;
    let there = counted
        .iter()
        .filter(stays)
        .map(|node| compiled.nodes[NodeId::at(node)].values[key as usize]);
    let mut domains = Bits::empty(compiled.keys.values[key as usize].count());
    for domain in offered.chain(there).filter(|one| *one != ABSENT) {
        domains.insert(domain as usize);
    }
    let name = compiled.keys.iter().nth(key as usize);
    let allowed = domains.iter().map(|domain| domain as u32).filter(|domain| {
        let value = compiled.keys.values[key as usize].name(*domain);
        name.is_none_or(|name| filter.allows_value(name, value.map(AsRef::as_ref)))
    });
    allowed.collect()
}
