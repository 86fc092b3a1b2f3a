//! Everything about a pod but its size, and its levels: its preferences are given up one by one.

use crate::pack::compile::ids::{DemandId, GroupId, LevelId};
use std::hash::{Hash, Hasher};

use crate::pack::compile::demand::{Demand, Tolerated};
use crate::pack::compile::groups::{GroupKind, Groups};
use crate::pack::dense::intern::Interner;
use crate::pack::dense::typed::IdVec;
use crate::problem::{
    AffinityTerm, NodeAffinityTerm, PodSpec, Policy, PreferencePolicy, Problem, Spread, Weighted,
    WhenUnsatisfiable,
};
use crate::requirement::RequirementError;

/// The most that a preference can weigh, as Kubernetes has it.
const MAX_WEIGHT: i32 = 100;

/// No cap of its own.
pub(crate) const NO_CAP: u16 = u16::MAX;

/// What a pod does to the hosts it is on, and asks of them, on behalf of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cap {
    pub(crate) group: GroupId,
    /// The group counts the pod.
    pub(crate) matched: bool,
    /// How many counted pods the host may have beside or with it.
    pub(crate) most: u16,
    /// A preference: asked when the pod comes, and not held against pods that come later.
    pub(crate) soft: bool,
}

/// A rule over domains larger than a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DomainRule {
    pub(crate) group: GroupId,
    /// The group counts the pod itself.
    pub(crate) own: bool,
    pub(crate) soft: bool,
}

/// What is asked while some preferences are still respected.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) demand: DemandId,
    pub(crate) rules: Vec<DomainRule>,
    pub(crate) caps: Vec<Cap>,
    /// Groups one of whose pods must be on the same host, and whether the pod is one itself.
    pub(crate) host_affinity: Vec<DomainRule>,
}

/// Pods that are alike but for their requests.
#[derive(Clone, Debug)]
pub(crate) struct Profile<'p> {
    pub(crate) spec: &'p PodSpec,
    /// From all preferences to none; at least one.
    pub(crate) levels: IdVec<LevelId, Level>,
    /// Groups that count it.
    pub(crate) matched: Vec<GroupId>,
    /// Its place must be settled before that of others: it has rules, or others have rules about it.
    pub(crate) anchored: bool,
    /// Why it cannot be understood.
    pub(crate) invalid: Option<String>,
}

/// A spec compared without its requests.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'p>(pub(crate) &'p PodSpec);

impl Hash for Shape<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let spec = self.0;
        // Enough to tell most apart; equality looks at the rest.
        (&spec.namespace, &spec.labels, &spec.node_selector).hash(state);
        (&spec.spread, &spec.tolerations, spec.priority).hash(state);
        spec.volumes.hash(state);
    }
}

impl PartialEq for Shape<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.0, other.0);
        std::ptr::eq(a, b)
            || (a.namespace == b.namespace
                && a.labels == b.labels
                && a.node_selector == b.node_selector
                && a.required_affinity == b.required_affinity
                && a.preferred_affinity == b.preferred_affinity
                && a.tolerations == b.tolerations
                && a.spread == b.spread
                && a.affinity == b.affinity
                && a.anti_affinity == b.anti_affinity
                && a.preferred_pod_affinity == b.preferred_pod_affinity
                && a.preferred_pod_anti_affinity == b.preferred_pod_anti_affinity
                && a.host_ports == b.host_ports
                && a.volumes == b.volumes
                && a.priority == b.priority)
    }
}

impl Eq for Shape<'_> {}

/// One preference of a pod, in the order in which they are given up.
///
/// karpenter: pkg/controllers/provisioning/scheduling/preferences.go, `Relax`
#[derive(Clone, Copy)]
enum Preference<'p> {
    PodAffinity(&'p AffinityTerm),
    PodAntiAffinity(&'p AffinityTerm),
    Node(&'p NodeAffinityTerm),
    Spread(&'p Spread),
    AvoidTaints,
}

/// Builds profiles.
pub(crate) struct Profiler<'p, 'c> {
    pub(crate) problem: &'p Problem,
    pub(crate) demands: &'c mut Interner<Demand, DemandId>,
    pub(crate) groups: &'c mut Groups,
    /// Some pool or node has a taint of effect `PreferNoSchedule`.
    pub(crate) prefer_taints: bool,
    /// Preferences that weigh less are ignored; of those without a weight all are or none is.
    pub(crate) least_weight: i32,
}

impl<'p> Profiler<'p, '_> {
    /// Levels of a spec; what the groups count is filled in later, when all groups are known.
    pub(crate) fn profile(&mut self, spec: &'p PodSpec) -> Profile<'p> {
        let (levels, invalid) = match self.levels(spec) {
            Ok(levels) => {
                let last = levels.last().map(|level| self.demands.get(level.demand));
                let hopeless = last.is_some_and(|demand| demand.terms.is_empty());
                let why = hopeless.then(|| Demand::contradiction(spec)).flatten();
                (levels, why)
            }
            Err(error) => (IdVec::default(), Some(error.to_string())),
        };
        Profile {
            spec,
            levels,
            matched: Vec::new(),
            anchored: false,
            invalid,
        }
    }

    fn preferences(&self, spec: &'p PodSpec) -> Vec<Preference<'p>> {
        let mut preferences = Vec::new();
        let least = self.least_weight;
        // Preferences without a weight are given up with the heaviest.
        let weightless = least <= MAX_WEIGHT;
        if self.problem.settings.preferences == PreferencePolicy::Respect {
            preferences
                .extend(heaviest(&spec.preferred_pod_affinity, least).map(Preference::PodAffinity));
            preferences.extend(
                heaviest(&spec.preferred_pod_anti_affinity, least).map(Preference::PodAntiAffinity),
            );
            preferences.extend(heaviest(&spec.preferred_affinity, least).map(Preference::Node));
            if weightless {
                preferences.extend(soft_spreads(spec).map(Preference::Spread));
            }
        }
        if self.prefer_taints && weightless {
            preferences.push(Preference::AvoidTaints);
        }
        preferences
    }

    fn levels(&mut self, spec: &'p PodSpec) -> Result<IdVec<LevelId, Level>, RequirementError> {
        let preferences = self.preferences(spec);
        let mut levels = IdVec::default();
        for given_up in 0..=preferences.len() {
            levels.push(self.level(spec, &preferences[given_up..])?);
        }
        Ok(levels)
    }

    fn level(
        &mut self,
        spec: &'p PodSpec,
        preferences: &[Preference<'p>],
    ) -> Result<Level, RequirementError> {
        let avoid = preferences
            .iter()
            .any(|preference| matches!(preference, Preference::AvoidTaints));
        let own = Tolerated::These {
            tolerations: spec.tolerations.clone(),
            prefer: !avoid,
        };
        let mut demand = Demand::strict(spec, own)?.with_volumes(spec)?;
        // Only the heaviest preference about the node is respected at a time.
        let node = preferences.iter().find_map(|preference| match preference {
            Preference::Node(term) => Some(*term),
            _ => None,
        });
        if let Some(term) = node {
            demand = demand.and(term)?;
        }
        let mut level = Level {
            demand: self.demands.id(demand),
            rules: Vec::new(),
            caps: Vec::new(),
            host_affinity: Vec::new(),
        };
        let hard = spec
            .spread
            .iter()
            .filter(|spread| spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        for spread in hard {
            self.add_spread(&mut level, spec, spread, false)?;
        }
        for group in self
            .groups
            .affinity_groups(self.problem, spec, &spec.affinity)
        {
            self.add_group(&mut level, group, false);
        }
        for term in &spec.anti_affinity {
            self.add_term(&mut level, spec, term, GroupKind::Anti, false);
        }
        for preference in preferences {
            match preference {
                Preference::PodAffinity(term) => {
                    self.add_term(&mut level, spec, term, GroupKind::Affinity, true);
                }
                Preference::PodAntiAffinity(term) => {
                    self.add_term(&mut level, spec, term, GroupKind::Anti, true);
                }
                Preference::Spread(spread) => self.add_spread(&mut level, spec, spread, true)?,
                Preference::Node(_) | Preference::AvoidTaints => {}
            }
        }
        for group in self.groups.ports(spec) {
            level.caps.push(Cap {
                group,
                matched: true,
                most: 1,
                soft: false,
            });
        }
        Ok(level)
    }

    fn add_spread(
        &mut self,
        level: &mut Level,
        spec: &'p PodSpec,
        spread: &'p Spread,
        soft: bool,
    ) -> Result<(), RequirementError> {
        let tolerated = match spread.node_taints_policy {
            Policy::Ignore => Tolerated::All,
            Policy::Honor => Tolerated::These {
                tolerations: spec.tolerations.clone(),
                prefer: true,
            },
        };
        let filter = match spread.node_affinity_policy {
            Policy::Honor => Demand::strict(spec, tolerated)?,
            Policy::Ignore => Demand::strict(&PodSpec::default(), tolerated)?,
        };
        let filter = self.demands.id(filter);
        let group = self.groups.spread(spec, spread, filter);
        if self.groups.all.get(group).is_host() {
            let cap = u16::try_from(spread.max_skew).unwrap_or(NO_CAP - 1);
            push_cap(level, group, cap, soft);
        } else {
            level.rules.push(DomainRule {
                group,
                own: false,
                soft,
            });
        }
        Ok(())
    }

    fn add_term(
        &mut self,
        level: &mut Level,
        spec: &'p PodSpec,
        term: &'p AffinityTerm,
        kind: GroupKind,
        soft: bool,
    ) {
        // A term that matches nothing repels and attracts no pod.
        if let Some(group) = self.groups.term(self.problem, spec, term, kind) {
            self.add_group(level, group, soft);
        }
    }

    fn add_group(&self, level: &mut Level, group: GroupId, soft: bool) {
        let rule = DomainRule {
            group,
            own: false,
            soft,
        };
        let known = self.groups.all.get(group);
        match (known.is_host(), known.kind) {
            (true, GroupKind::Anti) => push_cap(level, group, 0, soft),
            (true, _) => level.host_affinity.push(rule),
            (false, _) => level.rules.push(rule),
        }
    }
}

fn push_cap(level: &mut Level, group: GroupId, most: u16, soft: bool) {
    level.caps.push(Cap {
        group,
        matched: false,
        most,
        soft,
    });
}

fn heaviest<T>(preferences: &[Weighted<T>], least: i32) -> impl Iterator<Item = &T> {
    let mut sorted: Vec<&Weighted<T>> = preferences
        .iter()
        .filter(|one| one.weight >= least)
        .collect();
    sorted.sort_by_key(|one| -one.weight);
    sorted.into_iter().map(|one| &one.term)
}

fn soft_spreads(spec: &PodSpec) -> impl Iterator<Item = &Spread> {
    spec.spread
        .iter()
        .filter(|spread| spread.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway)
}

impl Profile<'_> {
    /// Completes the levels once every group is known. Pods of `tangled` groups are sought on hosts by pods that also
    /// have rules about domains: their domains must be known.
    pub(crate) fn complete(&mut self, groups: &Groups, tangled: &[GroupId]) {
        self.matched = groups.counting(&self.spec.namespace, &self.spec.labels);
        let matched = &self.matched;
        for level in self.levels.iter_mut() {
            for rule in level.rules.iter_mut().chain(&mut level.host_affinity) {
                rule.own = matched.binary_search(&rule.group).is_ok();
            }
            for cap in &mut level.caps {
                let own = matched.binary_search(&cap.group).is_ok();
                cap.matched |= own;
                // Apart from itself it may have none of the kind; with itself, one.
                if cap.most == 0 && own {
                    cap.most = 1;
                }
            }
            for group in matched {
                let host = groups.all.get(*group).is_host();
                if host && level.caps.iter().all(|cap| cap.group != *group) {
                    level.caps.push(Cap {
                        group: *group,
                        matched: true,
                        most: NO_CAP,
                        soft: false,
                    });
                }
            }
        }
        if self.invalid.is_none() {
            self.invalid = self.unreadable(groups);
        }
        let sought = |group: &GroupId| {
            let group = groups.all.get(*group);
            !group.is_host() && matches!(group.kind, GroupKind::Affinity | GroupKind::Anti)
        };
        self.anchored = self.levels.iter().any(|level| !level.rules.is_empty())
            || self.matched.iter().any(sought)
            || self.matched.iter().any(|group| tangled.contains(group));
    }

    /// Why it cannot be known which pods one of its rules is about.
    fn unreadable(&self, groups: &Groups) -> Option<String> {
        let level = self.levels.last()?;
        let rules = level
            .rules
            .iter()
            .chain(&level.host_affinity)
            .map(|rule| rule.group);
        let fault = rules
            .chain(level.caps.iter().map(|cap| cap.group))
            .find_map(|group| groups.fault(group))?;
        Some(format!("a label selector cannot be read: {fault}"))
    }

    /// Caps that a pod which is already bound puts on its host: spreads are looked at only when a pod comes.
    pub(crate) fn bound_caps<'a>(&'a self, groups: &'a Groups) -> impl Iterator<Item = Cap> + 'a {
        self.levels.last().into_iter().flat_map(move |level| {
            level.caps.iter().map(move |cap| {
                let lasting = matches!(
                    groups.all.get(cap.group).kind,
                    GroupKind::Anti | GroupKind::Port
                );
                Cap {
                    most: if lasting { cap.most } else { NO_CAP },
                    ..*cap
                }
            })
        })
    }
}
