//! `joiner demo`: a whole cluster in this process, with a simulated cloud that Joiner buys from, for kubectl to play
//! with.

mod kubeconfig;
mod objects;
mod ticker;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::Dialect as Family;
use joiner_controllers::clients::{Clients, Fence};
use joiner_controllers::clock::Clock;
use joiner_controllers::dialects::karpetrack::KarpetrackOptions;
use joiner_controllers::tasks::Tasks;
use joiner_controllers::{Engine, Settings};
use joiner_sim::api::Status;
use joiner_sim::cluster::{Cluster, ClusterOptions};
use prometheus_client::registry::Registry;

use crate::args::{DemoArgs, LogFormat};
use crate::classes::sim::SimClasses;
use crate::failure::Failure;
use crate::telemetry;
use crate::wiring::{SERVED, Wiring};

/// The cluster's clock is the engine's.
struct ClusterClock(joiner_sim::clock::Clock);

impl Clock for ClusterClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// Runs the command until it is interrupted.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    telemetry::start("warn", LogFormat::default());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Demo(error.to_string()))?;
    runtime.block_on(play(args))
}

async fn play(args: &DemoArgs) -> Result<(), Failure> {
    let options = ClusterOptions {
        seed: args.seed,
        start: Some(Timestamp::now()),
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&options);
    let port = cluster
        .server()
        .listen(args.listen)
        .await
        .map_err(|source| Failure::Listen {
            address: args.listen,
            flag: "--listen",
            source,
        })?;
    furnish(&cluster, args.seed).map_err(|refused| Failure::Demo(refused.to_string()))?;
    let clouds = Tasks::new();
    let engine = engine(&cluster, args.seed, &clouds);
    kubeconfig::write(&args.kubeconfig, port.address())?;
    welcome(&args.kubeconfig, port.address()).map_err(Failure::stdout)?;
    let ticker = ticker::run(cluster.api());
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Failure::stdout)?,
        told = ticker => told.map_err(Failure::stdout)?,
    }
    engine.stop().await;
    clouds.stop().await;
    cluster.stop().await;
    Ok(())
}

/// Joiner itself, on this cluster and its simulated cloud.
fn engine(cluster: &Cluster, seed: u64, clouds: &Tasks) -> Engine {
    let clients = Clients::over(cluster.server(), Fence::open());
    let clock = cluster.api().clock().clone();
    let rack = Arc::new(cluster.kubelets().clone());
    let reads = clients.reads.clone();
    let classes = SimClasses::new(reads, clock.clone(), rack, clouds.clone());
    let wiring = Wiring {
        clients,
        clock: Arc::new(ClusterClock(clock)),
        families: SERVED
            .iter()
            .filter(|one| one.family == Family::Karpenter)
            .collect(),
        karpetrack: KarpetrackOptions::new(""),
        classes: vec![Arc::new(classes)],
        settings: Settings {
            seed,
            ..Settings::default()
        },
        lease: None,
    };
    wiring.start(&mut Registry::default())
}

/// Custom resources, a cloud, a pool, and something to run.
fn furnish(cluster: &Cluster, seed: u64) -> Result<(), Status> {
    let api = cluster.api();
    for crd in joiner_api::crds(None) {
        let object = serde_json::to_value(crd).unwrap_or_default();
        api.create("customresourcedefinitions.apiextensions.k8s.io", "", object)?;
    }
    objects::create(&api, seed)
}

fn welcome(kubeconfig: &Path, address: SocketAddr) -> io::Result<()> {
    let file = kubeconfig.display();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "An embedded Kubernetes cluster listens on http://{address}; Joiner looks after its nodes."
    )?;
    writeln!(out, "In another terminal:\n\n  export KUBECONFIG={file}")?;
    for line in [
        "kubectl get nodes,nodeclaims,pods -A",
        "kubectl scale deployment/web -n shop --replicas 40   # more than the nodes hold",
        "kubectl scale deployment/web -n shop --replicas 2    # and less",
        "kubectl describe nodepool default",
        "kubectl explain nodepools.spec.disruption",
    ] {
        writeln!(out, "  {line}")?;
    }
    writeln!(
        out,
        "\nCtrl-C ends it, and nothing is left behind but that file.\n"
    )
}
