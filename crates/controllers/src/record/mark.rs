//! The mark that proves ownership: which Joiner looks after a node or a machine object, and for which machine.

use joiner_core::name::{Labels, Name};
use joiner_providers::Uid;

/// Annotation on nodes and machine objects: the cluster's identity and the family, `<UID of kube-system>.<family>`.
pub const MANAGED_BY: &str = "joiner.dev/managed-by";
/// Annotation on nodes: UID of the machine object that the node belongs to.
pub const MACHINE_UID: &str = "joiner.dev/machine-uid";

/// Who looks after machines of one family in one cluster, as it stands in [`MANAGED_BY`].
pub fn manager(cluster: &str, family: &str) -> Name {
    format!("{cluster}.{family}").into()
}

/// The mark on a node. A finalizer, a label or an owner that other controllers write too proves nothing; this does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Cluster and family: see [`manager`].
    pub managed_by: Name,
    /// UID of the machine object.
    pub machine: Name,
}

impl Mark {
    /// The mark for the node of a machine.
    pub fn new(cluster: &str, family: &str, machine: &Uid) -> Self {
        Mark {
            managed_by: manager(cluster, family),
            machine: machine.0.clone(),
        }
    }

    /// The mark as it stands on a node; `None` where either half is missing.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        Some(Mark {
            managed_by: get(MANAGED_BY)?.into(),
            machine: get(MACHINE_UID)?.into(),
        })
    }

    /// The family, if the mark is of this cluster.
    pub fn family(&self, cluster: &str) -> Option<&str> {
        self.managed_by.strip_prefix(cluster)?.strip_prefix('.')
    }

    /// As annotations.
    pub fn annotations(&self) -> Labels {
        Labels::from([
            (MANAGED_BY.into(), self.managed_by.clone()),
            (MACHINE_UID.into(), self.machine.clone()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_its_family_only_to_its_own_cluster() {
        let mark = Mark::new("c1", "karpenter", &Uid("u".into()));
        assert_eq!(mark.family("c1"), Some("karpenter"));
        assert_eq!(mark.family("c"), None);
        assert_eq!(mark.family("c2"), None);
        let annotations = mark.annotations();
        let read = Mark::read(|key| annotations.get(key).map(AsRef::as_ref));
        assert_eq!(read, Some(mark));
        assert_eq!(Mark::read(|_| None), None);
    }
}
