//! A process of Joiner: started, dying at some request, started again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use joiner_controllers::dialect::{ClassFactory, ClassKind, ClassSite};
use joiner_controllers::dialects::karpetrack::KarpetrackOptions;
use joiner_controllers::edge::clients::{Clients, Fence};
use joiner_controllers::edge::lease::LeaseOptions;
use joiner_controllers::edge::ledger::ConfigMapLedgers;
use joiner_controllers::record::ClassRecord;
use joiner_controllers::{Decide, Engine, Settings, SolveOn};
use joiner_embedded::api::ApiServer;
use joiner_providers::{Provider, ProviderError};
use joiner_sim::audit::Auditor;
use joiner_sim::clouds::faulty::Faults;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::clouds::{CloudPlan, SPACE, Site, WorldCloud};
use super::line::{Line, Stray, Wire};
use super::seats::served;
use super::weather::Weather;
use crate::wiring::{ClusterClock, EMBEDDED, Wiring};

/// A cloud of a world and what goes wrong at it.
#[derive(Clone)]
pub(crate) struct Reached {
    /// What is known about it.
    pub(crate) plan: CloudPlan,
    /// The cloud.
    pub(crate) cloud: Arc<dyn WorldCloud>,
    /// What goes wrong at it.
    pub(crate) faults: Faults,
}

/// Clouds whose classes are of one kind, at the far end of one process's line.
struct Clouds {
    first: CloudPlan,
    reached: Vec<Reached>,
    line: Line,
    double: Option<Double>,
}

/// What stands between Joiner and its providers, for tests of the auditor.
pub(crate) type Double = fn(Arc<dyn Provider>) -> Arc<dyn Provider>;

impl Clouds {
    /// The factory for each kind of class.
    fn all(clouds: &[Reached], line: &Line, double: Option<Double>) -> Vec<Arc<dyn ClassFactory>> {
        let mut all: Vec<Clouds> = Vec::new();
        for one in clouds {
            let known = all.iter_mut().find(|of| of.first.kind == one.plan.kind);
            if let Some(of) = known {
                of.reached.push(one.clone());
                continue;
            }
            all.push(Clouds {
                first: one.plan.clone(),
                reached: vec![one.clone()],
                line: line.clone(),
                double,
            });
        }
        let factory = |one| Arc::new(one) as Arc<dyn ClassFactory>;
        all.into_iter().map(factory).collect()
    }
}

#[async_trait]
impl ClassFactory for Clouds {
    fn kind(&self) -> ClassKind {
        self.first.kind.clone()
    }

    fn family(&self) -> &'static str {
        self.first.family
    }

    fn has_objects(&self) -> bool {
        self.first.object.is_some()
    }

    async fn build(
        &self,
        class: &ClassRecord,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let mut clouds = self.reached.iter();
        let found = clouds.find(|one| *one.plan.class == *class.key.name);
        let found = found.ok_or_else(|| {
            ProviderError::Invalid(format!("there is no simulated cloud {:?}", class.key.name))
        })?;
        let made = found.cloud.provider(&Site {
            class: &found.plan.class,
            line: &self.line,
            faults: &found.faults,
            owner: site.owner.clone(),
            ledger: Arc::clone(&site.ledger),
        })?;
        Ok(match self.double {
            Some(double) => double(made),
            None => made,
        })
    }
}

/// What every process of a world shares.
pub(crate) struct Host {
    /// The API server.
    pub(crate) server: ApiServer,
    /// The clouds.
    pub(crate) clouds: Vec<Reached>,
    /// What goes wrong.
    pub(crate) weather: Mutex<Weather>,
    /// Who watches.
    pub(crate) auditor: Auditor,
    /// How to behave.
    pub(crate) settings: Settings,
    /// Who decides, where it is not the core.
    pub(crate) decide: Option<Arc<dyn Decide>>,
    /// What Joiner sends that it should not, for tests of the auditor.
    pub(crate) stray: Option<Stray>,
    /// What stands between it and its providers, for tests of the auditor.
    pub(crate) double: Option<Double>,
    /// The lines of the processes that live.
    pub(crate) lines: Mutex<BTreeMap<u32, Line>>,
    /// How many instances there are.
    pub(crate) instances: u32,
    /// When lines are cut, whose, and for how long.
    pub(crate) cuts: Vec<(Duration, u32, Duration)>,
    /// How many processes have died so far.
    pub(crate) deaths: Mutex<u64>,
}

impl Host {
    /// Runs one instance until it is told to stop: whenever its process dies, another is started.
    pub(crate) async fn run(self: Arc<Self>, instance: u32, mut stop: watch::Receiver<bool>) {
        let mut number = 0;
        loop {
            number += 1;
            let death = self.weather().death();
            let line = Line::new(death);
            self.lines().insert(instance, line.clone());
            let engine = self.start(instance, number, &line);
            tokio::select! {
                biased;
                () = stopped(&mut stop) => {
                    engine.stop().await;
                    return;
                }
                () = line.died() => engine.kill().await,
            }
            let rests = self.weather().restart();
            let now = self.server.local().clock().now();
            let how = death.map(|(at, side)| format!("{side:?} its request {at}"));
            let text = format!(
                "process {instance}.{number} died {}",
                how.unwrap_or_default().to_lowercase()
            );
            self.auditor.note(now, "world", &text);
            *self.deaths.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            tokio::select! {
                biased;
                () = stopped(&mut stop) => return,
                () = tokio::time::sleep(rests) => {}
            }
        }
    }

    fn start(&self, instance: u32, number: u64, line: &Line) -> Engine {
        let wire = Wire {
            server: self.server.clone(),
            line: line.clone(),
            stray: self.stray,
        };
        let clients = Clients::over(&wire, Fence::closed());
        let identity = format!("joiner-{instance}-{number}");
        let wiring = Wiring {
            leftover: None,
            cluster: EMBEDDED.into(),
            ledgers: Arc::new(ConfigMapLedgers::new(clients.clone(), "kube-system")),
            classes: Clouds::all(&self.clouds, line, self.double),
            families: served().collect(),
            karpetrack: KarpetrackOptions::new(SPACE),
            clock: Arc::new(ClusterClock(self.server.local().clock().clone())),
            settings: Settings {
                seed: self.settings.seed ^ (u64::from(instance) << 32) ^ number,
                solve_on: SolveOn::Caller,
                ..self.settings.clone()
            },
            lease: Some(lease(&identity)),
            decide: self.decide.clone(),
            clients,
        };
        wiring.start(&mut Registry::default())
    }

    /// The storm is over: no process dies any more.
    pub(crate) fn spare(&self) {
        self.weather().clear();
        self.lines().values().for_each(Line::spare);
    }

    /// The lines of the processes that live.
    pub(crate) fn lines(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn weather(&self) -> std::sync::MutexGuard<'_, Weather> {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The usual lease, renewed less often: that is most of what a process at rest does.
fn lease(identity: &str) -> LeaseOptions {
    LeaseOptions {
        period: Duration::from_secs(8),
        ..LeaseOptions::new("kube-system", "joiner", identity)
    }
}

/// Waits until the world ends.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Whoever would say so is gone when this fails: then it has ended too.
    let _ = stop.wait_for(|stop| *stop).await;
}
