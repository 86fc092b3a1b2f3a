//! Simulated kubelets on any cluster: machines of a simulated cloud register as nodes of a real API server and run the
//! pods that are bound to them.
//!
//! What a kubelet says and does is what the embedded cluster's kubelets say and do (`joiner_embedded::cluster::kubelet`);
//! here is only how it gets to an API server across the network and back. One watch on pods, one on nodes and a few
//! workers serve all machines.

mod nodes;
mod pods;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_controllers::edge::clients::Clients;
use joiner_controllers::edge::tasks::Tasks;
use joiner_controllers::lifecycle::queue::Queue;
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::behaviour::PodDefaults;
use joiner_embedded::cluster::kubelet::{KubeletOptions, NodeSpec};
use joiner_sim::clouds::sim::Rack;
use tokio::sync::watch;
use tokio::time::Instant;

use nodes::Machine;
use pods::{Held, PodKey};

/// How many requests are under way at once: enough that a thousand pods start within seconds, few enough that nobody
/// else has to wait for the API server.
const WORKERS: usize = 24;
/// A node with this annotation is looked after by kwok.
pub(crate) const KWOK: &str = "kwok.x-k8s.io/node";
/// A node with this annotation, `true`, has a kubelet that does nothing any more: no leases, no reports, no pods started
/// or ended.
const STOPPED: &str = "sim.joiner.dev/stopped";
/// How long to wait after a request that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Something to look after.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// A machine that registers or becomes ready.
    Node(String),
    /// A machine that gives a sign of life.
    Beat(String),
    /// A pod.
    Pod(PodKey),
}

#[derive(Default)]
struct State {
    machines: BTreeMap<String, Machine>,
    pods: BTreeMap<PodKey, Held>,
}

/// All kubelets of this process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Kubelets {
    clients: Clients,
    clock: Clock,
    options: KubeletOptions,
    state: Arc<Mutex<State>>,
    queue: Queue<Work>,
    /// Whether there is a machine whose pods are ours to run: until then nothing is watched.
    needed: watch::Sender<bool>,
}

impl Kubelets {
    /// Without machines yet. Nothing is written while the clients' fence is closed.
    pub(crate) fn start(clients: &Clients, clock: Clock, tasks: &Tasks) -> Self {
        let options = KubeletOptions {
            pods: PodDefaults {
                // No image is pulled.
                start: SignedDuration::ZERO,
                ..PodDefaults::default()
            },
            ..KubeletOptions::default()
        };
        let kubelets = Kubelets {
            clients: clients.clone(),
            clock,
            options,
            state: Arc::default(),
            queue: Queue::default(),
            needed: watch::Sender::new(false),
        };
        for _ in 0..WORKERS {
            let kubelets = kubelets.clone();
            tasks.supervise("kubelet", move || {
                let kubelets = kubelets.clone();
                async move { kubelets.work().await }
            });
        }
        let watching = kubelets.clone();
        tasks.supervise("kubelet pods", move || {
            let kubelets = watching.clone();
            async move {
                kubelets.until_needed().await;
                kubelets.watch_pods().await;
            }
        });
        let watching = kubelets.clone();
        tasks.supervise("kubelet nodes", move || {
            let kubelets = watching.clone();
            async move {
                kubelets.until_needed().await;
                kubelets.watch_nodes().await;
            }
        });
        kubelets
    }

    async fn until_needed(&self) {
        let mut needed = self.needed.subscribe();
        // The sender lives as long as we do.
        let _ = needed.wait_for(|needed| *needed).await;
    }

    async fn work(&self) {
        loop {
            let ticket = self.queue.next().await;
            match &ticket.key {
                Work::Node(name) => self.sync_node(name).await,
                Work::Beat(name) => self.beat(name).await,
                Work::Pod(key) => self.sync_pod(key).await,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn again(&self, work: Work) {
        self.queue.add_at(work, Instant::now() + AGAIN);
    }

    fn at(&self, work: Work, now: Timestamp, then: Timestamp) {
        let wait = Duration::try_from(then.duration_since(now)).unwrap_or_default();
        self.queue.add_at(work, Instant::now() + wait);
    }
}

impl Rack for Kubelets {
    fn boot(&self, spec: NodeSpec) {
        let name = spec.name.clone();
        let machine = Machine::new(spec, self.clock.now());
        if machine.own() {
            self.needed.send_replace(true);
        }
        self.state().machines.insert(name.clone(), machine);
        self.queue.add(Work::Node(name));
    }

    fn kill(&self, name: &str) {
        let mut state = self.state();
        state.machines.remove(name);
        state.pods.retain(|_, held| held.node != name);
    }
}
