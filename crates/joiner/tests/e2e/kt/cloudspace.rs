//! A cloudspace: a real control plane whose servers come from the simulated Rackspace Spot, over HTTP, and whose
//! kubelets are kwok's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_sim::clouds::rackspace::{RackspaceCloud, RackspaceCloudOptions};
use joiner_sim::clouds::sim::Rack;
use joiner_testing::{ControlPlane, Process, Program};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{World, paths};

/// What kwok does with nodes and pods.
const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/kt/kwok.yaml");

/// The cloudspace that most tests share.
static SHARED: tokio::sync::OnceCell<Arc<Cloudspace>> = tokio::sync::OnceCell::const_new();

/// The simulated cloud, and the cluster that its servers join.
pub(crate) struct Cloudspace {
    pub(crate) world: Arc<World>,
    pub(crate) cloud: RackspaceCloud,
    address: SocketAddr,
    _kwok: (Process, TempDir),
}

/// Servers are Node objects that kwok looks after.
struct Racks(Arc<World>);

impl Rack for Racks {
    fn boot(&self, spec: NodeSpec) {
        let world = Arc::clone(&self.0);
        tokio::spawn(async move {
            let (object, client) = (node(&spec), world.plane().client().unwrap());
            let joined = client.send(Method::POST, paths::NODES, Some(&object)).await;
            if let Err(error) = joined {
                println!("node {} did not join: {error:#}", spec.name);
            }
        });
    }

    fn kill(&self, name: &str) {
        let (world, path) = (Arc::clone(&self.0), format!("{}/{name}", paths::NODES));
        tokio::spawn(async move { world.delete(&path).await });
    }
}

/// The Node object of a machine that kwok looks after.
pub(crate) fn node(spec: &NodeSpec) -> Value {
    let mut labels = spec.labels.clone();
    for (key, value) in [
        ("kubernetes.io/hostname", spec.name.as_str()),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels},
        "spec": {"providerID": spec.provider_id},
        "status": {"capacity": spec.capacity, "allocatable": spec.allocatable}})
}

/// A calm market whose servers come within seconds.
fn quick() -> RackspaceCloudOptions {
    RackspaceCloudOptions {
        decides_after: Duration::from_secs(1),
        arrives_min: Duration::from_secs(1),
        arrives_max: Duration::from_secs(3),
        stops_after: Duration::from_secs(1),
        ..RackspaceCloudOptions::calm(1)
    }
}

impl Cloudspace {
    /// The one that tests share, with a Joiner that looks more often than usual.
    pub(crate) async fn shared() -> Arc<Cloudspace> {
        let made = SHARED.get_or_init(|| async {
            let space = Cloudspace::start().await;
            space.join("karpetrack");
            space
        });
        Arc::clone(made.await)
    }

    /// One of one's own, without Joiner as yet.
    pub(crate) async fn start() -> Arc<Cloudspace> {
        let world = World::start().await;
        let rack = Arc::new(Racks(Arc::clone(&world)));
        let cloud = RackspaceCloud::new(quick(), Clock::wall(), rack);
        let running = cloud.clone();
        tokio::spawn(async move { running.run().await });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = cloud.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let kwok = kwok(world.plane());
        Arc::new(Cloudspace {
            world,
            cloud,
            address,
            _kwok: kwok,
        })
    }

    /// What makes Joiner a controller of this cloudspace.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let url = format!("http://{}", self.address);
        [
            "--dialect=karpetrack",
            "--refresh-token=sim-refresh-token",
            "--cloudspace-id=demo",
            &format!("--rackspace-api-url={url}"),
            &format!("--rackspace-oauth-url={url}"),
            &format!("--rackspace-feed-url={url}/percentiles.json"),
            "--pricing-refresh-interval=2s",
            "--batch-window=2s",
            "--empty-node-grace-period=5s",
            "--optimization-min-age=0s",
            "--drift-period=3s",
            "--leader-election-name=karpetrack-leader-election",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Starts a Joiner.
    pub(crate) fn join(&self, name: &str) {
        self.world.join_with(name, &self.arguments());
    }
}

/// Starts kwok as the kubelets of a cluster.
pub(crate) fn kwok(plane: &ControlPlane) -> (Process, TempDir) {
    let directory = tempfile::Builder::new()
        .prefix("joiner-kwok-")
        .tempdir()
        .unwrap();
    let arguments = [
        format!("--kubeconfig={}", plane.kubeconfig().display()),
        format!("--config={STAGES}"),
        "--manage-all-nodes=true".to_owned(),
        "--node-lease-duration-seconds=40".to_owned(),
    ];
    joiner_testing::ensure(&[Program::Kwok]).expect("kwok");
    let program = plane.program(Program::Kwok);
    let process = Process::start("kwok", directory.path(), &program, &arguments).unwrap();
    (process, directory)
}
