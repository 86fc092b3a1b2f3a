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
