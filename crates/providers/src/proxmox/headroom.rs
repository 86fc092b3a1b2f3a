//! What hosts can still give away.
//!
//! Memory in use says nothing: a machine that was just started uses little of what it was promised. So what counts is
//! what was promised to machines that run, to ours in any state, and to those that are being made and do not show yet.

use std::collections::BTreeMap;

use super::ProxmoxOptions;
use super::settings::{self, Size};
use super::types::{Guest, HostRow, StorageRow};
use crate::ProviderError;

/// A machine that is promised room and whose size lists may not show yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Where.
    pub host: String,
    /// How much.
    pub size: Size,
}

/// What is known of the cluster at one moment.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Hosts.
    pub hosts: Vec<HostRow>,
    /// Machines and containers.
    pub guests: Vec<Guest>,
    /// Storages; empty if the token may not see them.
    pub storages: Vec<StorageRow>,
    /// Bridges of hosts, where they could be read.
    pub bridges: BTreeMap<String, Vec<String>>,
    /// Hosts that templates can be copied to, if the class copies one.
    pub copies: Option<BTreeMap<String, Source>>,
    /// Machines of ours, by number.
    pub promises: BTreeMap<u32, Promise>,
    /// Hosts that failed lately, and why.
    pub avoided: BTreeMap<String, String>,
}

/// A template that can be copied to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Number of the template.
    pub vmid: u32,
    /// Where the template is.
    pub host: String,
}

/// What one host can still give away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// Name.
    pub host: String,
    /// Zone of its machines.
    pub zone: String,
    /// Threads that it has: no machine may have more.
    pub cpus: u32,
    /// The most memory that a machine could have on the empty host, in bytes.
    pub largest: i64,
    /// Thousandths of cores that are left.
    pub cpu: i64,
    /// Bytes of memory that are left.
    pub memory: i64,
    /// Why no machine can be made there, if so.
    pub unfit: Option<String>,
}

impl Headroom {
    /// Whether a machine fits.
    pub fn holds(&self, size: Size) -> bool {
        self.unfit.is_none()
            && size.cores <= self.cpus
            && size.cpu() <= self.cpu
            && size.memory() <= self.memory
    }
}

/// Whether a guest counts against its host.
fn counts(guest: &Guest, promised: bool) -> bool {
    !guest.template && (promised || guest.status != "stopped")
}

/// What each host that the class may use can still give away, or what a person must mend first.
pub fn survey(options: &ProxmoxOptions, seen: &Observed) -> Result<Vec<Headroom>, ProviderError> {
    let invalid = |text: String| Err(ProviderError::Invalid(text));
    let names = |rows: &[HostRow]| -> String {
        let names: Vec<&str> = rows.iter().map(|row| row.node.as_str()).collect();
        names.join(", ")
    };
    let listed = |row: &&HostRow| options.hosts.is_empty() || options.hosts.contains(&row.node);
    let own: Vec<&HostRow> = seen.hosts.iter().filter(listed).collect();
    if own.is_empty() {
        return invalid(format!(
            "nodeWhitelist: none of {} is a host of the cluster (it has {})",
            options.hosts.join(", "),
            names(&seen.hosts)
        ));
    }
    let online = own.iter().any(|row| row.status == "online");
    let sized = own
        .iter()
        .any(|row| row.maxmem.is_some() && row.maxcpu.is_some());
    if online && !sized {
        return Err(ProviderError::Unauthorised(
            "the token may not see what hosts have: grant it Sys.Audit on /nodes".to_owned(),
        ));
    }
    let all: Vec<Headroom> = own.iter().map(|row| of_host(options, seen, row)).collect();
    // What is wrong everywhere is wrong in the class, and nothing will be made until it is mended.
    let online: Vec<&Headroom> = all
        .iter()
        .zip(&own)
        .filter(|(_, row)| row.status == "online")
        .map(|(room, _)| room)
        .collect();
    if let Some(lacking) = settings_lack(options, seen, &online) {
        return invalid(lacking);
    }
    Ok(all)
}

fn of_host(options: &ProxmoxOptions, seen: &Observed, row: &HostRow) -> Headroom {
    let cpus = row.maxcpu.unwrap_or_default();
    let memory = row.maxmem.unwrap_or_default();
    let share = |whole: u64, percent: u32| {
        i64::try_from(u128::from(whole) * u128::from(percent) / 100).unwrap_or(i64::MAX)
    };
    let reserve = i64::try_from(options.host_reserve_mib << 20).unwrap_or(i64::MAX);
    let largest = (share(memory, options.memory_percent) - reserve).max(0);
    let mut room = Headroom {
        host: row.node.clone(),
        zone: options.zone(&row.node),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        largest,
        cpu: share(cpus * 1000, options.cpu_percent),
        memory: largest,
        unfit: None,
    };
    for guest in seen.guests.iter().filter(|guest| guest.node == row.node) {
        let promise = seen.promises.get(&guest.vmid);
        if !counts(guest, promise.is_some()) {
            continue;
        }
        let promised = promise.map(|one| one.size);
        let cores = guest
            .maxcpu
            .max(promised.map_or(0, |size| u64::from(size.cores)));
        let bytes = guest
            .maxmem
            .max(promised.map_or(0, |size| size.memory_mib << 20));
        room.cpu -= i64::try_from(cores * 1000).unwrap_or(i64::MAX);
        room.memory -= i64::try_from(bytes).unwrap_or(i64::MAX);
    }
    // Being made: not in any list yet.
    for (vmid, promise) in &seen.promises {
        if promise.host == row.node && !seen.guests.iter().any(|guest| guest.vmid == *vmid) {
            room.cpu -= promise.size.cpu();
            room.memory -= promise.size.memory();
        }
    }
    room.cpu = room.cpu.max(0);
    room.memory = room.memory.max(0);
    room.unfit = unfit(options, seen, row);
    room
}

fn unfit(options: &ProxmoxOptions, seen: &Observed, row: &HostRow) -> Option<String> {
    let host = &row.node;
    if row.status != "online" {
        return Some(format!(
            "host {host} is {}",
            if row.status.is_empty() {
                "not seen"
            } else {
                &row.status
            }
        ));
    }
    if row.maxmem.is_none() || row.maxcpu.is_none() {
        return Some(format!(
            "the token may not see what host {host} has: grant it Sys.Audit on /nodes/{host}"
        ));
    }
    if let Some(why) = seen.avoided.get(host) {
        return Some(format!("host {host} failed lately: {why}"));
    }
    lacks_bridge(options, seen, host)
        .or_else(|| lacks_storage(options, seen, host))
        .or_else(|| lacks_template(options, seen, host))
}

fn lacks_bridge(options: &ProxmoxOptions, seen: &Observed, host: &str) -> Option<String> {
    let bridges = seen.bridges.get(host)?;
    let lacking = options
        .interfaces
        .iter()
        .find(|one| !bridges.contains(&one.bridge))?;
    Some(format!(
        "host {host} has no bridge {} that the token may use (it has {}): grant SDN.Use on /sdn/zones/localnetwork/{}, or name another bridge",
        lacking.bridge,
        bridges.join(", "),
        lacking.bridge
    ))
}

fn lacks_storage(options: &ProxmoxOptions, seen: &Observed, host: &str) -> Option<String> {
    if seen.storages.is_empty() {
        return None;
    }
    settings::disks(options).iter().find_map(|disk| {
        let row = seen
            .storages
            .iter()
            .find(|row| row.node == host && row.storage == disk.storage);
        let Some(row) = row else {
            return Some(format!(
                "host {host} has no storage {} that the token may see",
                disk.storage
            ));
        };
        if row.status != "available" {
            return Some(format!(
                "storage {} is not available on host {host}",
                disk.storage
            ));
        }
        let free = row.maxdisk.saturating_sub(row.disk);
        (row.maxdisk > 0 && free < disk.gib << 30).then(|| {
            format!(
                "storage {} on host {host} has {} GiB left, and a machine takes {}",
                disk.storage,
                free >> 30,
                disk.gib
            )
        })
    })
}

fn lacks_template(options: &ProxmoxOptions, seen: &Observed, host: &str) -> Option<String> {
    let template = options.template.as_ref()?;
    let copies = seen.copies.as_ref()?;
    (!copies.contains_key(host)).then(|| {
        format!(
            "host {host} has no template {:?}, and none elsewhere stands on storage that it shares",
            template.name
        )
    })
}

/// What is wrong on every host that is there.
fn settings_lack(
    options: &ProxmoxOptions,
    seen: &Observed,
    online: &[&Headroom],
) -> Option<String> {
    type Lack = fn(&ProxmoxOptions, &Observed, &str) -> Option<String>;
    let first = online.first()?;
    let lacks: [(&str, Lack); 3] = [
        ("networkInterfaces", lacks_bridge),
        ("vmOptions", lacks_storage),
        ("template", lacks_template),
    ];
    lacks.iter().find_map(|(field, lack)| {
        let everywhere = online.iter().all(|room| {
            lack(options, seen, &room.host).is_some_and(|why| !why.contains("GiB left"))
        });
        let why = lack(options, seen, &first.host).filter(|_| everywhere)?;
        let more = online.len() - 1;
        Some(if more == 0 {
            format!("{field}: {why}")
        } else {
            format!("{field}: {why}; {more} more hosts lack it too")
        })
    })
}

/// Where to make a machine: on the host that was planned, or on another of its zone, the emptiest first.
pub fn choose<'a>(
    rooms: &'a [Headroom],
    size: Size,
    zone: &str,
    planned: Option<&str>,
) -> Option<&'a Headroom> {
    let fitting = rooms
        .iter()
        .filter(|room| (zone.is_empty() || room.zone == zone) && room.holds(size));
    fitting.min_by_key(|room| {
        (
            planned != Some(room.host.as_str()),
            std::cmp::Reverse(room.memory),
            room.host.as_str(),
        )
    })
}

#[cfg(test)]
mod tests;
