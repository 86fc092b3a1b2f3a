//! Hosts, storages and machines, and what time does to them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use joiner_embedded::cluster::kubelet::NodeSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ProxmoxCloudOptions;
use super::params::{boots_from, drives, number};
use super::tasks::{Effect, TaskSim};

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSim {
    /// Threads.
    pub cpus: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// Whether it answers.
    pub online: bool,
    /// Its bridges.
    pub bridges: Vec<String>,
}

/// A storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageSim {
    /// Whether all hosts see the same.
    pub shared: bool,
    /// Size in bytes, on each host if it is not shared.
    pub bytes: u64,
    /// Bytes in use by host; under an empty name if it is shared.
    pub used: BTreeMap<String, u64>,
}

impl StorageSim {
    fn slot(&self, host: &str) -> String {
        if self.shared {
            String::new()
        } else {
            host.to_owned()
        }
    }

    pub(super) fn used_on(&self, host: &str) -> u64 {
        self.used.get(&self.slot(host)).copied().unwrap_or_default()
    }
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// Where it is.
    pub node: String,
    /// Its settings.
    pub config: BTreeMap<String, String>,
    /// Whether it runs.
    pub running: bool,
    /// When that last changed, and what it was before, if so: lists are behind.
    pub changed: Option<(Timestamp, bool)>,
    /// When it was made over the wire; planted ones were always there.
    pub made: Option<Timestamp>,
    /// What is being done with it.
    pub lock: Option<String>,
    /// Whether high availability looks after it.
    pub ha: bool,
    /// When it is to become a node.
    pub boots: Option<Timestamp>,
    /// The node that it became.
    pub node_name: Option<String>,
    /// What QEMU says of it instead of `running`.
    #[serde(default)]
    pub qmp: Option<String>,
}

impl Vm {
    pub(super) fn made(host: &str, config: BTreeMap<String, String>, running: bool) -> Self {
        Vm {
            node: host.to_owned(),
            config,
            running,
            changed: None,
            made: None,
            lock: None,
            ha: false,
            boots: None,
            node_name: None,
            qmp: None,
        }
    }

    pub(super) fn is_template(&self) -> bool {
        self.config.get("template").is_some_and(|text| text == "1")
    }

    pub(super) fn cores(&self) -> u64 {
        number(&self.config, "cores", 1) * number(&self.config, "sockets", 1)
    }

    pub(super) fn memory(&self) -> u64 {
        number(&self.config, "memory", 512) << 20
    }

    /// Whether there is anything to boot from. One that has nothing runs all the same, and never becomes a node.
    pub(super) fn boots(&self) -> bool {
        boots_from(&self.config)
    }

    /// A line of a list. One of the whole cluster is behind by `lag`; settings are not.
    pub(super) fn row(&self, vmid: u32, now: Timestamp, lag: Option<Duration>) -> Value {
        let recent =
            |at: Timestamp| lag.is_some_and(|lag| now.duration_since(at).unsigned_abs() < lag);
        let unseen = self.made.is_some_and(recent);
        let running = match self.changed {
            Some((at, before)) if recent(at) => before,
            _ => self.running,
        };
        let status = match (unseen, running) {
            (true, _) => "unknown",
            (_, true) => "running",
            _ => "stopped",
        };
        let mut row =
            json!({"vmid": vmid, "status": status, "template": u8::from(self.is_template())});
        if lag.is_some() {
            row["id"] = json!(format!("qemu/{vmid}"));
            row["type"] = json!("qemu");
            row["node"] = json!(self.node);
        }
        if !unseen {
            row["name"] = json!(self.config.get("name"));
            let cpus = if lag.is_some() { "maxcpu" } else { "cpus" };
            row[cpus] = json!(self.cores());
            row["maxmem"] = json!(self.memory());
            row["mem"] = json!(if running { self.memory() / 4 } else { 0 });
        }
        let claimed = self.lock.as_deref() == Some("create");
        if let Some(tags) = self.config.get("tags").filter(|_| !claimed) {
            row["tags"] = json!(tags);
        }
        if let Some(lock) = &self.lock {
            row["lock"] = json!(lock);
        }
        row
    }
}

/// What the rack is told.
pub(super) enum Order {
    Boot(Box<NodeSpec>),
    Kill(String),
}

pub(super) struct Cluster {
    pub(super) vms: BTreeMap<u32, Vm>,
    pub(super) tasks: BTreeMap<String, TaskSim>,
    /// Tasks of a kind that end with an error, so many times.
    pub(super) task_faults: Vec<(String, String, u32)>,
    pub(super) quorum: bool,
    pub(super) touched: Vec<u32>,
    pub(super) orders: Vec<Order>,
    pub(super) counter: u32,
    /// How often each thing that went wrong was said.
    pub(super) said: BTreeMap<String, u32>,
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster {
            vms: BTreeMap::new(),
            tasks: BTreeMap::new(),
            task_faults: Vec::new(),
            quorum: true,
            touched: Vec::new(),
            orders: Vec::new(),
            counter: 0,
            said: BTreeMap::new(),
        }
    }
}

impl Cluster {
    /// Lets happen what is due.
    pub(super) fn settle(&mut self, options: &mut ProxmoxCloudOptions, now: Timestamp) {
        let due: Vec<String> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.end.is_none() && task.due <= now)
            .map(|(upid, _)| upid.clone())
            .collect();
        // The index of tasks does not go back for ever.
        let kept = now
            .checked_sub(Duration::from_hours(1))
            .unwrap_or(Timestamp::MIN);
        self.tasks
            .retain(|_, task| task.end.is_none() || task.due >= kept);
        for upid in due {
            let Some(task) = self.tasks.get(&upid).cloned() else {
                continue;
            };
            let fault = task.fails.clone();
            let fault = fault.or_else(|| self.take_task_fault(&task.kind));
            let end = match fault {
                Some(error) => {
                    self.undo(&task, options);
                    Err(error)
                }
                None => self.apply(&task, options, now),
            };
            if let Err(error) = &end {
                self.say(&task.kind, error);
            }
            if let Some(task) = self.tasks.get_mut(&upid) {
                task.end = Some(end.err().unwrap_or_else(|| "OK".to_owned()));
            }
        }
        let booting: Vec<u32> = self
            .vms
            .iter()
            .filter(|(_, vm)| {
                vm.running && vm.node_name.is_none() && vm.boots.is_some_and(|at| at <= now)
            })
            .map(|(vmid, _)| *vmid)
            .collect();
        for vmid in booting {
            self.boot(vmid, options);
        }
    }

    /// Counts a thing that went wrong, whichever machine and host it was about.
    pub(super) fn say(&mut self, what: &str, text: &str) {
        let mut said = format!("{what}: ");
        for part in text.chars() {
            match part {
                '0'..='9' if said.ends_with('N') => {}
                '0'..='9' => said.push('N'),
                other => said.push(other),
            }
        }
        *self.said.entry(said).or_default() += 1;
    }

    /// Memory that machines are promised, by host: those that run, and those that are there to be started.
    pub(super) fn sold(&self) -> BTreeMap<String, u64> {
        let mut sold = BTreeMap::new();
        let was_stopped = |vm: &Vm| !vm.running && vm.changed.is_some_and(|(_, before)| before);
        let all = self.vms.values();
        for vm in all.filter(|vm| !vm.is_template() && !was_stopped(vm)) {
            *sold.entry(vm.node.clone()).or_default() += vm.memory();
        }
        sold
    }

    /// How many machines are being made on one of these storages.
    pub(super) fn made_at_once(&self, host: &str, config: &BTreeMap<String, String>) -> usize {
        let storages: Vec<String> = drives(config).into_iter().map(|(name, _)| name).collect();
        let makes = |task: &&TaskSim| {
            let vm = self.vms.get(&task.vmid);
            task.end.is_none()
                && task.node == host
                && matches!(task.effect, Effect::Created | Effect::Cloned)
                && vm.is_some_and(|vm| {
                    let own = drives(&vm.config);
                    own.iter().any(|(name, _)| storages.contains(name))
                })
        };
        self.tasks.values().filter(makes).count()
    }

    /// When something happens next.
    pub(super) fn next(&self, _: &ProxmoxCloudOptions, now: Timestamp) -> Option<Timestamp> {
        let tasks = self
            .tasks
            .values()
            .filter(|task| task.end.is_none())
            .map(|task| task.due);
        let boots = self
            .vms
            .values()
            .filter(|vm| vm.running && vm.node_name.is_none());
        let boots = boots.filter_map(|vm| vm.boots);
        tasks.chain(boots).filter(|at| *at >= now).min()
    }

    fn take_task_fault(&mut self, kind: &str) -> Option<String> {
        let fault = self
            .task_faults
            .iter_mut()
            .find(|(text, _, times)| text == kind && *times > 0)?;
        fault.2 -= 1;
        Some(fault.1.clone())
    }

    fn boot(&mut self, vmid: u32, options: &ProxmoxCloudOptions) {
        let Some(vm) = self.vms.get_mut(&vmid) else {
            return;
        };
        let name = vm
            .config
            .get("name")
            .cloned()
            .unwrap_or_else(|| format!("vm{vmid}"));
        let uuid = vm
            .config
            .get("smbios1")
            .and_then(|text| text.split(',').find_map(|part| part.strip_prefix("uuid=")))
            .map(str::to_owned);
        let mut spec = NodeSpec::named(name.clone())
            .with("cpu", &vm.cores().to_string())
            .with("memory", &vm.memory().to_string());
        let left = vm.memory().saturating_sub(options.kept_mib << 20);
        spec.allocatable
            .insert("memory".to_owned(), left.to_string());
        spec.system_uuid = uuid;
        vm.node_name = Some(name);
        self.orders.push(Order::Boot(Box::new(spec)));
    }

    /// Ends the kubelet on a machine.
    pub(super) fn switch_off(&mut self, vmid: u32, now: Timestamp) {
        if let Some(vm) = self.vms.get_mut(&vmid) {
            if vm.running {
                vm.changed = Some((now, true));
            }
            vm.running = false;
            vm.boots = None;
            if let Some(name) = vm.node_name.take() {
                self.orders.push(Order::Kill(name));
            }
        }
    }

    /// Room that a machine takes of storages; an error says which has none.
    pub(super) fn allocate(vm: &Vm, options: &mut ProxmoxCloudOptions) -> Result<(), String> {
        for (name, bytes) in drives(&vm.config) {
            let storage = options
                .storages
                .get_mut(&name)
                .ok_or_else(|| format!("storage '{name}' does not exist"))?;
            let slot = storage.slot(&vm.node);
            let used = storage.used.entry(slot).or_default();
            if *used + bytes > storage.bytes {
                return Err(format!(
                    "zfs error: cannot create '{name}/vm-disk-0': out of space"
                ));
            }
            *used += bytes;
        }
        Ok(())
    }

    pub(super) fn free(vm: &Vm, options: &mut ProxmoxCloudOptions) {
        for (name, bytes) in drives(&vm.config) {
            if let Some(storage) = options.storages.get_mut(&name) {
                let slot = storage.slot(&vm.node);
                let used = storage.used.entry(slot).or_default();
                *used = used.saturating_sub(bytes);
            }
        }
    }

    /// Why a machine cannot start on its host.
    pub(super) fn refuses_start(&self, vmid: u32, options: &ProxmoxCloudOptions) -> Option<String> {
        let vm = self.vms.get(&vmid)?;
        let host = options.hosts.get(&vm.node)?;
        if vm.running {
            return Some(format!("VM {vmid} already running"));
        }
        if vm.is_template() {
            return Some("you can't start a vm if it's a template".to_owned());
        }
        if let Some(lock) = &vm.lock {
            return Some(format!("VM is locked ({lock})"));
        }
        if vm.cores() > host.cpus {
            return Some(format!(
                "MAX {} vcpus allowed per VM on this node",
                host.cpus
            ));
        }
        let lacking = vm
            .config
            .iter()
            .filter(|(key, _)| key.starts_with("net"))
            .find_map(|(_, value)| {
                let bridge = value
                    .split(',')
                    .find_map(|part| part.strip_prefix("bridge="))?;
                (!host.bridges.iter().any(|one| one == bridge)).then(|| bridge.to_owned())
            });
        if let Some(bridge) = lacking {
            return Some(format!("bridge '{bridge}' does not exist"));
        }
        let used: u64 = self
            .vms
            .values()
            .filter(|one| one.node == vm.node && one.running)
            .map(Vm::memory)
            .sum();
        (used + vm.memory() > host.memory)
            .then(|| "start failed: QEMU exited with code 1".to_owned())
    }

    fn undo(&mut self, task: &TaskSim, options: &mut ProxmoxCloudOptions) {
        match task.effect {
            Effect::Created | Effect::Cloned => {
                if let Some(vm) = self.vms.remove(&task.vmid)
                    && matches!(task.effect, Effect::Cloned)
                {
                    Cluster::free(&vm, options);
                }
            }
            _ => {}
        }
    }
}
