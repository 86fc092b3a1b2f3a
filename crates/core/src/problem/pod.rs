//! Pods: what they need, and where they want to be.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::name::{Labels, Name};
use crate::requirement::Expression;
use crate::resources::Resources;
use crate::selector::LabelSelector;
use crate::taints::Toleration;

/// One way in which a node suits: all expressions hold.
pub type NodeAffinityTerm = Vec<Expression>;

/// A preference and its weight beside other preferences.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weighted<T> {
    /// 1 to 100.
    pub weight: i32,
    /// The preference.
    pub term: T,
}

/// What happens when a spread cannot be kept.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum WhenUnsatisfiable {
    /// The pod waits.
    #[default]
    DoNotSchedule,
    /// The pod is put where it violates least.
    ScheduleAnyway,
}

/// Whether nodes that a pod could not use count for its spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Policy {
    /// Only nodes that the pod could use count.
    Honor,
    /// All nodes count.
    Ignore,
}

/// Spread pods evenly over the values of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spread {
    /// Label whose values are the domains.
    pub topology_key: Name,
    /// How far the fullest domain may be ahead of the emptiest.
    pub max_skew: i32,
    /// Which pods are counted; `None` counts none.
    pub selector: Option<LabelSelector>,
    /// Labels of the pod itself that counted pods must share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<Name>,
    /// With fewer domains than this the emptiest counts as zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<u32>,
    /// Whether it is a rule or a preference.
    #[serde(default)]
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Whether nodes that the pod's node affinity excludes count; `Honor` unless said otherwise.
    #[serde(default = "honor")]
    pub node_affinity_policy: Policy,
    /// Whether nodes with taints that the pod does not tolerate count; `Ignore` unless said otherwise.
    #[serde(default = "ignore")]
    pub node_taints_policy: Policy,
}

fn honor() -> Policy {
    Policy::Honor
}

fn ignore() -> Policy {
    Policy::Ignore
}

/// Be near, or not near, other pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AffinityTerm {
    /// Label whose values are the domains.
    pub topology_key: Name,
    /// Which pods; `None` matches none.
    pub selector: Option<LabelSelector>,
    /// In these namespaces; the pod's own when both this and the selector are absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Name>,
    /// And in namespaces with such labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// Transport of a host port.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port of the node that the pod takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPort {
    /// Port.
    pub port: u16,
    /// Transport.
    #[serde(default)]
    pub protocol: Protocol,
    /// Address; empty for all of them.
    #[serde(default)]
    pub ip: Name,
}

impl HostPort {
    /// Whether both cannot be had on one node.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        let anywhere = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || anywhere(&self.ip) || anywhere(&other.ip))
    }
}

/// A volume that the pod mounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Namespace and name of the claim: pods that share it attach it once a node.
    pub claim: Name,
    /// Driver whose attach limit it counts against; empty if none does.
    #[serde(default)]
    pub driver: Name,
    /// Where it can be: one of these terms must hold; empty for anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology: Vec<NodeAffinityTerm>,
}

/// Everything about a pod that decides where it can be. Pods of one owner share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PodSpec {
    /// Namespace.
    pub namespace: Name,
    /// Labels.
    pub labels: Labels,
    /// What it takes of a node, one pod slot included.
    pub requests: Resources,
    /// Labels that the node must have.
    pub node_selector: Labels,
    /// One of these terms must hold; empty for any node.
    pub required_affinity: Vec<NodeAffinityTerm>,
    /// Nodes that it would rather be on.
    pub preferred_affinity: Vec<Weighted<NodeAffinityTerm>>,
    /// Taints that it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Spread over domains.
    pub spread: Vec<Spread>,
    /// Pods that it must be near.
    pub affinity: Vec<AffinityTerm>,
    /// Pods that it must not be near.
    pub anti_affinity: Vec<AffinityTerm>,
    /// Pods that it would rather be near.
    pub preferred_pod_affinity: Vec<Weighted<AffinityTerm>>,
    /// Pods that it would rather not be near.
    pub preferred_pod_anti_affinity: Vec<Weighted<AffinityTerm>>,
    /// Ports of the node that it takes.
    pub host_ports: Vec<HostPort>,
    /// Volumes that it mounts.
    pub volumes: Vec<Volume>,
    /// Higher ones are placed first.
    pub priority: i32,
}

/// A pod, or several that differ in name only.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, as observed"
)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Pod {
    /// Name; with `count` above one the pods are called `name-0`, `name-1` and so on.
    pub name: Name,
    /// How many there are.
    pub count: u32,
    /// What it needs.
    pub spec: Arc<PodSpec>,
    /// When it was made; older ones are placed first among equals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// Cost of its eviction beside that of other pods, from `pod-deletion-cost`.
    pub deletion_cost: i32,
    /// Must not be moved.
    pub do_not_disrupt: bool,
    /// Belongs to a daemon set: it comes and goes with its node and is not placed.
    pub daemon: bool,
    /// Runs but does not answer its readiness probe.
    pub unready: bool,
    /// Need not find another place when its node goes (it has ended, or belongs to the node itself).
    pub stays_behind: bool,
    /// Is on its way out: it takes its room, ports and volumes until it is gone, and no rule about other pods counts it.
    ///
    /// karpenter: pkg/controllers/provisioning/scheduling/topology.go, `IgnoredForTopology`
    pub ending: bool,
}

impl Pod {
    /// One pod.
    pub fn new(name: &str, spec: PodSpec) -> Self {
        Pod {
            name: name.into(),
            count: 1,
            spec: Arc::new(spec),
            ..Self::default()
        }
    }

    /// The name of the pod at `position` of this group.
    pub fn name_of(&self, position: u32) -> Name {
        if self.count == 1 {
            self.name.clone()
        } else {
            format!("{}-{position}", self.name).into()
        }
    }

    /// Whether it must find another place when its node goes.
    pub fn reschedulable(&self) -> bool {
        !self.daemon && !self.stays_behind
    }
}

/// Pods that run on every node that they match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DaemonSet {
    /// Name.
    pub name: Name,
    /// What one of its pods needs.
    pub spec: Arc<PodSpec>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_ports_conflict_unless_address_port_or_protocol_differ() {
        let port = |port, protocol, ip: &str| HostPort {
            port,
            protocol,
            ip: ip.into(),
        };
        let all = port(80, Protocol::Tcp, "");
        assert!(all.conflicts(&port(80, Protocol::Tcp, "10.0.0.1")));
        assert!(!all.conflicts(&port(80, Protocol::Udp, "")));
        assert!(!all.conflicts(&port(81, Protocol::Tcp, "")));
        let one = port(80, Protocol::Tcp, "10.0.0.1");
        assert!(!one.conflicts(&port(80, Protocol::Tcp, "10.0.0.2")));
        assert!(one.conflicts(&port(80, Protocol::Tcp, "::")));
    }

    #[test]
    fn pods_of_a_group_are_numbered() {
        let group = Pod {
            name: "web".into(),
            count: 2,
            ..Pod::default()
        };
        assert_eq!(&*group.name_of(1), "web-1");
        assert_eq!(
            &*Pod::new("single", PodSpec::default()).name_of(0),
            "single"
        );
    }
}
