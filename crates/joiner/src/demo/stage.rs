//! What the demo plays on: an embedded cluster, a simulated cloud, Joiner, and the books.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_api::Dialect as Family;
use joiner_controllers::context::Context;
use joiner_controllers::dialects::karpetrack::KarpetrackOptions;
use joiner_controllers::edge::clients::{Clients, Fence};
use joiner_controllers::edge::ledger::MemoryLedgers;
use joiner_controllers::edge::tasks::Tasks;
use joiner_controllers::{Engine, Settings};
use joiner_embedded::api::{Local, Status};
use joiner_embedded::cluster::{Cluster, ClusterOptions};
use joiner_providers::Provider as _;
use joiner_sim::audit::Auditor;
use joiner_sim::clouds::sim::SimCloud;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use super::books::Books;
use super::objects;
use super::story::Pace;
use super::thoughts::Thoughtful;
use crate::classes::sim::SimClasses;
use crate::wiring::{ClusterClock, EMBEDDED, Wiring, only};

/// A cluster with everything that the story needs.
pub(crate) struct Stage {
    /// The cluster.
    pub(crate) cluster: Cluster,
    /// What is spent, and what would have been.
    pub(crate) books: Books,
    /// What Joiner decides, in words, as it decides.
    pub(crate) thoughts: Option<mpsc::UnboundedReceiver<String>>,
    classes: Arc<SimClasses>,
    engine: Engine,
    clouds: Tasks,
}

impl Stage {
    /// Sets everything up. `start` is what the cluster's clock shows; a fixed moment unless it is given. The auditor, if
    /// there is one, watches from the beginning.
    pub(crate) fn set(
        seed: u64,
        start: Option<Timestamp>,
        pace: &Pace,
        settings: Settings,
        auditor: Option<&Auditor>,
    ) -> Result<Self, Status> {
        let cluster = Cluster::start(&ClusterOptions {
            seed,
            start,
            ..ClusterOptions::default()
        });
        if let Some(auditor) = auditor {
            auditor.watch_server(cluster.server());
        }
        for crd in joiner_api::crds(None) {
            let object = serde_json::to_value(crd).unwrap_or_default();
            let definitions = "customresourcedefinitions.apiextensions.k8s.io";
            cluster.api().create(definitions, "", object)?;
        }
        objects::create(&cluster.api(), seed, pace)?;
        let books = Books::new(cluster.api().clock().clone());
        let clients = Clients::over(cluster.server(), Fence::open());
        let clock = cluster.api().clock().clone();
        let rack = Arc::new(cluster.kubelets().clone());
        let clouds = Tasks::new();
        let reads = clients.reads.clone();
        let (record, auditor, time) = (books.clone(), auditor.cloned(), clock.clone());
        let classes =
            SimClasses::new(reads, clock.clone(), rack, clouds.clone()).observed(move |event| {
                record.happened(event);
                if let Some(auditor) = &auditor {
                    auditor.saw(event, time.now());
                }
            });
        let classes = Arc::new(classes);
        clouds.spawn("billing", bill(classes.clone(), books.clone()));
        let (sender, thoughts) = mpsc::unbounded_channel();
        let wiring = Wiring {
            leftover: None,
            cluster: EMBEDDED.into(),
            ledgers: Arc::new(MemoryLedgers),
            clients,
            clock: Arc::new(ClusterClock(clock)),
            families: only(Family::Karpenter),
            karpetrack: KarpetrackOptions::new(""),
            classes: vec![classes.clone()],
            // The story is about prices that move: spot may be replaced by cheaper spot.
            settings: Settings {
                seed,
                spot_to_spot: true,
                ..settings
            },
            lease: None,
            decide: Some(Arc::new(Thoughtful::new(Some(books.clone()), sender))),
        };
        let engine = wiring.start(&mut Registry::default());
        Ok(Stage {
            cluster,
            books,
            thoughts: Some(thoughts),
            classes,
            engine,
            clouds,
        })
    }

    /// The cluster's API.
    pub(crate) fn api(&self) -> Local {
        self.cluster.api()
    }

    /// Everything that Joiner works with.
    pub(crate) fn context(&self) -> Arc<Context> {
        self.engine.context().clone()
    }

    /// The cloud, once Joiner has found it.
    pub(crate) fn cloud(&self) -> Option<SimCloud> {
        self.classes.clouds().into_iter().next()
    }

    /// Ends everything.
    pub(crate) async fn clear(self) {
        self.engine.stop().await;
        self.clouds.stop().await;
        self.cluster.stop().await;
    }
}

/// How often prices are read for the bill.
const BILLED: Duration = Duration::from_mins(1);

/// Writes today's prices into the books, for ever.
async fn bill(classes: Arc<SimClasses>, books: Books) {
    loop {
        tokio::time::sleep(BILLED).await;
        let cloud = classes.clouds().into_iter().next();
        if let Some(cloud) = cloud
            && let Ok(catalog) = cloud.catalog().await
        {
            books.priced(&catalog);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use joiner_controllers::SolveOn;

    use joiner_controllers::decisions::{Kind, Outcome, Said};

    use super::*;
    use crate::api::bought::written;
    use crate::api::fleet::{self, Fleet};
    use crate::api::why;

    #[tokio::test(start_paused = true)]
    async fn a_machine_is_shown_once_and_as_ours_from_its_purchase_on() {
        let settings = Settings {
            solve_on: SolveOn::Caller,
            ..Settings::default()
        };
        let stage = Stage::set(1, None, &Pace::LIVE, settings, None).unwrap();
        let context = stage.context();
        let mut most = 0;
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let nodes = Fleet::look(&context).nodes;
            let names: BTreeSet<&str> = nodes.iter().map(|node| &*node.name).collect();
            assert_eq!(names.len(), nodes.len(), "{nodes:#?}");
            let foreign = nodes.iter().find(|node| node.machine.is_none());
            assert!(foreign.is_none(), "{foreign:#?}");
            most = most.max(nodes.len());
        }
        assert!(most > 1);
        stage.clear().await;
    }

    #[tokio::test(start_paused = true)]
    async fn why_a_machine_was_bought_is_known_while_it_lives_and_to_the_next_leader_too() {
        let settings = Settings {
            solve_on: SolveOn::Caller,
            ..Settings::default()
        };
        let stage = Stage::set(1, None, &Pace::LIVE, settings, None).unwrap();
        let context = stage.context();
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let mut nodes = Fleet::look(&context).nodes;
        fleet::detail(&context, nodes.iter_mut());
        assert!(nodes.len() > 1, "{nodes:#?}");
        for node in &nodes {
            let here = node.here.as_ref().unwrap();
            assert_eq!(here.verdict.outcome, Outcome::Bought, "{node:#?}");
            let why = why::explain(&context, Kind::Node, &node.name).unwrap();
            let told = |one: &Said| one.verdict.sentence == here.verdict.sentence;
            assert!(why.verdicts.iter().any(told), "{why:#?}");
        }
        let machines: Vec<_> = context.view.read().machines.iter().cloned().collect();
        for machine in machines {
            let known = context.decisions.purchase(&machine.key.name).unwrap();
            // Another process has no ledger of it, only the object.
            let found = written(&machine);
            assert_eq!(found.verdict.sentence, known.verdict.sentence);
        }
        stage.clear().await;
    }
}
