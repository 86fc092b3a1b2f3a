//! Places after the plan, and the pods there.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::sales::Sales;
use super::{Findings, Rule};
use crate::labels;
use crate::name::{Labels, Name};
use crate::plan::{Home, Launch, Plan, PodRef};
use crate::problem::{Node, NodeAffinityTerm, NodeId, NodePhase, Pod, PodSpec, Pool, Problem};
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taints::{Effect, Taint, untolerated};

/// A pod at a site.
#[derive(Clone, Copy)]
pub(super) struct Occupant<'a> {
    pub(super) pod: PodRef,
    pub(super) group: &'a Pod,
}

impl Occupant<'_> {
    pub(super) fn name(&self) -> Name {
        self.group.name_of(self.pod.position)
    }

    pub(super) fn spec(&self) -> &PodSpec {
        &self.group.spec
    }
}

/// What a site is.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// A node that is there.
    Node(&'a Node),
    /// A machine to buy.
    Launch(&'a Launch),
}

/// A place for pods.
pub(super) struct Site<'a> {
    pub(super) kind: Kind<'a>,
    /// How messages call it.
    pub(super) title: String,
    /// Its own domain of the hostname key.
    pub(super) hostname: Name,
    pub(super) labels: Cow<'a, Labels>,
    /// Taints that keep pods away.
    pub(super) taints: Vec<&'a Taint>,
    /// Room for pods and daemons; `None` if it is not known, which is reported elsewhere.
    pub(super) room: Option<Resources>,
    /// Pods that were there.
    pub(super) bound: Vec<Occupant<'a>>,
    /// Pods that come.
    pub(super) placed: Vec<Occupant<'a>>,
}

impl Site<'_> {
    pub(super) fn domain(&self, key: &str) -> Option<&Name> {
        match self.labels.get(labels::canonical(key)) {
            Some(value) => Some(value),
            None if key == labels::HOSTNAME => Some(&self.hostname),
            None => None,
        }
    }

    /// Pods that were there and are not on their way out: those that rules about other pods count.
    pub(super) fn staying(&self) -> impl Iterator<Item = &Occupant<'_>> {
        self.bound.iter().filter(|pod| !pod.group.ending)
    }

    /// All pods that are there in the end.
    pub(super) fn all_occupants(&self) -> impl Iterator<Item = &Occupant<'_>> {
        self.bound.iter().chain(&self.placed)
    }
}

/// A problem and a plan for it, put together.
pub(super) struct World<'a> {
    pub(super) problem: &'a Problem,
    pub(super) plan: &'a Plan,
    pub(super) sales: Sales<'a>,
    pub(super) sites: Vec<Site<'a>>,
    /// Nodes that the plan takes away, as they were.
    pub(super) leaving: Vec<Site<'a>>,
    /// Nodes on their way out with the pods that nothing may evict.
    pub(super) lingering: Vec<Site<'a>>,
    pub(super) pools: BTreeMap<&'a str, &'a Pool>,
    /// Indices of nodes that the plan takes away.
    pub(super) removed: BTreeSet<usize>,
    pub(super) node_index: BTreeMap<&'a str, usize>,
    /// Where each pod that the plan places goes: an index into `sites`.
    pub(super) destination: BTreeMap<PodRef, usize>,
}

impl<'a> World<'a> {
    pub(super) fn build(
        problem: &'a Problem,
        plan: &'a Plan,
        findings: &mut Findings,
    ) -> World<'a> {
        let node_index: BTreeMap<&str, usize> = problem
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (&*node.name, index))
            .collect();
        let removed = plan
            .removals
            .iter()
            .filter_map(|removal| node_index.get(&*removal.node).copied())
            .collect();
        let mut world = World {
            problem,
            plan,
            sales: Sales::of(problem, plan),
            sites: Vec::new(),
            leaving: Vec::new(),
            lingering: Vec::new(),
            pools: problem.pools.iter().map(|p| (&*p.name, p)).collect(),
            removed,
            node_index,
            destination: BTreeMap::new(),
        };
        world.add_nodes(findings);
        world.add_launches(findings);
        world.account(findings);
        world
    }

    /// Whether the pods of a node have to find another place.
    pub(super) fn leaves(&self, index: usize) -> bool {
        self.removed.contains(&index)
            || self
                .problem
                .nodes
                .get(index)
                .is_some_and(|node| node.deleting)
    }

    fn add_nodes(&mut self, findings: &mut Findings) {
        let mut site_of = BTreeMap::new();
        for (index, node) in self.problem.nodes.iter().enumerate() {
            let home = Home::Node(NodeId::at(index));
            let mut site = Site {
                kind: Kind::Node(node),
                title: format!("node {}", node.name),
                hostname: node.name.clone(),
                labels: Cow::Borrowed(&node.labels),
                taints: node_taints(node),
                room: Some(node.allocatable.clone()),
                bound: occupants(&node.pods, home),
                placed: Vec::new(),
            };
            if self.removed.contains(&index) {
                self.leaving.push(site);
            } else if node.deleting {
                site.bound
                    .retain(|one| one.group.reschedulable() && self.blocks_drain(node, one.group));
                self.lingering.push(site);
            } else {
                site_of.insert(index, self.sites.len());
                self.sites.push(site);
            }
        }
        for placement in &self.plan.placements {
            let Some(index) = self.node_index.get(&*placement.node).copied() else {
                findings.add(
                    Rule::Bookkeeping,
                    format!(
                        "pods are put on node {}, which there is not",
                        placement.node
                    ),
                );
                continue;
            };
            let Some(site) = site_of.get(&index).copied() else {
                findings.add(
                    Rule::Bookkeeping,
                    format!("pods are put on node {}, which goes away", placement.node),
                );
                continue;
            };
            self.place(site, &placement.pods, findings);
        }
    }

    fn add_launches(&mut self, findings: &mut Findings) {
        for (index, launch) in self.plan.launches.iter().enumerate() {
            let taints = self
                .pools
                .get(&*launch.pool)
                .map(|pool| keeps_away(&pool.taints))
                .unwrap_or_default();
            let purchase = &launch.purchase;
            self.sites.push(Site {
                kind: Kind::Launch(launch),
                title: format!(
                    "launch {index} ({} {} {})",
                    purchase.instance_type, purchase.zone, purchase.capacity_type
                ),
                hostname: format!("launch-{index}").into(),
                labels: Cow::Borrowed(&launch.labels),
                taints,
                room: super::purchase::allocatable(self.problem, launch, purchase),
                bound: Vec::new(),
                placed: Vec::new(),
            });
            self.place(self.sites.len() - 1, &launch.pods, findings);
        }
    }

    fn place(&mut self, site: usize, pods: &[PodRef], findings: &mut Findings) {
        for pod in pods {
            let Some(group) = self.problem.pod(*pod) else {
                findings.add(
                    Rule::Bookkeeping,
                    format!(
                        "{} has a pod that there is not: {pod:?}",
                        self.sites[site].title
                    ),
                );
                continue;
            };
            if self.destination.insert(*pod, site).is_some() {
                let name = group.name_of(pod.position);
                findings.add(Rule::Bookkeeping, format!("pod {name} is placed twice"));
                continue;
            }
            self.sites[site].placed.push(Occupant { pod: *pod, group });
        }
    }

    /// Each pod that needs a place has one place or one reason, and no other pod is touched.
    fn account(&self, findings: &mut Findings) {
        let mut explained = BTreeSet::new();
        for pod in self.plan.unplaced.iter().flat_map(|one| &one.pods) {
            let name = self.problem.pod_name(*pod);
            let name = name.as_deref().unwrap_or("that there is not");
            if !explained.insert(*pod) {
                findings.add(Rule::Bookkeeping, format!("pod {name} is unplaced twice"));
            }
            if self.destination.contains_key(pod) {
                let text = format!("pod {name} is placed and said not to be");
                findings.add(Rule::Bookkeeping, text);
            }
        }
        for pod in self.destination.keys() {
            let Home::Node(node) = pod.home else { continue };
            let group = self.problem.pod(*pod);
            let movable = self.leaves(node.index()) && group.is_some_and(Pod::reschedulable);
            if !movable {
                let name = self.problem.pod_name(*pod).unwrap_or_default();
                let text = format!("pod {name} is moved although it can stay where it is");
                findings.add(Rule::Bookkeeping, text);
            }
        }
        for occupant in self.homeless() {
            if !self.destination.contains_key(&occupant.pod) && !explained.contains(&occupant.pod) {
                let text = format!(
                    "pod {} needs a place and has neither one nor a reason",
                    occupant.name()
                );
                findings.add(Rule::Bookkeeping, text);
            }
        }
    }

    /// Pods that need a place.
    fn homeless(&self) -> impl Iterator<Item = Occupant<'a>> + '_ {
        let pending = occupants(&self.problem.pods, Home::Pending).into_iter();
        let moving = self
            .problem
            .nodes
            .iter()
            .enumerate()
            .filter(|(index, _)| self.leaves(*index))
            .flat_map(move |(index, node)| {
                let home = Home::Node(NodeId::at(index));
                let stuck = node.deleting && !self.removed.contains(&index);
                occupants(&node.pods, home)
                    .into_iter()
                    .filter(move |one| one.group.reschedulable())
                    // A node on its way out may keep pods that nothing may evict.
                    .filter(move |one| !(stuck && self.blocks_drain(node, one.group)))
            });
        pending.chain(moving)
    }

    fn blocks_drain(&self, node: &Node, pod: &Pod) -> bool {
        if node.reclaimed {
            return false;
        }
        pod.do_not_disrupt
            || self.problem.pod_disruption_budgets.iter().any(|budget| {
                budget.never
                    && budget.namespace == pod.spec.namespace
                    && budget
                        .selector
                        .as_ref()
                        .is_some_and(|selector| selector.matches(&pod.spec.labels))
            })
    }
}

fn occupants(pods: &[Pod], home: Home) -> Vec<Occupant<'_>> {
    let numbered = pods.iter().enumerate();
    numbered
        .flat_map(|(index, group)| {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            (0..group.count).map(move |position| Occupant {
                pod: PodRef {
                    home,
                    group: index,
                    position,
                },
                group,
            })
        })
        .collect()
}

/// Taints that keep a pod off; those that only ask it to stay away do not.
pub(super) fn keeps_away(taints: &[Taint]) -> Vec<&Taint> {
    taints
        .iter()
        .filter(|taint| taint.effect != Effect::PreferNoSchedule)
        .collect()
}

/// Taints that count for placing on a node. Until it is in use, those that go away by themselves do not.
///
/// karpenter: pkg/controllers/state/statenode.go, `Taints`
fn node_taints(node: &Node) -> Vec<&Taint> {
    let mut all = keeps_away(&node.taints);
    if node.phase != NodePhase::Ready && node.pool.is_some() {
        all.retain(|taint| {
            let same = |other: &Taint| other.key == taint.key && other.effect == taint.effect;
            !passing(taint) && !node.startup_taints.iter().any(same)
        });
    }
    all
}

fn passing(taint: &Taint) -> bool {
    matches!(
        &*taint.key,
        "node.kubernetes.io/not-ready"
            | "node.kubernetes.io/unreachable"
            | "node.cloudprovider.kubernetes.io/uninitialized"
            | "karpenter.sh/unregistered"
    ) || taint.key.starts_with("readiness.k8s.io/")
}

/// A term about nodes; `None` if it matches none, as one that is empty or cannot be read.
pub(super) fn read_term(term: &NodeAffinityTerm) -> Option<Requirements> {
    if term.is_empty() {
        return None;
    }
    Requirements::parse(term).ok()
}

/// Whether a node with these labels satisfies node selector and required affinity.
pub(super) fn selected(spec: &PodSpec, labels: &Labels, hostname: Option<&Name>) -> bool {
    let holds = |wanted: &Requirements| {
        wanted.iter().all(|(key, requirement)| {
            let own = if &**key == labels::HOSTNAME {
                hostname
            } else {
                None
            };
            match labels.get(key).or(own) {
                Some(value) => requirement.allows(value),
                None => requirement.allows_absence(),
            }
        })
    };
    holds(&Requirements::from_labels(&spec.node_selector))
        && (spec.required_affinity.is_empty()
            || spec
                .required_affinity
                .iter()
                .filter_map(read_term)
                .any(|term| holds(&term)))
}

/// The daemons that run on a node with these labels and taints.
pub(super) fn daemons<'a>(
    problem: &'a Problem,
    labels: &Labels,
    taints: &[&Taint],
) -> Vec<&'a PodSpec> {
    // Karpenter counts daemons that wait for these two.
    let mut labels = labels.clone();
    for key in [labels::REGISTERED, labels::INITIALIZED] {
        labels.entry(key.into()).or_insert_with(|| "true".into());
    }
    problem
        .daemon_sets
        .iter()
        .map(|set| &*set.spec)
        .filter(|spec| untolerated(taints.iter().copied(), &spec.tolerations).is_none())
        .filter(|spec| selected(spec, &labels, None))
        .collect()
}
