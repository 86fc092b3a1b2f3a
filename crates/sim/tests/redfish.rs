//! The Redfish provider against simulated BMCs of every model, and against what goes wrong with them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "redfish/world.rs"]
mod world;

use std::sync::Arc;
use std::time::Duration;

use joiner_providers::redfish::{BootMode, HostOptions};
use joiner_providers::{MemoryLedger, Provider, ProviderError};
use joiner_sim::clouds::redfish::{CallFault, Model};
use world::{World, bmc, free, order, seconds, until_gone, until_running};

#[tokio::test(start_paused = true)]
async fn a_host_of_every_model_boots_from_the_network_and_goes_off_again() {
    for model in Model::all() {
        let name = model.name;
        let world = World::new(&[model]);
        let (provider, _) = world.all(1);
        assert_eq!(
            free(&provider.catalog().await.unwrap()),
            ["metal-0"],
            "{name}: {:?}",
            provider.concern().await
        );
        let order = order(1, "metal-0");
        let machine = until_running(&provider, &order).await.unwrap();
        seconds(300).await;
        let truth = world.fleet.truth(&bmc(0)).unwrap();
        assert_eq!((truth.network_boots, truth.other_boots), (1, 0), "{name}");
        let ids: Vec<String> = world.nodes.0.lock().unwrap().values().cloned().collect();
        assert_eq!(ids.len(), 1, "{name}");
        assert!(
            machine.id.0.starts_with(&format!("{}#", ids[0])),
            "{name}: {}",
            machine.id
        );
        assert!(
            free(&provider.catalog().await.unwrap()).is_empty(),
            "{name}"
        );
        assert!(until_gone(&provider, &order.uid).await, "{name}");
        provider.close().await;
        let truth = world.fleet.truth(&bmc(0)).unwrap();
        assert!(
            !truth.power && !truth.armed && truth.asset_tag.is_empty(),
            "{name}: {truth:?}"
        );
        assert_eq!(truth.sessions, 0, "{name}: no session is left open");
        assert!(
            truth.opened <= 1,
            "{name}: one session was enough, not {}",
            truth.opened
        );
        assert!(world.nodes.0.lock().unwrap().is_empty(), "{name}");
        assert_eq!(
            free(&provider.catalog().await.unwrap()),
            ["metal-0"],
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_runs_something_else_is_not_for_sale_and_never_touched() {
    let world = World::plain(2);
    world.fleet.occupy(&bmc(0));
    let (provider, _) = world.all(2);
    assert_eq!(free(&provider.catalog().await.unwrap()), ["metal-1"]);
    let said = provider.concern().await.unwrap();
    assert!(
        said.contains("host metal-0 is powered on and not a machine of this cluster"),
        "{said}"
    );
    let error = provider.launch(&order(1, "metal-0")).await.unwrap_err();
    assert_eq!(error.kind(), "out_of_capacity", "{error}");
    assert_eq!(world.fleet.truth(&bmc(0)).unwrap().disturbed, 0);
    assert!(provider.list().await.unwrap().is_empty());
    world.fleet.unplug(&bmc(0));
    seconds(60).await;
    assert_eq!(
        free(&provider.catalog().await.unwrap()).len(),
        2,
        "healed by itself"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_said_not_hammered_and_heals_with_the_secret() {
    let world = World::plain(1);
    *world.secret.0.lock().unwrap() = "old".into();
    let (provider, _) = world.all(1);
    for _ in 0..20 {
        let error = provider.catalog().await.unwrap_err();
        assert_eq!(error.kind(), "unauthorised");
        assert!(
            error
                .to_string()
                .contains("host metal-0: its BMC at https://10.0.9.11 refuse"),
            "{error}"
        );
        seconds(30).await;
    }
    let truth = world.fleet.truth(&bmc(0)).unwrap();
    assert!(
        truth.refused_logins <= 2,
        "one login by session and one without, not {}",
        truth.refused_logins
    );
    *world.secret.0.lock().unwrap() = "sim-password".into();
    assert_eq!(free(&provider.catalog().await.unwrap()), ["metal-0"]);
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_a_sentence_about_the_host_and_spares_the_others() {
    let world = World::plain(3);
    world
        .fleet
        .change(&bmc(0), |setup| setup.modes = vec!["UEFI".into()]);
    let mut hosts: Vec<HostOptions> = (0..3).map(|number| world.host(number)).collect();
    hosts[0].boot.mode = Some(BootMode::Legacy);
    world.fleet.fail(
        "GET 10.0.9.12/redfish/v1/",
        CallFault::Says(200, "<html>router login</html>".into()),
        99,
    );
    let provider = world.provider(hosts, &Arc::default());
    assert_eq!(free(&provider.catalog().await.unwrap()), ["metal-2"]);
    let said = provider.warnings();
    assert!(
        said["metal-0"].contains("boot.mode Legacy is not among what its BMC allows (UEFI)"),
        "{said:?}"
    );
    assert!(
        said["metal-1"].contains("this is not a Redfish service"),
        "{said:?}"
    );
    world.fleet.forgive();
    assert_eq!(
        free(&provider.catalog().await.unwrap()),
        ["metal-1", "metal-2"]
    );

    let mut other = world.host(2);
    other.system_uuid = Some("00112233-4455-6677-8899-aabbccddeeff".into());
    let provider = world.provider(vec![other], &Arc::default());
    let error = provider.catalog().await.unwrap_err();
    assert!(error.to_string().contains("it is left alone"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn two_classes_that_list_one_host_buy_it_once() {
    for model in [Model::plain(), Model::all().remove(5)] {
        let world = World::new(&[model]);
        let (first, _) = world.all(1);
        let (second, _) = world.all(1);
        let (a, b) = (order(1, "metal-0"), order(2, "metal-0"));
        let bought = futures::future::join(first.launch(&a), second.launch(&b)).await;
        let refused = [&bought.0, &bought.1]
            .into_iter()
            .filter_map(|one| one.as_ref().err());
        let kinds: Vec<&str> = refused.map(ProviderError::kind).collect();
        assert_eq!(kinds, ["out_of_capacity"]);
        seconds(60).await;
        assert!(free(&first.catalog().await.unwrap()).is_empty());
        assert!(free(&second.catalog().await.unwrap()).is_empty());
        let machines = first.list().await.unwrap().len() + second.list().await.unwrap().len();
        assert_eq!(machines, 1);
        assert_eq!(
            second.concern().await,
            None,
            "a host of another class is no trouble"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_of_sessions_that_is_full_does_not_stop_the_work() {
    let idrac = Model::all()
        .into_iter()
        .find(|model| model.name == "dell-idrac9")
        .unwrap();
    let world = World::new(&[idrac]);
    world.fleet.leave_sessions(&bmc(0), 8);
    let (provider, _) = world.all(1);
    assert_eq!(free(&provider.catalog().await.unwrap()), ["metal-0"]);
    let said = provider.concern().await.unwrap();
    assert!(said.contains("its BMC has no session left"), "{said}");
    assert!(until_running(&provider, &order(1, "metal-0")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_bmc_forgot_is_opened_anew() {
    let world = World::plain(1);
    let (provider, _) = world.all(1);
    provider.catalog().await.unwrap();
    world.fleet.end_sessions(&bmc(0));
    provider.catalog().await.unwrap();
    assert_eq!(world.fleet.truth(&bmc(0)).unwrap().opened, 2);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_ignores_the_shutdown_is_forced_off_when_the_time_is_up() {
    let openbmc = Model::all()
        .into_iter()
        .find(|model| model.name == "openbmc")
        .unwrap();
    let world = World::new(&[openbmc]);
    let (provider, _) = world.all(1);
    let order = order(1, "metal-0");
    let machine = until_running(&provider, &order).await.unwrap();
    seconds(300).await;
    provider.terminate(&machine.id).await.unwrap();
    seconds(170).await;
    provider.terminate(&machine.id).await.unwrap();
    assert!(
        world.fleet.truth(&bmc(0)).unwrap().power,
        "it is given three minutes"
    );
    seconds(15).await;
    provider.terminate(&machine.id).await.unwrap();
    seconds(10).await;
    assert!(!world.fleet.truth(&bmc(0)).unwrap().power);
    let error = provider.terminate(&machine.id).await.unwrap_err();
    assert_eq!(error.kind(), "not_found", "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_somebody_powered_off_is_announced_as_gone() {
    let world = World::plain(1);
    let (provider, _) = world.all(1);
    let order = order(1, "metal-0");
    let machine = until_running(&provider, &order).await.unwrap();
    world.fleet.unplug(&bmc(0));
    seconds(10).await;
    provider.catalog().await.unwrap();
    assert!(
        provider.notices().await.unwrap().is_empty(),
        "one look is not enough"
    );
    seconds(70).await;
    provider.catalog().await.unwrap();
    let notices = provider.notices().await.unwrap();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].id, machine.id);
    assert!(until_gone(&provider, &order.uid).await);
    assert_eq!(free(&provider.catalog().await.unwrap()), ["metal-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_process_goes_on_where_the_old_one_died() {
    let lines = ["PATCH", "POST 10.0.9.11/redfish/v1/Systems/1/Actions"];
    for line in lines {
        for fault in [
            CallFault::Lost,
            CallFault::Hangs,
            CallFault::Refused(500, None),
        ] {
            let world = World::plain(1);
            let ledger = Arc::new(MemoryLedger::default());
            let order = order(1, "metal-0");
            {
                let provider = world.provider(vec![world.host(0)], &ledger);
                provider.catalog().await.unwrap();
                world.fleet.fail(line, fault.clone(), 1);
                let _ = tokio::time::timeout(Duration::from_secs(5), provider.launch(&order)).await;
            }
            let provider = world.provider(vec![world.host(0)], &ledger);
            let machine = until_running(&provider, &order).await.unwrap();
            assert_eq!(machine.uid.as_ref(), Some(&order.uid));
            let truth = world.fleet.truth(&bmc(0)).unwrap();
            assert_eq!(
                (truth.network_boots, truth.other_boots),
                (1, 0),
                "{line} {fault:?}"
            );
            assert!(until_gone(&provider, &order.uid).await, "{line} {fault:?}");
            assert!(!world.fleet.truth(&bmc(0)).unwrap().power);
        }
    }
}
