//! Proxmox VE, simulated: the same HTTP API with its tasks, locks, lagging lists and errors in reason phrases.
//!
//! [`ProxmoxCloud::router`] is the wire, for a client in this process or for a port; machines that run and boot arrive
//! as nodes through a [`Rack`], with the UUID that their firmware reports.

mod cluster;
mod params;
mod routes;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use joiner_embedded::clock::Clock;
use serde_json::Value;
use tokio::sync::Notify;

use self::cluster::{Cluster, Order};
pub use self::cluster::{HostSim, StorageSim, Vm};
use super::sim::Rack;

/// How the cluster behaves.
#[derive(Clone, Debug)]
pub struct ProxmoxCloudOptions {
    /// The API token that is accepted: its id and its secret.
    pub token: (String, String),
    /// Name of the cluster.
    pub cluster: String,
    /// Hosts.
    pub hosts: BTreeMap<String, HostSim>,
    /// Storages.
    pub storages: BTreeMap<String, StorageSim>,
    /// How long a new machine takes to be made.
    pub creates_within: Duration,
    /// How long copying a template takes.
    pub clones_within: Duration,
    /// How long starting and stopping take.
    pub starts_within: Duration,
    /// How long destroying takes.
    pub destroys_within: Duration,
    /// From being started to being a node.
    pub boots_within: Duration,
    /// How far the list of the whole cluster is behind.
    pub lag: Duration,
    /// Whether refusals carry their text in the body too, as versions since 2025 do.
    pub messages: bool,
    /// Memory that the system on a machine keeps, in MiB: its node offers so much less.
    pub kept_mib: u64,
    /// How many machines may be made on one storage at once before the lock on it is not to be had in time; any number
    /// if left out.
    pub makes_at_once: Option<usize>,
}

impl ProxmoxCloudOptions {
    /// So many hosts, `pve1` and on, of 16 threads and 64 GiB, with the timings of real ones.
    pub fn of_hosts(count: usize) -> Self {
        let host = HostSim {
            cpus: 16,
            memory: 64 << 30,
            online: true,
            bridges: vec!["vmbr0".to_owned()],
        };
        let hosts = (1..=count).map(|n| (format!("pve{n}"), host.clone()));
        let storage = |shared| StorageSim {
            shared,
            bytes: 1 << 40,
            used: BTreeMap::new(),
        };
        ProxmoxCloudOptions {
            token: ("joiner@pve!sim".to_owned(), "sim-token-secret".to_owned()),
            cluster: "sim".to_owned(),
            hosts: hosts.collect(),
            storages: BTreeMap::from([
                ("local-zfs".to_owned(), storage(false)),
                ("ceph".to_owned(), storage(true)),
            ]),
            creates_within: Duration::from_secs(2),
            clones_within: Duration::from_secs(40),
            starts_within: Duration::from_secs(3),
            destroys_within: Duration::from_secs(3),
            boots_within: Duration::from_secs(45),
            lag: Duration::from_secs(10),
            messages: true,
            kept_mib: 0,
            makes_at_once: None,
        }
    }
}

/// What goes wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// It is refused before it does anything, with a status and a reason.
    Refused(u16, String),
    /// It is refused for one of its fields: the field, and what is wrong with it.
    Field(String, String),
    /// It is done, and its answer lost.
    Lost,
    /// It is answered with this status at once, and done only after a while.
    Late(u16, Duration),
    /// Something else answers.
    Says(u16, String),
    /// Nothing answers, ever.
    Hangs,
}

struct Inner {
    options: ProxmoxCloudOptions,
    cluster: Cluster,
    /// Calls that begin with the text meet the fault, so many times.
    faults: Vec<(String, CallFault, u32)>,
    calls: Vec<String>,
    /// Memory that machines of a host were ever promised together, by host.
    most_sold: BTreeMap<String, u64>,
}

impl Inner {
    fn take_fault(&mut self, line: &str) -> Option<CallFault> {
        let at = self
            .faults
            .iter()
            .position(|(text, _, times)| *times > 0 && is_meant(line, text))?;
        let (_, fault, times) = self.faults.get_mut(at)?;
        *times -= 1;
        Some(fault.clone())
    }

    /// Counts what is promised of each host.
    fn count_sold(&mut self) {
        for (host, bytes) in self.cluster.sold() {
            let most = self.most_sold.entry(host).or_default();
            *most = (*most).max(bytes);
        }
    }
}

/// Whether a call is one that begins with a text, or is like a pattern as a whole if the text has stars in it.
fn is_meant(line: &str, text: &str) -> bool {
    let Some((first, rest)) = text.split_once('*') else {
        return line.starts_with(text);
    };
    let Some(mut left) = line.strip_prefix(first) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.split_once(part) {
            Some((_, after)) => left = after,
            None => return false,
        }
    }
    true
}

/// The cluster. Cheap to clone; clones are the same cluster.
#[derive(Clone)]
pub struct ProxmoxCloud {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
    rack: Arc<dyn Rack>,
    changed: Arc<Notify>,
}

impl ProxmoxCloud {
    /// Opens the cluster. Machines boot only while [`ProxmoxCloud::run`] is polled.
    pub fn new(options: ProxmoxCloudOptions, clock: Clock, rack: Arc<dyn Rack>) -> Self {
        let inner = Inner {
            options,
            cluster: Cluster::default(),
            faults: Vec::new(),
            calls: Vec::new(),
            most_sold: BTreeMap::new(),
        };
        ProxmoxCloud {
            inner: Arc::new(Mutex::new(inner)),
            clock,
            rack,
            changed: Arc::default(),
        }
    }

    /// The wire.
    pub fn router(&self) -> Router {
        routes::router(self.clone())
    }

    /// Ends tasks and boots machines, until it is dropped.
    pub async fn run(&self) {
        loop {
            let next = self.act();
            let changed = self.changed.notified();
            let wait = next.map(|at| {
                Duration::try_from(at.duration_since(self.clock.now())).unwrap_or_default()
            });
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(wait.unwrap_or(Duration::MAX)), if wait.is_some() => {}
            }
        }
    }

    /// Does what is due, and says when the next thing is.
    fn act(&self) -> Option<Timestamp> {
        let now = self.clock.now();
        let (orders, next) = {
            let mut inner = self.lock();
            let inner = &mut *inner;
            inner.cluster.settle(&mut inner.options, now);
            (
                std::mem::take(&mut inner.cluster.orders),
                inner.cluster.next(&inner.options, now),
            )
        };
        for order in orders {
            match order {
                Order::Boot(spec) => self.rack.boot(*spec),
                Order::Kill(name) => self.rack.kill(&name),
            }
        }
        next
    }

    /// Changes how the cluster behaves from now on.
    pub fn change(&self, change: impl FnOnce(&mut ProxmoxCloudOptions)) {
        change(&mut self.lock().options);
        self.changed.notify_one();
    }

    /// Lets the next `times` calls that begin so (`POST /nodes/…`), or are so as a whole (`POST /nodes/*/qemu`), go wrong.
    pub fn fail(&self, call: &str, fault: CallFault, times: u32) {
        self.lock().faults.push((call.to_owned(), fault, times));
    }

    /// Lets the next `times` tasks of this kind (`qmstart`) end with an error.
    pub fn fail_task(&self, kind: &str, error: &str, times: u32) {
        let fault = (kind.to_owned(), error.to_owned(), times);
        self.lock().cluster.task_faults.push(fault);
    }

    /// What was to go wrong and was not met yet: the call or the kind of task, and what was to be said.
    pub fn unmet(&self) -> BTreeSet<String> {
        let inner = self.lock();
        let calls = inner.faults.iter().filter(|(_, _, times)| *times > 0);
        let calls = calls.map(|(call, fault, _)| format!("{call}: {fault:?}"));
        let tasks = inner.cluster.task_faults.iter();
        let tasks = tasks.filter(|(_, _, times)| *times > 0);
        let tasks = tasks.map(|(kind, error, _)| format!("{kind}: {error}"));
        calls.chain(tasks).collect()
    }

    /// Nothing goes wrong any more that was asked to.
    pub fn forgive(&self) {
        let mut inner = self.lock();
        inner.faults.clear();
        inner.cluster.task_faults.clear();
        inner.cluster.quorum = true;
    }

    /// Whether more than half of the hosts are together.
    pub fn set_quorum(&self, quorum: bool) {
        self.lock().cluster.quorum = quorum;
    }

    /// Switches a host off the network or back on; its machines go on.
    pub fn set_online(&self, host: &str, online: bool) {
        self.change(|options| {
            if let Some(host) = options.hosts.get_mut(host) {
                host.online = online;
            }
        });
    }

    /// Puts a machine there that somebody else made.
    pub fn plant(&self, vmid: u32, host: &str, config: &[(&str, &str)], running: bool) {
        let config = config
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let vm = Vm::made(host, config.collect(), running);
        self.lock().cluster.vms.insert(vmid, vm);
        self.changed.notify_one();
    }

    /// Takes a machine away behind everybody's back.
    pub fn vanish(&self, vmid: u32) -> Option<Vm> {
        self.lock().cluster.vms.remove(&vmid)
    }

    /// Moves a machine, as high availability does.
    pub fn migrate(&self, vmid: u32, host: &str) {
        if let Some(vm) = self.lock().cluster.vms.get_mut(&vmid) {
            host.clone_into(&mut vm.node);
        }
    }

    /// Locks a machine as a backup does, or takes the lock off.
    pub fn set_lock(&self, vmid: u32, lock: Option<&str>) {
        if let Some(vm) = self.lock().cluster.vms.get_mut(&vmid) {
            vm.lock = lock.map(str::to_owned);
        }
    }

    /// Hands a machine to high availability.
    pub fn set_ha(&self, vmid: u32) {
        if let Some(vm) = self.lock().cluster.vms.get_mut(&vmid) {
            vm.ha = true;
        }
    }

    /// Every machine there is, whoever owns it: the truth that leak checks compare with.
    pub fn machines(&self) -> BTreeMap<u32, Vm> {
        let now = self.clock.now();
        let mut inner = self.lock();
        let inner = &mut *inner;
        inner.cluster.settle(&mut inner.options, now);
        inner.cluster.vms.clone()
    }

    /// Numbers of machines that were changed, stopped or destroyed over the wire, each time.
    pub fn touched(&self) -> Vec<u32> {
        self.lock().cluster.touched.clone()
    }

    /// Changes a setting of a machine by hand.
    pub fn set_option(&self, vmid: u32, key: &str, value: &str) {
        if let Some(vm) = self.lock().cluster.vms.get_mut(&vmid) {
            vm.config.insert(key.to_owned(), value.to_owned());
        }
    }

    /// Lets QEMU say another thing about a machine that runs than `running`, such as `io-error`.
    pub fn set_qmp(&self, vmid: u32, said: Option<&str>) {
        if let Some(vm) = self.lock().cluster.vms.get_mut(&vmid) {
            vm.qmp = said.map(str::to_owned);
        }
    }

    /// How often each refusal was answered and each task ended so, with `N` in place of numbers.
    pub fn said(&self) -> BTreeMap<String, u32> {
        self.lock().cluster.said.clone()
    }

    /// The most memory that machines of a host were ever promised together, in bytes, by host. Templates do not count.
    pub fn most_sold(&self) -> BTreeMap<String, u64> {
        self.lock().most_sold.clone()
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    /// What there is, to be written down.
    pub fn memory(&self) -> Value {
        serde_json::to_value(self.machines()).unwrap_or_default()
    }

    /// What there was, as it was written down. Machines that ran boot again.
    pub fn restore(&self, memory: &Value) -> usize {
        let vms: BTreeMap<u32, Vm> = serde_json::from_value(memory.clone()).unwrap_or_default();
        let mut inner = self.lock();
        inner.cluster.vms = vms;
        for vm in inner.cluster.vms.values_mut() {
            vm.lock = None;
            vm.node_name = None;
        }
        let count = inner.cluster.vms.len();
        drop(inner);
        self.changed.notify_one();
        count
    }

    /// Cuts all machines off the cluster: another process plays them now.
    pub fn rest(&self) {
        let names: Vec<String> = {
            let mut inner = self.lock();
            inner
                .cluster
                .vms
                .values_mut()
                .filter_map(|vm| vm.node_name.take())
                .collect()
        };
        for name in names {
            self.rack.kill(&name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
