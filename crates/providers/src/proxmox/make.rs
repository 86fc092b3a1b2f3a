//! Making machines: found, placed, created or copied, set up, started; each time as far as it will go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::client::{Progress, Task};
use super::look::{Owned, Site, unsettled};
use super::mark::{Mark, Proven, Stage};
use super::memory::{Attempt, Known};
use super::place::Place;
use super::refusal::{CallError, Trouble};
use super::settings;
use super::{Proxmox, parse_id};
use crate::{LaunchRequest, Machine, MachineId, MachineState, ProviderError, Uid};

/// How long a task is waited for before the machine is called pending. Machines without disks are made within seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often a task is asked about.
const EVERY: Duration = Duration::from_secs(1);
/// How many numbers are tried where others take them first.
const MOST_NUMBERS: usize = 6;
/// How long a turn is waited for where other machines are being made; after that the caller is told to come back.
const QUEUES: Duration = Duration::from_secs(15);
/// What QEMU says of machines that will not go on by themselves.
const STUCK: [&str; 2] = ["io-error", "internal-error"];

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
            if let Err(error) = self.take_turn(&place).await {
                // A number that was asked for before may still become a machine.
                if !place.again {
                    self.memory().drop_attempt(vmid);
                }
                return Err(error);
            }
            match self.begin(&place).await {
                Ok(task) => {
                    self.begun(&place, &task);
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
                    self.memory().drop_attempt(vmid);
                    taken.insert(vmid);
                }
                Err(error) => {
                    // An earlier call for this number may still take effect: under another one there would be two.
                    if error.had_no_effect() && !place.again {
                        self.memory().drop_attempt(vmid);
                    }
                    self.memory().shared.leave(vmid);
                    self.blame(host, &error);
                    return Err(at_host(host, error));
                }
            }
        }
        Err(ProviderError::Transient(format!(
            "others took {MOST_NUMBERS} numbers of vmIDRange first; it is tried again"
        )))
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

    /// Waits until not too much is being made at the host and its storages.
    async fn take_turn(&self, place: &Place) -> Result<(), ProviderError> {
        let shared = Arc::clone(&self.memory().shared);
        let end = Instant::now() + QUEUES;
        loop {
            let Err(occupied) = shared.enter(place.mark.vmid, &place.location, self.now()) else {
                return Ok(());
            };
            // The classes that make the others may not have asked yet how that ended.
            let mut freed = false;
            for (vmid, task) in &occupied.by {
                let Some(task) = task else { continue };
                if let Ok(Progress::Done | Progress::Failed(_)) = self.client.progress(task).await {
                    shared.leave(*vmid);
                    freed = true;
                }
            }
            if freed {
                continue;
            }
            if Instant::now() >= end {
                return Err(ProviderError::Transient(format!(
                    "{} machines are being made on {} already: this one has its turn after them",
                    occupied.by.len(),
                    occupied.place
                )));
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Remembers what a task is for.
    fn begun(&self, place: &Place, task: &Task) {
        let vmid = place.mark.vmid;
        let mut memory = self.memory();
        memory.tasks.insert(vmid, task.clone());
        memory.shared.begun(vmid, task);
        let times = memory.attempts.get(&vmid).map_or(0, |one| one.times);
        let attempt = Attempt {
            place: place.clone(),
            times,
            again: None,
        };
        memory.attempts.insert(vmid, attempt);
    }

    /// Makes a machine again, under the same number, that something which passes has kept from being made.
    async fn make_again(
        &self,
        vmid: u32,
        uid: &Uid,
        attempt: &Attempt,
    ) -> Result<Option<Machine>, ProviderError> {
        let Some((at, why)) = &attempt.again else {
            return Ok(None);
        };
        let place = &attempt.place;
        match self.read_own(vmid, uid).await {
            // It is there: the call whose answer was lost has taken effect.
            Ok(_) => {
                self.memory().made(vmid);
                return Ok(None);
            }
            Err(ProviderError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let site = self.site().await?;
        let show = |state| self.shown(&site.cluster, &place.mark, place.size, state);
        let waits = |why: &str| Ok(Some(show(MachineState::Pending(why.to_owned()))));
        self.memory().shared.confirm(vmid, self.now());
        if self.now() < *at {
            return waits(&format!("VM {vmid} is made again soon: {why}"));
        }
        if let Err(error) = self.take_turn(place).await {
            return waits(&error.to_string());
        }
        match self.begin(place).await {
            Ok(task) => {
                self.begun(place, &task);
                waits(&format!("VM {vmid} is being made on host {}", place.host))
            }
            Err(error) if !error.had_no_effect() || passes(&error) => {
                self.memory().postpone(vmid, error.to_string(), self.now());
                waits(&error.to_string())
            }
            // Ours, if the call whose answer was lost has taken effect since.
            Err(error)
                if error.trouble() == Trouble::Exists && self.read_own(vmid, uid).await.is_ok() =>
            {
                self.memory().made(vmid);
                Ok(None)
            }
            Err(error) => {
                // Another has the number by now, or a person must act: another machine may have more luck.
                self.blame(&place.host, &error);
                let machine = show(MachineState::Failed(error.to_string()));
                let mut memory = self.memory();
                memory.drop_attempt(vmid);
                memory.failed.insert(uid.clone(), machine.clone());
                Ok(Some(machine))
            }
        }
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
                {
                    let mut memory = self.memory();
                    memory.tasks.remove(&vmid);
                    memory.made(vmid);
                    memory.trust(&place.host);
                }
                match self.go_on(vmid, &place.mark.uid).await {
                    // It was made a moment ago.
                    Err(ProviderError::NotFound(_)) => {}
                    other => return other,
                }
            }
            Ok(Progress::Failed(error)) => {
                self.memory().tasks.remove(&vmid);
                // Proxmox has removed what it had made.
                if !passes(&error) || !self.memory().postpone(vmid, error.to_string(), self.now()) {
                    self.memory().forget(vmid, self.now());
                    self.blame(&place.host, &error);
                    return Err(at_host(&place.host, error));
                }
                let state = MachineState::Pending(error.to_string());
                return Ok(self.shown(&site.cluster, &place.mark, place.size, state));
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
        let attempt = self.memory().attempts.get(&vmid).cloned();
        if let Some(attempt) = attempt
            && let Some(machine) = self.make_again(vmid, uid, &attempt).await?
        {
            return Ok(machine);
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
        // Until it runs, lists may show less of it than it was promised.
        self.memory().shared.confirm(vmid, self.now());
        let pending = |said: String| Ok(show(MachineState::Pending(said)));
        match progress {
            Some((task, Ok(Progress::Running))) => {
                return pending(format!(
                    "VM {vmid}: {} is under way on host {}",
                    task.kind(),
                    task.host()
                ));
            }
            Some((_, Ok(Progress::Done))) => {
                let mut memory = self.memory();
                memory.tasks.remove(&vmid);
                memory.made(vmid);
            }
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
        match self.client.start(&owned.host, vmid).await {
            Ok(task) => {
                self.memory().tasks.insert(vmid, task);
                pending(format!("VM {vmid} is being started on host {}", owned.host))
            }
            Err(error) => self.refused(&site, &owned, mark, error),
        }
    }

    /// A step that was refused. What is the fault of the host ends the machine, so that another host has its turn.
    fn refused(
        &self,
        site: &Site,
        owned: &Owned,
        mark: &Mark,
        error: CallError,
    ) -> Result<Machine, ProviderError> {
        let lacks = matches!(
            error.trouble(),
            Trouble::StorageFull | Trouble::StorageMissing | Trouble::HostUnfit
        );
        if !lacks {
            return Err(unsettled(mark.vmid, &owned.host, error));
        }
        self.blame(&owned.host, &error);
        let state = MachineState::Failed(error.to_string());
        Ok(self.shown(&site.cluster, mark, owned.size, state))
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
        let refused = |error: CallError| self.refused(site, owned, mark, error);
        if let (Some(gib), Some(disk)) = (
            self.options.template.as_ref().and_then(|one| one.disk_gib),
            settings::boot_disk(&owned.config.0),
        ) {
            match self.client.resize(&owned.host, vmid, &disk, gib).await {
                Ok(Some(task)) => match self.wait(&task, PATIENCE).await {
                    Ok(Progress::Failed(error)) if !is_large_enough(&error) => {
                        return refused(error);
                    }
                    Ok(_) => {}
                    Err(error) => return refused(error),
                },
                Ok(None) => {}
                Err(error) if is_large_enough(&error) => {}
                Err(error) => return refused(error),
            }
        }
        let finished = Mark {
            copying: false,
            ..mark.clone()
        };
        let fields = settings::set_up(&self.options, &finished, size);
        // Tag, UUID and the mark of a whole machine are written in one go.
        if let Err(error) = self.client.configure(&owned.host, vmid, &fields).await {
            return refused(error);
        }
        let known = Known {
            proven: Proven {
                mark: finished.clone(),
                finished: true,
            },
            size,
        };
        self.memory().known.insert(vmid, known);
        let task = match self.client.start(&owned.host, vmid).await {
            Ok(task) => task,
            Err(error) => return refused(error),
        };
        self.memory().tasks.insert(vmid, task);
        let said = format!("VM {vmid} is being started on host {}", owned.host);
        Ok(self.shown(&site.cluster, &finished, size, MachineState::Pending(said)))
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
        let site = self.site().await?;
        let known = known.filter(|known| known.proven.mark.uid == *uid);
        let Some(known) = known else {
            return Err(ProviderError::Transient(error.to_string()));
        };
        let show = |state| self.shown(&site.cluster, &known.proven.mark, known.size, state);
        let running = error.to_string().contains("already running");
        // What passes by itself is tried again at the next look.
        if (passes(error) || running) && task.kind() == "qmstart" {
            return Ok(show(MachineState::Pending(error.to_string())));
        }
        // Proxmox has removed what it had made: it is made again after a while, under the same number.
        let makes = matches!(task.kind(), "qmcreate" | "qmclone");
        if makes && passes(error) && self.memory().postpone(vmid, error.to_string(), self.now()) {
            return Ok(show(MachineState::Pending(error.to_string())));
        }
        self.memory().made(vmid);
        self.blame(task.host(), error);
        let machine = show(MachineState::Failed(error.to_string()));
        self.memory().failed.insert(uid.clone(), machine.clone());
        Ok(machine)
    }

    /// Leaves a host alone for a while where the fault is the host's.
    pub(super) fn blame(&self, host: &str, error: &CallError) {
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

/// Whether the same call may succeed in a while: something else was being done, or too much at once.
fn passes(error: &CallError) -> bool {
    matches!(
        error.trouble(),
        Trouble::Locked | Trouble::Busy | Trouble::NoQuorum | Trouble::NoTask
    )
}

/// Disks cannot be made smaller; a template whose disk is larger already is as good.
fn is_large_enough(error: &CallError) -> bool {
    error.to_string().contains("shrink")
}

pub(super) fn at_host(host: &str, error: CallError) -> ProviderError {
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
