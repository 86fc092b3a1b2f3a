//! Several regions: compared, the best recommended; a pool that closes while another region is clearly cheaper; the
//! dashboard's metrics on the real endpoint.

use serde_json::{Value, json};

use super::LEFTOVERS;
use super::region::{Classes, POOLS, Region, condition, documented, repository};

const ZONES: [&str; 3] = ["eu-west-1a", "eu-west-1b", "eu-west-1c"];
const NAME: &str = "gpu-spot-euc1";

/// Fixes the price of the cheapest GPU of the other region.
fn elsewhere(region: &Region, dollars: f64) {
    for zone in ZONES {
        region.cloud.set_price("g5.xlarge", zone, dollars);
    }
}

/// Lets the pool be looked at, and returns it as it is then.
async fn look(region: &Region, minutes: i64) -> Value {
    super::look(region, NAME, minutes).await;
    let path = format!("{LEFTOVERS}/{NAME}");
    region.client.get(&path).await.unwrap()
}

async fn limits(region: &Region) -> Value {
    let path = format!("{POOLS}/leftover-{NAME}");
    let pool = region.client.get(&path).await.unwrap();
    pool["spec"]["limits"].clone()
}

pub(super) async fn lo_09_regions_are_compared_and_the_best_is_recommended() {
    let mut region = Region::start(Classes::V1).await;
    region.cloud.set_score("eu-central-1", 8);
    region.cloud.set_score("eu-west-1", 9);
    region.cloud.close_region("me-south-1");
    elsewhere(&region, 0.05);
    let port = super::quickstart::free_port();
    let metrics = format!("--metrics-bind-address=127.0.0.1:{port}");
    region.join(&[&metrics]);
    let mut pool = documented();
    pool["spec"]["regions"] = json!(["eu-west-1", "me-south-1"]);
    region.create(&pool).await;
    let seen = region.ready(NAME).await;
    let status = &seen["status"];
    assert_eq!(status["recommendedRegion"], "eu-west-1", "{status:#}");
    let regions = status["regions"].as_array().unwrap();
    let names: Vec<&str> = regions
        .iter()
        .filter_map(|one| one["region"].as_str())
        .collect();
    assert_eq!(names, ["eu-west-1", "eu-central-1", "me-south-1"]);
    assert_eq!(regions[0]["instanceType"], "g5.xlarge");
    assert_eq!(regions[0]["pricePerGPU"], "0.0500");
    assert_eq!(regions[0]["score"], 9);
    let closed = regions[2]["message"].as_str().unwrap();
    assert!(closed.contains("OptInRequired"), "{closed}");
    // A recommendation: what is offered is in the cluster's own region, and open.
    for zone in status["selectedZones"].as_array().unwrap() {
        assert!(zone.as_str().unwrap().starts_with("eu-central-1"), "{zone}");
    }
    assert_eq!(limits(&region).await, Value::Null);
    // One request for the zones here, one for all regions.
    assert_eq!(region.cloud.count("GetSpotPlacementScores"), 2);
    let wide = ["get", "lonp", "-o", "wide"];
    let table = region.plane.kubectl(wide).await.unwrap();
    assert!(
        table.contains("BEST REGION") && table.contains("eu-west-1"),
        "{table}"
    );
    let events = region.plane.kubectl(["get", "events"]).await.unwrap();
    assert!(
        events.contains("eu-west-1 is the best of 3 regions"),
        "{events}"
    );
    every_query_of_the_dashboard_finds_something(port).await;
}

/// Asks the running binary for every metric that the dashboard shows.
async fn every_query_of_the_dashboard_finds_something(port: u16) {
    let url = format!("http://127.0.0.1:{port}/metrics");
    let said = reqwest::get(url).await.unwrap().text().await.unwrap();
    let path = repository().join("charts/leftover/files/dashboards/leftover.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let mut words = query.split(|c| !part(c));
            let name = words.find(|word| word.starts_with("leftover_")).unwrap();
            let found = said.lines().any(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            });
            assert!(found, "{query}: nothing\n{said}");
            asked += 1;
        }
    }
    assert!(asked >= 11, "{asked}");
}

pub(super) async fn lo_09_a_pool_that_wants_the_best_region_only_closes_and_opens() {
    let mut region = Region::start(Classes::V1).await;
    elsewhere(&region, 0.05);
    region.join(&[]);
    let mut pool = documented();
    pool["spec"]["regions"] = json!(["eu-west-1"]);
    pool["spec"]["regionPolicy"] = "BestOnly".into();
    region.create(&pool).await;
    region.ready(NAME).await;
    assert_eq!(limits(&region).await, Value::Null, "one look is noise");
    let seen = look(&region, 8).await;
    let said = condition(&seen, "Ready")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        said.contains("eu-west-1 is clearly cheaper") && said.contains("BestOnly"),
        "{said}"
    );
    assert_eq!(
        limits(&region).await,
        json!({"cpu": "0"}),
        "no new nodes; those that run stay"
    );
    // A new process knows that it was closed.
    region.join(&[]);
    look(&region, 9).await;
    assert_eq!(limits(&region).await, json!({"cpu": "0"}));
    // Prices have changed, and a new process reads them at once.
    elsewhere(&region, 0.9);
    region.join(&[]);
    let seen = look(&region, 10).await;
    assert_eq!(
        seen["status"]["recommendedRegion"], "eu-central-1",
        "{:#}",
        seen["status"]
    );
    assert_eq!(limits(&region).await, Value::Null);
}
