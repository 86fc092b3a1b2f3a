//! Choosing for a machine: its host, its number, its size, and what is written on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use joiner_core::resources::{CPU, MEMORY};

use super::headroom::{self, Source};
use super::look::Site;
use super::make::at_host;
use super::mark::{self, Mark, Stage};
use super::refusal::Trouble;
use super::settings::{self, Size};
use super::shared::Location;
use super::types::Guest;
use super::{Proxmox, catalog};
use crate::{LaunchRequest, ProviderError, Uid};

/// Where a machine is to be made, under which number.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) source: Option<Source>,
    /// Where its disks are made.
    pub(super) location: Location,
    pub(super) mark: Mark,
    pub(super) size: Size,
    /// The number was asked for before, and no answer came.
    pub(super) again: bool,
}

impl Proxmox {
    /// Chooses host and number, and keeps the room until lists show the machine.
    pub(super) async fn place(
        &self,
        request: &LaunchRequest,
        taken: &BTreeSet<u32>,
    ) -> Result<Place, ProviderError> {
        let size = self.size(request);
        // Known once the cluster has said its name, which it has: machines were listed.
        let shared = Arc::clone(&self.memory().shared);
        let _placing = shared.placing.lock().await;
        let (site, mut seen) = self.observe().await?;
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
            let location = self.location(&site, &seen, &host, source.as_ref());
            return Ok(Place {
                host,
                source,
                location,
                mark,
                size,
                again,
            });
        }
        let rooms = headroom::survey(&self.options, &seen)?;
        Err(full(&rooms))
    }

    /// Host and storages that the making of a machine keeps busy.
    fn location(
        &self,
        site: &Site,
        seen: &headroom::Observed,
        host: &str,
        source: Option<&Source>,
    ) -> Location {
        let disks = settings::disks(&self.options).into_iter();
        let mut names: BTreeSet<String> = disks.map(|disk| disk.storage).collect();
        // A copy without a storage of its own stands where its template does.
        let apart = self
            .options
            .template
            .as_ref()
            .is_some_and(|one| one.storage.is_some());
        if let Some(source) = source.filter(|_| !apart) {
            names.extend(site.storages_of_template(source.vmid));
        }
        let shared = |name: &String| {
            let mut rows = seen.storages.iter();
            rows.any(|row| row.storage == *name && row.shared)
        };
        let storages = names.into_iter().map(|name| {
            let shared = shared(&name);
            (name, shared)
        });
        Location {
            host: host.to_owned(),
            storages: storages.collect(),
        }
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
