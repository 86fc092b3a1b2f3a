//! Rules about other pods: spread, affinity, anti-affinity and host ports, one group for all pods that share a rule.
//!
//! Rules whose domain is the single host are kept as *caps*: a host that carries an owner of a group takes at most so
//! many of the pods the group counts. That is stricter than Kubernetes, which looks at a spread only when a pod is
//! bound, and it holds in whatever order pods arrive.

use crate::pack::compile::ids::{DemandId, GroupId};
use crate::pack::dense::typed::{Id as _, IdVec};
use std::collections::BTreeMap;

use crate::labels;
use crate::name::{Labels, Name};
use crate::pack::dense::intern::{FixedMap, Interner};
use crate::problem::{AffinityTerm, PodSpec, Problem, Protocol, Spread};
use crate::requirement::{Expression, Operator};
use crate::requirements::Requirements;
use crate::selector::LabelSelector;

/// What a group asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum GroupKind {
    /// No domain is ahead of the emptiest by more than `skew`.
    Spread {
        skew: i32,
        min_domains: u32,
        /// Demand that a node must meet to count.
        filter: DemandId,
    },
    /// In a domain that has such a pod.
    Affinity,
    /// In a domain that has no such pod.
    Anti,
    /// A port of the host.
    Port,
}

/// Where the pods are that a group counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Namespaces {
    All,
    /// Sorted.
    These(Vec<Name>),
}

impl Namespaces {
    const NONE: Namespaces = Namespaces::These(Vec::new());

    fn contains(&self, name: &Name) -> bool {
        match self {
            Namespaces::All => true,
            Namespaces::These(names) => names.binary_search(name).is_ok(),
        }
    }

    fn both(self, other: Namespaces) -> Namespaces {
        match (self, other) {
            (Namespaces::All, one) | (one, Namespaces::All) => one,
            (Namespaces::These(mut names), other) => {
                names.retain(|name| other.contains(name));
                Namespaces::These(names)
            }
        }
    }
}

/// What makes two rules the same rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    /// Canonical topology key.
    pub(crate) key: Name,
    pub(crate) kind: GroupKind,
    /// A pod is counted if all of them select it; sorted.
    selectors: Vec<LabelSelector>,
    namespaces: Namespaces,
    /// Which port, for groups of ports.
    port: Option<(Protocol, u16, Name)>,
}

impl Group {
    pub(crate) fn is_host(&self) -> bool {
        &*self.key == labels::HOSTNAME
    }

    /// In words, for reasons.
    pub(crate) fn describe(&self) -> String {
        let key = &self.key;
        match self.kind {
            GroupKind::Spread { skew, .. } => {
                format!("topology spread over {key} with maxSkew {skew}")
            }
            GroupKind::Affinity => format!("pod affinity over {key}"),
            GroupKind::Anti => format!("pod anti-affinity over {key}"),
            GroupKind::Port => match &self.port {
                Some((_, port, _)) => format!("host port {port}"),
                None => "host port".to_owned(),
            },
        }
    }
}

/// All groups of a problem and which pods they count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) all: Interner<Group, GroupId>,
    /// Groups by one pair of their selector, so that a pod need not be held against every group.
    by_label: FixedMap<(Name, Name), Vec<GroupId>>,
    open: Vec<GroupId>,
    /// What the selectors ask; a group of ports, or whose selectors cannot be read, counts no pod.
    parsed: IdVec<GroupId, Option<Requirements>>,
    /// Why selectors cannot be read.
    faults: BTreeMap<GroupId, String>,
    /// Addresses that pods name for a port beside "all of them".
    addresses: BTreeMap<(Protocol, u16), Vec<Name>>,
}

impl Groups {
    /// Learns which host ports are in use, so that ports can become groups.
    pub(crate) fn learn_ports<'p>(&mut self, specs: impl Iterator<Item = &'p PodSpec>) {
        for port in specs.flat_map(|spec| &spec.host_ports) {
            let known = self
                .addresses
                .entry((port.protocol, port.port))
                .or_default();
            if !anywhere(&port.ip) && !known.contains(&port.ip) {
                known.push(port.ip.clone());
            }
        }
    }

    /// Groups of the host ports of a pod; each takes one pod a host.
    pub(crate) fn ports(&mut self, spec: &PodSpec) -> Vec<GroupId> {
        let mut ids = Vec::new();
        for port in &spec.host_ports {
            let known = self
                .addresses
                .get(&(port.protocol, port.port))
                .cloned()
                .unwrap_or_default();
            let taken = if known.is_empty() {
                vec![Name::from("")]
            } else if anywhere(&port.ip) {
                known
            } else {
                vec![port.ip.clone()]
            };
            for ip in taken {
                ids.push(self.all.id(Group {
                    key: labels::HOSTNAME.into(),
                    kind: GroupKind::Port,
                    selectors: Vec::new(),
                    namespaces: Namespaces::NONE,
                    port: Some((port.protocol, port.port, ip)),
                }));
            }
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The group of a spread constraint. One without a selector counts no pod, and still asks for a domain.
    pub(crate) fn spread(&mut self, spec: &PodSpec, spread: &Spread, filter: DemandId) -> GroupId {
        let mut selector = spread.selector.clone().unwrap_or_default();
        for key in &spread.match_label_keys {
            if let Some(value) = spec.labels.get(key) {
                let same = Expression::new(key, Operator::In, &[value]);
                if !selector.match_expressions.contains(&same) {
                    selector.match_expressions.push(same);
                }
            }
        }
        selector.match_expressions.sort();
        let own = || Namespaces::These(vec![spec.namespace.clone()]);
        let namespaces = spread.selector.as_ref().map_or(Namespaces::NONE, |_| own());
        self.all.id(Group {
            key: labels::canonical(&spread.topology_key).into(),
            kind: GroupKind::Spread {
                skew: spread.max_skew,
                min_domains: spread.min_domains.unwrap_or(0),
                filter,
            },
            selectors: vec![selector],
            namespaces,
            port: None,
        })
    }

    /// The group of a single affinity or anti-affinity term; `None` if it matches nothing.
    pub(crate) fn term(
        &mut self,
        problem: &Problem,
        spec: &PodSpec,
        term: &AffinityTerm,
        kind: GroupKind,
    ) -> Option<GroupId> {
        let selectors = vec![term.selector.clone()?];
        Some(self.all.id(Group {
            key: labels::canonical(&term.topology_key).into(),
            kind,
            selectors,
            namespaces: namespaces(problem, spec, term),
            port: None,
        }))
    }

    /// The groups of all pods that required affinity asks for, one for each key: only pods that match every term count for any
    /// of them, as for the scheduler. One term that selects nothing leaves no pod to count.
    pub(crate) fn affinity_groups(
        &mut self,
        problem: &Problem,
        spec: &PodSpec,
        terms: &[AffinityTerm],
    ) -> Vec<GroupId> {
        let mut selectors = Vec::with_capacity(terms.len());
        let mut common = Namespaces::All;
        for term in terms {
            match &term.selector {
                Some(selector) => {
                    selectors.push(selector.clone());
                    common = common.both(namespaces(problem, spec, term));
                }
                None => common = Namespaces::NONE,
            }
        }
        selectors.sort();
        selectors.dedup();
        let mut ids: Vec<GroupId> = terms
            .iter()
            .map(|term| {
                self.all.id(Group {
                    key: labels::canonical(&term.topology_key).into(),
                    kind: GroupKind::Affinity,
                    selectors: selectors.clone(),
                    namespaces: common.clone(),
                    port: None,
                })
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Makes groups added since the last call findable.
    pub(crate) fn index(&mut self) {
        while self.parsed.len() < self.all.len() {
            let id = GroupId::at(self.parsed.len());
            let group = self.all.get(id);
            if group.kind == GroupKind::Port {
                self.parsed.push(None);
                continue;
            }
            let mut wanted = Requirements::new();
            for selector in &group.selectors {
                match selector.requirements() {
                    Ok(more) => wanted.require_all(&more),
                    Err(error) => {
                        self.faults.insert(id, error.to_string());
                    }
                }
            }
            let mut pairs = group.selectors.iter().flat_map(|one| &one.match_labels);
            match pairs.next() {
                Some((key, value)) => self
                    .by_label
                    .entry((key.clone(), value.clone()))
                    .or_default()
                    .push(id),
                None => self.open.push(id),
            }
            let readable = !self.faults.contains_key(&id);
            self.parsed.push(readable.then_some(wanted));
        }
    }

    /// Why it cannot be known which pods a group counts.
    pub(crate) fn fault(&self, group: GroupId) -> Option<&str> {
        self.faults.get(&group).map(String::as_str)
    }

    /// The groups that count pods with these labels, ascending.
    pub(crate) fn counting(&self, namespace: &Name, labels: &Labels) -> Vec<GroupId> {
        let mut ids: Vec<GroupId> = self.open.clone();
        for (key, value) in labels {
            if let Some(found) = self.by_label.get(&(key.clone(), value.clone())) {
                ids.extend(found);
            }
        }
        ids.retain(|id| {
            let group = self.all.get(*id);
            group.namespaces.contains(namespace)
                && self.parsed[*id]
                    .as_ref()
                    .is_some_and(|selector| selector.satisfied_by(labels))
        });
        ids.sort_unstable();
        ids
    }
}

/// Where the pods are that a term is about.
fn namespaces(problem: &Problem, spec: &PodSpec, term: &AffinityTerm) -> Namespaces {
    let mut names = term.namespaces.clone();
    match &term.namespace_selector {
        // Namespaces that are not described, too.
        Some(chosen) if chosen == &LabelSelector::default() => return Namespaces::All,
        Some(chosen) => {
            let matching = problem.namespaces.iter();
            let matching = matching.filter(|(_, labels)| chosen.matches(labels));
            names.extend(matching.map(|(name, _)| name.clone()));
        }
        None if names.is_empty() => names.push(spec.namespace.clone()),
        None => {}
    }
    names.sort();
    names.dedup();
    Namespaces::These(names)
}

fn anywhere(ip: &str) -> bool {
    matches!(ip, "" | "0.0.0.0" | "::")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::HostPort;

    fn with_port(ip: &str) -> PodSpec {
        PodSpec {
            host_ports: vec![HostPort {
                port: 80,
                protocol: Protocol::Tcp,
                ip: ip.into(),
            }],
            ..PodSpec::default()
        }
    }

    #[test]
    fn a_port_on_all_addresses_conflicts_with_every_single_one() {
        let specs = [with_port(""), with_port("10.0.0.1"), with_port("10.0.0.2")];
        let mut groups = Groups::default();
        groups.learn_ports(specs.iter());
        let [all, one, two] = specs.map(|spec| groups.ports(&spec));
        assert!(one.iter().all(|id| all.contains(id)));
        assert!(two.iter().all(|id| all.contains(id)));
        assert!(one.iter().all(|id| !two.contains(id)));
    }

    #[test]
    fn a_group_counts_pods_of_its_namespaces_only() {
        let mut groups = Groups::default();
        let spec = PodSpec {
            namespace: "shop".into(),
            ..PodSpec::default()
        };
        let term = AffinityTerm {
            topology_key: labels::ZONE.into(),
            selector: Some(LabelSelector::label("app", "web")),
            namespaces: Vec::new(),
            namespace_selector: None,
        };
        let id = groups
            .term(&Problem::default(), &spec, &term, GroupKind::Anti)
            .unwrap();
        groups.index();
        let labels = Labels::from([("app".into(), "web".into())]);
        assert_eq!(groups.counting(&"shop".into(), &labels), [id]);
        assert!(groups.counting(&"other".into(), &labels).is_empty());
    }
}
