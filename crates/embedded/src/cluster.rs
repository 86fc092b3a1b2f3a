//! What makes the embedded API server a cluster: scheduler, controllers and kubelets.
//!
//! ```text
//!   Cluster ──► ApiServer ◄── Local ──┬── scheduler
//!                                     ├── controllers (one task, one mirror of what they watch)
//!                                     └── kubelets    (one task, all machines)
//! ```
//!
//! The same on real and on paused tokio time. On paused time and a current-thread runtime two runs with equal seeds
//! commit the same changes in the same order.

mod feed;
pub mod fields;
mod key;
pub mod kubelet;
pub mod quantity;
mod queue;
mod recorder;
mod scheduler;
mod task;
pub mod workloads;

use jiff::Timestamp;

pub(crate) use self::key::Key;
use self::kubelet::{Fleet, KubeletOptions, Kubelets};
use self::scheduler::Scheduler;
use self::task::Tasks;
use self::workloads::{ControllerOptions, Manager};
use crate::api::{ApiServer, Local, Options};
use crate::clock::Clock;

/// How a cluster is made.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Seed of every random choice.
    pub seed: u64,
    /// The time at which the cluster's clock starts; the same in every run unless it is given.
    pub start: Option<Timestamp>,
    /// How many changes of each resource can be replayed to watches that resume.
    pub history: usize,
    /// How kubelets behave.
    pub kubelets: KubeletOptions,
    /// How controllers behave.
    pub controllers: ControllerOptions,
    /// Whether components write events. Simulations of many hours can do without.
    pub events: bool,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            start: None,
            history: Options::default().history,
            kubelets: KubeletOptions::default(),
            controllers: ControllerOptions::default(),
            events: true,
        }
    }
}

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    server: ApiServer,
    kubelets: Kubelets,
    tasks: Tasks,
}

impl Cluster {
    /// Starts a cluster without nodes. Call it inside the runtime that it shall run on.
    pub fn start(options: &ClusterOptions) -> Self {
        let clock = options
            .start
            .map_or_else(Clock::virtual_time, Clock::starting_at);
        let server = ApiServer::new(
            clock,
            &Options {
                seed: options.seed,
                history: options.history,
            },
        );
        let api = server.local();
        let mut tasks = Tasks::default();
        let scheduler = Scheduler::new(&api, "default-scheduler", options.events);
        tasks.start("scheduler", scheduler.run());
        let manager = Manager::new(&api, options.controllers, options.events);
        tasks.start("controllers", manager.run());
        let (fleet, kubelets) = Fleet::new(&api, options.kubelets);
        tasks.start("kubelets", fleet.run());
        Self {
            server,
            kubelets,
            tasks,
        }
    }

    /// The API server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The API without HTTP.
    pub fn api(&self) -> Local {
        self.server.local()
    }

    /// The machines' power switch.
    pub fn kubelets(&self) -> &Kubelets {
        &self.kubelets
    }

    /// Names of components that have ended by themselves; a healthy cluster has none.
    pub fn ended(&self) -> Vec<&'static str> {
        self.tasks.ended()
    }

    /// Stops everything and waits until it has.
    pub async fn stop(mut self) {
        self.tasks.stop().await;
    }
}
