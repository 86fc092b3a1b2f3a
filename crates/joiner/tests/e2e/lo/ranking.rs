//! The ranking on a real cluster, and the commands that show it without one.

use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use super::LEFTOVERS;
use super::region::{Classes, Region, documented, repository};

fn list(pool: &Value, field: &str) -> Vec<String> {
    let all = pool["status"][field].as_array().unwrap();
    all.iter()
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect()
}

/// Prices of the reference's example, below all others of the region.
pub(super) async fn lo_03_price_per_gpu_then_score_then_price_within_the_maxima() {
    let mut region = Region::start(Classes::V1).await;
    for (name, zone, dollars) in [
        ("g6.xlarge", "eu-central-1a", 0.040),
        ("g6.xlarge", "eu-central-1b", 0.800),
        ("g6.xlarge", "eu-central-1c", 0.038),
        ("g5.xlarge", "eu-central-1b", 0.035),
        ("g5.xlarge", "eu-central-1a", 1.000),
        ("g5.xlarge", "eu-central-1c", 1.000),
        ("g6.12xlarge", "eu-central-1a", 0.152),
        ("g5.12xlarge", "eu-central-1c", 0.200),
    ] {
        region.cloud.set_price(name, zone, dollars);
    }
    for (zone, score) in [
        ("eu-central-1a", 9),
        ("eu-central-1b", 3),
        ("eu-central-1c", 7),
    ] {
        region.cloud.set_score(zone, score);
    }
    region.join(&[]);
    for (name, min_score, types, zones) in [
        (
            "any-score",
            0,
            ["g5.xlarge", "g6.12xlarge", "g6.xlarge"],
            ["eu-central-1b", "eu-central-1a"],
        ),
        (
            "five",
            5,
            ["g6.12xlarge", "g6.xlarge", "g5.12xlarge"],
            ["eu-central-1a", "eu-central-1c"],
        ),
    ] {
        let mut pool = documented();
        pool["metadata"]["name"] = name.into();
        pool["spec"]["maxInstanceTypes"] = 3.into();
        pool["spec"]["minSpotScore"] = min_score.into();
        region.create(&pool).await;
        let pool = region.ready(name).await;
        assert_eq!(list(&pool, "selectedInstanceTypes"), types, "{name}");
        assert_eq!(list(&pool, "selectedZones"), zones, "{name}");
    }
    // Both ask for the same types: one request for scores.
    assert_eq!(region.cloud.count("GetSpotPlacementScores"), 1);
}

pub(super) async fn lo_07_the_market_is_looked_at_every_requeue_minutes() {
    let mut region = Region::start(Classes::V1).await;
    region.join(&[]);
    let mut pool = documented();
    pool["spec"]["requeueMinutes"] = 1.into();
    region.create(&pool).await;
    let first = region.ready("gpu-spot-euc1").await["status"]["lastSyncTime"].clone();
    let path = format!("{LEFTOVERS}/gpu-spot-euc1");
    let mut left = 450;
    let later = loop {
        let pool = region.client.get(&path).await.unwrap();
        if pool["status"]["lastSyncTime"] != first {
            break pool;
        }
        left -= 1;
        assert!(left > 0, "{first} stays");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let passed = time(&later["status"]["lastSyncTime"]).duration_since(time(&first));
    assert!((58..=75).contains(&passed.as_secs()), "{passed}");
}

fn joiner(arguments: &[&str]) -> (bool, String, String) {
    let ended = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .current_dir(repository())
        .env_remove("KUBECONFIG")
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        ended.status.success(),
        text(&ended.stdout),
        text(&ended.stderr),
    )
}

pub(super) async fn lo_04_render_shows_without_a_cluster_what_one_accepts() {
    let region = Region::start(Classes::V1).await;
    let mut pool = documented();
    pool["spec"]["regions"] = json!(["us-east-1"]);
    let directory = tempfile::Builder::new()
        .prefix("joiner-render-")
        .tempdir()
        .unwrap();
    let file = directory.path().join("pool.yaml");
    std::fs::write(&file, pool.to_string()).unwrap();
    let file = file.display().to_string();
    let (fine, said, error) = joiner(&["render", "leftover", &file, "--mock-mode", "--explain"]);
    assert!(fine, "{error}");
    for word in [
        "region to prefer: ",
        ": chosen",
        "not chosen: ",
        "not considered: its architecture is arm64",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let objects: Vec<Value> = serde_saphyr::from_multiple(&said).unwrap();
    let kinds: Vec<&str> = objects
        .iter()
        .filter_map(|one| one["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["EC2NodeClass", "NodePool"]);
    for (object, path) in objects
        .iter()
        .zip([super::region::CLASSES, super::region::POOLS])
    {
        let path = format!("{path}?dryRun=All&fieldValidation=Strict");
        let accepted = region.client.send(Method::POST, &path, Some(object)).await;
        accepted.unwrap();
    }
    let arguments = [
        "prices",
        "--provider=aws",
        "--gpu",
        "--region=eu-central-1,us-east-1",
        "--mock-mode",
    ];
    let (fine, table, error) = joiner(&arguments);
    assert!(fine, "{error}");
    for word in [
        "PER-GPU",
        "SCORE",
        "ON-DEMAND",
        "eu-central-1a",
        "us-east-1a",
    ] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let (fine, _, error) = joiner(&[
        "render",
        "leftover",
        "config/samples/karpenter_sim.yaml",
        "--mock-mode",
    ]);
    assert!(!fine && error.contains("is no LeftoverNodePool"), "{error}");
}
