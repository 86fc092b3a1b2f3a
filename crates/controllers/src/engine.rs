//! The engine: everything started, wired and stopped together.

use std::sync::Arc;
use std::time::Duration;

use joiner_core::name::Name;
use joiner_core::pack;
use joiner_core::plan::{Plan, check};
use joiner_core::problem::Problem;
use joiner_core::resources;
use prometheus_client::registry::Registry;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tracing::{error, warn};

use crate::context::{Context, Decide, Mode, Settings};
use crate::decisions::Decisions;
use crate::dialect::{ClassFactory, Dialect, Ledgers, ObjectRef};
use crate::disrupt::{self, RecentDisruptions};
use crate::edge::Edge;
use crate::edge::clients::Clients;
use crate::edge::clock::SharedClock;
use crate::edge::events::{Events, Severity};
use crate::edge::lease::{Elector, LeaseOptions};
use crate::edge::metrics::Metrics;
use crate::edge::names::Names;
use crate::edge::tasks::Tasks;
use crate::guards::{Guards, selfcheck};
use crate::last_logs::LastLogs;
use crate::lifecycle::queue::Queue;
use crate::lifecycle::reconcile;
use crate::market::backoff::Backoffs;
use crate::market::observed::ObservedAllocatable;
use crate::market::slots::{Classes, ClusterSecrets, holds};
use crate::market::{Market, prices};
use crate::operator::{Operator, Seat};
use crate::provision::{self, Batch, Provision};
use crate::record::{ClassKey, Key, annotations};
use crate::upkeep::{buffers, gc, interruption, pools, repair};
use crate::view::{Touched, View, sources};

/// How soon after a change of terms a new plan is made.
const TERMS: Duration = Duration::from_secs(1);
/// How often a machine is looked at because of the pods on its node, while it stays.
const GUESTS: Duration = Duration::from_secs(1);
/// How often it is measured how full the nodes are: more often than anybody asks, seldom enough for 50,000 pods.
const MEASURED: Duration = Duration::from_secs(10);

/// Everything that an engine needs.
pub struct EngineOptions {
    /// Ways to the API server.
    pub clients: Clients,
    /// Time.
    pub clock: SharedClock,
    /// Families of custom resources.
    pub dialects: Vec<Arc<dyn Dialect>>,
    /// Makers of providers.
    pub classes: Vec<Arc<dyn ClassFactory>>,
    /// Identity of the cluster: the UID of its namespace `kube-system`.
    pub cluster: Name,
    /// Where providers keep what their clouds cannot carry.
    pub ledgers: Arc<dyn Ledgers>,
    /// How to behave.
    pub settings: Settings,
    /// How to lead; `None` to run alone.
    pub lease: Option<LeaseOptions>,
    /// Who decides; the core unless a test knows better.
    pub decide: Option<Arc<dyn Decide>>,
}

/// A running engine.
pub struct Engine {
    context: Arc<Context>,
    lease: Option<LeaseOptions>,
    leading: Option<watch::Receiver<bool>>,
}

/// The core's own decisions.
#[derive(Clone, Debug, Default)]
pub struct Core(pub pack::Options);

impl Decide for Core {
    fn provision(&self, problem: &Problem) -> Plan {
        judged(problem, pack::solve(problem, &self.0))
    }

    fn disrupt(&self, problem: &Problem) -> Plan {
        judged(problem, joiner_core::disrupt::plan(problem, &self.0))
    }
}

/// Plans that place more pods are not judged: simulated worlds make none, and tests of large clusters measure time.
const JUDGED: usize = 2000;

/// In debug builds no plan is carried out before it has been judged by every rule. One that breaks a rule is a fault of
/// ours: it ends the test or the simulated world that finds it.
fn judged(problem: &Problem, plan: Plan) -> Plan {
    let bought = plan.launches.iter().map(|one| one.pods.len());
    let placed = plan.placements.iter().map(|one| one.pods.len());
    if cfg!(debug_assertions) && bought.chain(placed).sum::<usize>() <= JUDGED {
        let violations = check(problem, &plan);
        for violation in &violations {
            error!(%violation, "plan violates a rule");
        }
        debug_assert!(
            violations.is_empty(),
            "a plan breaks {} rules: {violations:?}",
            violations.len()
        );
    }
    plan
}

impl Engine {
    /// Starts everything. Nothing is changed before every list has come in and, where there is a lease, before it is
    /// ours.
    pub fn start(options: EngineOptions, registry: &mut Registry) -> Self {
        let tasks = Tasks::new();
        let EngineOptions {
            clients,
            clock,
            dialects,
            classes,
            cluster,
            ledgers,
            settings,
            lease,
            decide,
        } = options;
        let source = dialects.first().map_or("joiner", |one| one.event_source());
        let (view, touched) = View::new(clock.clone());
        let secrets = Arc::new(ClusterSecrets(clients.clone()));
        let context = Arc::new(Context {
            edge: Edge {
                events: Events::start(&clients, clock.clone(), source, &tasks),
                metrics: Metrics::register(registry),
                names: Names::new(settings.seed),
                tasks: tasks.clone(),
                clock: clock.clone(),
                clients,
            },
            market: Market {
                classes: Classes::new(classes, secrets, ledgers, cluster.clone(), clock),
                backoffs: Backoffs::default(),
                observed: ObservedAllocatable::default(),
            },
            guards: Guards::default(),
            provision: Provision::default(),
            disruptions: RecentDisruptions::default(),
            queue: Queue::default(),
            decisions: Decisions::default(),
            last_logs: LastLogs::default(),
            dialects: dialects
                .iter()
                .map(|one| (one.name(), one.clone()))
                .collect(),
            cluster,
            decide: decide.unwrap_or_else(|| Arc::new(Core::default())),
            view,
            settings,
        });
        // Without a family that has machines there is nothing to observe and nothing to decide: operators see for
        // themselves.
        if !dialects.is_empty() {
            sources::start(&context.view, &context.edge.clients, &dialects, &tasks);
        }
        let leading = lease.clone().map(|options| {
            let elector = Elector::new(&context.edge.clients, options, context.edge.clock.clone());
            let leading = elector.leading();
            tasks.vital("lease", elector.run());
            leading
        });
        if !dialects.is_empty() {
            start_loops(&context, touched);
        }
        Engine {
            context,
            lease,
            leading,
        }
    }

    /// Everything that the engine works with.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Runs an operator beside the loops, under the same fence, for as long as the engine runs.
    pub fn operate(&self, operator: Arc<dyn Operator>) {
        let context = &self.context;
        let seat = Seat {
            clients: context.edge.clients.clone(),
            clock: context.edge.clock.clone(),
            events: context.edge.events.by(operator.event_source()),
            observe_only: context.settings.mode == Mode::ObserveOnly,
        };
        context.edge.tasks.supervise(operator.name(), move || {
            let (operator, seat) = (operator.clone(), seat.clone());
            async move { operator.run(seat).await }
        });
    }

    /// Whether every list has come in.
    pub fn ready(&self) -> bool {
        self.context.view.synced()
    }

    /// Waits until the engine cannot go on: a task has ended that cannot be started again. Nothing is written from then
    /// on.
    pub async fn failed(&self) -> String {
        self.context.edge.tasks.failed().await;
        self.context.edge.clients.fence.close();
        let said = self.context.edge.tasks.failure().unwrap_or_default();
        said.to_owned()
    }

    /// Whether this process leads.
    pub fn leading(&self) -> bool {
        self.leading
            .as_ref()
            .is_none_or(|leading| *leading.borrow())
    }

    /// Stops everything and gives the lease back.
    pub async fn stop(self) {
        self.context.edge.clients.fence.close();
        self.context.edge.tasks.stop().await;
        self.context.market.classes.close().await;
        if let Some(options) = &self.lease {
            Elector::release(&self.context.edge.clients, options).await;
        }
    }

    /// Stops at once, as a crash would: nothing is given back.
    pub async fn kill(self) {
        self.context.edge.clients.fence.close();
        self.context.edge.tasks.stop().await;
    }
}

fn start_loops(context: &Arc<Context>, touched: mpsc::UnboundedReceiver<Touched>) {
    let tasks = &context.edge.tasks;
    let batch = Arc::new(Batch::default());
    let pools = Arc::new(Notify::new());
    let drift = Arc::new(Notify::new());
    let classes = Arc::new(Notify::new());
    let room = Arc::new(Notify::new());
    let buffers = Arc::new(Notify::new());
    let dispatcher = Dispatcher {
        context: context.clone(),
        batch: batch.clone(),
        pools: pools.clone(),
        drift: drift.clone(),
        classes: classes.clone(),
        room: room.clone(),
        buffers: buffers.clone(),
    };
    tasks.vital("dispatch", dispatcher.run(touched));
    macro_rules! supervise {
        ($name:literal, $run:expr $(, $extra:ident)*) => {{
            let context = context.clone();
            $(let $extra = $extra.clone();)*
            tasks.supervise($name, move || $run(context.clone() $(, $extra.clone())*));
        }};
    }
    supervise!("machines", reconcile::run);
    supervise!("provision", provision::run, batch);
    supervise!("standalone machines", provision::standalone::run);
    supervise!("disrupt", disrupt::run, room);
    supervise!("drift", disrupt::run_drift, drift);
    supervise!("pools", pools::run, pools);
    supervise!("classes", run_classes, classes);
    supervise!("class finalizers", holds::run);
    supervise!("garbage", gc::run);
    supervise!("notices", interruption::run);
    supervise!("repair", repair::run);
    supervise!("buffers", buffers::run, buffers);
    supervise!("selfcheck", selfcheck::run);
    supervise!("prices", prices::run);
    supervise!("watchdog", watchdog, batch);
}

/// Keeps providers and catalogues up to date. Each class has its own time: a slow one delays nobody.
async fn run_classes(context: Arc<Context>, changed: Arc<Notify>) {
    let usual = context.settings.catalog_period;
    let shortest = context.market.classes.shortest_period(usual);
    let mut something_changed = true;
    loop {
        let built = context.market.classes.reconcile(&context.view).await;
        wake_machines_of(&context, &built);
        let slots = if something_changed {
            context.market.classes.slots()
        } else {
            context.market.classes.due(usual)
        };
        for slot in slots {
            let context = context.clone();
            let tasks = context.edge.tasks.clone();
            tasks.spawn(format!("catalog {}", slot.key), async move {
                let before = slot.catalog();
                context.market.classes.refresh(&slot).await;
                let after = slot.catalog();
                let same = match (&before, &after) {
                    (Some(before), Some(after)) => Arc::ptr_eq(before, after),
                    (None, None) => true,
                    _ => false,
                };
                if !same {
                    context.view.touch_terms();
                    wake_machines_of(&context, std::slice::from_ref(&slot.key));
                }
                report_classes(&context).await;
            });
        }
        report_classes(&context).await;
        something_changed = tokio::select! {
            biased;
            () = changed.notified() => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                true
            }
            () = tokio::time::sleep(shortest) => false,
        };
    }
}

/// Machines that were seen before their class had a provider wait for it.
fn wake_machines_of(context: &Context, classes: &[ClassKey]) {
    let world = context.view.read();
    let machines = world.machines.iter();
    for machine in machines.filter(|one| classes.contains(&one.class)) {
        context.queue.add(machine.key.clone());
    }
}

/// Tells classes how they stand.
async fn report_classes(context: &Context) {
    if !context.may_act() || context.settings.mode == Mode::ObserveOnly {
        return;
    }
    let records: Vec<_> = context.view.read().classes.iter().cloned().collect();
    let users = holds::users(context);
    context
        .market
        .classes
        .report(context, &records, &users)
        .await;
}

/// Says how it stands, and gets things going when everything is known.
async fn watchdog(context: Arc<Context>, batch: Arc<Batch>) {
    let mut unsynced_since: Option<Instant> = None;
    let mut acted = false;
    let mut measured: Option<Instant> = None;
    loop {
        let synced = context.view.synced();
        context.edge.metrics.synced.set(i64::from(synced));
        {
            let world = context.view.read();
            let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
            context.edge.metrics.nodes.set(count(world.nodes.len()));
            context
                .edge
                .metrics
                .malformed
                .set(count(world.unreadable.len()));
        }
        match (synced, unsynced_since) {
            (true, _) => {
                unsynced_since = None;
                context.edge.metrics.unsynced.set(0.0);
            }
            (false, None) => unsynced_since = Some(Instant::now()),
            (false, Some(since)) if since.elapsed() > Duration::from_secs(30) => {
                let missing = context.view.read().missing().join(", ");
                warn!(%missing, seconds = since.elapsed().as_secs(), "cluster state is not synced yet");
            }
            (false, Some(_)) => {}
        }
        if let Some(since) = unsynced_since {
            context
                .edge
                .metrics
                .unsynced
                .set(since.elapsed().as_secs_f64());
        }
        if measured.is_none_or(|at| at.elapsed() >= MEASURED) {
            measure(&context);
            measured = Some(Instant::now());
        }
        let may = context.may_act();
        if may && !acted {
            batch.again(Duration::ZERO);
            let keys: Vec<_> = context
                .view
                .read()
                .machines
                .iter()
                .map(|one| one.key.clone())
                .collect();
            for key in keys {
                context.queue.add(key);
            }
        }
        acted = may;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// How full the nodes are.
#[expect(clippy::cast_precision_loss, reason = "a share is a float")]
fn measure(context: &Context) {
    let world = context.view.read();
    for name in [resources::CPU, resources::MEMORY] {
        let all: i64 = world
            .nodes
            .iter()
            .map(|node| node.allocatable.get(name))
            .sum();
        let bound = world
            .pods
            .iter()
            .filter(|pod| pod.node.is_some() && !pod.terminal);
        let used: i64 = bound.map(|pod| pod.spec.requests.get(name)).sum();
        if all > 0 {
            let labels = crate::edge::metrics::Resource {
                resource_type: name.to_owned(),
            };
            let percent = used as f64 * 100.0 / all as f64;
            context
                .edge
                .metrics
                .utilization
                .get_or_create(&labels)
                .set(percent);
        }
    }
}

/// Passes on what changed to whom it concerns.
struct Dispatcher {
    context: Arc<Context>,
    batch: Arc<Batch>,
    pools: Arc<Notify>,
    drift: Arc<Notify>,
    classes: Arc<Notify>,
    room: Arc<Notify>,
    buffers: Arc<Notify>,
}

impl Dispatcher {
    async fn run(self, mut touched: mpsc::UnboundedReceiver<Touched>) {
        while let Some(one) = touched.recv().await {
            match one {
                Touched::Machine(key) => {
                    self.machine(&key);
                    self.context.queue.add(key);
                    self.refill();
                }
                Touched::Guest(key) => self.guest(key),
                Touched::Room => self.refill(),
                Touched::Node(name) => self.node(&name),
                Touched::Pending(pod) => self.batch.add(pod),
                Touched::Considered(wait) => self.context.edge.metrics.pod_considered(wait),
                Touched::Bound(wait) => self.context.edge.metrics.pod_bound(&wait),
                Touched::Started(wait) => self.context.edge.metrics.pod_started(&wait),
                Touched::Pool(id) => {
                    self.restore(&id);
                    self.room.notify_one();
                    self.pools.notify_one();
                    self.drift.notify_one();
                    self.batch.again(TERMS);
                }
                Touched::Members(id) => {
                    self.pools.notify_one();
                    let fixed = self
                        .context
                        .view
                        .read()
                        .pool(&id)
                        .is_some_and(|pool| pool.pool.replicas.is_some() || pool.min_nodes > 0);
                    if fixed {
                        self.batch.again(TERMS);
                    }
                }
                Touched::Class(_) => {
                    self.classes.notify_one();
                    self.pools.notify_one();
                    self.drift.notify_one();
                }
                Touched::Terms => {
                    self.room.notify_one();
                    self.pools.notify_one();
                    self.batch.again(TERMS);
                }
                Touched::Buffers => {
                    self.buffers.notify_one();
                    self.batch.again(TERMS);
                }
                Touched::Malformed(uid) => self.malformed(&uid),
            }
        }
    }

    /// Something has come, gone or moved: there may be room to save, or room to make again for a buffer. Pods that find
    /// such room at once never wait, so nobody else would ask for it.
    fn refill(&self) {
        self.room.notify_one();
        if !self.context.view.read().rooms.is_empty() {
            self.batch.again(TERMS);
        }
    }

    /// Pods come and go all the time. Only to a machine that goes itself is every one of them news.
    fn guest(&self, key: Key) {
        let leaving = {
            let world = self.context.view.read();
            let machine = world.machines.get(&key);
            machine.is_some_and(|machine| machine.deleting.is_some())
        };
        if leaving {
            self.context.queue.add(key);
            self.batch.again(TERMS);
        } else {
            self.context.queue.add_at(key, Instant::now() + GUESTS);
        }
        self.refill();
    }

    fn machine(&self, key: &Key) {
        let machine = self.context.view.read().machines.get(key).cloned();
        let Some(machine) = machine else { return };
        let now = self.context.now();
        let node = machine.status.node.as_ref();
        let node = node.and_then(|name| self.context.view.read().nodes.get(name).cloned());
        let open = !node.as_ref().is_some_and(|node| node.reserved());
        let version = node.map(|node| node.version);
        if open
            && self.context.provision.served.saw(&machine, version, now)
            && let Some(wait) = self.context.provision.served.due(now)
        {
            self.batch.again(wait);
        }
        // Pods of a machine that goes need another place.
        if machine.deleting.is_some() {
            self.batch.again(TERMS);
        }
    }

    /// What an earlier process waited for is waited for again.
    fn restore(&self, id: &str) {
        let world = self.context.view.read();
        let Some(pool) = world.pool(id) else { return };
        let known = pool.annotations.get(annotations::WAITING);
        let text = known.map_or("[]", AsRef::as_ref);
        let catalog = pool.class.catalog();
        self.context
            .market
            .backoffs
            .restore(&pool.uid, pool.id(), &catalog, text);
    }

    /// A node that belongs to no machine yet: one of those that wait for theirs may want it. Most nodes say which.
    fn node(&self, name: &Name) {
        let waiting: Vec<_> = {
            let world = self.context.view.read();
            // That a machine was launched is often written only when its node has joined.
            let waits = || world.machines.iter().filter(|one| !one.registered());
            let node = world.nodes.get(name);
            let own = waits().find(|one| {
                node.is_some_and(|node| {
                    let id = one.status.provider_id.as_ref();
                    node.name == one.key.name || id == Some(&node.provider_id)
                })
            });
            match own {
                Some(one) => vec![one.key.clone()],
                None => waits().map(|one| one.key.clone()).collect(),
            }
        };
        for key in waiting {
            self.context.queue.add(key);
        }
    }

    fn malformed(&self, uid: &str) {
        let known = self.context.view.read().unreadable.get(uid).cloned();
        let Some(one) = known else { return };
        warn!(
            kind = one.kind,
            object = one.name,
            because = one.message,
            "object is malformed and cannot be read"
        );
        let (namespace, name) = one.name.split_once('/').unwrap_or(("", &one.name));
        let about = ObjectRef {
            api_version: String::new(),
            kind: one.kind.to_owned(),
            namespace: namespace.into(),
            name: name.into(),
            uid: one.uid.clone(),
        };
        self.context
            .edge
            .events
            .say(&about, Severity::Warning, "Malformed", &one.message);
    }
}

#[cfg(test)]
mod tests {
    use joiner_core::plan::Placement;

    use super::*;

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "a plan breaks 1 rules"))]
    fn a_plan_that_breaks_a_rule_is_not_carried_out_in_debug_builds() {
        let nowhere = Placement {
            node: "nowhere".into(),
            pods: Vec::new(),
        };
        let plan = Plan {
            placements: vec![nowhere],
            ..Plan::default()
        };
        judged(&Problem::default(), plan);
    }

    #[test]
    fn what_the_core_decides_is_handed_on_as_it_is() {
        let problem = Problem::default();
        assert_eq!(Core::default().provision(&problem), Plan::default());
        assert_eq!(Core::default().disrupt(&problem), Plan::default());
    }
}
