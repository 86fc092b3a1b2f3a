//! Spread and affinity: rules for the moment at which a pod is bound.
//!
//! A placement is accepted when some order of binding satisfies every pod at its turn. The plan's own order is tried
//! first; then a greedy search. Success is a proof; failure of the search is not a proof of the opposite, so a plan
//! should bring its order.
//!
//! Pods that wait may be bound before others leave their nodes, or after: both are tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::groups::{Term, company, counted};
use super::purchase;
use super::site::{Occupant, Site, World, read_term, selected};
use super::{Findings, Rule};
use crate::labels;
use crate::name::{Labels, Name};
use crate::plan::{Home, PodRef};
use crate::problem::{NodeAffinityTerm, PodSpec, Policy, Spread, WhenUnsatisfiable};
use crate::requirements::Requirements;
use crate::taints::{Toleration, untolerated};

/// Which nodes a spread looks at.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Filter {
    node_selector: Labels,
    terms: Vec<NodeAffinityTerm>,
    tolerations: Option<Vec<Toleration>>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kinds {
    Affinity,
    Spread {
        skew: i64,
        min_domains: u32,
        filter: Filter,
    },
}

/// One rule, shared by all pods that state it alike, and what it has counted.
struct Group {
    kind: Kinds,
    term: Term,
    /// Domains whose counts are compared; empty for hostnames, where one more can always be had.
    eligible: Vec<Name>,
    counts: BTreeMap<Name, i64>,
    total: i64,
    /// Owners that still wait.
    waiting: usize,
}

impl Group {
    fn least(&self) -> i64 {
        let Kinds::Spread { min_domains, .. } = &self.kind else {
            return 0;
        };
        if (self.eligible.len() as u64) < u64::from(*min_domains) {
            return 0;
        }
        let counts = self.eligible.iter();
        counts
            .map(|domain| self.counts.get(domain).copied().unwrap_or(0))
            .min()
            .unwrap_or(0)
    }

    fn counts_site(&self, site: &Site<'_>) -> bool {
        match &self.kind {
            Kinds::Affinity => true,
            Kinds::Spread { filter, .. } => filter.admits(site),
        }
    }

    /// How many it counts in the domain of a site; `None` where there is no domain.
    fn here(&self, site: &Site<'_>) -> Option<i64> {
        let domain = site.domain(&self.term.key)?;
        Some(self.counts.get(domain).copied().unwrap_or(0))
    }
}

impl Filter {
    fn new(owner: &PodSpec, spread: &Spread) -> Self {
        let filter = Filter {
            node_selector: owner.node_selector.clone(),
            terms: owner.required_affinity.clone(),
            tolerations: (spread.node_taints_policy == Policy::Honor)
                .then(|| owner.tolerations.clone()),
        };
        match spread.node_affinity_policy {
            Policy::Honor => filter,
            Policy::Ignore => Filter {
                node_selector: Labels::new(),
                terms: Vec::new(),
                ..filter
            },
        }
    }

    fn admits(&self, site: &Site<'_>) -> bool {
        if self.node_selector.is_empty() && self.terms.is_empty() && self.tolerations.is_none() {
            return true;
        }
        let owner = PodSpec {
            node_selector: self.node_selector.clone(),
            required_affinity: self.terms.clone(),
            ..PodSpec::default()
        };
        selected(&owner, &site.labels, Some(&site.hostname))
            && self.tolerations.as_ref().is_none_or(|tolerations| {
                untolerated(site.taints.iter().copied(), tolerations).is_none()
            })
    }

    /// Whether the owner's requirements on the key itself leave this domain open.
    fn allows_domain(&self, key: &Name, domain: &Name) -> bool {
        let open = |wanted: &Requirements| {
            wanted
                .get(key)
                .is_none_or(|requirement| requirement.allows(domain))
        };
        open(&Requirements::from_labels(&self.node_selector))
            && (self.terms.is_empty()
                || self
                    .terms
                    .iter()
                    .filter_map(read_term)
                    .any(|term| open(&term)))
    }
}

/// Domains that new nodes can have, by key and by the tolerations that pools are held against.
type Universes = BTreeMap<(Name, Option<Vec<Toleration>>), BTreeSet<Name>>;

/// What rules mean for pods of one spec.
#[derive(Default)]
struct Role {
    /// Rules that it states, and whether it is counted by them itself.
    owns: Vec<(usize, bool)>,
    counted_by: Vec<usize>,
}

struct Board<'a, 'w> {
    world: &'w World<'a>,
    groups: Vec<Group>,
    roles: BTreeMap<*const PodSpec, Role>,
    /// Whether a group looks at a site.
    seen: BTreeMap<(usize, usize), bool>,
}

pub(super) fn check(world: &World<'_>, findings: &mut Findings) {
    let mut board = Board::build(world);
    if board.groups.is_empty() {
        return;
    }
    let given = board.given_order();
    let mut stuck = Vec::new();
    for (careful, waiting_first) in [(false, false), (true, false), (false, true), (true, true)] {
        stuck = board.attempt(given.clone(), careful, waiting_first);
        if stuck.is_empty() {
            return;
        }
    }
    if let Some((site, first)) = stuck.first() {
        let text = format!(
            "no order of binding was found for {} pods, among them {} on {}",
            stuck.len(),
            first.name(),
            world.sites[*site].title
        );
        findings.add(Rule::Spread, text);
    }
}

type Move<'a> = (usize, Occupant<'a>);

impl<'a, 'w> Board<'a, 'w> {
    fn build(world: &'w World<'a>) -> Self {
        let mut board = Board {
            world,
            groups: Vec::new(),
            roles: BTreeMap::new(),
            seen: BTreeMap::new(),
        };
        let mut universes = Universes::new();
        let mut known: BTreeMap<(Kinds, Term), usize> = BTreeMap::new();
        for pod in world.sites.iter().flat_map(|site| &site.placed) {
            let pointer = Arc::as_ptr(&pod.group.spec);
            if board.roles.contains_key(&pointer) {
                continue;
            }
            let mut role = Role::default();
            for (kind, term) in rules(world, &pod.group.spec) {
                let own = term.selects(&pod.group.spec);
                let next = board.groups.len();
                let index = *known.entry((kind.clone(), term.clone())).or_insert(next);
                if index == next {
                    board
                        .groups
                        .push(new_group(world, kind, term, &mut universes));
                }
                role.owns.push((index, own));
            }
            board.roles.insert(pointer, role);
        }
        board.find_counted();
        board
    }

    /// Fills in which rules count which pods, looking rules up by one label that they ask for.
    fn find_counted(&mut self) {
        let mut by_label: BTreeMap<Option<(&Name, &Name)>, Vec<usize>> = BTreeMap::new();
        for (index, group) in self.groups.iter().enumerate() {
            let mut wanted = group.term.wanted.iter();
            let pair = wanted.find_map(|(key, one)| one.single().map(|value| (key, value)));
            by_label.entry(pair).or_default().push(index);
        }
        let mut counted = BTreeMap::new();
        let world = self.world;
        let sites = world.sites.iter().chain(&world.leaving);
        let sites = sites.chain(&world.lingering);
        for pod in sites.flat_map(Site::all_occupants) {
            let spec = &pod.group.spec;
            counted.entry(Arc::as_ptr(spec)).or_insert_with(|| {
                let pairs = spec.labels.iter().map(Some).chain([None]);
                let mut found: Vec<usize> = pairs
                    .filter_map(|pair| by_label.get(&pair))
                    .flatten()
                    .copied()
                    .filter(|index| self.groups[*index].term.selects(spec))
                    .collect();
                found.sort_unstable();
                found
            });
        }
        for (pointer, counted_by) in counted {
            self.roles.entry(pointer).or_default().counted_by = counted_by;
        }
    }

    /// The plan's order, then whatever it leaves out.
    fn given_order(&self) -> Vec<Move<'a>> {
        let mut moves: BTreeMap<PodRef, Move<'a>> = BTreeMap::new();
        let mut listed = Vec::new();
        for (index, site) in self.world.sites.iter().enumerate() {
            for pod in &site.placed {
                moves.insert(pod.pod, (index, *pod));
                listed.push(pod.pod);
            }
        }
        let wanted = self.world.plan.order.iter().copied().chain(listed);
        wanted.filter_map(|pod| moves.remove(&pod)).collect()
    }

    fn reset(&mut self) {
        for group in &mut self.groups {
            group.counts.clear();
            group.total = 0;
            group.waiting = 0;
        }
        for index in 0..self.world.sites.len() {
            for pod in self.world.sites[index].staying() {
                self.count(index, &pod.group.spec, 1);
            }
            for pod in &self.world.sites[index].placed {
                if let Some(role) = self.roles.get(&Arc::as_ptr(&pod.group.spec)) {
                    for (group, _) in &role.owns {
                        self.groups[*group].waiting += 1;
                    }
                }
            }
        }
        self.count_lingering();
    }

    /// Counts pods that stay on nodes on their way out for as long as they like.
    fn count_lingering(&mut self) {
        let world = self.world;
        let first = world.sites.len() + world.leaving.len();
        for (index, site) in world.lingering.iter().enumerate() {
            for pod in site.staying() {
                self.count(first + index, &pod.group.spec, 1);
            }
        }
    }

    /// Counts pods of nodes that go, or no longer counts them.
    fn count_leaving(&mut self, by: i64) {
        let world = self.world;
        for (index, site) in world.leaving.iter().enumerate() {
            for pod in site.staying() {
                self.count(world.sites.len() + index, &pod.group.spec, by);
            }
        }
    }

    /// Counts a pod at a site; those of nodes that go, and then of those that went, come after all others.
    fn count(&mut self, site: usize, spec: &Arc<PodSpec>, by: i64) {
        let Some(role) = self.roles.get(&Arc::as_ptr(spec)) else {
            return;
        };
        let world = self.world;
        let mut places = world
            .sites
            .iter()
            .chain(&world.leaving)
            .chain(&world.lingering);
        let Some(place) = places.nth(site) else {
            return;
        };
        for index in &role.counted_by {
            let group = &mut self.groups[*index];
            let looks = *self
                .seen
                .entry((*index, site))
                .or_insert_with(|| group.counts_site(place));
            if let Some(domain) = place.domain(&group.term.key)
                && looks
            {
                *group.counts.entry(domain.clone()).or_default() += by;
                group.total += by;
            }
        }
    }

    fn feasible(&self, (site, pod): &Move<'a>) -> bool {
        let Some(role) = self.roles.get(&Arc::as_ptr(&pod.group.spec)) else {
            return true;
        };
        let site = &self.world.sites[*site];
        let (mut among_them, mut first) = (true, true);
        for (group, own) in &role.owns {
            let group = &self.groups[*group];
            let Some(here) = group.here(site) else {
                return false;
            };
            match &group.kind {
                Kinds::Spread { skew, .. } => {
                    if here + i64::from(*own) - group.least() > *skew {
                        return false;
                    }
                }
                Kinds::Affinity => {
                    among_them &= here > 0;
                    first &= *own && group.total == 0;
                }
            }
        }
        among_them || first
    }

    /// Whether binding takes nothing away from pods that wait: no rule's fullest domain grows.
    fn harmless(&self, (site, pod): &Move<'a>) -> bool {
        let Some(role) = self.roles.get(&Arc::as_ptr(&pod.group.spec)) else {
            return true;
        };
        role.counted_by.iter().all(|index| {
            let group = &self.groups[*index];
            let mine = role.owns.iter().any(|(own, _)| own == index);
            if group.waiting == 0 || (mine && group.waiting == 1) {
                return true;
            }
            match group.kind {
                Kinds::Affinity => mine || group.total > 0,
                Kinds::Spread { .. } => {
                    self.world.sites[*site]
                        .domain(&group.term.key)
                        .is_none_or(|domain| {
                            group.counts.get(domain).copied().unwrap_or(0) <= group.least()
                        })
                }
            }
        })
    }

    /// Binds what can be bound and gives back what cannot: all in one go, or those that waited before others leave.
    fn attempt(
        &mut self,
        moves: Vec<Move<'a>>,
        careful: bool,
        waiting_first: bool,
    ) -> Vec<Move<'a>> {
        self.reset();
        if !waiting_first {
            return self.bind(moves, careful);
        }
        let removed = &self.world.removed;
        let leaves = |(_, pod): &Move<'a>| match pod.pod.home {
            Home::Pending => false,
            Home::Node(node) => removed.contains(&node.index()),
        };
        let (moving, waiting): (Vec<_>, Vec<_>) = moves.into_iter().partition(leaves);
        self.count_leaving(1);
        let stuck = self.bind(waiting, careful);
        if !stuck.is_empty() {
            return stuck;
        }
        self.count_leaving(-1);
        self.bind(moving, careful)
    }

    /// The careful way binds what harms others last.
    fn bind(&mut self, moves: Vec<Move<'a>>, careful: bool) -> Vec<Move<'a>> {
        let mut waiting = moves;
        if careful {
            // Places at level counts are for those that need them: pods that state rules and count themselves.
            waiting.sort_by_key(|(_, pod)| self.rank(pod));
        }
        loop {
            let before = waiting.len();
            waiting = self.sweep(waiting, careful, usize::MAX);
            if waiting.is_empty() {
                return waiting;
            }
            if waiting.len() == before && careful {
                waiting = self.sweep(waiting, false, 1);
            }
            if waiting.len() == before {
                return waiting;
            }
        }
    }

    fn rank(&self, pod: &Occupant<'_>) -> u8 {
        let role = self.roles.get(&Arc::as_ptr(&pod.group.spec));
        match role.map(|role| role.owns.iter().any(|(_, own)| *own)) {
            Some(true) => 0,
            Some(false) if role.is_some_and(|role| !role.owns.is_empty()) => 1,
            _ => 2,
        }
    }

    fn sweep(&mut self, moves: Vec<Move<'a>>, careful: bool, most: usize) -> Vec<Move<'a>> {
        let mut left = Vec::new();
        let mut bound = 0;
        for one in moves {
            let may = bound < most && self.feasible(&one) && (!careful || self.harmless(&one));
            if !may {
                left.push(one);
                continue;
            }
            bound += 1;
            let (site, pod) = one;
            if let Some(role) = self.roles.get(&Arc::as_ptr(&pod.group.spec)) {
                for (group, _) in &role.owns {
                    self.groups[*group].waiting -= 1;
                }
            }
            self.count(site, &pod.group.spec, 1);
        }
        left
    }
}

/// The rules that a pod states.
fn rules(world: &World<'_>, spec: &PodSpec) -> Vec<(Kinds, Term)> {
    let spreads = spec
        .spread
        .iter()
        .filter(|spread| spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule)
        .filter_map(|spread| {
            let kind = Kinds::Spread {
                skew: i64::from(spread.max_skew),
                min_domains: spread.min_domains.unwrap_or(1),
                filter: Filter::new(spec, spread),
            };
            Some((kind, counted(spec, spread)?))
        });
    let near = company(world.problem, spec);
    let near = near.into_iter().map(|term| (Kinds::Affinity, term));
    spreads.chain(near).collect()
}

fn new_group(world: &World<'_>, kind: Kinds, term: Term, universes: &mut Universes) -> Group {
    let mut eligible = Vec::new();
    if let Kinds::Spread { filter, .. } = &kind
        && &*term.key != labels::HOSTNAME
    {
        let tolerations = filter.tolerations.as_deref();
        let offered = universes
            .entry((term.key.clone(), filter.tolerations.clone()))
            .or_insert_with(|| purchase::domains(world, &term.key, tolerations));
        let mut all = offered.clone();
        // New nodes count, too: pods may have asked for a value that the pool leaves open.
        let sites = world.sites.iter().filter(|site| filter.admits(site));
        all.extend(sites.filter_map(|site| site.domain(&term.key).cloned()));
        eligible.extend(
            all.into_iter()
                .filter(|domain| filter.allows_domain(&term.key, domain)),
        );
    }
    Group {
        kind,
        term,
        eligible,
        counts: BTreeMap::new(),
        total: 0,
        waiting: 0,
    }
}
