//! What a decision is made from: plain data, as observed.

mod budget;
mod catalog;
mod ids;
mod node;
mod pod;
mod pool;
mod settings;
pub mod wire;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use budget::{PodDisruptionBudget, UnhealthyPodEvictionPolicy};
pub use catalog::{CapacityType, Catalog, Host, InstanceType, Offering, Quota, Range, UnitPrices};
pub use ids::NodeId;
pub(crate) use ids::PoolId;
pub use node::{Node, NodePhase};
pub use pod::{
    AffinityTerm, DaemonSet, HostPort, NodeAffinityTerm, Pod, PodSpec, Policy, Protocol, Spread,
    Volume, Weighted, WhenUnsatisfiable,
};
pub use pool::{
    Budget, BudgetAmount, ConsolidationPolicy, Disruption, DisruptionReason, Limits, Pool,
};
pub use settings::{MinValuesPolicy, PreferencePolicy, Settings};

use crate::name::{Labels, Name};

/// Everything that a decision depends on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Problem {
    /// What it is called in reports.
    pub name: String,
    /// When it was observed. Without it nothing expires and no schedule is active.
    pub now: Option<Timestamp>,
    /// What can be bought.
    pub catalogs: Vec<Catalog>,
    /// On which terms.
    pub pools: Vec<Pool>,
    /// What runs on every node that it matches.
    pub daemon_sets: Vec<DaemonSet>,
    /// Pods that wait for a node.
    pub pods: Vec<Pod>,
    /// Nodes, and machines that were asked for and are not nodes yet.
    pub nodes: Vec<Node>,
    /// How many pods may be away at once.
    pub pod_disruption_budgets: Vec<PodDisruptionBudget>,
    /// Labels of namespaces, for affinity terms that select namespaces.
    pub namespaces: std::collections::BTreeMap<Name, Labels>,
    /// How to decide.
    pub settings: Settings,
}

impl Problem {
    /// How many pods wait.
    pub fn pending(&self) -> usize {
        self.pods.iter().map(|pod| pod.count as usize).sum()
    }

    /// The catalogue that a pool buys from.
    pub fn catalog(&self, name: &str) -> Option<&Catalog> {
        self.catalogs.iter().find(|catalog| &*catalog.name == name)
    }

    /// A pool by its place in the list.
    pub(crate) fn pool_at(&self, id: PoolId) -> &Pool {
        &self.pools[id.index()]
    }

    /// A catalogue by its place in the list.
    pub(crate) fn catalog_at(&self, index: u32) -> &Catalog {
        &self.catalogs[index as usize]
    }

    /// A node by its place in the list.
    pub(crate) fn node_at(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// What people call a pool: what its nodes say, or its name if those of another pool say the same.
    pub fn title<'p>(&self, pool: &'p Pool) -> &'p Name {
        let said = pool.nodepool();
        let alike = |one: &Pool| one.name != pool.name && one.nodepool() == said;
        if self.pools.iter().any(alike) {
            &pool.name
        } else {
            said
        }
    }

    /// The same for the name of a pool, whether there is such a pool or not.
    pub fn title_of<'p>(&'p self, name: &'p Name) -> &'p Name {
        let pool = self.pools.iter().find(|pool| pool.name == *name);
        pool.map_or(name, |pool| self.title(pool))
    }

    /// A node by name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| &*node.name == name)
    }
}
