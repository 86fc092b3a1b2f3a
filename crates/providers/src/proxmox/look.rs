//! Looking: which cluster, which hosts, which machines are ours.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::problem::Catalog;
use serde_json::Value;

use super::client::is_name;
use super::headroom::{self, Headroom, Observed, Source};
use super::mark::{Proven, Stage, prove};
use super::memory::Known;
use super::refusal::{CallError, Trouble};
use super::settings::Size;
use super::types::{Config, Guest, StorageRow, as_number, has_tag};
use super::{Proxmox, catalog, machine_id};
use crate::{Machine, MachineState, ProviderError, Uid};

/// How long what seldom changes is used: privileges, bridges, disks of templates.
const SLOW: Duration = Duration::from_mins(1);
/// How many of the numbers that a machine would get first may not be unreadable before it is made again.
const FIRST: usize = 4;
/// What a token needs for machines.
const PRIVILEGES: [&str; 9] = [
    "VM.Audit",
    "VM.Allocate",
    "VM.PowerMgmt",
    "VM.Config.Disk",
    "VM.Config.CPU",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.Config.HWType",
];

/// What seldom changes.
#[derive(Clone, Default)]
pub(super) struct Site {
    /// Name of the cluster; that of its host if it has but one.
    pub(super) cluster: String,
    /// Whether the token sees every machine.
    sees_all: bool,
    bridges: BTreeMap<String, Vec<String>>,
    /// Storages of the disks of templates, by number.
    templates: BTreeMap<u32, BTreeSet<String>>,
    lacking: Vec<&'static str>,
    read: Option<Timestamp>,
}

impl Site {
    /// Storages of the disks of a template.
    pub(super) fn storages_of_template(&self, vmid: u32) -> BTreeSet<String> {
        self.templates.get(&vmid).cloned().unwrap_or_default()
    }
}

/// A machine that may be ours.
pub(super) struct Candidate {
    pub(super) guest: Guest,
    /// What was read of it; nothing if its host does not answer.
    pub(super) known: Option<Known>,
}

impl Proxmox {
    /// Which cluster this is. An error while it has no quorum: what it then says may be old, and nothing can be changed.
    pub(super) async fn site(&self) -> Result<Site, ProviderError> {
        let mut slot = self.site.lock().await;
        let now = self.now();
        let members = match self.client.members().await {
            Ok(members) => members,
            Err(error) => {
                // Whatever answers, is it Proxmox at all?
                if slot.is_none() && !matches!(error.trouble(), Trouble::Token | Trouble::Privilege)
                {
                    self.client.version().await?;
                }
                return Err(error.into());
            }
        };
        let cluster = members.iter().find(|one| one.kind == "cluster");
        if cluster.is_some_and(|one| !one.quorate) {
            return Err(ProviderError::Transient(
                "the Proxmox cluster has no quorum: nothing is made or removed until it has"
                    .to_owned(),
            ));
        }
        let name = cluster
            .or_else(|| members.iter().find(|one| one.kind == "node"))
            .map(|one| one.name.clone())
            .filter(|name| is_name(name))
            .unwrap_or_else(|| "proxmox".to_owned());
        self.memory().shared = self.clusters.of(&name);
        let fresh = slot.as_ref().is_some_and(|site| {
            site.cluster == name
                && site
                    .read
                    .is_some_and(|at| now.duration_since(at).unsigned_abs() < SLOW)
        });
        if !fresh {
            let mut site = Site {
                cluster: name,
                read: Some(now),
                ..Site::default()
            };
            self.read_privileges(&mut site).await?;
            *slot = Some(site);
        }
        Ok(slot.clone().unwrap_or_default())
    }

    async fn read_privileges(&self, site: &mut Site) -> Result<(), ProviderError> {
        let granted = match self.client.permissions().await {
            Ok(granted) => granted,
            Err(error) if error.trouble() == Trouble::Token => return Err(error.into()),
            // It only spares users a surprise later.
            Err(_) => return Ok(()),
        };
        let wide = |privilege: &str| {
            ["/vms", "/"]
                .iter()
                .any(|path| has(&granted, path, privilege))
        };
        site.sees_all = wide("VM.Audit");
        // Privileges on a pool or on single machines cannot be judged from here.
        if granted
            .keys()
            .any(|path| path.starts_with("/pool/") || path.starts_with("/vms/"))
        {
            return Ok(());
        }
        site.lacking = PRIVILEGES.into_iter().filter(|one| !wide(one)).collect();
        if self.options.template.is_some() && !wide("VM.Clone") {
            site.lacking.push("VM.Clone");
        }
        Ok(())
    }

    /// Everything that decides where machines can be made.
    pub(super) async fn observe(&self) -> Result<(Site, Observed), ProviderError> {
        let mut site = self.site().await?;
        let hosts = self.client.hosts().await?;
        let guests = self.client.guests().await?;
        let storages = match self.client.storages().await {
            Ok(storages) => storages,
            Err(error) if error.trouble() == Trouble::Privilege => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        for row in hosts.iter().filter(|row| row.status == "online") {
            if self.options.interfaces.is_empty() || site.bridges.contains_key(&row.node) {
                continue;
            }
            // A host that does not answer, or does not say, is judged by what happens there.
            if let Ok(bridges) = self.client.bridges(&row.node).await {
                site.bridges.insert(row.node.clone(), bridges);
            }
        }
        let copies = self.copies(&mut site, &guests, &storages, &hosts).await?;
        if let Some(slot) = self.site.lock().await.as_mut() {
            slot.bridges.clone_from(&site.bridges);
            slot.templates.clone_from(&site.templates);
        }
        let now = self.now();
        let mut memory = self.memory();
        memory.tidy(now);
        let observed = Observed {
            hosts,
            guests,
            storages,
            bridges: site.bridges.clone(),
            copies,
            promises: memory.promises(),
            avoided: memory.avoided(now),
        };
        drop(memory);
        Ok((site, observed))
    }

    /// Which template can be copied to which host.
    async fn copies(
        &self,
        site: &mut Site,
        guests: &[Guest],
        storages: &[StorageRow],
        hosts: &[super::types::HostRow],
    ) -> Result<Option<BTreeMap<String, Source>>, ProviderError> {
        let Some(template) = &self.options.template else {
            return Ok(None);
        };
        let is_it = |guest: &&Guest| {
            let named = guest.name.as_deref() == Some(template.name.as_str());
            let numbered = guest.vmid.to_string() == template.name;
            guest.template && (named || numbered || has_tag(guest.tags.as_deref(), &template.name))
        };
        let all: Vec<&Guest> = guests.iter().filter(is_it).collect();
        let mut copies = BTreeMap::new();
        for one in &all {
            copies.entry(one.node.clone()).or_insert_with(|| Source {
                vmid: one.vmid,
                host: one.node.clone(),
            });
        }
        for one in all {
            let on = if let Some(known) = site.templates.get(&one.vmid) {
                known.clone()
            } else {
                let Ok(config) = self.client.config(&one.node, one.vmid).await else {
                    continue;
                };
                let on = storages_of(&config);
                site.templates.insert(one.vmid, on.clone());
                on
            };
            let shared = |name: &String| {
                storages
                    .iter()
                    .any(|row| row.storage == *name && row.shared)
            };
            if on.iter().all(shared) && !on.is_empty() {
                for host in hosts {
                    copies.entry(host.node.clone()).or_insert_with(|| Source {
                        vmid: one.vmid,
                        host: one.node.clone(),
                    });
                }
            }
        }
        Ok(Some(copies))
    }

    /// The catalogue, and what is wrong although it works.
    pub(super) async fn look_around(&self) -> Result<Catalog, ProviderError> {
        let (site, seen) = self.observe().await?;
        let rooms = headroom::survey(&self.options, &seen)?;
        let left = self.numbers_left(&seen.guests);
        let concerns = self.concerns(&site, &rooms, left);
        self.memory().concerns = concerns;
        Ok(catalog::catalog(&self.options, &site.cluster, &rooms, left))
    }

    fn numbers_left(&self, guests: &[Guest]) -> u32 {
        let ids = self.options.ids;
        let taken: BTreeSet<u32> = guests
            .iter()
            .map(|guest| guest.vmid)
            .filter(|vmid| ids.contains(*vmid))
            .collect();
        ids.len()
            .saturating_sub(u32::try_from(taken.len()).unwrap_or(u32::MAX))
    }

    fn concerns(&self, site: &Site, rooms: &[Headroom], left: u32) -> Vec<String> {
        let mut all = Vec::new();
        if left == 0 {
            let ids = self.options.ids;
            all.push(format!(
                "vmIDRange: all numbers from {} to {} are in use: no machine can be made until one is free or the range is larger",
                ids.first, ids.last
            ));
        }
        if !site.lacking.is_empty() {
            all.push(format!(
                "the token lacks {} on /vms",
                site.lacking.join(", ")
            ));
        }
        let unfit: Vec<&str> = rooms
            .iter()
            .filter_map(|room| room.unfit.as_deref())
            .collect();
        all.extend(unfit.iter().take(3).map(|why| (*why).to_owned()));
        if unfit.len() > 3 {
            all.push(format!("{} more hosts cannot be used", unfit.len() - 3));
        }
        all
    }

    /// Machines that carry our tag, or stand in our range and may be ours without it.
    pub(super) async fn candidates(&self) -> Result<(Site, Vec<Candidate>), ProviderError> {
        let site = self.site().await?;
        let tag = &self.options.tag;
        let mut found = Vec::new();
        for guest in self.client.guests().await? {
            let tagged = has_tag(guest.tags.as_deref(), tag);
            let possible = tagged || self.options.ids.contains(guest.vmid);
            if guest.kind != "qemu" || guest.template || !possible {
                continue;
            }
            let remembered = {
                let memory = self.memory();
                if memory.is_foreign(guest.vmid, guest.name.as_ref()) {
                    continue;
                }
                let known = memory.known.get(&guest.vmid).cloned();
                // Under another name it is another machine.
                known.filter(|known| {
                    known.proven.finished
                        && guest
                            .name
                            .as_ref()
                            .is_none_or(|name| *name == known.proven.mark.name)
                })
            };
            if remembered.is_some() {
                found.push(Candidate {
                    guest,
                    known: remembered,
                });
                continue;
            }
            match self.client.config(&guest.node, guest.vmid).await {
                Ok(config) => {
                    let known = self.recognise(guest.vmid, &config).ok();
                    if known.is_some() || is_being_made(&config) {
                        found.push(Candidate { guest, known });
                    }
                }
                // Gone or moved since it was listed: whoever needs to know asks again.
                Err(error) if error.trouble() == Trouble::Missing => {}
                Err(error) if error.trouble() == Trouble::HostOffline => {
                    found.push(Candidate { guest, known: None });
                }
                // What the token may not read carries no mark that it wrote.
                Err(error) if error.trouble() == Trouble::Privilege && !tagged => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok((site, found))
    }

    /// Whether settings are those of a machine of ours; remembers which.
    pub(super) fn recognise(&self, vmid: u32, config: &Config) -> Result<Known, String> {
        match prove(&self.options.owner, &self.options.tag, vmid, config) {
            Ok(proven) => {
                let mark = &proven.mark;
                let size = if proven.finished {
                    size_of(config)
                } else {
                    Size {
                        cores: mark.cores,
                        memory_mib: mark.memory_mib,
                    }
                };
                let known = Known { proven, size };
                self.memory().known.insert(vmid, known.clone());
                Ok(known)
            }
            Err(why) => {
                // A machine that is being made by others has no mark yet, and one that we make may not show it yet.
                if config.text("lock").is_none() {
                    let name = config.text("name");
                    self.memory().note_foreign(vmid, name, self.now());
                }
                Err(why)
            }
        }
    }

    /// Where a machine is; `NotFound` only if there is certainly none of this number that could be ours.
    pub(super) async fn locate(&self, site: &Site, vmid: u32) -> Result<Guest, ProviderError> {
        let guests = self.client.guests().await?;
        if let Some(guest) = guests
            .into_iter()
            .find(|guest| guest.vmid == vmid && guest.kind == "qemu")
        {
            return Ok(guest);
        }
        if !site.sees_all && !self.client.is_free(vmid).await? {
            return Err(ProviderError::Unauthorised(format!(
                "VM {vmid} is there, and the token may not see it: grant VM.Audit on /vms/{vmid}"
            )));
        }
        Err(ProviderError::NotFound(format!("there is no VM {vmid}")))
    }

    /// A machine of ours, read at the host that it is on: it may move between two calls.
    pub(super) async fn read_own(
        &self,
        vmid: u32,
        uid: &Uid,
    ) -> Result<(Site, Owned, Proven), ProviderError> {
        let site = self.site().await?;
        let mut attempts = 0;
        loop {
            let guest = self.locate(&site, vmid).await?;
            match self.client.config(&guest.node, vmid).await {
                Ok(config) => {
                    let not_ours = |why: String| ProviderError::NotFound(why);
                    let known = match self.recognise(vmid, &config) {
                        Ok(known) => known,
                        Err(_) if is_being_made(&config) => self.being_made(vmid, uid)?,
                        Err(why) => return Err(not_ours(why)),
                    };
                    if known.proven.mark.uid != *uid {
                        return Err(not_ours(format!(
                            "VM {vmid} is another machine by now, that of {}",
                            known.proven.mark.uid.0
                        )));
                    }
                    let proven = known.proven.clone();
                    let owned = Owned {
                        host: guest.node,
                        config,
                        size: known.size,
                    };
                    return Ok((site, owned, proven));
                }
                Err(error) if error.trouble() == Trouble::Missing && attempts < 3 => {
                    attempts += 1;
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                Err(error) => return Err(unsettled(vmid, &guest.node, error)),
            }
        }
    }

    /// A machine that has its number and nothing else yet: ours if we remember that we asked for it.
    fn being_made(&self, vmid: u32, uid: &Uid) -> Result<Known, ProviderError> {
        let known = self.memory().known.get(&vmid).cloned();
        known
            .filter(|known| known.proven.mark.uid == *uid)
            .ok_or_else(|| {
                ProviderError::Transient(format!(
                    "VM {vmid} is being made: whose it is shows when that is done"
                ))
            })
    }

    /// The machine that was made for this UID.
    pub(super) async fn find_by_mark(&self, uid: &Uid) -> Result<Machine, ProviderError> {
        let (site, all) = self.candidates().await?;
        if let Some(found) = all.iter().find_map(|one| one.is_of(uid)) {
            return Ok(self.listed(&site, found.0, found.1));
        }
        let mut waiting = self.waiting(&site).into_iter();
        if let Some(machine) = waiting.find(|one| one.uid.as_ref() == Some(uid)) {
            return Ok(machine);
        }
        self.refuse_unreadable(uid, &all)?;
        Err(ProviderError::NotFound(format!(
            "no machine carries the mark {}",
            uid.0
        )))
    }

    /// Machines that are made again in a while.
    fn waiting(&self, site: &Site) -> Vec<Machine> {
        let waiting = self.memory().waiting();
        let shown = waiting.into_iter().map(|(known, why)| {
            let state = MachineState::Pending(why);
            self.shown(&site.cluster, &known.proven.mark, known.size, state)
        });
        shown.collect()
    }

    /// A machine on a host that does not answer may be the one that is asked for, if it has one of the numbers that
    /// this one would have got.
    pub(super) fn refuse_unreadable(
        &self,
        uid: &Uid,
        all: &[Candidate],
    ) -> Result<(), ProviderError> {
        let first: Vec<u32> = self.options.ids.order(uid).take(FIRST).collect();
        let unreadable = all
            .iter()
            .find(|one| one.known.is_none() && first.contains(&one.guest.vmid));
        unreadable.map_or(Ok(()), |one| {
            Err(ProviderError::Transient(format!(
                "VM {} may be this machine, and cannot be read while it is being made or host {} does not answer",
                one.guest.vmid, one.guest.node
            )))
        })
    }

    /// All machines of ours.
    pub(super) async fn list_own(&self) -> Result<Vec<Machine>, ProviderError> {
        let (site, all) = self.candidates().await?;
        let tag = &self.options.tag;
        let machines = all.iter().filter_map(|one| match &one.known {
            Some(known) => Some(self.listed(&site, &one.guest, known)),
            None if has_tag(one.guest.tags.as_deref(), tag) => {
                Some(self.unreadable(&site, &one.guest))
            }
            None => None,
        });
        let mut machines: Vec<Machine> = machines.collect();
        // What is made again in a while is not there, and not gone.
        machines.extend(self.waiting(&site));
        machines.sort_by(|a, b| a.id.cmp(&b.id));
        machines.dedup_by(|a, b| a.id == b.id);
        Ok(machines)
    }

    /// A machine as lists show it.
    pub(super) fn listed(&self, site: &Site, guest: &Guest, known: &Known) -> Machine {
        let mark = &known.proven.mark;
        let state = if mark.stage == Stage::Unwanted {
            MachineState::Stopping
        } else if guest.status == "running" && known.proven.finished {
            MachineState::Running
        } else {
            let lock = guest.lock.as_deref().map(|lock| format!(" ({lock})"));
            MachineState::Pending(format!(
                "VM {} is {}{}",
                guest.vmid,
                guest.status,
                lock.unwrap_or_default()
            ))
        };
        self.shown(&site.cluster, mark, known.size, state)
    }

    /// A machine with our tag on a host that does not answer: it is there, and whose it is cannot be told.
    fn unreadable(&self, site: &Site, guest: &Guest) -> Machine {
        let size = Size {
            cores: u32::try_from(guest.maxcpu).unwrap_or(u32::MAX),
            memory_mib: guest.maxmem >> 20,
        };
        let mark = super::Mark {
            cluster: self.options.owner.cluster.clone(),
            family: self.options.owner.family.clone(),
            uid: Uid("unknown".into()),
            vmid: guest.vmid,
            name: guest.name.clone().unwrap_or_default(),
            uuid: String::new(),
            instance_type: "proxmox".into(),
            zone: self.options.zone(&guest.node).into(),
            cores: size.cores,
            memory_mib: size.memory_mib,
            settings: String::new(),
            created: Timestamp::UNIX_EPOCH,
            stage: Stage::Wanted,
            copying: false,
        };
        let said = format!("host {} does not answer", guest.node);
        Machine {
            uid: None,
            links: Vec::new(),
            created: None,
            id: machine_id(&site.cluster, guest.vmid, &mark.uid),
            ..self.shown(&site.cluster, &mark, size, MachineState::Pending(said))
        }
    }
}

/// A machine of ours, and where it is at this moment.
pub(super) struct Owned {
    pub(super) host: String,
    pub(super) config: Config,
    pub(super) size: Size,
}

impl Candidate {
    pub(super) fn is_of(&self, uid: &Uid) -> Option<(&Guest, &Known)> {
        let known = self.known.as_ref()?;
        (known.proven.mark.uid == *uid).then_some((&self.guest, known))
    }
}

/// Whether a privilege holds for everything below a path: 0 stands for one on the path alone.
fn has(granted: &BTreeMap<String, BTreeMap<String, Value>>, path: &str, privilege: &str) -> bool {
    let on = granted.get(path).and_then(|all| all.get(privilege));
    on.and_then(as_number).is_some_and(|below| below != 0)
}

/// A machine that is listed and cannot be read is not gone: only a list without it says so.
pub(super) fn unsettled(vmid: u32, host: &str, error: CallError) -> ProviderError {
    match error.trouble() {
        Trouble::Missing => {
            ProviderError::Transient(format!("VM {vmid} is being moved or removed ({error})"))
        }
        Trouble::HostOffline => ProviderError::Transient(format!(
            "VM {vmid} is on host {host}, which does not answer ({error})"
        )),
        _ => error.into(),
    }
}

/// Whether a machine has its number and perhaps nothing else yet.
fn is_being_made(config: &Config) -> bool {
    let lock = config.text("lock");
    matches!(lock.as_deref(), Some("create" | "clone"))
}

/// The size that a machine has by its settings.
fn size_of(config: &Config) -> Size {
    let count = |key: &str| config.number(key).unwrap_or(1).max(1);
    Size {
        cores: u32::try_from(count("cores") * count("sockets")).unwrap_or(u32::MAX),
        memory_mib: config.number("memory").unwrap_or(512),
    }
}

/// Storages that the disks of a machine stand on.
fn storages_of(config: &Config) -> BTreeSet<String> {
    config
        .0
        .iter()
        .filter(|(key, _)| {
            ["scsi", "virtio", "sata", "ide", "efidisk", "tpmstate"]
                .iter()
                .any(|bus| {
                    key.strip_prefix(bus).is_some_and(|rest| {
                        !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())
                    })
                })
        })
        .filter_map(|(_, value)| Value::as_str(value))
        .filter(|value| !value.contains("media=cdrom"))
        .filter_map(|value| value.split(',').next()?.split_once(':'))
        .map(|(storage, _)| storage.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_privilege_on_a_path_alone_says_nothing_about_the_machines_below() {
        let granted = BTreeMap::from([
            (
                "/".to_owned(),
                BTreeMap::from([("VM.Audit".to_owned(), json!(0))]),
            ),
            (
                "/vms".to_owned(),
                BTreeMap::from([("VM.Allocate".to_owned(), json!(1))]),
            ),
        ]);
        assert!(!has(&granted, "/", "VM.Audit"));
        assert!(has(&granted, "/vms", "VM.Allocate"));
        assert!(!has(&granted, "/vms", "VM.Clone"));
    }
}
