//! What every provider promises, as one list, run over each of them against its simulated cloud.
//!
//! A new provider is a module with a new [`Subject`] and a line in [`subjects`].
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod ovhcloud;
mod proxmox;
mod rackspace;
mod redfish;
mod simulated;

use std::sync::Mutex;
use std::time::Duration;

use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, Catalog, Range};
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::{LaunchRequest, Machine, MachineId, MachineState, Provider, Uid};
use joiner_sim::clouds::sim::Rack;

/// Counts what is switched on.
#[derive(Default)]
pub(crate) struct Counting(Mutex<(usize, usize)>);

impl Rack for Counting {
    fn boot(&self, _: NodeSpec) {
        self.0.lock().unwrap().0 += 1;
    }
    fn kill(&self, _: &str) {
        self.0.lock().unwrap().1 += 1;
    }
}

/// A provider, and the world on its other side.
pub(crate) trait Subject: Send + Sync {
    fn provider(&self) -> &dyn Provider;
    /// How many machines there really are, whoever owns them.
    fn truth(&self) -> usize;
    /// The next call that changes something is done, and its answer lost.
    fn lose_next_answer(&self);
    /// Nothing can be bought any more.
    fn sell_out(&self);
    /// A machine of somebody else that looks much like ours; `None` where clouds are not shared.
    fn plant_foreign(&self) -> Option<MachineId>;
    /// The next list breaks off half-way or does not come; `false` where that cannot be.
    fn break_list(&self) -> bool;
}

fn subjects() -> Vec<(&'static str, Box<dyn Subject>)> {
    vec![
        ("sim", simulated::Sim::open()),
        ("rackspace", rackspace::OnRackspace::open()),
        ("proxmox", proxmox::OnProxmox::open()),
        ("redfish", redfish::OnRedfish::open()),
        ("ovhcloud", ovhcloud::OnOvh::open()),
    ]
}

/// A machine made to measure.
fn measured(uid: u32, catalog: &Catalog, range: &Range) -> LaunchRequest {
    let host = &range.hosts[0];
    LaunchRequest {
        uid: Uid(format!("0b5cbbe1-0000-4000-8000-{uid:012}").into()),
        name: format!("node-{uid}").into(),
        purchase: Purchase {
            catalog: catalog.name.clone(),
            instance_type: range.name.clone(),
            zone: host.zone.clone(),
            capacity_type: range.capacity_type,
            reservation: None,
            host: Some(host.name.clone()),
            price: Money::ZERO,
        },
        capacity: range.min.clone(),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    }
}

fn order(uid: u32, catalog: &Catalog) -> LaunchRequest {
    if let Some(range) = catalog.ranges.first() {
        return measured(uid, catalog, range);
    }
    let (kind, offering) = catalog
        .types
        .iter()
        .flat_map(|kind| kind.offerings.iter().map(move |one| (kind, one)))
        .filter(|(_, one)| one.available)
        // Spot where there is any.
        .min_by_key(|(_, one)| one.capacity_type != CapacityType::Spot)
        .unwrap();
    LaunchRequest {
        uid: Uid(format!("0b5cbbe1-0000-4000-8000-{uid:012}").into()),
        name: format!("node-{uid}").into(),
        purchase: Purchase {
            catalog: catalog.name.clone(),
            instance_type: kind.name.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            reservation: None,
            host: None,
            price: offering.price,
        },
        capacity: Resources::new(),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    }
}

async fn buy(subject: &dyn Subject, uid: u32) -> Machine {
    let catalog = subject.provider().catalog().await.unwrap();
    subject
        .provider()
        .launch(&order(uid, &catalog))
        .await
        .unwrap()
}

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_mins(count)).await;
}

#[tokio::test(start_paused = true)]
async fn a_catalogue_has_only_real_sizes_and_prices() {
    for (name, subject) in subjects() {
        let catalog = subject.provider().catalog().await.unwrap();
        assert!(catalog.types.len() + catalog.ranges.len() > 0, "{name}");
        for range in &catalog.ranges {
            assert!(range.min.get(CPU) > 0, "{name}: {}", range.name);
            assert!(range.max.fits(&range.min), "{name}: {}", range.name);
            assert!(range.prices.core > Money::ZERO, "{name}: {}", range.name);
            assert!(!range.hosts.is_empty(), "{name}: {}", range.name);
        }
        for kind in &catalog.types {
            assert!(!kind.offerings.is_empty(), "{name}: {}", kind.name);
            assert!(
                kind.offerings.iter().all(|one| one.price > Money::ZERO),
                "{name}: {}",
                kind.name
            );
            let free = kind.allocatable();
            assert!(
                free.get(CPU) > 0 && free.get(MEMORY) > 0,
                "{name}: {}",
                kind.name
            );
            assert!(
                free.get(CPU) <= kind.capacity.get(CPU),
                "{name}: {}",
                kind.name
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn asking_twice_buys_once() {
    for (name, subject) in subjects() {
        let first = buy(&*subject, 1).await;
        let again = buy(&*subject, 1).await;
        assert_eq!(first.id, again.id, "{name}");
        assert_eq!(subject.truth(), 1, "{name}");
        let other = buy(&*subject, 2).await;
        assert_ne!(first.id, other.id, "{name}");
        assert_eq!(subject.truth(), 2, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn asking_again_after_a_lost_answer_buys_once() {
    for (name, subject) in subjects() {
        let catalog = subject.provider().catalog().await.unwrap();
        let order = order(1, &catalog);
        subject.lose_next_answer();
        let error = subject.provider().launch(&order).await.unwrap_err();
        assert_eq!(error.kind(), "transient", "{name}: {error}");
        assert_eq!(subject.truth(), 1, "{name}: it was done all the same");
        minutes(1).await;
        let machine = subject.provider().launch(&order).await.unwrap();
        assert_eq!(machine.uid, Some(order.uid.clone()), "{name}");
        assert_eq!(subject.truth(), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn asking_again_for_something_else_returns_what_was_bought() {
    for (name, subject) in subjects() {
        let catalog = subject.provider().catalog().await.unwrap();
        let first = subject
            .provider()
            .launch(&order(1, &catalog))
            .await
            .unwrap();
        let mut other = order(1, &catalog);
        if let Some(range) = catalog.ranges.first() {
            other.capacity = range.max.clone();
            let again = subject.provider().launch(&other).await.unwrap();
            assert_eq!(again.id, first.id, "{name}");
            assert_eq!(again.capacity, first.capacity, "{name}");
            assert_eq!(subject.truth(), 1, "{name}");
            continue;
        }
        let bought = other.purchase.clone();
        let on_demand = catalog
            .types
            .iter()
            .flat_map(|kind| kind.offerings.iter().map(move |one| (kind, one)))
            .find(|(kind, one)| {
                one.capacity_type == CapacityType::OnDemand
                    && (kind.name != bought.instance_type
                        || bought.capacity_type != CapacityType::OnDemand)
            })
            .unwrap();
        other.purchase.instance_type = on_demand.0.name.clone();
        other.purchase.zone = on_demand.1.zone.clone();
        other.purchase.capacity_type = CapacityType::OnDemand;
        let again = subject.provider().launch(&other).await.unwrap();
        assert_eq!(again.id, first.id, "{name}");
        assert_eq!(again.capacity_type, bought.capacity_type, "{name}");
        assert_eq!(again.instance_type, bought.instance_type, "{name}");
        assert_eq!(subject.truth(), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_pending_then_running_and_says_who_asked() {
    for (name, subject) in subjects() {
        let machine = buy(&*subject, 1).await;
        assert!(matches!(machine.state, MachineState::Pending(_)), "{name}");
        minutes(45).await;
        let machine = subject.provider().get(&machine.id).await.unwrap();
        assert_eq!(machine.state, MachineState::Running, "{name}");
        assert!(!machine.links.is_empty(), "{name}");
        assert!(machine.price.is_some(), "{name}");
        let listed = subject.provider().list().await.unwrap();
        assert_eq!(
            listed,
            [machine],
            "{name}: one machine, the same by either way"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn terminating_is_idempotent_and_ends_in_not_found() {
    for (name, subject) in subjects() {
        let machine = buy(&*subject, 1).await;
        minutes(45).await;
        let provider = subject.provider();
        provider.terminate(&machine.id).await.unwrap();
        provider.terminate(&machine.id).await.unwrap();
        let shown = provider.get(&machine.id).await.unwrap();
        assert_eq!(shown.state, MachineState::Stopping, "{name}");
        minutes(5).await;
        for error in [
            provider.terminate(&machine.id).await.unwrap_err(),
            provider.get(&machine.id).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), "not_found", "{name}: {error}");
        }
        assert_eq!(subject.truth(), 0, "{name}");
        assert!(provider.list().await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn terminating_after_a_lost_answer_ends_the_machine() {
    for (name, subject) in subjects() {
        let machine = buy(&*subject, 1).await;
        subject.lose_next_answer();
        // Whether the first answer was an error is the provider's affair: taking away twice does no harm.
        let _ = subject.provider().terminate(&machine.id).await;
        minutes(5).await;
        let error = subject.provider().terminate(&machine.id).await.unwrap_err();
        assert_eq!(error.kind(), "not_found", "{name}: {error}");
        assert_eq!(subject.truth(), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_sold_out_is_marked_and_refused_as_such() {
    for (name, subject) in subjects() {
        let before = subject.provider().catalog().await.unwrap();
        subject.sell_out();
        minutes(2).await;
        let catalog = subject.provider().catalog().await.unwrap();
        assert_eq!(
            catalog.types.len(),
            before.types.len(),
            "{name}: listed all the same"
        );
        assert_eq!(catalog.ranges.len(), before.ranges.len(), "{name}");
        let mut offerings = catalog.types.iter().flat_map(|kind| &kind.offerings);
        assert!(offerings.all(|one| !one.available), "{name}");
        let mut hosts = catalog.ranges.iter().flat_map(|range| &range.hosts);
        assert!(hosts.all(|host| host.free.get(MEMORY) == 0), "{name}");
        let error = subject
            .provider()
            .launch(&order(1, &before))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), "out_of_capacity", "{name}: {error}");
        assert_eq!(subject.truth(), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_of_others_are_neither_seen_nor_touched() {
    let mut shared = 0;
    for (name, subject) in subjects() {
        let Some(foreign) = subject.plant_foreign() else {
            continue;
        };
        shared += 1;
        let own = buy(&*subject, 1).await;
        minutes(45).await;
        let provider = subject.provider();
        let listed = provider.list().await.unwrap();
        let ids: Vec<&MachineId> = listed.iter().map(|one| &one.id).collect();
        assert_eq!(ids, [&own.id], "{name}");
        for error in [
            provider.get(&foreign).await.unwrap_err(),
            provider.terminate(&foreign).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), "not_found", "{name}: {error}");
        }
        assert!(
            provider
                .notices()
                .await
                .unwrap()
                .iter()
                .all(|one| one.id != foreign),
            "{name}"
        );
        minutes(5).await;
        assert_eq!(subject.truth(), 2, "{name}");
    }
    assert_eq!(shared, 4, "providers whose clouds are shared");
}

#[tokio::test(start_paused = true)]
async fn half_a_list_is_an_error() {
    let mut paged = 0;
    for (name, subject) in subjects() {
        buy(&*subject, 1).await;
        buy(&*subject, 2).await;
        if !subject.break_list() {
            continue;
        }
        paged += 1;
        assert!(subject.provider().list().await.is_err(), "{name}");
        assert_eq!(subject.provider().list().await.unwrap().len(), 2, "{name}");
    }
    assert_eq!(paged, 2, "providers whose lists can break off");
}

#[tokio::test(start_paused = true)]
async fn a_new_machine_has_not_drifted() {
    for (name, subject) in subjects() {
        let machine = buy(&*subject, 1).await;
        let drift = subject.provider().drift(&machine).await.unwrap();
        assert_eq!(drift, None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_of_another_world_is_an_error() {
    for (name, subject) in subjects() {
        let id = MachineId("elsewhere:///x".into());
        assert!(subject.provider().get(&id).await.is_err(), "{name}");
        assert!(subject.provider().terminate(&id).await.is_err(), "{name}");
    }
}
