//! What users and other tools are told: prices, events, conditions, labels of metrics.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]
#![allow(
    clippy::duplicate_mod,
    reason = "both clusters bring what they stand on"
)]

mod spot;
mod world;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use joiner_controllers::edge::metrics::Reason;
use joiner_embedded::api::{DeleteOptions, Local};
use serde_json::{Value, json};
use world::{World, pass};

const POOLS: &str = "nodepools.karpenter.sh";
const CLAIMS: &str = "nodeclaims.karpenter.sh";
const OVERLAYS: &str = "nodeoverlays.karpenter.sh";

fn never(pool: &mut Value) {
    pool["spec"]["disruption"] = json!({"consolidateAfter": "Never"});
}

/// A cluster in which one pod runs on one node; the name of its claim.
async fn one_node(change: impl FnOnce(&mut Value)) -> (World, String) {
    let world = World::start().await;
    world.pool("default", change);
    world.deployment("web", 1, "500m", |_| ());
    world
        .until("the pod runs", |world| world.running("web") == 1)
        .await;
    let claim = world.claims().remove(0);
    let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
    (world, name)
}

/// What a claim and its node say that the machine costs.
fn told_prices(world: &World, name: &str) -> (Value, Value) {
    let api = world.api();
    let claim = api.get(CLAIMS, "", name).unwrap();
    let node = claim["status"]["nodeName"].as_str().unwrap_or_default();
    let label = api.get("nodes", "", node).map_or(Value::Null, |node| {
        node["metadata"]["labels"]["eks-node-viewer/instance-price"].clone()
    });
    let annotation = claim["metadata"]["annotations"]["joiner.dev/price"].clone();
    (annotation, label)
}

/// Events of a reason, about objects of a kind.
fn events(api: &Local, kind: &str, reason: &str) -> Vec<String> {
    let all = api.list("events").into_iter();
    let about = all.filter(|one| one["involvedObject"]["kind"] == kind && one["reason"] == reason);
    about
        .filter_map(|one| one["message"].as_str().map(str::to_owned))
        .collect()
}

fn condition(object: &Value, kind: &str) -> Value {
    let all = object["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    all.find(|one| one["type"] == kind)
        .cloned()
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_machine_and_its_node_say_the_price_of_today_and_are_not_written_at_every_change() {
    let (world, name) = one_node(never).await;
    let (bought, label) = told_prices(&world, &name);
    assert!(bought.is_string() && bought == label, "{bought} {label}");
    let overlay = json!({"metadata": {"name": "all"}, "spec": {"weight": 10, "price": "0.5", "requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}]}});
    world.api().create(OVERLAYS, "", overlay).unwrap();
    let says = |text: &'static str| {
        let name = name.clone();
        move |world: &World| told_prices(world, &name) == (json!(text), json!(text))
    };
    // Labels of a node are put right once in five minutes.
    world
        .within(
            Duration::from_mins(6),
            "both say half a dollar",
            &mut says("0.5"),
        )
        .await;
    // A price that moves every half minute is written once in five minutes.
    let mut seen = BTreeSet::new();
    for step in 0..40 {
        let mut moved = (*world.api().get(OVERLAYS, "", "all").unwrap()).clone();
        moved["spec"]["price"] = json!(format!("0.{}", 501 + step));
        world.api().update(OVERLAYS, moved).unwrap();
        pass(30).await;
        seen.insert(told_prices(&world, &name).0.to_string());
    }
    assert!((3..=6).contains(&seen.len()), "{seen:?}");
    world
        .within(
            Duration::from_mins(11),
            "both say the last price",
            &mut says("0.54"),
        )
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_price_of_a_machine_that_another_joiner_manages_is_not_written() {
    let (world, name) = one_node(never).await;
    let mut claim = (*world.api().get(CLAIMS, "", &name).unwrap()).clone();
    claim["metadata"]["annotations"]["joiner.dev/managed-by"] = json!("elsewhere.karpenter");
    claim["metadata"]["annotations"]["joiner.dev/price"] = json!("9");
    world.api().update(CLAIMS, claim).unwrap();
    let before = told_prices(&world, &name);
    pass(1200).await;
    assert_eq!(told_prices(&world, &name), before);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_says_why_it_was_bought_at_what_price_and_what_the_next_best_costs() {
    let (world, _) = one_node(never).await;
    let said = events(&world.api(), "NodeClaim", "Launching");
    let [said] = said.as_slice() else {
        panic!("{said:?}")
    };
    let (what, why) = said.split_once(" an hour for 1 pod: ").unwrap();
    assert!(
        what.contains(" in zone ") && what.contains(" at $0."),
        "{said}"
    );
    let fits = why.starts_with("cheapest of ") && why.contains(" instance types that fit its pods");
    assert!(fits && why.contains("; next best: "), "{said}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_leave_a_node_which_a_user_deleted_are_counted_under_a_word_of_the_reference() {
    let (world, name) = one_node(never).await;
    world
        .api()
        .delete(CLAIMS, "", &name, DeleteOptions::default())
        .unwrap();
    world
        .until("the node is gone", |world| {
            world.api().get(CLAIMS, "", &name).is_err()
        })
        .await;
    let metrics = &world.engine.as_ref().unwrap().context().edge.metrics;
    let reason = "node_removed".to_owned();
    let counted = metrics.drained.get_or_create(&Reason { reason }).get();
    assert_eq!(counted, 1);
    let reference = include_str!("../../../docs/reference/metrics.md");
    assert!(reference.contains("`node_removed`"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_at_its_limit_says_so_in_a_condition_and_takes_it_back() {
    let world = World::start().await;
    world.pool("small", |pool| {
        never(pool);
        pool["spec"]["limits"] = json!({"nodes": "1"});
    });
    let told = |world: &World| {
        let pool = world.api().get(POOLS, "", "small").unwrap();
        condition(&pool, "LimitReached")
    };
    world
        .until("it is within its limits", |world| {
            told(world)["reason"] == "WithinLimits"
        })
        .await;
    world.deployment("web", 1, "500m", |_| ());
    world
        .until("it is full", |world| told(world)["status"] == "True")
        .await;
    let said = told(&world);
    assert_eq!(said["message"], "limits.nodes (1 of 1)", "{said}");
    let mut pool = (*world.api().get(POOLS, "", "small").unwrap()).clone();
    pool["spec"]["limits"] = json!({"nodes": "2"});
    world.api().update(POOLS, pool).unwrap();
    world
        .until("it may grow again", |world| {
            told(world)["reason"] == "WithinLimits"
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_pool_whose_requirements_leave_nothing_to_buy_says_which_one() {
    let world = World::start().await;
    world.pool("far", |pool| {
        pool["spec"]["template"]["spec"]["requirements"] =
            json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["moon-1"]}]);
    });
    let told = |world: &World| {
        let pool = world.api().get(POOLS, "", "far").unwrap();
        condition(&pool, "CapacityAvailable")
    };
    world
        .until("the pool says why", |world| {
            told(world)["reason"] == "NoMatchingOffering"
        })
        .await;
    let said = told(&world);
    let message = said["message"].as_str().unwrap();
    assert_eq!(said["status"], "False");
    assert!(
        message.contains("topology.kubernetes.io/zone") && message.contains("moon-1"),
        "{message}"
    );
    let warned = events(&world.api(), "NodePool", "CapacityUnavailable");
    assert_eq!(warned, [message]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_for_a_spot_node_are_told_its_kind_and_name() {
    let world = spot::World::start();
    world.pool("default", json!({}));
    world.deployment("web", 1, "500m", |_| ());
    world
        .until("the pod runs", |world| world.running("web") == 1)
        .await;
    let names: Vec<String> = world
        .api()
        .list(spot::NODES)
        .iter()
        .map(|node: &Arc<Value>| format!("spotnode/{}", node["metadata"]["name"].as_str().unwrap()))
        .collect();
    let told = events(&world.api(), "Pod", "Nominated");
    assert!(
        told.iter()
            .any(|said| names.iter().any(|name| said.contains(name))),
        "{told:?} {names:?}"
    );
    assert!(
        told.iter().all(|said| !said.contains("nodeclaim/")),
        "{told:?}"
    );
    world.stop().await;
}

const REFERENCE: &str = include_str!("../../../docs/reference/events.md");

/// Words that look like reasons and are none: kinds, values of Kubernetes, calls of clouds, types of conditions.
const NO_REASONS: &str = "\
AlreadyExists Always AlwaysAllow CapacityAvailable CatalogCurrent Closed Cloudspace ConfigMap ConsistentStateFound \
Consolidatable Create DaemonSet Degraded Delete Deployment DisruptionReason Drifted Exists \
False FewTypes Find Fits Gate Get Gt Honor Ignore \
In Infeasible Launch LeftOut LeftoverNodePool Lost Lt MiB Never \
Node NodeClaim NodeClassReady NodePool NodeRegistrationHealthy NodeSmithClaim NodeSmithPool NodeSmithProvider NotAskedFor \
Pod PodResizePending PodScheduled Progressing ProxmoxNodeClass RackspaceNodeClass ReadyForProvisioning RedfishNodeClass ReplicaSet \
Running ScheduleAnyway SimNodeClass SpotNode SpotNodePool StatefulSet String Succeeded True \
Unschedulable ValidationSucceeded Verdict WaitForFirstConsumer WhenEmptyOrUnderutilized WrittenOffer";

/// The source of this crate without tests and comments, strings that are broken over lines in one piece.
fn source(folder: &Path, text: &mut String) {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for path in files {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        if path.is_dir() && name != "tests" {
            source(&path, text);
        } else if path.extension().is_some_and(|end| end == "rs") && name != "tests.rs" {
            let file = std::fs::read_to_string(&path).unwrap();
            let code = file.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let mut glue = false;
            for line in code.lines().map(str::trim) {
                if line.starts_with("//") {
                    continue;
                }
                let first = line.strip_suffix('\\');
                glue = first.is_some();
                text.push_str(first.unwrap_or(line));
                if !glue {
                    text.push('\n');
                }
            }
            assert!(!glue, "{name} ends within a string");
        }
    }
}

/// Texts in double quotes.
fn strings(source: &str) -> impl Iterator<Item = &str> {
    source.split('"').skip(1)
}

fn is_word(text: &str) -> bool {
    let mut letters = text.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_uppercase())
        && letters
            .next()
            .is_some_and(|second| second.is_ascii_lowercase())
        && letters.all(|other| other.is_ascii_alphabetic())
}

#[test]
fn every_reason_of_an_event_or_condition_is_in_the_reference_with_its_sentence() {
    let mut source = String::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    self::source(&folder, &mut source);
    let others: BTreeSet<&str> = NO_REASONS.split_whitespace().collect();
    let told: BTreeSet<&str> = REFERENCE.split('`').skip(1).step_by(2).collect();
    let written: BTreeSet<&str> = strings(&source).filter(|text| is_word(text)).collect();
    let untold: Vec<&&str> = written
        .iter()
        .filter(|word| !others.contains(**word) && !told.contains(**word))
        .collect();
    assert!(
        untold.is_empty(),
        "add to docs/reference/events.md: {untold:?}"
    );
    let reasons = told.iter().filter(|text| is_word(text));
    let old: Vec<_> = reasons.filter(|word| !written.contains(**word)).collect();
    assert!(old.is_empty(), "no longer said: {old:?}");
    let idle: Vec<_> = others
        .iter()
        .filter(|word| !written.contains(**word))
        .collect();
    assert!(idle.is_empty(), "no longer written: {idle:?}");
    // What varies is `…` in the reference: every part between must stand in the source as it is.
    let rows = REFERENCE.lines().filter(|line| line.starts_with('|'));
    let sentences = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let parts = sentences
        .filter(|sentence| sentence.contains(' '))
        .flat_map(|sentence| sentence.split('…'))
        .filter(|part| part.chars().filter(char::is_ascii_alphabetic).count() > 3);
    let wrong: Vec<&str> = parts.filter(|part| !source.contains(part)).collect();
    assert!(
        wrong.is_empty(),
        "these are other words in the source: {wrong:?}"
    );
}
