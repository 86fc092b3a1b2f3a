//! The families of custom resources, and the CRDs of each.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use thiserror::Error;

use crate::crd::shipped;
use crate::{joiner, karpenter, karpetrack, leftover, nodesmith, ovhcloud};

/// A family of custom resources that one document describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Karpenter's kinds, with the node classes of our own.
    Karpenter,
    /// SpotNodePool and SpotNode.
    Karpetrack,
    /// NodeSmithControlPlane, NodeSmithPool, NodeSmithProvider and NodeSmithClaim.
    Nodesmith,
    /// Karpenter's kinds, with OVHNodeClass.
    Ovhcloud,
    /// LeftoverNodePool. What it renders are kinds of Karpenter on AWS, which come with that.
    Leftover,
}

/// A name that no dialect has.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "there is no dialect {0:?}: it is one of karpenter, karpetrack, nodesmith, ovhcloud, leftover"
)]
pub struct UnknownDialect(String);

impl Dialect {
    /// All of them.
    pub const ALL: [Dialect; 5] = [
        Dialect::Karpenter,
        Dialect::Karpetrack,
        Dialect::Nodesmith,
        Dialect::Ovhcloud,
        Dialect::Leftover,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::Karpenter => "karpenter",
            Dialect::Karpetrack => "karpetrack",
            Dialect::Nodesmith => "nodesmith",
            Dialect::Ovhcloud => "ovhcloud",
            Dialect::Leftover => "leftover",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(text: &str) -> Result<Self, UnknownDialect> {
        Dialect::ALL
            .into_iter()
            .find(|dialect| dialect.name() == text)
            .ok_or_else(|| UnknownDialect(text.to_owned()))
    }
}

/// The CRDs that a dialect needs, or all there are; sorted by name, each once.
pub fn crds(dialect: Option<Dialect>) -> Vec<CustomResourceDefinition> {
    let mut crds: Vec<_> = match dialect {
        Some(dialect) => of(dialect),
        None => Dialect::ALL.into_iter().flat_map(of).collect(),
    };
    crds.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    crds.dedup_by(|a, b| a.metadata.name == b.metadata.name);
    crds
}

fn of(dialect: Dialect) -> Vec<CustomResourceDefinition> {
    let karpenter = || {
        vec![
            shipped::<karpenter::NodePool>(),
            shipped::<karpenter::NodeClaim>(),
            shipped::<karpenter::NodeOverlay>(),
            shipped::<karpenter::CapacityBuffer>(),
        ]
    };
    match dialect {
        Dialect::Karpenter => {
            let mut crds = karpenter();
            crds.push(shipped::<joiner::SimNodeClass>());
            crds.push(shipped::<joiner::RackspaceNodeClass>());
            crds.push(shipped::<joiner::ProxmoxNodeClass>());
            crds.push(shipped::<joiner::RedfishNodeClass>());
            crds
        }
        Dialect::Karpetrack => vec![
            shipped::<karpetrack::SpotNodePool>(),
            shipped::<karpetrack::SpotNode>(),
        ],
        Dialect::Nodesmith => vec![
            shipped::<nodesmith::NodeSmithControlPlane>(),
            shipped::<nodesmith::NodeSmithPool>(),
            shipped::<nodesmith::NodeSmithProvider>(),
            shipped::<nodesmith::NodeSmithClaim>(),
        ],
        Dialect::Ovhcloud => {
            let mut crds = karpenter();
            crds.push(shipped::<ovhcloud::OVHNodeClass>());
            crds
        }
        Dialect::Leftover => vec![shipped::<leftover::LeftoverNodePool>()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dialect: Option<Dialect>) -> Vec<String> {
        crds(dialect)
            .into_iter()
            .filter_map(|crd| crd.metadata.name)
            .collect()
    }

    #[test]
    fn every_dialect_is_found_by_its_name() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.to_string().parse(), Ok(dialect));
            assert!(!crds(Some(dialect)).is_empty());
        }
        let error = "gardener".parse::<Dialect>().unwrap_err();
        assert!(error.to_string().contains("gardener"));
    }

    #[test]
    fn each_crd_is_listed_once_though_dialects_share_some() {
        let all = names(None);
        assert_eq!(all.len(), 16);
        assert!(names(Some(Dialect::Ovhcloud)).contains(&"nodepools.karpenter.sh".to_owned()));
        let mut sorted = all.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted, all);
    }
}
