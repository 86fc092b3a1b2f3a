//! Making machines: found, placed, created or copied, set up, started; each time as far as it will go.

use std::collections::BTreeSet;
use std::time::Duration;

use joiner_core::resources::{CPU, MEMORY};
use tokio::time::Instant;

use super::client::{Progress, Task};
use super::headroom::{self, Source};
use super::look::{Owned, Site, unsettled};
use super::mark::{self, Mark, Proven, Stage};
use super::memory::Known;
use super::refusal::{CallError, Trouble};
use super::settings::{self, Size};
use super::types::Guest;
use super::{Proxmox, catalog, parse_id};
use crate::{LaunchRequest, Machine, MachineId, MachineState, ProviderError, Uid};

/// How long a task is waited for before the machine is called pending. Machines without disks are made within seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often a task is asked about.
const EVERY: Duration = Duration::from_secs(1);
/// How many numbers are tried where others take them first.
const MOST_NUMBERS: usize = 6;
/// What QEMU says of machines that will not go on by themselves.
const STUCK: [&str; 2] = ["io-error", "internal-error"];

/// Where a machine is to be made, under which number.
struct Place {
    host: String,
    source: Option<Source>,
    mark: Mark,
    size: Size,
    /// The number was asked for before, and no answer came.
    again: bool,
}

impl Proxmox {
    pub(super) async fn make(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        let _turn = self.turns.take(&request.uid).await;
        let (site, all) = self.candidates().await?;
        if let Some((guest, _)) = all.iter().find_map(|one| one.is_of(&request.uid)) {
            let vmid = guest.vmid;
            return self.go_on(vmid, &request.uid).await;
        }
        self.refuse_unreadable(&request.uid, &all)?;
        self.memory().failed.remove(&request.uid);
        let mut taken = BTreeSet::new();
        for _ in 0..MOST_NUMBERS {
            let place = self.place(request, &taken).await?;
            let vmid = place.mark.vmid;
            let host = &place.host;
            // Remembered before it is asked for: if the answer is lost, the machine is known all the same.
            let known = Known {
                proven: Proven {
                    mark: place.mark.clone(),
                    finished: place.source.is_none(),
                },
                size: place.size,
            };
            self.memory().known.insert(vmid, known);
            match self.begin(&place).await {
                Ok(task) => {
                    self.memory().tasks.insert(vmid, task.clone());
                    return self.made(&site, &place, &task).await;
                }
                Err(error) if error.trouble() == Trouble::Exists => {
                    if place.again {
                        // Ours if the call whose answer was lost has taken effect since.
                        match self.go_on(vmid, &request.uid).await {
                            Err(ProviderError::NotFound(_) | ProviderError::Unauthorised(_)) => {}
                            other => return other,
                        }
                    }
                    self.memory().withdraw(vmid);
                    self.memory().known.remove(&vmid);
                    taken.insert(vmid);
                }
                Err(error) => {
                    if error.had_no_effect() {
                        self.memory().withdraw(vmid);
                        self.memory().known.remove(&vmid);
                    }
                    self.blame(host, &error);
                    return Err(at_host(host, error));
                }
            }
        }
        Err(ProviderError::Transient(format!(
            "others took {MOST_NUMBERS} numbers of vmIDRange first; it is tried again"
        )))
    }

    /// Chooses host and number, and keeps the room until lists show the machine.
    async fn place(
        &self,
        request: &LaunchRequest,
        taken: &BTreeSet<u32>,
    ) -> Result<Place, ProviderError> {
        let size = self.size(request);
        let _placing = self.placing.lock().await;
        let (_, mut seen) = self.observe().await?;
        let wanted = &request.purchase;
        let planned = wanted.host.as_deref();
        let full = |rooms: &[headroom::Headroom]| {
            let why: Vec<&str> = rooms
                .iter()
                .filter_map(|room| room.unfit.as_deref())
                .collect();
            let why = if why.is_empty() {
                String::new()
            } else {
                format!(" ({})", why.join("; "))
            };
            ProviderError::OutOfCapacity(format!(
                "no host in zone {} has {} cores and {} MiB left{why}",
                wanted.zone, size.cores, size.memory_mib
            ))
        };
        // Lists lag: the host that is chosen is read once more where figures do not.
        for _ in 0..seen.hosts.len().max(1) {
            let rooms = headroom::survey(&self.options, &seen)?;
            let Some(room) = headroom::choose(&rooms, size, &wanted.zone, planned) else {
                return Err(full(&rooms));
            };
            let host = room.host.clone();
            let fresh = match self.client.guests_of(&host).await {
                Ok(fresh) => fresh,
                Err(error) => {
                    self.blame(&host, &error);
                    if error.trouble() == Trouble::HostOffline {
                        seen.avoided.insert(host, error.to_string());
                        continue;
                    }
                    return Err(at_host(&host, error));
                }
            };
            seen.guests
                .retain(|guest| guest.node != host || guest.kind != "qemu");
            seen.guests.extend(fresh.into_iter().map(|mut guest| {
                guest.node.clone_from(&host);
                "qemu".clone_into(&mut guest.kind);
                guest
            }));
            let rooms = headroom::survey(&self.options, &seen)?;
            let Some(room) = rooms
                .iter()
                .find(|room| room.host == host && room.holds(size))
            else {
                continue;
            };
            let (vmid, again) = self.number(&request.uid, &seen, taken)?;
            let source = seen.copies.as_ref().and_then(|all| all.get(&host).cloned());
            self.memory().promise(vmid, &host, size, self.now());
            let mark = self.mark(request, vmid, room, size);
            return Ok(Place {
                host,
                source,
                mark,
                size,
                again,
            });
        }
        let rooms = headroom::survey(&self.options, &seen)?;
        Err(full(&rooms))
    }

    /// The number for a machine, and whether it was asked for before: if the answer to an earlier call was lost, that call
    /// may still take effect, and under another number there would be two.
    fn number(
        &self,
        uid: &Uid,
        seen: &headroom::Observed,
        taken: &BTreeSet<u32>,
    ) -> Result<(u32, bool), ProviderError> {
        let mut used: BTreeSet<u32> = seen.guests.iter().map(|guest| guest.vmid).collect();
        used.extend(taken);
        if let Some(vmid) = self.memory().number_of(uid) {
            if !used.contains(&vmid) {
                return Ok((vmid, true));
            }
            let machine =
                |guest: &Guest| guest.vmid == vmid && guest.kind == "qemu" && !guest.template;
            if !taken.contains(&vmid) && seen.guests.iter().any(machine) {
                return Err(ProviderError::Transient(format!(
                    "VM {vmid} may be this machine: it appeared a moment ago"
                )));
            }
        }
        used.extend(seen.promises.keys());
        let recent = self.memory().recent();
        let ids = self.options.ids;
        let vmid = ids.pick(uid, &used, &recent).ok_or_else(|| {
            ProviderError::Quota(format!(
                "vmIDRange: all numbers from {} to {} are in use",
                ids.first, ids.last
            ))
        })?;
        Ok((vmid, false))
    }

    fn size(&self, request: &LaunchRequest) -> Size {
        let sizes = &self.options.sizes;
        let cores = u32::try_from((request.capacity.get(CPU) + 999) / 1000).unwrap_or(1);
        let mib = (request.capacity.get(MEMORY) + (1 << 20) - 1) >> 20;
        let mib = u64::try_from(mib).unwrap_or_default();
        Size {
            cores: cores.max(sizes.min_cores.unwrap_or(1)),
            memory_mib: mib.max(sizes.min_memory_mib.unwrap_or(512)),
        }
    }

    fn mark(
        &self,
        request: &LaunchRequest,
        vmid: u32,
        room: &headroom::Headroom,
        size: Size,
    ) -> Mark {
        let owner = &self.options.owner;
        Mark {
            cluster: owner.cluster.clone(),
            family: owner.family.clone(),
            uid: request.uid.clone(),
            vmid,
            name: host_name(&request.name),
            uuid: mark::uuid(&request.uid),
            instance_type: catalog::instance_type(room.cpus),
            zone: room.zone.as_str().into(),
            cores: size.cores,
            memory_mib: size.memory_mib,
            settings: self.settings.clone(),
            created: self.now(),
            stage: Stage::Wanted,
            copying: self.options.template.is_some(),
        }
    }

    async fn begin(&self, place: &Place) -> Result<Task, CallError> {
        let options = &self.options;
        if options.template.is_none() {
            let fields = settings::create(options, &place.mark, place.size);
            return self.client.create(&place.host, &fields).await;
        }
        let source = place.source.as_ref().ok_or_else(|| CallError::Refused {
            trouble: Trouble::HostUnfit,
            text: "no template can be copied to this host".to_owned(),
        })?;
        let target = (source.host != place.host).then_some(place.host.as_str());
        let fields = settings::copy(options, &place.mark, target);
        self.client
            .clone_template(&source.host, source.vmid, &fields)
            .await
    }

    /// Waits a little for the machine to be made, and starts it.
    async fn made(
        &self,
        site: &Site,
        place: &Place,
        task: &Task,
    ) -> Result<Machine, ProviderError> {
        let vmid = place.mark.vmid;
        match self.wait(task, PATIENCE).await {
            Ok(Progress::Done) => {
                self.memory().tasks.remove(&vmid);
                self.memory().trust(&place.host);
                match self.go_on(vmid, &place.mark.uid).await {
                    // It was made a moment ago.
                    Err(ProviderError::NotFound(_)) => {}
                    other => return other,
                }
            }
            Ok(Progress::Failed(error)) => {
                // Proxmox has removed what it had made.
                self.memory().forget(vmid, self.now());
                self.blame(&place.host, &error);
                return Err(at_host(&place.host, error));
            }
            Ok(Progress::Running) | Err(_) => {}
        }
        let said = format!("VM {vmid} is being made on host {}", place.host);
        Ok(self.shown(
            &site.cluster,
            &place.mark,
            place.size,
            MachineState::Pending(said),
        ))
    }

    /// Follows a task to its end, or until patience ends.
    pub(super) async fn wait(
        &self,
        task: &Task,
        patience: Duration,
    ) -> Result<Progress, CallError> {
        let end = Instant::now() + patience;
        loop {
            match self.client.progress(task).await {
                Ok(Progress::Running) | Err(CallError::Lost(_)) if Instant::now() < end => {}
                other => return other,
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Takes a machine a step further and says how it stands.
    pub(super) async fn further(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        let (vmid, uid) = parse_id(id)?;
        let _turn = self.turns.take(&uid).await;
        self.go_on(vmid, &uid).await
    }

    async fn go_on(&self, vmid: u32, uid: &Uid) -> Result<Machine, ProviderError> {
        let task = self.memory().tasks.get(&vmid).cloned();
        let progress = match &task {
            Some(task) => Some((task, self.client.progress(task).await)),
            None => None,
        };
        if let Some((task, Ok(Progress::Failed(error)))) = &progress {
            return self.gone_wrong(vmid, uid, task, error).await;
        }
        let (site, owned, proven) = match self.read_own(vmid, uid).await {
            Err(ProviderError::NotFound(why)) => {
                let failed = self.memory().failed.get(uid).cloned();
                return failed.ok_or(ProviderError::NotFound(why));
            }
            other => other?,
        };
        let mark = &proven.mark;
        let show = |state| self.shown(&site.cluster, mark, owned.size, state);
        if mark.stage == Stage::Unwanted {
            return Ok(show(MachineState::Stopping));
        }
        let pending = |said: String| Ok(show(MachineState::Pending(said)));
        match progress {
            Some((task, Ok(Progress::Running))) => {
                return pending(format!(
                    "VM {vmid}: {} is under way on host {}",
                    task.kind(),
                    task.host()
                ));
            }
            Some((_, Ok(Progress::Done))) => drop(self.memory().tasks.remove(&vmid)),
            // How it ended cannot be asked: the machine itself tells.
            Some((_, Err(error))) if error.trouble() == Trouble::HostOffline => {
                return Err(unsettled(vmid, &owned.host, error));
            }
            _ => {}
        }
        if let Some(lock) = owned.config.text("lock") {
            return pending(format!("VM {vmid} is locked ({lock})"));
        }
        if !proven.finished {
            return self.set_up(&site, &owned, mark).await;
        }
        let current = self.client.current(&owned.host, vmid).await;
        let current = current.map_err(|error| unsettled(vmid, &owned.host, error))?;
        if current.status == "running" {
            let stuck = current
                .qmpstatus
                .filter(|said| STUCK.contains(&said.as_str()));
            self.memory().withdraw(vmid);
            return Ok(show(match stuck {
                Some(said) => {
                    MachineState::Failed(format!("VM {vmid} has stopped by itself ({said})"))
                }
                None => MachineState::Running,
            }));
        }
        let task = self.client.start(&owned.host, vmid).await;
        let task = task.map_err(|error| unsettled(vmid, &owned.host, error))?;
        self.memory().tasks.insert(vmid, task);
        pending(format!("VM {vmid} is being started on host {}", owned.host))
    }

    /// A copy of a template becomes the machine that was asked for.
    async fn set_up(
        &self,
        site: &Site,
        owned: &Owned,
        mark: &Mark,
    ) -> Result<Machine, ProviderError> {
        let vmid = mark.vmid;
        let size = owned.size;
        let refused = |error: CallError| unsettled(vmid, &owned.host, error);
        if let (Some(gib), Some(disk)) = (
            self.options.template.as_ref().and_then(|one| one.disk_gib),
            settings::boot_disk(&owned.config.0),
        ) {
            match self.client.resize(&owned.host, vmid, &disk, gib).await {
                Ok(Some(task)) => match self.wait(&task, PATIENCE).await {
                    Ok(Progress::Failed(error)) if !is_large_enough(&error) => {
                        return Err(refused(error));
                    }
                    Ok(_) => {}
                    Err(error) => return Err(refused(error)),
                },
                Ok(None) => {}
                Err(error) if is_large_enough(&error) => {}
                Err(error) => return Err(refused(error)),
            }
        }
        let mark = &Mark {
            copying: false,
            ..mark.clone()
        };
        let fields = settings::set_up(&self.options, mark, size);
        // Tag, UUID and the mark of a whole machine are written in one go.
        let configured = self.client.configure(&owned.host, vmid, &fields).await;
        configured.map_err(refused)?;
        let known = Known {
            proven: Proven {
                mark: mark.clone(),
                finished: true,
            },
            size,
        };
        self.memory().known.insert(vmid, known);
        let task = self
            .client
            .start(&owned.host, vmid)
            .await
            .map_err(refused)?;
        self.memory().tasks.insert(vmid, task);
        let said = format!("VM {vmid} is being started on host {}", owned.host);
        Ok(self.shown(&site.cluster, mark, size, MachineState::Pending(said)))
    }

    /// The last thing that was done with a machine failed.
    async fn gone_wrong(
        &self,
        vmid: u32,
        uid: &Uid,
        task: &Task,
        error: &CallError,
    ) -> Result<Machine, ProviderError> {
        self.memory().tasks.remove(&vmid);
        let known = self.memory().known.get(&vmid).cloned();
        // What passes by itself is tried again at the next look.
        let passes = matches!(
            error.trouble(),
            Trouble::Locked | Trouble::Busy | Trouble::NoQuorum | Trouble::NoTask
        );
        let site = self.site().await?;
        let known = known.filter(|known| known.proven.mark.uid == *uid);
        let Some(known) = known else {
            return Err(ProviderError::Transient(error.to_string()));
        };
        let show = |state| self.shown(&site.cluster, &known.proven.mark, known.size, state);
        let running = error.to_string().contains("already running");
        if (passes || running) && task.kind() == "qmstart" {
            return Ok(show(MachineState::Pending(error.to_string())));
        }
        self.blame(task.host(), error);
        let machine = show(MachineState::Failed(error.to_string()));
        self.memory().failed.insert(uid.clone(), machine.clone());
        Ok(machine)
    }

    /// Leaves a host alone for a while where the fault is the host's.
    fn blame(&self, host: &str, error: &CallError) {
        let hosts = matches!(
            error.trouble(),
            Trouble::StorageFull
                | Trouble::StorageMissing
                | Trouble::HostUnfit
                | Trouble::HostOffline
        );
        if hosts {
            self.memory().avoid(host, &error.to_string(), self.now());
        }
    }
}

/// Disks cannot be made smaller; a template whose disk is larger already is as good.
fn is_large_enough(error: &CallError) -> bool {
    error.to_string().contains("shrink")
}

fn at_host(host: &str, error: CallError) -> ProviderError {
    match ProviderError::from(error) {
        ProviderError::OutOfCapacity(text) => {
            ProviderError::OutOfCapacity(format!("host {host}: {text}"))
        }
        ProviderError::Invalid(text) => {
            ProviderError::Invalid(format!("host {host} refuses the machine: {text}"))
        }
        // A machine that is to be made cannot be missing: what is missing is something that it needs.
        ProviderError::NotFound(text) => ProviderError::Transient(format!("host {host}: {text}")),
        other => other,
    }
}

/// A name that Proxmox takes: letters, digits, dashes and dots.
fn host_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    clean.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_proxmox_takes() {
        assert_eq!(host_name("pool-a-000001"), "pool-a-000001");
        assert_eq!(host_name("Pool_A.x-"), "pool-a.x");
    }
}
