//! A pod as the scheduler sees it: everything that placing it depends on, read from the object once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::affinity::NodeAffinity;
use super::resources::{Resources, pod_requests};
use super::taints::Toleration;
use crate::cluster::Key;
use crate::cluster::fields::Fields as _;
use crate::selector::{Operator, Requirement, Selector};

/// What scoring assumes for a container that asks for nothing (kubernetes: `DefaultMilliCPURequest`).
const ASSUMED_CPU_MILLIS: i64 = 100;
/// As above, for memory: 200 MB.
const ASSUMED_MEMORY_BYTES: i64 = 200 * 1024 * 1024;

/// Pods of some namespaces with some labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodSet {
    /// Namespaces by name.
    namespaces: BTreeSet<String>,
    /// Namespaces by label, besides those by name.
    namespace_selector: Selector,
    selector: Selector,
}

/// Which pods a rule is about, apart from where they run: those in all of the sets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Query {
    sets: Vec<PodSet>,
    /// Topology spread does not count pods on their way out; affinity does.
    ignore_terminating: bool,
}

/// A rule about pods in one topology: pod affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term {
    pub(crate) topology_key: String,
    pub(crate) query: Query,
}

/// What to do when a spread constraint cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// One topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) max_skew: i64,
    pub(crate) min_domains: i64,
    pub(crate) topology_key: String,
    pub(crate) query: Query,
    pub(crate) honor_affinity: bool,
    pub(crate) honor_taints: bool,
    pub(crate) unsatisfiable: Unsatisfiable,
}

/// A port that a pod takes on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPort {
    protocol: String,
    address: String,
    port: i64,
}

impl HostPort {
    /// Whether two ports cannot be on one node: same protocol and port, and overlapping addresses.
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        let anywhere = |address: &str| address.is_empty() || address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (anywhere(&self.address)
                || anywhere(&other.address)
                || self.address == other.address)
    }
}

/// A pod, as far as scheduling goes.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, none of which excludes another"
)]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PodInfo {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) priority: i64,
    pub(crate) created: Timestamp,
    pub(crate) started: Option<Timestamp>,
    pub(crate) requests: Resources,
    /// CPU and memory with assumptions for what was not asked, for scoring only.
    pub(crate) assumed: (i64, i64),
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) node_affinity: NodeAffinity,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) affinity: Vec<Arc<Term>>,
    pub(crate) anti_affinity: Vec<Arc<Term>>,
    /// Preferred terms; avoidance has a negative weight.
    pub(crate) preferred: Vec<(i64, Arc<Term>)>,
    pub(crate) spread: Vec<Spread>,
    /// Names of the claims that its volumes use.
    pub(crate) claims: Vec<String>,
    pub(crate) gates: Vec<String>,
    pub(crate) scheduler: String,
    pub(crate) node: String,
    pub(crate) nominated_node: String,
    pub(crate) may_preempt: bool,
    pub(crate) terminating: bool,
    /// Terminating because a scheduler asked for its place.
    pub(crate) preempted: bool,
    /// Succeeded or failed: it occupies nothing any more.
    pub(crate) finished: bool,
}

impl PodInfo {
    /// Reads a pod.
    pub(crate) fn read(pod: &Value) -> Self {
        let requests = pod_requests(pod);
        let spec = pod.at(&["spec"]);
        let affinity = spec.at(&["affinity", "podAffinity"]);
        let avoidance = spec.at(&["affinity", "podAntiAffinity"]);
        let mut preferred = preferred_terms(pod, affinity, 1);
        preferred.extend(preferred_terms(pod, avoidance, -1));
        Self {
            key: Key::of(pod),
            uid: pod.uid().to_owned(),
            labels: read_labels(pod.labels()),
            priority: spec.int(&["priority"]).unwrap_or_default(),
            created: pod.created(),
            started: pod.time(&["status", "startTime"]),
            assumed: assumed(&requests, spec.items(&["containers"]).len()),
            requests,
            tolerations: Toleration::read_all(pod),
            node_affinity: NodeAffinity::read(pod),
            ports: host_ports(spec),
            affinity: required_terms(pod, affinity),
            anti_affinity: required_terms(pod, avoidance),
            preferred,
            spread: spec
                .items(&["topologySpreadConstraints"])
                .iter()
                .map(|constraint| read_spread(pod, constraint))
                .collect(),
            claims: claim_names(pod),
            gates: spec
                .items(&["schedulingGates"])
                .iter()
                .map(|gate| gate.text(&["name"]).to_owned())
                .collect(),
            scheduler: match spec.text(&["schedulerName"]) {
                "" => "default-scheduler".to_owned(),
                name => name.to_owned(),
            },
            node: spec.text(&["nodeName"]).to_owned(),
            nominated_node: pod.text(&["status", "nominatedNodeName"]).to_owned(),
            may_preempt: spec.text(&["preemptionPolicy"]) != "Never",
            terminating: pod.deleting(),
            preempted: pod.deleting()
                && pod
                    .condition("DisruptionTarget")
                    .is_some_and(|held| held.text(&["reason"]) == "PreemptionByScheduler"),
            finished: matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed"),
        }
    }
}

impl PodInfo {
    /// Whether an attempt for the other pod would come out the same: all but who they are and since when is equal.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        // Claims are looked up by name, and promises are personal.
        let plain = |pod: &Self| pod.claims.is_empty() && pod.nominated_node.is_empty();
        plain(self)
            && plain(other)
            && self.key.namespace == other.key.namespace
            && self.priority == other.priority
            && self.may_preempt == other.may_preempt
            && self.requests == other.requests
            && self.labels == other.labels
            && self.tolerations == other.tolerations
            && self.node_affinity == other.node_affinity
            && self.ports == other.ports
            && self.affinity == other.affinity
            && self.anti_affinity == other.anti_affinity
            && self.spread == other.spread
    }
}

impl PodSet {
    fn holds(&self, pod: &PodInfo, namespaces: &BTreeMap<String, Value>) -> bool {
        let in_namespace = self.namespaces.contains(&pod.key.namespace)
            || (self.namespace_selector != Selector::Nothing
                && namespaces
                    .get(&pod.key.namespace)
                    .is_some_and(|labels| self.namespace_selector.matches(labels)));
        in_namespace && self.selector.matches_map(&pod.labels)
    }
}

impl Query {
    /// Whether a pod is among those that the rule is about.
    pub(crate) fn matches(&self, pod: &PodInfo, namespaces: &BTreeMap<String, Value>) -> bool {
        !(self.ignore_terminating && pod.terminating)
            && self.sets.iter().all(|set| set.holds(pod, namespaces))
    }

    /// Whether the answer depends on the labels of namespaces.
    pub(crate) fn selects_namespaces(&self) -> bool {
        self.sets
            .iter()
            .any(|set| set.namespace_selector != Selector::Nothing)
    }

    /// The pods that every one of the terms is about: what required pod affinity looks for.
    pub(crate) fn all_of(terms: &[Arc<Term>]) -> Self {
        Self {
            sets: terms
                .iter()
                .flat_map(|term| term.query.sets.iter().cloned())
                .collect(),
            ignore_terminating: false,
        }
    }
}

/// Labels as a map.
pub(crate) fn read_labels(labels: &Value) -> BTreeMap<String, String> {
    labels
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// The names of the claims a pod's volumes use; generic ephemeral volumes have a claim named after pod and volume.
pub(crate) fn claim_names(pod: &Value) -> Vec<String> {
    pod.items(&["spec", "volumes"])
        .iter()
        .filter_map(|volume| {
            if volume.at(&["ephemeral"]).is_object() {
                return Some(format!("{}-{}", pod.name(), volume.text(&["name"])));
            }
            let name = volume.text(&["persistentVolumeClaim", "claimName"]);
            (!name.is_empty()).then(|| name.to_owned())
        })
        .collect()
}

fn assumed(requests: &Resources, containers: usize) -> (i64, i64) {
    let containers = i64::try_from(containers).unwrap_or(i64::MAX).max(1);
    let or = |asked: i64, default: i64| {
        if asked == 0 {
            default * containers
        } else {
            asked
        }
    };
    (
        or(requests.cpu_millis, ASSUMED_CPU_MILLIS),
        or(requests.memory_bytes, ASSUMED_MEMORY_BYTES),
    )
}

fn host_ports(spec: &Value) -> Vec<HostPort> {
    let sidecars = spec
        .items(&["initContainers"])
        .iter()
        .filter(|container| container.text(&["restartPolicy"]) == "Always");
    let host_network = spec.flag(&["hostNetwork"]);
    spec.items(&["containers"])
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.items(&["ports"]))
        .filter_map(|port| {
            let number = port
                .int(&["hostPort"])
                .filter(|&number| number > 0)
                .or_else(|| {
                    host_network.then(|| port.int(&["containerPort"]).unwrap_or_default())
                })?;
            Some(HostPort {
                protocol: match port.text(&["protocol"]) {
                    "" => "TCP".to_owned(),
                    protocol => protocol.to_owned(),
                },
                address: port.text(&["hostIP"]).to_owned(),
                port: number,
            })
        })
        .collect()
}

fn required_terms(pod: &Value, affinity: &Value) -> Vec<Arc<Term>> {
    affinity
        .items(&["requiredDuringSchedulingIgnoredDuringExecution"])
        .iter()
        .map(|term| Arc::new(read_term(pod, term)))
        .collect()
}

fn preferred_terms(pod: &Value, affinity: &Value, sign: i64) -> Vec<(i64, Arc<Term>)> {
    affinity
        .items(&["preferredDuringSchedulingIgnoredDuringExecution"])
        .iter()
        .map(|preference| {
            let weight = preference.int(&["weight"]).unwrap_or_default();
            (
                sign * weight,
                Arc::new(read_term(pod, preference.at(&["podAffinityTerm"]))),
            )
        })
        .collect()
}

fn read_term(pod: &Value, term: &Value) -> Term {
    let mut namespaces: BTreeSet<String> = term
        .items(&["namespaces"])
        .iter()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let namespace_selector = Selector::read(term.at(&["namespaceSelector"]));
    if namespaces.is_empty() && namespace_selector == Selector::Nothing {
        namespaces.insert(pod.namespace().to_owned());
    }
    let mut selector = Selector::read(term.at(&["labelSelector"]));
    for (path, operator) in [
        ("matchLabelKeys", Operator::In),
        ("mismatchLabelKeys", Operator::NotIn),
    ] {
        selector = with_own_labels(selector, pod, term.items(&[path]), operator);
    }
    Term {
        topology_key: term.text(&["topologyKey"]).to_owned(),
        query: Query {
            sets: vec![PodSet {
                namespaces,
                namespace_selector,
                selector,
            }],
            ignore_terminating: false,
        },
    }
}

/// Narrows a selector by the pod's own values of some labels. The API server writes the same requirement into the
/// object when it creates a pod; stating it twice changes nothing.
fn with_own_labels(
    mut selector: Selector,
    pod: &Value,
    keys: &[Value],
    operator: Operator,
) -> Selector {
    for key in keys.iter().filter_map(Value::as_str) {
        if let Some(value) = pod.label(key) {
            let requirement = Requirement {
                key: key.to_owned(),
                operator,
                values: vec![value.to_owned()],
            };
            selector = selector.and(requirement);
        }
    }
    selector
}

fn read_spread(pod: &Value, constraint: &Value) -> Spread {
    let selector = Selector::read(constraint.at(&["labelSelector"]));
    let keys = constraint.items(&["matchLabelKeys"]);
    Spread {
        max_skew: constraint.int(&["maxSkew"]).unwrap_or(1),
        min_domains: constraint.int(&["minDomains"]).unwrap_or(1),
        topology_key: constraint.text(&["topologyKey"]).to_owned(),
        query: Query {
            sets: vec![PodSet {
                namespaces: BTreeSet::from([pod.namespace().to_owned()]),
                namespace_selector: Selector::Nothing,
                selector: with_own_labels(selector, pod, keys, Operator::In),
            }],
            ignore_terminating: true,
        },
        honor_affinity: constraint.text(&["nodeAffinityPolicy"]) != "Ignore",
        honor_taints: constraint.text(&["nodeTaintsPolicy"]) == "Honor",
        unsatisfiable: match constraint.text(&["whenUnsatisfiable"]) {
            "ScheduleAnyway" => Unsatisfiable::ScheduleAnyway,
            _ => Unsatisfiable::DoNotSchedule,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_term_without_namespaces_is_about_its_own() {
        let pod = PodInfo::read(&json!({
            "metadata": {"name": "p", "namespace": "shop", "labels": {"rev": "1"}},
            "spec": {"affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{
                    "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}},
                    "matchLabelKeys": ["rev", "absent"],
                }],
            }}},
        }));
        let term = &pod.anti_affinity[0];
        let other = |namespace: &str, labels: Value| {
            PodInfo::read(&json!({"metadata": {"namespace": namespace, "labels": labels}}))
        };
        let none = BTreeMap::new();
        assert!(
            term.query
                .matches(&other("shop", json!({"app": "web", "rev": "1"})), &none)
        );
        assert!(
            !term
                .query
                .matches(&other("shop", json!({"app": "web", "rev": "2"})), &none)
        );
        assert!(
            !term
                .query
                .matches(&other("bank", json!({"app": "web", "rev": "1"})), &none)
        );
    }

    #[test]
    fn a_namespace_selector_reaches_other_namespaces() {
        let pod = PodInfo::read(&json!({
            "metadata": {"name": "p", "namespace": "shop"},
            "spec": {"affinity": {"podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{
                    "topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {
                        "matchLabels": {"team": "a"}},
                }],
            }}},
        }));
        let namespaces = BTreeMap::from([
            ("bank".to_owned(), json!({"team": "a"})),
            ("shop".to_owned(), json!({"team": "b"})),
        ]);
        let other = |namespace: &str| PodInfo::read(&json!({"metadata": {"namespace": namespace}}));
        let query = &pod.affinity[0].query;
        assert!(query.matches(&other("bank"), &namespaces));
        assert!(!query.matches(&other("shop"), &namespaces));
    }

    #[test]
    fn host_ports_conflict_by_protocol_and_overlapping_address() {
        let ports = |spec: Value| PodInfo::read(&json!({"spec": spec})).ports;
        let one = |port: Value| ports(json!({"containers": [{"ports": [port]}]})).remove(0);
        let any = one(json!({"hostPort": 80}));
        assert!(any.conflicts(&one(json!({"hostPort": 80, "hostIP": "10.0.0.1"}))));
        assert!(!any.conflicts(&one(json!({"hostPort": 80, "protocol": "UDP"}))));
        let first = one(json!({"hostPort": 80, "hostIP": "10.0.0.1"}));
        assert!(!first.conflicts(&one(json!({"hostPort": 80, "hostIP": "10.0.0.2"}))));
        assert!(ports(json!({"containers": [{"ports": [{"containerPort": 80}]}]})).is_empty());
        let host = json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]});
        assert_eq!(ports(host).len(), 1);
    }

    #[test]
    fn ephemeral_volumes_have_a_claim_named_after_the_pod() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "ephemeral": {}}, {"name": "c", "emptyDir": {}},
        ]}});
        assert_eq!(claim_names(&pod), ["data", "p-b"]);
    }
}
