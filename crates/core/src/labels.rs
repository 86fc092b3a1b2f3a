//! Label keys with a meaning of their own.

/// Zone of a node.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region of a node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Name of the host; every node is a domain of its own.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Processor architecture.
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system.
pub const OS: &str = "kubernetes.io/os";
/// Windows build of the operating system.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// Instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Capacity type: `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Pool that a node belongs to.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// Set once a node has registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// Set once a node is initialised.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// Reservation that an offering of capacity type `reserved` draws from.
pub const RESERVATION_ID: &str = "karpenter.sh/reservation-id";

/// Keys that a machine gets from its cloud: a pod may ask for them although no pool names them.
///
/// karpenter: pkg/apis/v1/labels.go, `WellKnownLabels`
pub const WELL_KNOWN: [&str; 8] = [
    NODEPOOL,
    CAPACITY_TYPE,
    ZONE,
    REGION,
    INSTANCE_TYPE,
    ARCH,
    OS,
    WINDOWS_BUILD,
];

/// The one field by which node affinity can name a node. Nodes that are there have it among their labels; no machine
/// that is still to be bought has it.
pub const NAME_FIELD: &str = "metadata.name";

/// Old names of labels and what they are called now.
const ALIASES: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];

/// The name a key goes by today.
pub fn canonical(key: &str) -> &str {
    ALIASES
        .iter()
        .find(|(old, _)| *old == key)
        .map_or(key, |(_, new)| new)
}

/// Whether a pod may ask for `key` although neither pool nor type defines it.
pub fn is_well_known(key: &str) -> bool {
    WELL_KNOWN.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beta_labels_are_read_as_their_stable_names() {
        assert_eq!(canonical("beta.kubernetes.io/arch"), ARCH);
        assert_eq!(canonical("example.com/own"), "example.com/own");
    }
}
