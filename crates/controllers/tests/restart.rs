//! A large cluster behind a real socket, and an engine in a process of its own that starts on it: how soon it decides,
//! how much memory it takes, and that it writes nothing at rest.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "only tests use this"
)]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use joiner_controllers::dialect::{ClassFactory, ClassKind, ClassSite};
use joiner_controllers::dialects::karpenter::Karpenter;
use joiner_controllers::edge::clients::{Clients, Fence};
use joiner_controllers::edge::clock::SystemClock;
use joiner_controllers::edge::ledger::MemoryLedgers;
use joiner_controllers::engine::Core;
use joiner_controllers::record::ClassRecord;
use joiner_controllers::{Decide, Engine, EngineOptions, Settings};
use joiner_core::plan::Plan;
use joiner_core::problem::{Catalog, Problem};
use joiner_embedded::api::{ApiServer, Options};
use joiner_embedded::clock::Clock;
use joiner_providers::{
    LaunchRequest, Machine, MachineId, MachineState, NodeLink, Provider, ProviderError,
};
use joiner_sim::clouds::sim::built_in;
use joiner_testing::Large;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

/// After how long nodes may be weighed is the last thing that is written about them. The pods that wait fit.
const LARGE: Large = Large {
    nodes: 5_000,
    pods: 50_000,
    waiting: 20,
    cores: 1,
    settles: "5s",
};
/// Where the child process finds the cluster.
const URL: &str = "JOINER_RESTART_URL";
const SIM: ClassKind = ClassKind {
    group: "joiner.dev",
    version: "v1alpha1",
    kind: "SimNodeClass",
    plural: "simnodeclasses",
};

/// Bounds are for a machine that does nothing else; tests share theirs, so wall-clock time is bounded by processor time
/// that the engine used, and by a wall-clock bound that only a hang exceeds.
const FIRST_DECISION: Duration = Duration::from_secs(10);
const HANGS: Duration = Duration::from_mins(5);
const MEMORY_MIB: u64 = 500;
/// Rest is when nothing was written for so long.
const QUIET: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "wants a machine that does nothing else: cargo test -p joiner-controllers --test restart -- --ignored an_engine"]
async fn an_engine_that_starts_on_five_thousand_nodes_decides_soon_and_stays_small() {
    let server = ApiServer::new(Clock::wall(), &Options::default());
    LARGE.fill(&server.local()).unwrap();
    let writes: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let last_write = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let (seen, last) = (writes.clone(), last_write.clone());
    server.observe(move |commit| {
        if commit.asked.is_some() {
            *seen
                .lock()
                .unwrap()
                .entry(commit.resource.to_owned())
                .or_default() += 1;
            last.store(started.elapsed().as_millis() as u64, Ordering::SeqCst);
        }
    });
    let port = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "the_engine_of_the_restart",
            "--ignored",
            "--nocapture",
        ])
        .env(URL, format!("http://{}", port.address()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The child says when it has decided; then it is left alone until nothing was written for a while.
    let stdout = child.stdout.take().unwrap();
    let said = tokio::task::spawn_blocking(move || {
        use std::io::BufRead as _;
        let mut lines = std::io::BufReader::new(stdout)
            .lines()
            .map_while(Result::ok);
        let said = lines.find(|line| line.contains("decided"));
        let said = said.as_deref().unwrap_or_default();
        let said = said.trim_start_matches("test the_engine_of_the_restart ... ");
        // Whoever writes where nobody reads any more is ended.
        serde_json::from_str::<Value>(said).map(|said| (said, lines))
    });
    let (said, _heard) = tokio::time::timeout(HANGS, said)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let quiet = || {
        let last = Duration::from_millis(last_write.load(Ordering::SeqCst));
        started.elapsed().saturating_sub(last)
    };
    while quiet() < QUIET {
        assert!(
            started.elapsed() < HANGS,
            "still written: {:?}",
            writes.lock().unwrap()
        );
        tokio::time::sleep(QUIET.saturating_sub(quiet())).await;
    }
    let before = writes.lock().unwrap().clone();
    tokio::time::sleep(QUIET).await;
    assert_eq!(
        before,
        *writes.lock().unwrap(),
        "nothing is written at rest"
    );
    let peak = peak_mib(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    println!("{said}, {peak} MiB at most, written before rest: {before:?}");
    assert_eq!(said["nodes"], json!(LARGE.nodes));
    assert_eq!(said["pods"], json!(LARGE.pods));
    assert_eq!(said["unplaced"], json!(0));
    let cpu = Duration::from_millis(said["cpuMillis"].as_u64().unwrap());
    assert!(cpu < FIRST_DECISION, "{cpu:?}");
    assert!(peak < MEMORY_MIB, "{peak} MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other test runs this as a process of its own"]
async fn the_engine_of_the_restart() {
    let Ok(url) = std::env::var(URL) else { return };
    let config = kube::Config::new(url.parse().unwrap());
    let clients = Clients::from_config(&config, Fence::open()).unwrap();
    let (decided, mut first) = tokio::sync::mpsc::unbounded_channel();
    let started = Instant::now();
    let engine = Engine::start(
        EngineOptions {
            cluster: "cluster".into(),
            ledgers: Arc::new(MemoryLedgers),
            dialects: vec![Arc::new(Karpenter::new(clients.clone(), vec![SIM]))],
            classes: vec![Arc::new(Fixed)],
            clock: Arc::new(SystemClock),
            settings: Settings::default(),
            lease: None,
            decide: Some(Arc::new(Recorder(decided))),
            clients,
        },
        &mut Registry::default(),
    );
    let (nodes, pods, unplaced) = first.recv().await.unwrap();
    let line = json!({
        "decided": true, "nodes": nodes, "pods": pods, "unplaced": unplaced,
        "wallMillis": started.elapsed().as_millis() as u64, "cpuMillis": cpu_millis(),
    });
    println!("{line}");
    // Until the parent ends it.
    tokio::time::sleep(HANGS).await;
    engine.stop().await;
}

/// Says what the first decision was made from.
struct Recorder(tokio::sync::mpsc::UnboundedSender<(usize, usize, usize)>);

impl Decide for Recorder {
    fn provision(&self, problem: &Problem) -> Plan {
        let plan = Core::default().provision(problem);
        let pods = problem.nodes.iter().flat_map(|node| &node.pods);
        let pods: usize = pods.map(|pod| pod.count as usize).sum();
        let unplaced = plan.unplaced.iter().map(|one| one.pods.len()).sum();
        let _ = self.0.send((problem.nodes.len(), pods, unplaced));
        plan
    }

    fn disrupt(&self, problem: &Problem) -> Plan {
        Core::default().disrupt(problem)
    }
}

/// A cloud that has exactly the machines of the cluster.
struct Fixed;

fn machine(number: usize) -> Machine {
    let catalog = built_in();
    let kind = catalog
        .types
        .iter()
        .find(|kind| &*kind.name == "m-16x-amd64")
        .unwrap();
    let id = format!("sim:///sim-a/{number}");
    Machine {
        id: MachineId(id.as_str().into()),
        uid: None,
        state: MachineState::Running,
        links: vec![NodeLink::ProviderId(id.as_str().into())],
        instance_type: kind.name.clone(),
        zone: "sim-a".into(),
        region: "sim".into(),
        capacity_type: joiner_core::problem::CapacityType::OnDemand,
        price: Some(kind.offerings[1].price),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        labels: kind.labels.clone(),
        created: None,
    }
}

#[async_trait]
impl ClassFactory for Fixed {
    fn kind(&self) -> ClassKind {
        SIM
    }

    async fn build(
        &self,
        _: &ClassRecord,
        _: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let all: Vec<Machine> = {
            let model = machine(0);
            (0..LARGE.nodes)
                .map(|number| {
                    let id: joiner_core::name::Name = format!("sim:///sim-a/{number}").into();
                    Machine {
                        id: MachineId(id.clone()),
                        links: vec![NodeLink::ProviderId(id)],
                        ..model.clone()
                    }
                })
                .collect()
        };
        Ok(Arc::new(Stock(all)))
    }
}

struct Stock(Vec<Machine>);

#[async_trait]
impl Provider for Stock {
    fn name(&self) -> &'static str {
        "fixed"
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        Ok(built_in())
    }

    async fn launch(&self, _: &LaunchRequest) -> Result<Machine, ProviderError> {
        Err(ProviderError::OutOfCapacity("sold out".into()))
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        Err(ProviderError::Invalid(format!("{id} stays")))
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        let found = self.0.iter().find(|one| one.id == *id).cloned();
        found.ok_or_else(|| ProviderError::NotFound(id.to_string()))
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        Ok(self.0.clone())
    }

    async fn drift(&self, _: &Machine) -> Result<Option<String>, ProviderError> {
        Ok(None)
    }
}

/// The most memory that a process has had.
fn peak_mib(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024
}

/// Processor time that this process has used, in all its threads.
fn cpu_millis() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
    // utime and stime, in hundredths of a second: fields 14 and 15, the first two having been cut off.
    let ticks: u64 = fields[11..13]
        .iter()
        .map(|one| one.parse::<u64>().unwrap())
        .sum();
    ticks * 10
}
