//! What every part of the engine works with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::plan::Plan;
use joiner_core::problem::{Problem, Settings as CoreSettings};

use crate::decisions::{Decisions, Kind, Subject};
use crate::dialect::{Dialect, ObjectRef, Window};
use crate::disrupt::RecentDisruptions;
use crate::edge::Edge;
use crate::edge::events::{Events, Severity};
use crate::guards::Guards;
use crate::last_logs::LastLogs;
use crate::lifecycle::queue::Queue;
use crate::market::Market;
use crate::provision::Provision;
use crate::record::{Key, MachineRecord, Mark, PoolRecord};
use crate::view::View;
use crate::view::problem::{Snapshot, Terms};

/// Decides. Pure: called on a thread of its own, and again after a crash with the same answer.
pub trait Decide: Send + Sync {
    /// Where waiting pods go, and what to buy for those that fit nowhere.
    fn provision(&self, problem: &Problem) -> Plan;
    /// Which nodes to take away, and what to buy in their place.
    fn disrupt(&self, problem: &Problem) -> Plan;
}

/// Whether anything is changed at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As planned.
    #[default]
    Act,
    /// Only say what would be done.
    ObserveOnly,
}

/// Where decisions are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SolveOn {
    /// On a thread of its own, so that watches and leases are not kept waiting.
    #[default]
    OwnThread,
    /// On the thread that asks: virtual time stands still meanwhile, and equal runs stay equal.
    Caller,
}

/// How the engine behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How to decide.
    pub core: CoreSettings,
    /// Whether anything is changed at all.
    pub mode: Mode,
    /// Nothing is bought or taken away for the time being, in the whole cluster.
    pub paused: bool,
    /// How long pods are gathered, where it differs from what the dialect says.
    pub window: Option<Window>,
    /// How often nodes are looked at that might go although nothing has changed; changes are looked at when they come.
    pub disruption_period: Duration,
    /// How long after one look for nodes that might go another may follow, however much changes.
    pub disruption_pause: Duration,
    /// How often catalogues are read.
    pub catalog_period: Duration,
    /// How often clouds are asked what machines there are.
    pub garbage_period: Duration,
    /// How often clouds are asked what they announce.
    pub notice_period: Duration,
    /// How often drift is looked for.
    pub drift_period: Duration,
    /// For how long nothing must have happened on a node before it is taken away to save money.
    pub settle: Duration,
    /// How long the same decision about the same nodes, pods and prices is not carried out twice.
    pub cycle_window: Duration,
    /// How old prices may be that nodes are taken away for.
    pub price_max_age: Duration,
    /// How many machines a pool may ask for within a minute.
    pub launches_per_minute: u32,
    /// Whether sick nodes are replaced.
    pub repair: bool,
    /// Whether spot nodes may be replaced by cheaper spot nodes in every pool: Karpenter's `SpotToSpotConsolidation`.
    pub spot_to_spot: bool,
    /// The node that this process runs on, if it runs on one: it is never taken away voluntarily.
    pub own_node: Option<Name>,
    /// Makes names and nothing else: the same seed gives the same names.
    pub seed: u64,
    /// Where decisions are made.
    pub solve_on: SolveOn,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            core: CoreSettings::default(),
            mode: Mode::Act,
            paused: false,
            window: None,
            disruption_period: Duration::from_mins(5),
            disruption_pause: Duration::from_secs(1),
            catalog_period: Duration::from_secs(30),
            garbage_period: Duration::from_mins(1),
            notice_period: Duration::from_secs(5),
            drift_period: Duration::from_mins(5),
            settle: Duration::from_secs(5),
            cycle_window: Duration::from_mins(10),
            price_max_age: Duration::from_hours(1),
            launches_per_minute: 500,
            repair: true,
            spot_to_spot: false,
            own_node: None,
            seed: 0,
            solve_on: SolveOn::OwnThread,
        }
    }
}

/// What everything costs now.
pub struct Costs {
    /// What is for sale on which terms, and which pools are closed.
    pub terms: Terms,
    /// What machines cost now; one that is missing has no known price.
    pub prices: BTreeMap<Key, Money>,
}

/// What the parts of the engine share. Each room has its own state; what is no function is in `edge`.
pub struct Context {
    /// Clock, clients, events, metrics, names, tasks.
    pub edge: Edge,
    /// What is known.
    pub view: Arc<View>,
    /// Families of custom resources, by name.
    pub dialects: BTreeMap<&'static str, Arc<dyn Dialect>>,
    /// Identity of the cluster: the UID of its namespace `kube-system`.
    pub cluster: Name,
    /// Node classes as providers, and what is known about what they sell.
    pub market: Market,
    /// What holds purchases back.
    pub guards: Guards,
    /// Purchases under way.
    pub provision: Provision,
    /// Disruptions of late.
    pub disruptions: RecentDisruptions,
    /// Machines that want attention.
    pub queue: Queue<Key>,
    /// What was decided about everything, and why.
    pub decisions: Decisions,
    /// What was logged last, where the same would be logged again and again.
    pub last_logs: LastLogs,
    /// How to behave.
    pub settings: Settings,
    /// Who decides.
    pub decide: Arc<dyn Decide>,
}

impl Context {
    /// Now.
    pub fn now(&self) -> Timestamp {
        self.edge.clock.now()
    }

    /// The mark for the node of a machine.
    pub fn mark(&self, machine: &MachineRecord) -> Mark {
        Mark::new(&self.cluster, machine.key.dialect, &machine.uid)
    }

    /// Whether decisions may be made and carried out: everything is known, and we lead.
    pub fn may_act(&self) -> bool {
        self.edge.clients.fence.holds() && self.view.synced() && self.edge.tasks.failure().is_none()
    }

    /// The dialect of an object.
    pub fn dialect(&self, key: &Key) -> Option<&Arc<dyn Dialect>> {
        self.dialects.get(key.dialect)
    }

    /// Says something about a machine. Whoever gets `false` was not heard, because of what was said just before.
    pub fn tell_machine(
        &self,
        machine: &MachineRecord,
        severity: Severity,
        reason: &'static str,
        message: &str,
    ) -> bool {
        let about = Subject::new(Kind::Machine, machine.key.name.clone());
        self.decisions
            .told(about, severity, reason, message, self.now());
        self.dialect(&machine.key).is_none_or(|dialect| {
            let about = dialect.machine_ref(machine);
            let events = self.edge.events.by(dialect.event_source());
            events.say(&about, severity, dialect.word(reason), message)
        })
    }

    /// Says something about a pool.
    pub fn tell_pool(
        &self,
        pool: &PoolRecord,
        severity: Severity,
        reason: &'static str,
        message: &str,
    ) {
        let about = Subject::new(Kind::Pool, pool.id().clone());
        self.decisions
            .told(about, severity, reason, message, self.now());
        if let Some(dialect) = self.dialect(&pool.key) {
            let about = dialect.pool_ref(pool);
            let events = self.edge.events.by(dialect.event_source());
            events.say(&about, severity, dialect.word(reason), message);
        }
    }

    /// Events about what belongs to no family: in the name of the first family whose users have pools.
    pub fn speaker(&self) -> Events {
        let world = self.view.read();
        let used = |name: &str| world.pools.iter().any(|pool| pool.key.dialect == name);
        let source = self
            .dialects
            .values()
            .find(|one| used(one.name()))
            .map(|one| one.event_source());
        match source {
            Some(source) => self.edge.events.by(source),
            None => self.edge.events.clone(),
        }
    }

    /// Events in the name of an object's dialect.
    pub fn events_for(&self, key: &Key) -> Events {
        match self.dialect(key) {
            Some(dialect) => self.edge.events.by(dialect.event_source()),
            None => self.edge.events.clone(),
        }
    }

    /// Says something about the node of a machine.
    pub fn tell_node(
        &self,
        machine: &MachineRecord,
        name: &str,
        severity: Severity,
        reason: &'static str,
        message: &str,
    ) {
        let events = self.events_for(&machine.key);
        self.say_of_node(&events, name, severity, reason, message);
    }

    /// Says something about a node, whether or not there is a machine object for it.
    pub fn say_of_node(
        &self,
        events: &Events,
        name: &str,
        severity: Severity,
        reason: &'static str,
        message: &str,
    ) {
        let subject = Subject::new(Kind::Node, name);
        self.decisions
            .told(subject, severity, reason, message, self.now());
        let about = ObjectRef {
            api_version: "v1".into(),
            kind: "Node".into(),
            namespace: "".into(),
            name: name.into(),
            // As kubelets have it: events about nodes are found by name.
            uid: name.into(),
        };
        events.say(&about, severity, reason, message);
    }

    /// What everything costs now, and why pools must not buy.
    pub fn costs(&self) -> Costs {
        let now = self.now();
        let world = self.view.read();
        let terms = crate::market::terms::terms(self, &world, now);
        let price = |machine: &Arc<MachineRecord>| {
            let price = crate::view::problem::price(machine, &terms)?;
            Some((machine.key.clone(), price))
        };
        let prices = world.machines.iter().filter_map(price).collect();
        Costs { terms, prices }
    }

    /// The cluster as a problem, as it stands now: what `what-if` and replay start from.
    pub fn snapshot(&self) -> Snapshot {
        let now = self.now();
        let world = self.view.read();
        let terms = crate::market::terms::terms(self, &world, now);
        world.problem(&terms, now)
    }

    /// Decides where waiting pods go, and what to buy for them.
    pub async fn provide(&self, problem: Problem) -> Option<(Problem, Plan)> {
        let provision = |decide: &dyn Decide, problem: &Problem| decide.provision(problem);
        self.decide(problem, provision).await
    }

    /// Decides.
    pub async fn decide(
        &self,
        problem: Problem,
        how: fn(&dyn Decide, &Problem) -> Plan,
    ) -> Option<(Problem, Plan)> {
        let decide = self.decide.clone();
        if self.settings.solve_on == SolveOn::Caller {
            let plan = how(&*decide, &problem);
            return Some((problem, plan));
        }
        let work = tokio::task::spawn_blocking(move || {
            let plan = how(&*decide, &problem);
            (problem, plan)
        });
        match work.await {
            Ok(decided) => Some(decided),
            Err(error) => {
                tracing::error!(%error, "deciding failed");
                None
            }
        }
    }
}
