//! What is left behind, what is lost, and what other calls must not suffer from.

use super::*;

fn taints(pool: &serde_json::Value) -> Vec<(String, String)> {
    let all = pool["template"]["spec"]["taints"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    all.iter()
        .map(|taint| (text(&taint["key"]), text(&taint["value"])))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_taint_without_a_value_is_not_given_another_one() {
    let world = World::open(OvhCloudOptions::calm(1));
    let provider = world.provider();
    let mut tainted = order(0, "b3-8", ZONE, None);
    tainted.taints.push(Taint::no_schedule("dedicated"));
    let mut valued = Taint::no_schedule("team");
    valued.value = "a".into();
    tainted.taints.push(valued);
    provider.launch(&tainted).await.unwrap();
    // Registration gives the node the taint as it is; one with another value would be kept for ever.
    let pools = world.cloud.pools();
    assert_eq!(taints(&pools[0]), [("team".to_owned(), "a".to_owned())]);
    // And machines with the taint do not share a pool with machines without it.
    let mut other = order(1, "b3-8", ZONE, None);
    other.taints.push(tainted.taints[1].clone());
    provider.launch(&other).await.unwrap();
    assert_eq!(world.cloud.pools().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn pools_go_with_their_class() {
    let world = World::open(OvhCloudOptions::calm(1));
    let provider = world.provider();
    let orders = [
        order(0, "b3-8", ZONE, None),
        order(1, "b3-16", ZONE, None),
        order(2, "c3-8", ZONE, None),
    ];
    provider.launch_all(&orders).await;
    let all = running(&provider, 3).await;
    world.cloud.plant(
        &serde_json::json!({"name": "karpenter-theirs", "flavorName": "b3-8",
        "desiredNodes": 0, "availabilityZones": [ZONE], "template": null}),
    );
    let until_gone = async |machine: &Machine| {
        for _ in 0..20 {
            if let Err(ProviderError::NotFound(_)) = provider.terminate(&machine.id).await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        panic!("{} does not go", machine.id);
    };
    for machine in &all[1..] {
        until_gone(machine).await;
    }
    // The class has changed: a provider of today has a machine, and the pools of a class in use stay for a while.
    provider.close().await;
    assert_eq!(desired(&world).iter().sum::<u64>(), 1);
    assert_eq!(world.cloud.nodes().len(), 1);
    until_gone(&all[0]).await;
    // The class is gone, and its provider is dropped.
    provider.close().await;
    drop(provider);
    minutes(2).await;
    let names: Vec<String> = world
        .cloud
        .pools()
        .iter()
        .map(|pool| pool["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["karpenter-theirs"]);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_still_being_made_goes_with_its_class_as_soon_as_it_can() {
    let mut options = OvhCloudOptions::calm(1);
    options.pool_installs = Duration::from_mins(15);
    let world = World::open(options);
    let provider = world.provider();
    let machine = provider
        .launch(&order(0, "b3-8", ZONE, None))
        .await
        .unwrap();
    let said = provider.clear().await.unwrap_err();
    assert!(said.to_string().contains("still on record"), "{said}");
    for _ in 0..60 {
        if let Err(ProviderError::NotFound(_)) = provider.terminate(&machine.id).await {
            break;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let status = |world: &World| world.cloud.pools()[0]["status"].clone();
    assert_eq!(status(&world), "INSTALLING");
    let said = provider.clear().await.unwrap_err();
    assert!(said.passes(), "it is worth another try");
    assert!(said.to_string().contains("INSTALLING"), "{said}");
    assert_eq!(status(&world), "INSTALLING");
    // Another process goes on: nothing is kept in the one that was refused.
    let provider = world.provider();
    minutes(15).await;
    provider.clear().await.unwrap();
    minutes(2).await;
    assert!(world.cloud.pools().is_empty());
    provider.clear().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_empty_pool_goes_although_no_process_lives_for_long() {
    let world = World::open(OvhCloudOptions::calm(1));
    let provider = world.provider();
    let machine = provider
        .launch(&order(0, "b3-8", ZONE, None))
        .await
        .unwrap();
    running(&provider, 1).await;
    for _ in 0..30 {
        if let Err(ProviderError::NotFound(_)) = provider.terminate(&machine.id).await {
            break;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    // It is kept for a while, for a machine that is like it.
    minutes(2).await;
    world.provider().list().await.unwrap();
    assert_eq!(desired(&world), [0]);
    for _ in 0..5 {
        minutes(1).await;
        world.provider().list().await.unwrap();
    }
    minutes(2).await;
    assert!(world.cloud.pools().is_empty());
}

#[tokio::test(start_paused = true)]
async fn reads_that_fail_leave_calls_for_writes() {
    let project = "/1.0/cloud/project/0123456789abcdef0123456789abcdef";
    let kube = format!("{project}/kube/11111111-2222-3333-4444-555555555555");
    for read in [
        format!("GET {project}/flavor"),
        format!("GET {project}/capabilities/kube/flavors"),
        format!("GET {project}/region/EU-WEST-PAR"),
        // The list of all nodes too: it begins like this.
        format!("GET {kube}/node"),
    ] {
        let mut options = OvhCloudOptions::calm(1);
        options.rules.clear();
        let world = World::open(options);
        let provider = world.provider();
        let orders: Vec<_> = (0..50).map(|uid| order(uid, "b3-8", ZONE, None)).collect();
        provider.launch_all(&orders).await;
        let all = running(&provider, 50).await;
        // A process that has just begun knows nothing that it could fall back on.
        let provider = world.provider();
        world
            .cloud
            .fail(&read, CallFault::Refused(500, None), u32::MAX);
        let before = world.cloud.calls().len();
        for _ in 0..12 {
            let asked = all.iter().map(|machine| provider.get(&machine.id));
            futures::future::join_all(asked).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let calls = world.cloud.calls();
        let failed = calls[before..]
            .iter()
            .filter(|call| call.starts_with(&read));
        let failed = failed.count();
        assert!(
            (1..=15).contains(&failed),
            "{read}: {failed} times in a minute"
        );
        world.cloud.forgive();
        tokio::time::sleep(Duration::from_secs(40)).await;
        provider.get(&all[0].id).await.unwrap();
        provider.terminate(&all[0].id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_broken_gets_no_more_machines_and_its_own_fail() {
    let world = World::open(OvhCloudOptions::calm(1));
    let provider = world.provider();
    provider
        .launch(&order(0, "b3-8", ZONE, None))
        .await
        .unwrap();
    let first = running(&provider, 1).await.remove(0);
    let pool = world.cloud.pools()[0]["name"].as_str().unwrap().to_owned();
    // In the pool before it breaks, and never made there.
    let stuck = provider.launch(&order(1, "b3-8", ZONE, None)).await;
    world.cloud.break_pool(&pool);
    let stuck = stuck.unwrap();
    minutes(1).await;
    let state = provider.get(&stuck.id).await.unwrap().state;
    assert!(matches!(state, MachineState::Pending(_)), "{state:?}");
    minutes(4).await;
    let state = provider.get(&stuck.id).await.unwrap().state;
    assert!(
        matches!(&state, MachineState::Failed(said) if said.contains("ERROR") && said.contains(&pool)),
        "{state:?}"
    );
    // Its successor is made elsewhere.
    let next = provider
        .launch(&order(2, "b3-8", ZONE, None))
        .await
        .unwrap();
    for _ in 0..8 {
        minutes(1).await;
        let _ = provider.list().await;
    }
    let next = provider.get(&next.id).await.unwrap();
    assert_eq!(next.state, MachineState::Running);
    let first = provider.get(&first.id).await.unwrap();
    assert_eq!(first.state, MachineState::Running, "what runs there stays");
}

#[tokio::test(start_paused = true)]
async fn a_flavour_with_gpus_that_no_table_knows_may_take_as_long_as_the_others() {
    let mut options = OvhCloudOptions::calm(1);
    let mut flavor = options.flavors[0].clone();
    "h900-380".clone_into(&mut flavor.name);
    (flavor.vcpus, flavor.ram, flavor.gpus) = (30, 380, 1);
    options.flavors.push(flavor);
    let world = World::open(options);
    let provider = world.provider();
    let wanted = |flavor: &str| order(0, flavor, ZONE, None).purchase;
    let hours = Duration::from_hours(2);
    // Before the flavours are read, nobody knows; a machine must not be given up for that.
    assert_eq!(provider.timeouts(&wanted("h900-380")).registration, hours);
    provider.catalog().await.unwrap();
    assert_eq!(provider.timeouts(&wanted("h900-380")).registration, hours);
    assert!(provider.timeouts(&wanted("b3-8")).registration < hours);
    assert!(provider.timeouts(&wanted("b9-8")).registration < hours);
}
