//! Work that takes time, and what it does when it ends.

use jiff::Timestamp;

use super::ProxmoxCloudOptions;
use super::cluster::Cluster;

/// What a task does when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Created,
    Cloned,
    Started,
    Stopped,
    /// A request to high availability: the machine stops some seconds after the task ends.
    StopAsked,
    Destroyed,
    Nothing,
}

/// A task.
#[derive(Clone, Debug)]
pub(super) struct TaskSim {
    pub(super) kind: String,
    pub(super) vmid: u32,
    pub(super) node: String,
    pub(super) due: Timestamp,
    pub(super) effect: Effect,
    /// How it is bound to end, if in vain.
    pub(super) fails: Option<String>,
    /// How it ended.
    pub(super) end: Option<String>,
}

impl Cluster {
    /// Begins a task and names it.
    pub(super) fn begin(&mut self, task: TaskSim, user: &str, now: Timestamp) -> String {
        self.counter += 1;
        // The id in the name of a copy is that of its template; here the copy's serves as well.
        let upid = format!(
            "UPID:{}:{:08X}:{:08X}:{:08X}:{}:{}:{user}:",
            task.node,
            self.counter,
            self.counter * 7,
            now.as_second(),
            task.kind,
            task.vmid
        );
        self.tasks.insert(upid.clone(), task);
        upid
    }

    /// Whether something is under way with a machine.
    pub(super) fn at_work(&self, vmid: u32) -> bool {
        self.tasks
            .values()
            .any(|task| task.vmid == vmid && task.end.is_none())
    }

    pub(super) fn apply(
        &mut self,
        task: &TaskSim,
        options: &mut ProxmoxCloudOptions,
        now: Timestamp,
    ) -> Result<(), String> {
        let vmid = task.vmid;
        match task.effect {
            Effect::Nothing => Ok(()),
            Effect::Created | Effect::Cloned => {
                let Some(vm) = self.vms.get_mut(&vmid) else {
                    return Err("unexpected status".to_owned());
                };
                vm.lock = None;
                let vm = vm.clone();
                let allocated = Cluster::allocate(&vm, options);
                if allocated.is_err() {
                    self.vms.remove(&vmid);
                }
                allocated
            }
            Effect::Started => {
                if let Some(why) = self.refuses_start(vmid, options) {
                    return Err(why);
                }
                let boots = now.checked_add(options.boots_within).unwrap_or(now);
                if let Some(vm) = self.vms.get_mut(&vmid) {
                    vm.changed = Some((now, false));
                    vm.running = true;
                    vm.boots = vm.boots().then_some(boots);
                }
                Ok(())
            }
            Effect::Stopped => {
                if let Some(lock) = self.vms.get(&vmid).and_then(|vm| vm.lock.clone()) {
                    return Err(format!("VM is locked ({lock})"));
                }
                self.switch_off(vmid, now);
                Ok(())
            }
            Effect::StopAsked => {
                let later = TaskSim {
                    kind: "qmstop".to_owned(),
                    effect: Effect::Stopped,
                    fails: None,
                    due: now.checked_add(options.starts_within).unwrap_or(now),
                    end: None,
                    ..task.clone()
                };
                self.begin(later, "root@pam", now);
                Ok(())
            }
            Effect::Destroyed => {
                let Some(vm) = self.vms.get(&vmid) else {
                    return Ok(());
                };
                if let Some(lock) = vm.lock.as_deref().filter(|lock| *lock != "destroyed") {
                    return Err(format!("VM is locked ({lock})"));
                }
                if let Some(vm) = self.vms.remove(&vmid) {
                    Cluster::free(&vm, options);
                }
                Ok(())
            }
        }
    }
}
