//! One world, from its seed to its end: a storm, then calm until everything has settled, then rest.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_controllers::engine::Core;
use joiner_controllers::{Decide, Settings};
use joiner_core::pack;
use joiner_embedded::api::Status;
use joiner_embedded::cluster::kubelet::{KubeletOptions, NodeSpec};
use joiner_embedded::cluster::{Cluster, ClusterOptions};
use joiner_sim::audit::{AuditOptions, Auditor, Class, Invariant};
use joiner_sim::clouds::faulty::{FaultRates, Faults};
use joiner_sim::clouds::watched::Watched;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::line::Stray;
use super::panics;
use super::process::{Double, Host, Reached};
use super::report::{Outcome, Violated};
use super::scenario::{Action, Scenario};
use super::seats::{Tamper, seats};
use super::user;
use super::weather::Weather;
use crate::args::FaultKind;
use crate::wiring::EMBEDDED;

/// How often the auditor looks for what lasts too long.
const LOOK: Duration = Duration::from_secs(30);
/// How long everything may take to settle once the storm is over.
const SETTLE: Duration = Duration::from_mins(100);
/// How long users look on while their own disruption budgets hold up what is to go.
const LOOK_ON: Duration = Duration::from_mins(30);
/// How long after the storm nobody is behind any more.
const BEHIND: Duration = Duration::from_mins(5);
/// Nothing written for so long is rest: longer than the longest wait of any loop of Joiner.
const QUIET: Duration = Duration::from_mins(11);
/// How long rest is watched.
const REST: Duration = Duration::from_mins(20);

/// What to run.
#[derive(Clone, Default)]
pub(crate) struct Run {
    /// From which everything is drawn.
    pub(crate) seed: u64,
    /// How long the world lasts.
    pub(crate) hours: u32,
    /// What goes wrong.
    pub(crate) faults: Vec<FaultKind>,
    /// Who decides, where it is not the core: for tests of the auditor.
    pub(crate) decide: Option<Arc<dyn Decide>>,
    /// What is wrong with the clouds, for tests of the auditor.
    pub(crate) tamper: Tamper,
    /// What Joiner sends that it should not, for tests of the auditor.
    pub(crate) stray: Option<Stray>,
    /// What stands between it and its providers, for tests of the auditor.
    pub(crate) double: Option<Double>,
}

impl Run {
    /// The part of the hours in which things go wrong.
    fn storm(&self) -> Duration {
        Duration::from_hours(u64::from(self.hours)) * 2 / 3
    }

    /// Runs the world, in virtual time and on this thread.
    pub(crate) fn play(&self) -> Result<Outcome, Status> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .map_err(|error| Status::bad_request(error.to_string()))?;
        panics::listen();
        let mut outcome = runtime.block_on(async {
            let world = World::start(self).await?;
            Ok::<_, Status>(world.live().await)
        })?;
        outcome
            .violations
            .extend(panics::heard().into_iter().map(|said| Violated {
                invariant: Invariant::NoPanic,
                after_seconds: 0,
                at: Timestamp::UNIX_EPOCH,
                message: said,
                history: Vec::new(),
            }));
        Ok(outcome)
    }
}

/// The core, in a hurry: how close a plan comes to the cheapest is not what is tested here.
fn quick() -> Arc<dyn Decide> {
    Arc::new(Core(pack::Options {
        steps: 10,
        ..pack::Options::default()
    }))
}

struct World {
    seed: u64,
    storm: Duration,
    cluster: Cluster,
    /// What makes time pass at the clouds.
    clouds: Vec<JoinHandle<()>>,
    auditor: Auditor,
    host: Arc<Host>,
    scenario: Scenario,
    cuts: Vec<(Duration, u32, Duration)>,
    instances: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    started: Instant,
}

impl World {
    async fn start(run: &Run) -> Result<Self, Status> {
        let scenario = Scenario::draw(run.seed, run.storm(), run.tamper);
        let weather = Weather::draw(run.seed, &run.faults, run.storm());
        let cluster = Cluster::start(&ClusterOptions {
            seed: run.seed,
            // Events of the cluster's own components say nothing that the auditor does not see.
            events: false,
            kubelets: KubeletOptions {
                // Often enough for the grace of nodes, seldom enough for many hours.
                lease_every: Duration::from_secs(30),
                ..KubeletOptions::default()
            },
            ..ClusterOptions::default()
        });
        let reached = open_clouds(run, &scenario, &cluster, weather.cloud);
        let auditor = Auditor::new(audit_options(&reached).await?);
        auditor.watch_server(cluster.server());
        for one in &reached {
            auditor.watch_cloud(one.cloud.watched());
        }
        let running = reached.iter().map(|one| {
            let cloud = one.cloud.clone();
            tokio::task::spawn(async move { cloud.watched().run().await })
        });
        let clouds = running.collect();
        cluster.server().faults().chances(weather.api);
        let host = Arc::new(Host {
            server: cluster.server().clone(),
            clouds: reached,
            auditor: auditor.clone(),
            settings: Settings {
                seed: run.seed,
                // Everything is looked at as it is in production, only less often: hours pass here in a second.
                disruption_pause: Duration::from_secs(10),
                catalog_period: Duration::from_mins(2),
                notice_period: Duration::from_secs(10),
                ..Settings::default()
            },
            decide: Some(run.decide.clone().unwrap_or_else(quick)),
            stray: run.stray,
            double: run.double,
            lines: Mutex::default(),
            deaths: Mutex::default(),
            cuts: weather.cuts.clone(),
            instances: weather.instances,
            weather: Mutex::new(weather),
        });
        let mut world = World {
            seed: run.seed,
            storm: run.storm(),
            cluster,
            clouds,
            auditor,
            cuts: host.cuts.clone(),
            host,
            scenario,
            instances: Vec::new(),
            stop: watch::Sender::new(false),
            started: Instant::now(),
        };
        world.furnish().await?;
        for instance in 0..world.host.instances {
            let (host, stop) = (world.host.clone(), world.stop.subscribe());
            world
                .instances
                .push(tokio::task::spawn(host.run(instance, stop)));
        }
        Ok(world)
    }

    /// What is there before anything happens.
    async fn furnish(&mut self) -> Result<(), Status> {
        let api = self.cluster.api();
        for crd in joiner_api::crds(None) {
            // Definitions that are not used here take long to compile and change nothing.
            if !seats().any(|seat| seat.groups.contains(&crd.spec.group.as_str())) {
                continue;
            }
            let object = serde_json::to_value(crd).unwrap_or_default();
            api.create("customresourcedefinitions.apiextensions.k8s.io", "", object)?;
        }
        for one in &self.host.clouds {
            let (plan, kind) = (&one.plan, &one.plan.kind);
            if let Some(object) = plan.object.clone() {
                let resource = format!("{}.{}", kind.plural, kind.group);
                let namespace = object["metadata"]["namespace"].as_str();
                let namespace = namespace.unwrap_or_default().to_owned();
                api.create(&resource, &namespace, object)?;
            }
            let cloud = one.cloud.watched();
            cloud.plant(&format!("another-s-{}", plan.class)).await;
        }
        self.cluster.kubelets().boot(NodeSpec::named("foreign-0"));
        for action in self.scenario.beginning.clone() {
            let Action::Create(resource, namespace, object) = action else {
                continue;
            };
            api.create(resource, namespace, object)?;
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.cluster.api().clock().now()
    }

    async fn live(mut self) -> Outcome {
        let auditor = self.auditor.clone();
        tokio::select! {
            biased;
            () = auditor.stuck() => {}
            () = self.pass() => {}
        }
        self.end().await
    }

    /// From the first hour to the last.
    async fn pass(&mut self) {
        self.storm().await;
        if self.auditor.clean() {
            self.calm();
            self.settle().await;
        }
        if self.auditor.clean() {
            self.auditor.rest(self.now());
            tokio::time::sleep(REST).await;
        }
    }

    /// Things happen and go wrong.
    async fn storm(&mut self) {
        let end = self.started + self.storm;
        let mut actions = std::mem::take(&mut self.scenario.actions)
            .into_iter()
            .peekable();
        let mut cuts = std::mem::take(&mut self.cuts).into_iter().peekable();
        let mut next_look = self.started + LOOK;
        while self.auditor.clean() {
            let next_action = actions.peek().map(|(at, _)| self.started + *at);
            let next_cut = cuts.peek().map(|(at, ..)| self.started + *at);
            let next = [next_action, next_cut, Some(next_look)]
                .into_iter()
                .flatten()
                .min();
            let next = next.unwrap_or(end);
            if next >= end {
                sleep_until(end).await;
                return;
            }
            sleep_until(next).await;
            if next_action == Some(next) {
                if let Some((_, action)) = actions.next() {
                    self.action(&action);
                }
            } else if next_cut == Some(next) {
                if let Some((_, whose, lasts)) = cuts.next() {
                    self.cut(whose, lasts);
                }
            } else {
                self.look();
                next_look += LOOK;
            }
        }
    }

    fn action(&self, action: &Action) {
        let clouds = self.host.clouds.iter().map(|one| one.cloud.watched());
        let clouds: Vec<&dyn Watched> = clouds.collect();
        let text = user::carry_out(action, &self.cluster, &clouds);
        self.auditor.note(self.now(), "world", &text);
    }

    fn cut(&self, instance: u32, lasts: Duration) {
        if let Some(line) = self.host.lines().get(&instance) {
            line.cut(lasts);
        }
        let text = format!("the line of instance {instance} is cut for {lasts:?}");
        self.auditor.note(self.now(), "world", &text);
    }

    fn look(&self) {
        let now = self.now();
        self.auditor.look(now);
        for component in self.cluster.ended() {
            let message = format!("{component} of the embedded cluster has ended");
            self.auditor
                .report(now, Invariant::NoPanic, message, Vec::new());
        }
    }

    /// Nothing goes wrong from now on, and what cannot settle is put right.
    fn calm(&self) {
        let now = self.now();
        self.cluster.server().faults().clear();
        self.host.spare();
        for one in &self.host.clouds {
            one.faults.change(FaultRates::default());
            one.cloud.watched().calm();
        }
        self.auditor.note(now, "world", "the storm is over");
        self.auditor.calm(now);
        for action in &self.scenario.end {
            self.action(action);
        }
    }

    /// Whoever was behind when the storm ended may have bought on the pools' old terms since.
    fn end_expiring(&self) {
        let expiring = |action: &&Action| matches!(action, Action::DeleteExpiring(_));
        for action in self.scenario.end.iter().filter(expiring) {
            self.action(action);
        }
    }

    /// Waits until nothing is open and nothing is written any more.
    async fn settle(&self) {
        let end = Instant::now() + SETTLE;
        let mut budgets = Some(Instant::now() + LOOK_ON);
        let mut expiring = Some(Instant::now() + BEHIND);
        loop {
            tokio::time::sleep(LOOK).await;
            self.look();
            if !self.auditor.clean() {
                return;
            }
            if let Some(at) = expiring {
                if Instant::now() >= at {
                    expiring = None;
                    self.end_expiring();
                }
                continue;
            }
            let quiet = self.auditor.quiet_for(self.now()) >= QUIET;
            if quiet && self.auditor.open().is_empty() {
                return;
            }
            // Every pod runs that can, and still some node is not drained: its pods have nowhere else to go.
            if budgets.is_some_and(|at| Instant::now() >= at) && self.auditor.only_leaving() {
                budgets = None;
                for text in user::lift_budgets(&self.cluster.api()) {
                    self.auditor.note(self.now(), "world", &text);
                }
            }
            if Instant::now() >= end {
                self.auditor.must_have_settled(self.now());
                if self.auditor.clean() {
                    let message = format!(
                        "{SETTLE:?} after the storm things are still written: {}",
                        self.auditor.last_written()
                    );
                    self.auditor
                        .report(self.now(), Invariant::Rest, message, Vec::new());
                }
                return;
            }
        }
    }

    async fn end(self) -> Outcome {
        self.look();
        let violations = self.auditor.violations();
        let start = self.now() - self.cluster.api().clock().elapsed();
        let outcome = Outcome {
            seed: self.seed,
            hash: format!(
                "{}{}",
                &self.cluster.server().event_log_hash()[..16],
                &self.auditor.hash()[..16]
            ),
            seconds: self.cluster.api().clock().elapsed().as_secs(),
            changes: self.cluster.api().event_count(),
            machines_bought: self.auditor.bought(),
            faults: self.cluster.server().faults().met(),
            deaths: *self
                .host
                .deaths
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
            violations: violations
                .into_iter()
                .map(|violation| Violated::new(violation, start))
                .collect(),
        };
        // The cluster first: if it works in circles, no time passes for those who wait before they end.
        self.cluster.stop().await;
        self.stop.send_replace(true);
        for instance in self.instances {
            // A process that panicked is reported by its own.
            let _ = instance.await;
        }
        self.clouds.iter().for_each(JoinHandle::abort);
        outcome
    }
}

fn open_clouds(
    run: &Run,
    scenario: &Scenario,
    cluster: &Cluster,
    rates: FaultRates,
) -> Vec<Reached> {
    let plans = scenario.clouds.iter().zip(0_u64..);
    plans
        .map(|(plan, number)| Reached {
            plan: plan.clone(),
            cloud: (plan.open)(cluster),
            faults: Faults::new(rates, run.seed ^ (number << 8)),
        })
        .collect()
}

/// What the auditor must know: the families of the table, and what each cloud sells.
async fn audit_options(clouds: &[Reached]) -> Result<AuditOptions, Status> {
    let mut classes = std::collections::BTreeMap::new();
    for one in clouds {
        let catalog = one.cloud.catalog().await;
        let catalog = catalog.map_err(|error| Status::bad_request(error.to_string()))?;
        let class = Class {
            group: one.plan.kind.group.to_owned(),
            // Where there is no object, there is no name either.
            name: one
                .plan
                .object
                .as_ref()
                .map_or(String::new(), |_| one.plan.class.clone()),
        };
        classes.insert(class, catalog);
    }
    let families = seats().map(|seat| seat.rules).collect();
    Ok(AuditOptions::new(EMBEDDED, families, classes))
}
