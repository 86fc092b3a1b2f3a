//! Removing machines: never one that is not proven to be ours, at the moment that it is stopped and again when it is
//! destroyed.

use std::time::Duration;

use tokio::time::Instant;

use super::client::{Fields, Progress};
use super::look::{Owned, unsettled};
use super::mark::{Mark, Stage};
use super::refusal::{CallError, Trouble};
use super::{Proxmox, parse_id};
use crate::{MachineId, ProviderError, Uid};

/// How long a machine may take to be off once its plug is pulled.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_secs(1);

impl Proxmox {
    pub(super) async fn remove(&self, id: &MachineId) -> Result<(), ProviderError> {
        let (vmid, uid) = parse_id(id)?;
        let _turn = self.turns.take(&uid).await;
        let (_, owned, proven) = match self.read_own(vmid, &uid).await {
            Err(error @ ProviderError::NotFound(_)) => {
                let now = self.now();
                let mut memory = self.memory();
                memory.forget(vmid, now);
                memory.failed.remove(&uid);
                return Err(error);
            }
            other => other?,
        };
        if self.settle(vmid).await {
            return Ok(());
        }
        if let Some(lock) = owned.config.text("lock") {
            return Err(ProviderError::Transient(format!(
                "VM {vmid} is locked ({lock}): it is removed when that is over"
            )));
        }
        self.disown(&owned, &proven.mark).await?;
        self.switch_off(&owned, vmid).await?;
        self.destroy(vmid, &uid).await
    }

    /// Waits a little for what was begun with the machine; `true` if it is being destroyed already.
    async fn settle(&self, vmid: u32) -> bool {
        let task = self.memory().tasks.get(&vmid).cloned();
        let Some(task) = task else { return false };
        let destroys = task.kind() == "qmdestroy";
        let patience = if destroys {
            Duration::ZERO
        } else {
            STOPS_WITHIN
        };
        let running = matches!(self.wait(&task, patience).await, Ok(Progress::Running));
        if !running {
            self.memory().tasks.remove(&vmid);
        }
        running && destroys
    }

    /// Writes down that the machine is to go, so that nobody starts it again, not even after a crash.
    async fn disown(&self, owned: &Owned, mark: &Mark) -> Result<(), ProviderError> {
        if mark.stage == Stage::Unwanted {
            return Ok(());
        }
        let mark = Mark {
            stage: Stage::Unwanted,
            ..mark.clone()
        };
        let fields = Fields::from([("description".to_owned(), mark.description())]);
        let written = self.client.configure(&owned.host, mark.vmid, &fields).await;
        match written {
            // If the answer was lost, either it is written, or a crash before the end starts the machine once more.
            Ok(()) | Err(CallError::Lost(_)) => {}
            Err(error) => return Err(unsettled(mark.vmid, &owned.host, error)),
        }
        if let Some(known) = self.memory().known.get_mut(&mark.vmid) {
            known.proven.mark.stage = Stage::Unwanted;
        }
        Ok(())
    }

    /// Pulls the plug and waits until the machine is off: destroyed too early, it would stay for ever.
    async fn switch_off(&self, owned: &Owned, vmid: u32) -> Result<(), ProviderError> {
        let host = &owned.host;
        let refused = |error: CallError| unsettled(vmid, host, error);
        if self
            .client
            .current(host, vmid)
            .await
            .map_err(refused)?
            .status
            == "stopped"
        {
            return Ok(());
        }
        let end = Instant::now() + STOPS_WITHIN;
        match self.client.stop(host, vmid).await {
            Ok(task) => {
                if let Progress::Failed(error) =
                    self.wait(&task, STOPS_WITHIN).await.map_err(refused)?
                {
                    return Err(refused(error));
                }
            }
            // It may be stopping all the same.
            Err(CallError::Lost(_)) => {}
            Err(error) => return Err(refused(error)),
        }
        // Where high availability looks after the machine, the task ends before the machine is off.
        loop {
            match self.client.current(host, vmid).await {
                Ok(current) if current.status == "stopped" => return Ok(()),
                Ok(_) | Err(CallError::Lost(_)) if Instant::now() < end => {}
                Ok(_) => {
                    return Err(ProviderError::Transient(format!(
                        "VM {vmid} is still running on host {host}; it is stopped again"
                    )));
                }
                Err(error) => return Err(refused(error)),
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn destroy(&self, vmid: u32, uid: &Uid) -> Result<(), ProviderError> {
        // Some time has passed: what has this number now may be another machine.
        let (_, owned, _) = match self.read_own(vmid, uid).await {
            Err(ProviderError::NotFound(_)) => return Ok(()),
            other => other?,
        };
        match self.client.destroy(&owned.host, vmid).await {
            Ok(task) => {
                let mut memory = self.memory();
                memory.tasks.insert(vmid, task);
                memory.withdraw(vmid);
                Ok(())
            }
            Err(error) if error.trouble() == Trouble::Missing => Ok(()),
            Err(error) if error.trouble() == Trouble::Protected => {
                Err(ProviderError::Transient(format!(
                    "VM {vmid} is protected: take its protection flag off, and it is removed ({error})"
                )))
            }
            Err(error) => Err(unsettled(vmid, &owned.host, error)),
        }
    }
}
