//! The cloud keeps the contract of a provider, and things happen when they should.

use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::CapacityType;
use joiner_core::resources::Resources;

use super::*;

mod memory;

#[derive(Default)]
struct Recorded(Mutex<Vec<String>>);

impl Recorded {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Rack for Recorded {
    fn boot(&self, spec: NodeSpec) {
        self.0
            .lock()
            .unwrap()
            .push(format!("boot {} {}", spec.name, spec.provider_id));
    }

    fn kill(&self, name: &str) {
        self.0.lock().unwrap().push(format!("kill {name}"));
    }
}

fn request(uid: &str, capacity_type: CapacityType) -> LaunchRequest {
    LaunchRequest {
        uid: Uid(uid.into()),
        name: format!("node-{uid}").as_str().into(),
        purchase: Purchase {
            catalog: "sim".into(),
            instance_type: "m-4x-amd64".into(),
            zone: "sim-a".into(),
            capacity_type,
            reservation: None,
            host: None,
            price: joiner_core::money::Money::ZERO,
        },
        capacity: Resources::new(),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    }
}

fn open(change: impl FnOnce(&mut SimCloudOptions)) -> (SimCloud, Arc<Recorded>) {
    let mut options = SimCloudOptions::calm(built_in(), 1);
    change(&mut options);
    let rack = Arc::new(Recorded::default());
    let cloud = SimCloud::new(
        options,
        Clock::virtual_time(),
        Arc::clone(&rack) as Arc<dyn Rack>,
    );
    let runner = cloud.clone();
    tokio::spawn(async move { runner.run().await });
    (cloud, rack)
}

#[tokio::test(start_paused = true)]
async fn the_same_request_twice_buys_one_machine() {
    let (cloud, rack) = open(|_| {});
    let order = request("u1", CapacityType::OnDemand);
    let first = cloud.launch(&order).await.unwrap();
    let again = cloud.launch(&order).await.unwrap();
    assert_eq!(first, again);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(cloud.list().await.unwrap().len(), 1);
    assert_eq!(rack.lines(), ["boot node-u1 sim:///sim-a/u1"]);
    assert_eq!(
        cloud.get(&first.id).await.unwrap().state,
        MachineState::Running
    );
}

#[tokio::test(start_paused = true)]
async fn a_terminated_machine_is_there_until_it_is_gone() {
    let (cloud, rack) = open(|_| {});
    let machine = cloud
        .launch(&request("u1", CapacityType::OnDemand))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    cloud.terminate(&machine.id).await.unwrap();
    cloud.terminate(&machine.id).await.unwrap();
    assert_eq!(
        cloud.get(&machine.id).await.unwrap().state,
        MachineState::Stopping
    );
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(matches!(
        cloud.get(&machine.id).await,
        Err(ProviderError::NotFound(_))
    ));
    assert!(matches!(
        cloud.terminate(&machine.id).await,
        Err(ProviderError::NotFound(_))
    ));
    assert_eq!(rack.lines()[1], "kill node-u1");
}

#[tokio::test(start_paused = true)]
async fn a_machine_terminated_while_it_boots_never_becomes_a_node() {
    let (cloud, rack) = open(|_| {});
    let machine = cloud
        .launch(&request("u1", CapacityType::OnDemand))
        .await
        .unwrap();
    cloud.terminate(&machine.id).await.unwrap();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(rack.lines().is_empty());
    assert!(cloud.list().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_machine_gets_notice_and_then_goes() {
    let (cloud, rack) = open(|_| {});
    let machine = cloud
        .launch(&request("u1", CapacityType::Spot))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(cloud.notices().await.unwrap().is_empty());
    cloud.interrupt(&machine.id);
    assert_eq!(cloud.notices().await.unwrap()[0].id, machine.id);
    tokio::time::sleep(Duration::from_secs(121)).await;
    assert!(matches!(
        cloud.get(&machine.id).await,
        Err(ProviderError::NotFound(_))
    ));
    assert_eq!(rack.lines()[1], "kill node-u1");
}

#[tokio::test(start_paused = true)]
async fn spot_machines_are_asked_back_and_others_are_not() {
    let (cloud, _) = open(|options| options.market.spot_life = Some(Duration::from_hours(1)));
    cloud
        .launch(&request("spot", CapacityType::Spot))
        .await
        .unwrap();
    cloud
        .launch(&request("kept", CapacityType::OnDemand))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_hours(2)).await;
    let left: Vec<_> = cloud
        .list()
        .await
        .unwrap()
        .into_iter()
        .filter_map(|one| one.uid)
        .collect();
    assert_eq!(left, [Uid("kept".into())]);
}

#[tokio::test(start_paused = true)]
async fn what_is_sold_out_is_refused_and_shown_as_such() {
    let (cloud, _) = open(|options| options.market.sold_out_percent = 100);
    let refused = cloud
        .launch(&request("u1", CapacityType::Spot))
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "out of capacity: m-4x-amd64 as spot in sim-a is sold out"
    );
    let catalog = cloud.catalog().await.unwrap();
    let spot = |one: &&Offering| one.capacity_type == CapacityType::Spot;
    assert!(
        catalog
            .types
            .iter()
            .flat_map(|kind| &kind.offerings)
            .filter(spot)
            .all(|one| !one.available)
    );
}

#[tokio::test(start_paused = true)]
async fn a_cloud_may_keep_quiet_about_what_is_sold_out() {
    let (cloud, _) = open(|options| {
        options.market.sold_out_percent = 100;
        options.shows_stock = false;
    });
    let catalog = cloud.catalog().await.unwrap();
    let mut offerings = catalog.types.iter().flat_map(|kind| &kind.offerings);
    assert!(offerings.all(|one| one.available));
    let refused = cloud.launch(&request("u1", CapacityType::Spot)).await;
    assert!(matches!(refused, Err(ProviderError::OutOfCapacity(_))));
}

#[tokio::test(start_paused = true)]
async fn a_stillborn_machine_costs_money_and_never_joins() {
    let (cloud, rack) = open(|options| options.stillborn_percent = 100);
    let machine = cloud
        .launch(&request("u1", CapacityType::OnDemand))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(rack.lines().is_empty());
    assert!(matches!(
        cloud.get(&machine.id).await.unwrap().state,
        MachineState::Pending(_)
    ));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_type_is_refused_by_name() {
    let (cloud, _) = open(|_| {});
    let mut order = request("u1", CapacityType::OnDemand);
    order.purchase.instance_type = "z-1".into();
    let refused = cloud.launch(&order).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        r#"invalid: there is no instance type "z-1""#
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_launch_may_work_a_second_later() {
    let (cloud, _) = open(|options| options.refused_percent = 50);
    let order = request("u1", CapacityType::OnDemand);
    let mut refused = 0;
    while cloud.launch(&order).await.is_err() {
        refused += 1;
        assert!(refused < 100);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(cloud.list().await.unwrap().len(), 1);
}
