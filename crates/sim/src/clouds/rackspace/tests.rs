//! The market works as its rules say.

use super::*;
use joiner_embedded::cluster::kubelet::NodeSpec;

#[derive(Default)]
struct Recorded(Mutex<Vec<String>>);

impl Rack for Recorded {
    fn boot(&self, spec: NodeSpec) {
        let pool = spec.labels["nodepool.ngpc.rxt.io/name"].clone();
        self.0.lock().unwrap().push(format!("boot {pool}"));
    }

    fn kill(&self, name: &str) {
        assert!(name.starts_with("prod-instance-"));
        self.0.lock().unwrap().push("kill".to_owned());
    }
}

const POOL: &str = "7c1f0f1e-5b53-4e0a-9a55-0c6f2f7a9d10";

fn open() -> (RackspaceCloud, Arc<Recorded>) {
    let rack = Arc::new(Recorded::default());
    let cloud = RackspaceCloud::new(
        RackspaceCloudOptions::calm(1),
        Clock::virtual_time(),
        Arc::clone(&rack) as Arc<dyn Rack>,
    );
    let runner = cloud.clone();
    tokio::spawn(async move { runner.run().await });
    (cloud, rack)
}

fn bid(price: &str) -> Value {
    json!({"serverClass": "gp.vs1.large-ord", "desired": 1, "bidPrice": price, "cloudSpace": "demo"})
}

async fn pass(minutes: u64) {
    tokio::time::sleep(Duration::from_mins(minutes)).await;
}

#[tokio::test(start_paused = true)]
async fn a_won_bid_becomes_a_node_in_its_own_time() {
    let (cloud, rack) = open();
    assert!(cloud.plant(POOL, &bid("0.02")));
    assert_eq!(cloud.pools()[0]["status"]["bidStatus"], "Pending");
    pass(1).await;
    assert_eq!(
        cloud.pools()[0]["status"],
        json!({"bidStatus": "Fulfilled", "wonCount": 1})
    );
    assert!(rack.0.lock().unwrap().is_empty());
    pass(31).await;
    assert_eq!(*rack.0.lock().unwrap(), [format!("boot {POOL}")]);
}

#[tokio::test(start_paused = true)]
async fn a_market_above_the_bid_takes_the_server_after_notice() {
    let (cloud, rack) = open();
    cloud.plant(POOL, &bid("0.02"));
    pass(32).await;
    cloud.change_class("gp.vs1.large-ord", |class| class.pinned = Some(21));
    pass(1).await;
    assert_eq!(cloud.pools()[0]["status"]["bidStatus"], "Lost");
    assert_eq!(cloud.webhook_calls().len(), 1);
    assert_eq!(rack.0.lock().unwrap().len(), 1, "it has six minutes");
    pass(6).await;
    assert_eq!(rack.0.lock().unwrap().last().unwrap(), "kill");
    assert_eq!(cloud.pools()[0]["status"]["wonCount"], 0);
}

#[tokio::test(start_paused = true)]
async fn without_stock_a_bid_stays_undecided() {
    let (cloud, _) = open();
    cloud.change_class("gp.vs1.large-ord", |class| class.available = 0);
    cloud.plant(POOL, &bid("0.02"));
    pass(60).await;
    assert_eq!(cloud.pools()[0]["status"]["bidStatus"], "Pending");
    cloud.change_class("gp.vs1.large-ord", |class| class.available = 1);
    pass(6).await;
    assert_eq!(cloud.pools()[0]["status"]["wonCount"], 1);
}
