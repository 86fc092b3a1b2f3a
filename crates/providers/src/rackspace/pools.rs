//! One pool for each machine: how a request becomes a pool, and a pool a machine.
//!
//! A pool that holds several servers cannot be told which of them to give back, so each machine is a pool of its own
//! that wants one server. Its name is made of the UID that asked for it, so that asking twice makes it once.

use std::collections::BTreeMap;

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::CapacityType;
use joiner_core::resources::Resources;
use joiner_core::taints::Taint;
use sha2::{Digest as _, Sha256};

use super::bids::Bid;
use super::catalog;
use super::client::PoolKind;
use super::types::{
    API_VERSION, CLOUDSPACE_LABEL, CustomTaint, Metadata, Pool, PoolSpec, ServerClass,
};
use crate::{LaunchRequest, Machine, MachineId, MachineState, NodeLink, ProviderError, Uid};

/// Label that the cloud puts on every node: the name of its pool. The only reliable link between the two.
pub const POOL_LABEL: &str = "nodepool.ngpc.rxt.io/name";
/// Label of our own on the servers of a pool: which cluster's Joiner bought it.
pub const CLUSTER_MARK: &str = "joiner.dev/cluster";
/// Label of our own on the servers of a pool: for which family of custom resources.
pub const FAMILY_MARK: &str = "joiner.dev/family";
/// Label of our own on the servers of a pool: the UID that asked for it.
pub const MACHINE_MARK: &str = "joiner.dev/machine";
/// Annotation of our own on the servers of a pool: what it may cost at most, so that its bid is never raised above it.
pub const MAX_PRICE_NOTE: &str = "joiner.dev/max-price";

/// Labels that the cloud or the kubelet sets in its own way; two writers would fight over them.
const OTHERS_LABELS: [&str; 5] = [
    labels::INSTANCE_TYPE,
    labels::REGION,
    labels::HOSTNAME,
    labels::ARCH,
    labels::OS,
];

impl From<PoolKind> for CapacityType {
    fn from(kind: PoolKind) -> Self {
        match kind {
            PoolKind::Spot => CapacityType::Spot,
            PoolKind::OnDemand => CapacityType::OnDemand,
        }
    }
}

/// The name of the pool for a machine: a bare lower-case UUID, or the API refuses it. A UID mostly is one.
pub fn pool_name(uid: &Uid) -> String {
    if is_uuid(&uid.0) {
        return uid.0.to_string();
    }
    let digest = Sha256::digest(uid.0.as_bytes());
    let mut bytes: Vec<u8> = digest.iter().take(16).copied().collect();
    // Version 8, variant 1: a UUID made by rules of our own.
    for (at, mask, bits) in [(6, 0x0f, 0x80), (8, 0x3f, 0x80)] {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = *byte & mask | bits;
        }
    }
    let mut name = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            name.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            name.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    name
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => matches!(c, '0'..='9' | 'a'..='f'),
        })
}

/// What a machine is called: its cloudspace, how it is paid for, and its pool.
pub fn machine_id(cloudspace: &str, kind: PoolKind, pool: &str) -> MachineId {
    let kind = CapacityType::from(kind);
    MachineId(format!("rackspace://{cloudspace}/{kind}/{pool}").into())
}

/// The pool that a machine is, if it is one of this cloudspace.
pub fn parse_id(cloudspace: &str, id: &MachineId) -> Result<(PoolKind, String), ProviderError> {
    let unknown = || {
        ProviderError::Invalid(format!(
            "{id} is not a machine of cloudspace {cloudspace:?}"
        ))
    };
    let rest = id.0.strip_prefix("rackspace://").ok_or_else(unknown)?;
    let mut parts = rest.split('/');
    let (space, kind, pool) = (parts.next(), parts.next(), parts.next());
    let pool = pool.filter(|name| is_uuid(name)).ok_or_else(unknown)?;
    if space != Some(cloudspace) || parts.next().is_some() {
        return Err(unknown());
    }
    let kind = match kind {
        Some("spot") => PoolKind::Spot,
        Some("on-demand") => PoolKind::OnDemand,
        _ => return Err(unknown()),
    };
    Ok((kind, pool.to_owned()))
}

/// Whose pools are ours.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The cluster's id.
    pub cluster: &'a str,
    /// The family of custom resources.
    pub family: &'a str,
    /// What stood in the place of the cluster's id before marks named a family.
    pub older: Option<&'a str>,
    /// The cloudspace that the cluster is.
    pub cloudspace: &'a str,
}

/// Whose a pool is, as far as its labels tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// It carries our mark: cluster and family.
    Ours,
    /// It was made before marks named a family: ours if an object of ours has its UID, which only the caller can tell.
    Older,
    /// Somebody else's.
    Other,
}

impl Owner<'_> {
    /// Whose a pool is. One that the cloud scales by itself is not ours any more, whatever it carries: its owner
    /// switched that on.
    pub fn whose(&self, pool: &Pool) -> Whose {
        let label = |key: &str| pool.spec.custom_labels.get(key).map(String::as_str);
        if pool.spec.cloud_space != self.cloudspace || pool.spec.autoscaling.enabled {
            return Whose::Other;
        }
        match (label(CLUSTER_MARK), label(FAMILY_MARK)) {
            (Some(cluster), Some(family)) if cluster == self.cluster && family == self.family => {
                Whose::Ours
            }
            (Some(cluster), None) if Some(cluster) == self.older => Whose::Older,
            _ => Whose::Other,
        }
    }

    /// Whether a pool may be ours. Callers name it by the id or the UID that an object of theirs has.
    pub fn may_own(&self, pool: &Pool) -> bool {
        self.whose(pool) != Whose::Other
    }

    /// The pool that a request asks for; `bid` is for spot only.
    ///
    /// Startup taints are left to whoever registers the node: the cloud stamps taints on some time after the node has
    /// joined, and would bring them back when they had been taken off for good.
    pub fn pool(
        &self,
        namespace: &str,
        request: &LaunchRequest,
        bid: Option<Bid>,
    ) -> Result<Pool, ProviderError> {
        let uid = &*request.uid.0;
        if !is_label_value(uid) {
            return Err(ProviderError::Invalid(format!(
                "UID {uid:?} cannot be a label"
            )));
        }
        let kind = if bid.is_some() {
            PoolKind::Spot
        } else {
            PoolKind::OnDemand
        };
        let mut custom_labels: BTreeMap<String, String> = request
            .labels
            .iter()
            .filter(|(key, _)| !OTHERS_LABELS.contains(&&***key))
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        custom_labels.insert(CLUSTER_MARK.to_owned(), self.cluster.to_owned());
        custom_labels.insert(FAMILY_MARK.to_owned(), self.family.to_owned());
        custom_labels.insert(MACHINE_MARK.to_owned(), uid.to_owned());
        let taint = |taint: &Taint| CustomTaint {
            key: taint.key.to_string(),
            value: taint.value.to_string(),
            effect: taint.effect.to_string(),
        };
        let limit = request.max_price.map(|most| Bid::at_most(most).to_string());
        Ok(Pool {
            api_version: API_VERSION.to_owned(),
            kind: kind.kind().to_owned(),
            metadata: Metadata {
                name: pool_name(&request.uid),
                namespace: namespace.to_owned(),
                labels: BTreeMap::from([(CLOUDSPACE_LABEL.to_owned(), self.cloudspace.to_owned())]),
                ..Metadata::default()
            },
            spec: PoolSpec {
                server_class: request.purchase.instance_type.to_string(),
                desired: 1,
                bid_price: bid.map(|bid| bid.to_string()),
                cloud_space: self.cloudspace.to_owned(),
                custom_labels,
                custom_annotations: limit
                    .map(|most| (MAX_PRICE_NOTE.to_owned(), most))
                    .into_iter()
                    .collect(),
                custom_taints: request.taints.iter().map(taint).collect(),
                ..PoolSpec::default()
            },
            ..Pool::default()
        })
    }

    /// A pool as a machine. `class` and `price` are what is known about it.
    pub fn machine(
        &self,
        kind: PoolKind,
        pool: &Pool,
        region: &Name,
        class: Option<&ServerClass>,
        price: Option<Money>,
    ) -> Machine {
        let (capacity, overhead) = class.and_then(catalog::size).unwrap_or_default();
        let mut allocatable: Resources = capacity.clone();
        allocatable.subtract(&overhead);
        let name: Name = pool.metadata.name.as_str().into();
        let mark = pool.spec.custom_labels.get(MACHINE_MARK);
        Machine {
            id: machine_id(self.cloudspace, kind, &name),
            // A mark that does not lead back to the name was not put there by us.
            uid: mark
                .map(|uid| Uid(uid.as_str().into()))
                .filter(|uid| pool_name(uid) == *name),
            state: state(kind, pool),
            links: vec![NodeLink::Label {
                key: POOL_LABEL.into(),
                value: name,
            }],
            instance_type: pool.spec.server_class.as_str().into(),
            zone: region.clone(),
            region: region.clone(),
            capacity_type: kind.into(),
            price,
            capacity,
            allocatable,
            labels: class.map_or_else(Labels::new, catalog::type_labels),
            created: pool.metadata.creation_timestamp,
        }
    }
}

/// What a pool may cost at most, as written on it when it was made.
pub fn max_price(pool: &Pool) -> Option<Money> {
    let text = pool.spec.custom_annotations.get(MAX_PRICE_NOTE)?;
    Bid::parse(text).map(Bid::money)
}

/// Whether the cloud has said that nothing will come of it, or nothing more. Its spelling is not documented.
pub fn is_lost(kind: PoolKind, pool: &Pool) -> bool {
    let said = match kind {
        PoolKind::Spot => &pool.status.bid_status,
        PoolKind::OnDemand => &pool.status.reserved_status,
    };
    let said = said.to_ascii_lowercase();
    ["lost", "unhealthy", "failed", "error"]
        .iter()
        .any(|word| said.contains(word))
}

/// How many servers a pool has.
pub fn servers(kind: PoolKind, pool: &Pool) -> i64 {
    match kind {
        PoolKind::Spot => pool.status.won_count,
        PoolKind::OnDemand => pool.status.reserved_count,
    }
}

fn state(kind: PoolKind, pool: &Pool) -> MachineState {
    let bid = pool.spec.bid_price.as_deref().unwrap_or_default();
    let class = &pool.spec.server_class;
    if pool.metadata.deletion_timestamp.is_some() {
        MachineState::Stopping
    } else if servers(kind, pool) > 0 {
        MachineState::Running
    } else if is_lost(kind, pool) {
        MachineState::Failed(match kind {
            PoolKind::Spot => format!("the bid of ${bid} for {class} was lost"),
            PoolKind::OnDemand => {
                let said = &pool.status.reserved_status;
                format!("the reservation of {class} failed: {said}")
            }
        })
    } else {
        MachineState::Pending(match kind {
            PoolKind::Spot => format!("the bid of ${bid} for {class} is not decided yet"),
            PoolKind::OnDemand => format!("{class} is not reserved yet"),
        })
    }
}

/// Whether a text can be the value of a label.
pub fn is_label_value(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().last())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const UID: &str = "7c1f0f1e-5b53-4e0a-9a55-0c6f2f7a9d10";

    #[test]
    fn a_pool_is_named_after_the_uid_that_asked_for_it() {
        assert_eq!(pool_name(&Uid(UID.into())), UID);
        let made = pool_name(&Uid("Not-A-UUID".into()));
        assert!(is_uuid(&made), "{made}");
        assert_eq!(made, pool_name(&Uid("Not-A-UUID".into())));
        assert_ne!(made, pool_name(&Uid("not-a-uuid".into())));
    }

    #[test]
    fn a_pool_is_ours_by_cluster_and_family_and_maybe_ours_by_an_older_mark() {
        let owner = Owner {
            cluster: "c-1",
            family: "karpenter",
            older: Some("demo"),
            cloudspace: "demo",
        };
        let whose = |space: &str, labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(key, value)| (*key, *value));
            let labels: BTreeMap<&str, &str> = labels.collect();
            let pool = json!({"metadata": {"name": UID},
                "spec": {"cloudSpace": space, "customLabels": labels}});
            owner.whose(&serde_json::from_value(pool).unwrap())
        };
        let (cluster, family) = (CLUSTER_MARK, FAMILY_MARK);
        assert_eq!(
            whose("demo", &[(cluster, "c-1"), (family, "karpenter")]),
            Whose::Ours
        );
        for other in [
            whose("demo", &[(cluster, "c-1"), (family, "karpetrack")]),
            whose("demo", &[(cluster, "c-2"), (family, "karpenter")]),
            whose("demo", &[(cluster, "demo"), (family, "karpenter")]),
            whose("demo", &[(cluster, "c-1")]),
            whose("demo", &[]),
            whose("elsewhere", &[(cluster, "c-1"), (family, "karpenter")]),
        ] {
            assert_eq!(other, Whose::Other);
        }
        assert_eq!(whose("demo", &[(cluster, "demo")]), Whose::Older);
    }

    #[test]
    fn an_id_leads_back_to_its_pool_and_to_no_other() {
        for kind in PoolKind::ALL {
            let id = machine_id("demo", kind, UID);
            assert_eq!(parse_id("demo", &id), Ok((kind, UID.to_owned())));
            assert!(parse_id("other", &id).is_err());
        }
        for odd in [
            "",
            "rackspace://demo/spot/",
            "rackspace://demo/spot/../x",
            "rackspace://demo/vm/x",
        ] {
            assert!(parse_id("demo", &MachineId(odd.into())).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_bid_is_pending_until_it_is_won_or_lost() {
        let shown = |status: serde_json::Value| {
            let pool = json!({"metadata": {"name": UID},
                "spec": {"serverClass": "gp.vs1.large-ord", "bidPrice": "0.02"}, "status": status});
            state(PoolKind::Spot, &serde_json::from_value(pool).unwrap())
        };
        assert!(matches!(shown(json!({})), MachineState::Pending(_)));
        assert!(matches!(
            shown(json!({"bidStatus": "Pending"})),
            MachineState::Pending(_)
        ));
        assert!(matches!(
            shown(json!({"bidStatus": "Winning?"})),
            MachineState::Pending(_)
        ));
        assert_eq!(
            shown(json!({"bidStatus": "Fulfilled", "wonCount": 1})),
            MachineState::Running
        );
        assert_eq!(
            shown(json!({"bidStatus": "LOST", "wonCount": 0})),
            MachineState::Failed("the bid of $0.02 for gp.vs1.large-ord was lost".into())
        );
    }

    proptest! {
        #[test]
        fn every_uid_makes_a_name_that_the_api_takes(uid in ".{1,80}") {
            prop_assert!(is_uuid(&pool_name(&Uid(uid.as_str().into()))));
        }

        #[test]
        fn no_text_is_taken_for_an_id_of_ours(text in ".{0,60}") {
            prop_assert!(parse_id("demo", &MachineId(text.as_str().into())).is_err());
        }
    }
}
