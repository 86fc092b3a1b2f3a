//! The OVHcloud provider against the simulated service: limits, permissions, the right node, and crashes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do, and say what they measured"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, Catalog};
use joiner_core::resources::Resources;
use joiner_core::taints::Taint;
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::http::Http;
use joiner_providers::ovhcloud::pools::Mark;
use joiner_providers::ovhcloud::{Clock as Now, Credentials, Ovh, OvhOptions};
use joiner_providers::{
    LaunchRequest, Machine, MachineId, MachineState, MemoryLedger, NodeLink, Provider,
    ProviderError, Uid,
};
use joiner_sim::clouds::ovhcloud::{CallFault, OvhCloud, OvhCloudOptions, documented_rules};
use joiner_sim::clouds::sim::Rack;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

#[path = "ovhcloud/trouble.rs"]
mod trouble;

/// A change of settings.
type Change = fn(&mut OvhOptions);

struct Nowhere;

impl Rack for Nowhere {
    fn boot(&self, _: NodeSpec) {}
    fn kill(&self, _: &str) {}
}

/// A cloud, and whoever buys there. Providers come and go; ledger and limit stay.
struct World {
    cloud: OvhCloud,
    clock: Clock,
    options: OvhOptions,
}

impl World {
    fn open(cloud: OvhCloudOptions) -> Self {
        let clock = Clock::virtual_time();
        let keys = Credentials::Keys {
            application_key: cloud.application_key.as_str().into(),
            application_secret: cloud.application_secret.as_str().into(),
            consumer_key: cloud.consumer_key.as_str().into(),
        };
        let mark = Mark {
            cluster: "cluster-1".to_owned(),
            family: "karpenter".to_owned(),
            class: "default".to_owned(),
        };
        let ledger = Arc::new(MemoryLedger::default());
        let mut options = OvhOptions::new(&cloud.service_name, keys, mark, ledger).unwrap();
        options.kube_id = Some(cloud.kube_id.clone());
        let cloud = OvhCloud::new(cloud, clock.clone(), Arc::new(Nowhere));
        let runner = cloud.clone();
        tokio::spawn(async move { runner.run().await });
        World {
            cloud,
            clock,
            options,
        }
    }

    fn provider(&self) -> Arc<Ovh> {
        let clock = self.clock.clone();
        let now: Now = Arc::new(move || clock.now());
        let http = Http::new(self.cloud.router());
        Arc::new(Ovh::new(http, self.options.clone(), now).unwrap())
    }
}

fn order(uid: u32, flavor: &str, zone: &str, team: Option<&str>) -> LaunchRequest {
    let mut labels = Labels::from([("karpenter.sh/nodepool".into(), "default".into())]);
    if let Some(team) = team {
        labels.insert("team".into(), team.into());
    }
    LaunchRequest {
        uid: Uid(format!("0b5cbbe1-0000-4000-8000-{uid:012}").into()),
        name: format!("node-{uid}").into(),
        purchase: Purchase {
            catalog: "ovhcloud".into(),
            instance_type: flavor.into(),
            zone: zone.into(),
            capacity_type: CapacityType::OnDemand,
            reservation: None,
            host: None,
            price: joiner_core::money::Money::ZERO,
        },
        capacity: Resources::new(),
        labels,
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    }
}

const ZONE: &str = "eu-west-par-a";

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_mins(count)).await;
}

fn link(machine: &Machine) -> Option<String> {
    machine.links.iter().find_map(|link| match link {
        NodeLink::ProviderId(id) => Some(id.to_string()),
        _ => None,
    })
}

/// Reads until every machine runs.
async fn running(provider: &Ovh, count: usize) -> Vec<Machine> {
    for _ in 0..60 {
        minutes(1).await;
        let Ok(all) = provider.list().await else {
            continue;
        };
        if all.len() == count && all.iter().all(|one| one.state == MachineState::Running) {
            return all;
        }
    }
    panic!("machines do not come up: {:?}", provider.list().await);
}

#[tokio::test(start_paused = true)]
async fn fifty_machines_of_one_shape_are_one_call() {
    let world = World::open(OvhCloudOptions::calm(1));
    let provider = world.provider();
    let orders: Vec<_> = (0..50).map(|uid| order(uid, "b3-8", ZONE, None)).collect();
    let answers = provider.launch_all(&orders).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let writes: Vec<_> = world
        .cloud
        .calls()
        .into_iter()
        .filter(|call| !call.starts_with("GET"))
        .collect();
    assert_eq!(writes.len(), 1, "{writes:?}");
    let all = running(&provider, 50).await;
    let links: BTreeSet<_> = all.iter().filter_map(link).collect();
    assert_eq!(links.len(), 50, "each has a node of its own");
}

#[tokio::test(start_paused = true)]
async fn the_documents_permissions_are_enough_for_everything() {
    let mut options = OvhCloudOptions::calm(1);
    options.rules = documented_rules(&options.service_name, &options.kube_id);
    let world = World::open(options);
    let provider = world.provider();
    let catalog = provider.catalog().await.unwrap();
    assert!(catalog.types.len() > 30, "{}", catalog.types.len());
    let orders: Vec<_> = (0..3).map(|uid| order(uid, "b3-8", ZONE, None)).collect();
    assert!(provider.launch_all(&orders).await.iter().all(Result::is_ok));
    let all = running(&provider, 3).await;
    assert_eq!(provider.drift(&all[0]).await.unwrap(), None);
    for machine in &all {
        provider.terminate(&machine.id).await.unwrap();
    }
    minutes(3).await;
    for machine in &all {
        let gone = provider.terminate(&machine.id).await.unwrap_err();
        assert_eq!(gone.kind(), "not_found", "{gone}");
    }
    for _ in 0..10 {
        minutes(1).await;
        provider.list().await.unwrap();
    }
    assert!(world.cloud.pools().is_empty(), "{:?}", world.cloud.pools());
    // What is not granted is tried once, and done without.
    let refused = world.cloud.ungranted();
    let once: BTreeSet<_> = refused.iter().collect();
    assert_eq!(refused.len(), once.len(), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn only_the_named_node_goes() {
    let world = World::open(OvhCloudOptions::calm(1));
    let provider = world.provider();
    let orders: Vec<_> = (0..5).map(|uid| order(uid, "b3-8", ZONE, None)).collect();
    provider.launch_all(&orders).await;
    let all = running(&provider, 5).await;
    let victim = &all[3];
    let keep: BTreeSet<_> = all
        .iter()
        .filter(|one| one.id != victim.id)
        .filter_map(link)
        .collect();
    provider.terminate(&victim.id).await.unwrap();
    minutes(3).await;
    let left: BTreeSet<_> = world
        .cloud
        .nodes()
        .into_iter()
        .map(|node| node.provider_id)
        .collect();
    assert_eq!(left, keep);
    assert!(world.cloud.removals().iter().all(|(_, named)| *named));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_leaves_before_it_has_a_node_takes_no_other_with_it() {
    let world = World::open(OvhCloudOptions::calm(1));
    let provider = world.provider();
    provider
        .launch(&order(0, "b3-8", ZONE, None))
        .await
        .unwrap();
    let first = running(&provider, 1).await.remove(0);
    let second = provider
        .launch(&order(1, "b3-8", ZONE, None))
        .await
        .unwrap();
    // At once: its node is not listed yet, and a smaller pool would cost whichever node the service likes.
    provider.terminate(&second.id).await.unwrap();
    for _ in 0..8 {
        minutes(1).await;
        let _ = provider.terminate(&second.id).await;
    }
    let gone = provider.terminate(&second.id).await.unwrap_err();
    assert_eq!(gone.kind(), "not_found", "{gone}");
    let left: Vec<_> = world
        .cloud
        .nodes()
        .into_iter()
        .map(|node| node.provider_id)
        .collect();
    assert_eq!(left, [link(&first).unwrap()]);
    assert!(world.cloud.removals().iter().all(|(_, named)| *named));
}

#[tokio::test(start_paused = true)]
async fn shapes_do_not_share_pools_and_anti_affinity_pools_hold_five() {
    let mut world = World::open(OvhCloudOptions::calm(1));
    world.options.anti_affinity = true;
    let provider = world.provider();
    let orders: Vec<_> = (0..12).map(|uid| order(uid, "b3-8", ZONE, None)).collect();
    let answers = provider.launch_all(&orders).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let mut tainted = order(20, "b3-8", ZONE, None);
    tainted.taints.push(Taint::no_schedule("dedicated"));
    provider.launch(&tainted).await.unwrap();
    let sizes: Vec<u64> = world
        .cloud
        .pools()
        .iter()
        .map(|pool| pool["desiredNodes"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes.iter().sum::<u64>(), 13);
    assert_eq!(sizes.len(), 4, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 5), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn monthly_billing_is_for_the_second_generation_only() {
    let mut world = World::open(OvhCloudOptions::calm(1));
    world.options.monthly_billed = true;
    let provider = world.provider();
    provider
        .launch(&order(0, "b2-7", ZONE, None))
        .await
        .unwrap();
    provider
        .launch(&order(1, "b3-8", ZONE, None))
        .await
        .unwrap();
    let billed: BTreeMap<String, bool> = world
        .cloud
        .pools()
        .iter()
        .map(|pool| {
            (
                pool["flavor"].as_str().unwrap().to_owned(),
                pool["monthlyBilled"] == true,
            )
        })
        .collect();
    assert_eq!(
        billed,
        BTreeMap::from([("b2-7".to_owned(), true), ("b3-8".to_owned(), false)])
    );
    let catalog = provider.catalog().await.unwrap();
    let price = |name: &str| {
        let kind = catalog
            .types
            .iter()
            .find(|kind| &*kind.name == name)
            .unwrap();
        kind.offerings[0].price.nanos()
    };
    assert_eq!(price("b2-7"), 24_200_000_000 / 730);
    assert_eq!(
        price("b3-8"),
        51_200_000 * 11 / 10,
        "an hour in a region of three zones"
    );
}

#[tokio::test(start_paused = true)]
async fn a_single_zone_region_has_the_zone_of_its_volumes() {
    let world = World::open(OvhCloudOptions::calm(1).single_zone());
    let provider = world.provider();
    let catalog = provider.catalog().await.unwrap();
    let zones: BTreeSet<&str> = catalog
        .types
        .iter()
        .flat_map(|kind| &kind.offerings)
        .map(|one| &*one.zone)
        .collect();
    assert_eq!(zones, BTreeSet::from(["nova"]));
    provider
        .launch(&order(0, "b3-8", "nova", None))
        .await
        .unwrap();
    let machine = running(&provider, 1).await.remove(0);
    assert_eq!((&*machine.zone, &*machine.region), ("nova", "GRA11"));
}

#[tokio::test(start_paused = true)]
async fn classes_of_one_project_draw_on_one_stock() {
    let mut options = OvhCloudOptions::calm(1);
    // What counts the machines that may still be started is not among the documented permissions.
    let flavors = format!("/cloud/project/{}/flavor", options.service_name);
    options.rules.push(("GET".to_owned(), flavors));
    let world = World::open(options);
    let stocks = |catalog: &Catalog| -> BTreeSet<String> {
        let types = catalog.types.iter();
        let offerings = types.flat_map(|one| &one.offerings);
        let counted = offerings.filter(|one| one.left.is_some());
        counted
            .map(|one| one.stock.clone().unwrap_or_default().to_string())
            .collect()
    };
    let mut other = world.options.clone();
    other.mark.class = "other".to_owned();
    let clock = world.clock.clone();
    let now: Now = Arc::new(move || clock.now());
    let other = Ovh::new(Http::new(world.cloud.router()), other, now).unwrap();
    let one = world.provider().catalog().await.unwrap();
    let stock = stocks(&one);
    assert!(!stock.is_empty() && !stock.contains(""), "{stock:?}");
    assert_eq!(stock, stocks(&other.catalog().await.unwrap()));
    let zones: BTreeSet<_> = one.types[0].offerings.iter().map(|one| &one.zone).collect();
    let first: BTreeSet<_> = one.types[0]
        .offerings
        .iter()
        .map(|one| &one.stock)
        .collect();
    assert_eq!((zones.len(), first.len()), (3, 1), "zones share it too");
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn refusals_say_what_is_wrong_and_heal_by_themselves() {
    let kind = |error: &ProviderError| (error.kind(), error.to_string());
    // Quota: as many as fit are bought, and the rest when there is room.
    let world = World::open(OvhCloudOptions {
        quota_cores: Some(8),
        ..OvhCloudOptions::calm(1)
    });
    let provider = world.provider();
    let orders: Vec<_> = (0..8).map(|uid| order(uid, "b3-8", ZONE, None)).collect();
    let answers = provider.launch_all(&orders).await;
    let bought = answers.iter().filter(|one| one.is_ok()).count();
    assert_eq!(bought, 4, "{answers:?}");
    for error in answers.iter().filter_map(|one| one.as_ref().err()) {
        assert_eq!(error.kind(), "quota", "{error}");
    }
    world.cloud.change(|options| options.quota_cores = None);
    minutes(6).await;
    let answers = provider.launch_all(&orders).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    running(&provider, 8).await;

    // Out of stock: the node fails, and the flavour is left alone for a while.
    let world = World::open(OvhCloudOptions::calm(1));
    world.cloud.change(|options| {
        let flavor = options
            .flavors
            .iter_mut()
            .find(|one| one.name == "b3-16")
            .unwrap();
        flavor.stock = Some(0);
    });
    let provider = world.provider();
    let machine = provider
        .launch(&order(0, "b3-16", ZONE, None))
        .await
        .unwrap();
    minutes(2).await;
    let machine = provider.get(&machine.id).await.unwrap();
    assert!(matches!(&machine.state, MachineState::Failed(said) if said.contains("out of stock")));
    let error = provider
        .launch(&order(1, "b3-16", ZONE, None))
        .await
        .unwrap_err();
    assert_eq!(kind(&error).0, "out_of_capacity");
    let catalog = provider.catalog().await.unwrap();
    let sold = catalog
        .types
        .iter()
        .find(|kind| &*kind.name == "b3-16")
        .unwrap();
    let open: Vec<bool> = sold.offerings.iter().map(|one| one.available).collect();
    assert_eq!(open, [false, true, true]);

    // Wrong settings: a sentence each.
    let table: [(Change, &str, &str); 4] = [
        (
            |options| options.region = Some("GRA9".to_owned()),
            "invalid",
            "region mismatch",
        ),
        (
            |options| options.kube_id = Some("nope".to_owned()),
            "unauthorised",
            "GET /cloud/project",
        ),
        (
            |options| {
                let keys = Credentials::Keys {
                    application_key: "wrong-key".into(),
                    application_secret: "wrong-secret".into(),
                    consumer_key: "wrong-consumer".into(),
                };
                options.credentials = Arc::new(keys);
            },
            "unauthorised",
            "check the keys in the Secret",
        ),
        (
            |options| "f".repeat(32).clone_into(&mut options.service_name),
            "unauthorised",
            "/cloud/project/ffff",
        ),
    ];
    for (change, wanted, part) in table {
        let mut world = World::open(OvhCloudOptions::calm(1));
        change(&mut world.options);
        let error = world.provider().catalog().await.unwrap_err();
        assert_eq!(error.kind(), wanted, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let world = World::open(OvhCloudOptions::calm(1));
    let error = world
        .provider()
        .launch(&order(0, "b9-1", ZONE, None))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("b9-1"), "{error}");
    assert!(world.cloud.pools().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_does_not_matter() {
    let world = World::open(OvhCloudOptions {
        clock_skew: 4000,
        ..OvhCloudOptions::calm(1)
    });
    let provider = world.provider();
    provider.catalog().await.unwrap();
    // And it may be set while we run.
    world.cloud.change(|options| options.clock_skew = -500);
    minutes(2).await;
    provider.catalog().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_service_account_does_as_well_as_keys() {
    let mut world = World::open(OvhCloudOptions::calm(1));
    world.options.credentials = Arc::new(Credentials::Account {
        client_id: "EU.simclient".into(),
        client_secret: "simClientSecret1".into(),
    });
    let provider = world.provider();
    provider.catalog().await.unwrap();
    // Tokens end after an hour.
    minutes(90).await;
    provider.catalog().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_prices_the_built_in_table_does_and_says_so() {
    let world = World::open(OvhCloudOptions::calm(1));
    world
        .cloud
        .fail("GET /1.0/order/", CallFault::Refused(503, None), 20);
    let provider = world.provider();
    assert!(!provider.catalog().await.unwrap().types.is_empty());
    let said = provider.concern().await.unwrap();
    assert!(said.contains("built-in table"), "{said}");
    world.cloud.forgive();
    minutes(6).await;
    provider.catalog().await.unwrap();
    assert_eq!(provider.concern().await, None);
}

fn desired(world: &World) -> Vec<u64> {
    let pools = world.cloud.pools();
    let sizes = pools.iter().map(|pool| pool["desiredNodes"].as_u64());
    sizes.map(Option::unwrap).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_the_service_loses_is_noticed_and_its_successor_costs_nothing_for_long() {
    let world = World::open(OvhCloudOptions::calm(1));
    let provider = world.provider();
    provider
        .launch(&order(0, "b3-8", ZONE, None))
        .await
        .unwrap();
    let machine = running(&provider, 1).await.remove(0);
    let node = world.cloud.nodes().remove(0);
    world.cloud.lose_node(&node.id);
    for _ in 0..5 {
        minutes(1).await;
        let _ = provider.list().await;
        assert!(desired(&world).iter().all(|size| *size <= 1), "it grows");
    }
    let gone = provider.get(&machine.id).await.unwrap_err();
    assert_eq!(gone.kind(), "not_found", "{gone}");
    // The pool has made another: it is listed for the collector of machines that no claim stands for.
    let strays = provider.list().await.unwrap();
    assert_eq!(strays.len(), 1, "{strays:?}");
    provider.terminate(&strays[0].id).await.unwrap();
    minutes(3).await;
    assert!(provider.list().await.unwrap().is_empty());
    assert!(world.cloud.nodes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_successor_of_a_lost_node_is_the_next_machines() {
    let world = World::open(OvhCloudOptions::calm(1));
    let provider = world.provider();
    let orders: Vec<_> = (0..3).map(|uid| order(uid, "b3-8", ZONE, None)).collect();
    provider.launch_all(&orders).await;
    let all = running(&provider, 3).await;
    let lost = link(&all[1]).unwrap();
    let mut nodes = world.cloud.nodes().into_iter();
    let node = nodes.find(|one| one.provider_id == lost).unwrap();
    world.cloud.lose_node(&node.id);
    for _ in 0..60 {
        if provider.get(&all[1].id).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let next = provider.launch(&order(9, "b3-8", ZONE, None)).await;
    next.unwrap();
    running(&provider, 3).await;
    assert_eq!(desired(&world), [3]);
    let made = world.cloud.nodes().len();
    assert_eq!(made, 3, "{:?}", world.cloud.nodes());
    assert!(world.cloud.removals().is_empty());
}

/// The service loses a node, and its machine is told to go at once: the pool may not shrink by a node that the service
/// chooses.
#[tokio::test(start_paused = true)]
async fn a_lost_machine_that_is_told_to_go_takes_no_other_with_it() {
    for wait in [3, 20, 65] {
        let world = World::open(OvhCloudOptions::calm(1));
        let mut provider = world.provider();
        let orders: Vec<_> = (0..3).map(|uid| order(uid, "b3-8", ZONE, None)).collect();
        provider.launch_all(&orders).await;
        let all = running(&provider, 3).await;
        let lost = link(&all[2]).unwrap();
        let mut nodes = world.cloud.nodes().into_iter();
        let node = nodes.find(|one| one.provider_id == lost).unwrap();
        world.cloud.lose_node(&node.id);
        tokio::time::sleep(Duration::from_secs(wait)).await;
        let _ = provider.terminate(&all[2].id).await;
        // And the process begins again in the middle of it.
        provider = world.provider();
        for _ in 0..12 {
            minutes(1).await;
            let _ = provider.terminate(&all[2].id).await;
            let listed = provider.list().await.unwrap();
            for stray in listed {
                if stray.id != all[0].id && stray.id != all[1].id {
                    let _ = provider.terminate(&stray.id).await;
                }
            }
        }
        let left = world.cloud.nodes().into_iter();
        let left: BTreeSet<_> = left.map(|node| node.provider_id).collect();
        let kept: BTreeSet<_> = all[..2].iter().filter_map(link).collect();
        assert_eq!(left, kept, "after {wait} s");
        assert_eq!(desired(&world), [2]);
    }
}

/// Machines of many shapes come and go; the process crashes and answers are lost. Whatever happens, no limit is broken,
/// no node goes that was not named, and nothing is left behind.
#[expect(clippy::too_many_lines, reason = "one story")]
async fn churn(machines: u32, shapes: usize, seed: u64) {
    let mut world = World::open(OvhCloudOptions::calm(seed));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let flavors = ["b3-8", "b3-16", "c3-8", "r3-16", "b2-7"];
    let zones = ["eu-west-par-a", "eu-west-par-b", "eu-west-par-c"];
    let shape = |number: usize| {
        let team = if number.is_multiple_of(2) {
            "red"
        } else {
            "blue"
        };
        (flavors[number % 5], zones[number / 5 % 3], team)
    };
    let mut provider = world.provider();
    let mut wanted: BTreeMap<u32, LaunchRequest> = BTreeMap::new();
    let mut ids: BTreeMap<u32, MachineId> = BTreeMap::new();
    let mut leaving: BTreeSet<MachineId> = BTreeSet::new();
    let mut links: BTreeMap<MachineId, String> = BTreeMap::new();
    let (mut bought, mut round) = (0, 0);
    while bought < machines || !leaving.is_empty() || !ids.is_empty() {
        round += 1;
        assert!(
            round < 600,
            "{} wanted, {} there, {} leave",
            wanted.len(),
            ids.len(),
            leaving.len()
        );
        if bought < machines {
            for _ in 0..random.random_range(20..60).min(machines - bought) {
                let (flavor, zone, team) = shape(random.random_range(0..shapes));
                wanted.insert(bought, order(bought, flavor, zone, Some(team)));
                bought += 1;
            }
        }
        if round % 7 == 0 {
            let lost = format!("{} /1.0/cloud", ["PUT", "POST", "DELETE"][round % 3]);
            world.cloud.fail(&lost, CallFault::Lost, 1);
        }
        let orders: Vec<LaunchRequest> = wanted.values().take(100).cloned().collect();
        if round % 5 == 0 {
            // The process dies in the middle of whatever it does.
            let (dying, orders) = (Arc::clone(&provider), orders.clone());
            let task = tokio::spawn(async move { dying.launch_all(&orders).await.len() });
            tokio::time::sleep(Duration::from_millis(random.random_range(0..3000))).await;
            task.abort();
            let _ = task.await;
            // Another process does not know how many calls this one has made.
            world.options.pace = Arc::default();
            provider = world.provider();
        } else {
            let numbers: Vec<u32> = wanted.keys().take(100).copied().collect();
            let answers = provider.launch_all(&orders).await;
            for (number, answer) in numbers.into_iter().zip(answers) {
                if let Ok(machine) = answer {
                    ids.insert(number, machine.id);
                    wanted.remove(&number);
                }
            }
        }
        minutes(1).await;
        if let Ok(all) = provider.list().await {
            for machine in &all {
                if let Some(node) = link(machine) {
                    let known = links
                        .entry(machine.id.clone())
                        .or_insert_with(|| node.clone());
                    assert_eq!(*known, node, "a machine never changes its node");
                }
            }
            let own: BTreeSet<_> = all.iter().filter_map(link).collect();
            let count = all.iter().filter(|one| link(one).is_some()).count();
            assert_eq!(own.len(), count, "no node is two machines");
        }
        // Some go, and in the end all.
        let share = if bought < machines { 4 } else { 1 };
        let going: Vec<u32> = ids
            .keys()
            .filter(|number| {
                share == 1 || **number % share == u32::try_from(round).unwrap() % share
            })
            .take(60)
            .copied()
            .collect();
        for number in going {
            leaving.extend(ids.remove(&number));
        }
        let mut gone = Vec::new();
        let ending = leaving.iter().cloned().map(|id| {
            let provider = Arc::clone(&provider);
            async move { (provider.terminate(&id).await, id) }
        });
        for (answer, id) in futures::future::join_all(ending).await {
            if let Err(ProviderError::NotFound(_)) = answer {
                gone.push(id);
            }
        }
        for id in gone {
            if let Some(node) = links.get(&id) {
                let there = world
                    .cloud
                    .nodes()
                    .into_iter()
                    .any(|one| one.provider_id == *node && !one.leaving);
                assert!(!there, "{id} is said to be gone and {node} is there");
            }
            leaving.remove(&id);
        }
        // A machine that nobody told to go is still there.
        let nodes: BTreeSet<String> = world
            .cloud
            .nodes()
            .into_iter()
            .filter(|node| !node.leaving)
            .map(|node| node.provider_id)
            .collect();
        for id in ids.values() {
            if let Some(node) = links.get(id) {
                assert!(
                    nodes.contains(node),
                    "round {round}: {id} lost its node {node}"
                );
            }
        }
    }
    for _ in 0..40 {
        minutes(1).await;
        let _ = provider.list().await;
    }
    let unnamed = world
        .cloud
        .removals()
        .iter()
        .filter(|(_, named)| !named)
        .count();
    let (pools, nodes) = world.cloud.peaks();
    println!(
        "seed {seed}, {machines} machines of {shapes} shapes: {round} rounds, {} calls, {} in the busiest minute, {pools} pools and \
         {nodes} nodes in one at most, {unnamed} nodes removed without a name",
        world.cloud.calls().len(),
        world.cloud.busiest_minute()
    );
    assert!(world.cloud.busiest_minute() <= 60);
    assert!(pools <= 100 && nodes <= 100);
    assert!(world.cloud.nodes().is_empty(), "{:?}", world.cloud.nodes());
    assert!(world.cloud.pools().is_empty(), "{:?}", world.cloud.pools());
}

#[tokio::test(start_paused = true)]
async fn churn_of_two_hundred_machines_breaks_no_limit_and_leaves_nothing() {
    churn(200, 30, 1).await;
}

#[tokio::test(start_paused = true)]
async fn churn_of_a_thousand_machines_breaks_no_limit_and_leaves_nothing() {
    for seed in 2..10 {
        churn(1000, 30, seed).await;
    }
}
