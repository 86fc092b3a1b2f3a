//! What an engine is made of, on whatever cluster it works: families of custom resources and makers of providers.

use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::Dialect as Family;
use joiner_controllers::dialect::{ClassFactory, ClassKind, Dialect, Ledgers};
use joiner_controllers::dialects::karpenter::{self, Karpenter};
use joiner_controllers::dialects::karpetrack::{Karpetrack, KarpetrackOptions};
use joiner_controllers::dialects::nodesmith::NodeSmith;
use joiner_controllers::edge::clients::Clients;
use joiner_controllers::edge::clock::{Clock, SharedClock};
use joiner_controllers::edge::lease::LeaseOptions;
use joiner_controllers::operator::Operator;
use joiner_controllers::operators::leftover::{Leftover, LeftoverOptions};
use joiner_controllers::{Decide, Engine, EngineOptions, Settings};
use joiner_core::name::Name;
use joiner_providers::aws::Aws;
use prometheus_client::registry::Registry;

use crate::simulate;

/// The clock of an embedded cluster is the clock of its engine.
pub(crate) struct ClusterClock(pub(crate) joiner_embedded::clock::Clock);

impl Clock for ClusterClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// A family of custom resources that an engine can serve.
pub(crate) struct Served {
    /// Which.
    pub(crate) family: Family,
    /// Its API group and version.
    pub(crate) group_version: &'static str,
    /// Resources without which it cannot work.
    pub(crate) plurals: &'static [&'static str],
    /// Its place in simulated worlds, where it has one.
    pub(crate) simulated: Option<&'static simulate::seats::Seat>,
    seat: Seat,
}

impl Served {
    /// Whether the family has machines; otherwise it only renders.
    pub(crate) fn has_machines(&self) -> bool {
        matches!(self.seat, Seat::Dialect(_))
    }
}

/// What a family is to the engine.
enum Seat {
    /// It has machines, and is looked after by the loops.
    Dialect(fn(&Clients, Vec<ClassKind>, &KarpetrackOptions) -> Arc<dyn Dialect>),
    /// It renders objects of another controller's, beside the loops.
    Operator(fn(&LeftoverParts, &mut Registry) -> Arc<dyn Operator>),
}

/// What `LeftoverNodePools` are served with.
#[derive(Clone)]
pub(crate) struct LeftoverParts {
    /// AWS.
    pub(crate) aws: Arc<Aws>,
    /// How to behave.
    pub(crate) options: LeftoverOptions,
}

/// All of them. A family that is to be served is a line here.
pub(crate) static SERVED: [Served; 4] = [
    Served {
        family: Family::Karpenter,
        group_version: "karpenter.sh/v1",
        plurals: &["nodepools", "nodeclaims"],
        simulated: Some(&simulate::seats::KARPENTER),
        seat: Seat::Dialect(|clients, kinds, _| Arc::new(Karpenter::new(clients.clone(), kinds))),
    },
    Served {
        family: Family::Karpetrack,
        group_version: "karpetrack.io/v1alpha1",
        plurals: &["spotnodepools", "spotnodes"],
        simulated: Some(&simulate::seats::KARPETRACK),
        seat: Seat::Dialect(|clients, _, options| {
            Arc::new(Karpetrack::new(clients.clone(), options.clone()))
        }),
    },
    Served {
        family: Family::Leftover,
        group_version: "gpu.devplatforms.io/v1alpha1",
        plurals: &["leftovernodepools"],
        simulated: None,
        seat: Seat::Operator(|parts, registry| {
            let (aws, options) = (parts.aws.clone(), parts.options.clone());
            Arc::new(Leftover::new(aws, options, registry))
        }),
    },
    Served {
        family: Family::Nodesmith,
        group_version: "kubenodesmith.parawell.cloud/v1alpha1",
        plurals: &[
            "nodesmithcontrolplanes",
            "nodesmithpools",
            "nodesmithproviders",
            "nodesmithclaims",
        ],
        simulated: Some(&simulate::seats::NODESMITH),
        seat: Seat::Dialect(|clients, _, _| Arc::new(NodeSmith::new(clients.clone()))),
    },
];

/// The identity of an embedded cluster.
pub(crate) const EMBEDDED: &str = "embedded";

/// One family alone.
pub(crate) fn only(family: Family) -> Vec<&'static Served> {
    SERVED.iter().filter(|one| one.family == family).collect()
}

/// Everything that differs from one cluster to another.
pub(crate) struct Wiring {
    /// Ways to the API server.
    pub(crate) clients: Clients,
    /// Time.
    pub(crate) clock: SharedClock,
    /// Families to serve.
    pub(crate) families: Vec<&'static Served>,
    /// How SpotNodePools are looked after.
    pub(crate) karpetrack: KarpetrackOptions,
    /// How `LeftoverNodePools` are looked after; `None` where they are not.
    pub(crate) leftover: Option<LeftoverParts>,
    /// Makers of providers.
    pub(crate) classes: Vec<Arc<dyn ClassFactory>>,
    /// Identity of the cluster: the UID of its namespace `kube-system`.
    pub(crate) cluster: Name,
    /// Where providers keep what their clouds cannot carry.
    pub(crate) ledgers: Arc<dyn Ledgers>,
    /// How to behave.
    pub(crate) settings: Settings,
    /// How to lead; `None` to run alone.
    pub(crate) lease: Option<LeaseOptions>,
    /// Who decides; the core unless it is given.
    pub(crate) decide: Option<Arc<dyn Decide>>,
}

impl Wiring {
    /// Starts the engine.
    pub(crate) fn start(self, registry: &mut Registry) -> Engine {
        // Classes of another family are none that a NodePool could name.
        let own = self
            .classes
            .iter()
            .filter(|one| one.family() == karpenter::NAME);
        let kinds: Vec<ClassKind> = own.map(|one| one.kind()).collect();
        let mut dialects = Vec::new();
        let mut operators = Vec::new();
        for served in &self.families {
            match (&served.seat, &self.leftover) {
                (Seat::Dialect(make), _) => {
                    dialects.push(make(&self.clients, kinds.clone(), &self.karpetrack));
                }
                (Seat::Operator(make), Some(parts)) => operators.push(make(parts, registry)),
                (Seat::Operator(_), None) => {}
            }
        }
        let options = EngineOptions {
            dialects,
            classes: self.classes,
            clock: self.clock,
            cluster: self.cluster,
            ledgers: self.ledgers,
            settings: self.settings,
            lease: self.lease,
            decide: self.decide,
            clients: self.clients,
        };
        let engine = Engine::start(options, registry);
        for operator in operators {
            engine.operate(operator);
        }
        engine
    }
}
