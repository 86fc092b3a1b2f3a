//! Every sentence that tells why: as one table, so that a change of words is seen as a whole.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

use std::fmt::Write as _;

use joiner_core::disrupt;
use joiner_core::money::Money;
use joiner_core::pack::{Options, solve};
use joiner_core::plan::Reason;
use joiner_core::problem::{DisruptionReason, Problem};
use serde_json::{Value, json};

/// Two pools that sell c2 and c4; one has a taint.
fn problem(pods: &Value, change: impl FnOnce(&mut Value)) -> Problem {
    let kind = |cores: i32| {
        json!({
            "name": format!("c{cores}"),
            "labels": {"kubernetes.io/arch": "amd64"},
            "capacity": {"cpu": cores * 1000, "memory": i64::from(cores) << 31, "pods": 20},
            "offerings": [{"zone": "a", "capacityType": "on-demand", "price": f64::from(cores) / 10.0}],
        })
    };
    let mut file = json!({
        "catalogs": [{"name": "cloud", "types": [kind(2), kind(4)]}],
        "pools": [{"name": "default", "catalog": "cloud"}],
        "pods": pods,
    });
    change(&mut file);
    Problem::from_json(&file.to_string()).unwrap()
}

fn pod(requests: &Value, rules: &[(&str, Value)]) -> Value {
    let mut spec = json!({"requests": requests, "labels": {"app": "web"}});
    for (field, value) in rules {
        spec[*field] = value.clone();
    }
    json!([{"name": "web", "count": 2, "spec": spec}])
}

/// Why the first pod without a place has none.
fn unplaced(pods: &Value, change: impl FnOnce(&mut Value)) -> String {
    let plan = solve(&problem(pods, change), &Options::default());
    plan.unplaced.first().unwrap().reason.to_string()
}

fn placements() -> Vec<(&'static str, String)> {
    let small = json!({"cpu": 100, "pods": 1});
    let none = |_: &mut Value| {};
    let taint = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
    let selected = |key: &str, value: &str| pod(&small, &[("nodeSelector", json!({key: value}))]);
    vec![
        ("cpu", unplaced(&pod(&json!({"cpu": 500_000}), &[]), none)),
        (
            "memory",
            unplaced(&pod(&json!({"memory": 64_i64 << 30}), &[]), none),
        ),
        (
            "gpu",
            unplaced(&pod(&json!({"nvidia.com/gpu": 1}), &[]), none),
        ),
        (
            "taint",
            unplaced(&pod(&small, &[]), |file| file["pools"][0]["taints"] = taint),
        ),
        ("label", unplaced(&selected("foo", "bar"), none)),
        (
            "misspelt label",
            unplaced(&selected("topology.kubernetes.io/zones", "a"), none),
        ),
        (
            "zone",
            unplaced(&selected("topology.kubernetes.io/zone", "b"), none),
        ),
        (
            "requirement",
            unplaced(&selected("kubernetes.io/arch", "arm64"), |file| {
                file["pools"][0]["requirements"] =
                    json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
            }),
        ),
        (
            "sold out",
            unplaced(&pod(&small, &[]), |file| {
                for kind in 0..2 {
                    file["catalogs"][0]["types"][kind]["offerings"][0]["available"] = json!(false);
                }
            }),
        ),
        (
            "limits.cpu",
            unplaced(&pod(&json!({"cpu": 1500}), &[]), |file| {
                file["pools"][0]["limits"] = json!({"resources": {"cpu": 2000}});
            }),
        ),
        (
            "limits.nodes",
            unplaced(&pod(&json!({"cpu": 3500}), &[]), |file| {
                file["pools"][0]["limits"] = json!({"nodes": 1});
            }),
        ),
        (
            "anti-affinity",
            unplaced(
                &pod(
                    &small,
                    &[(
                        "antiAffinity",
                        json!([{"topologyKey": "topology.kubernetes.io/zone",
                            "selector": {"matchLabels": {"app": "web"}}}]),
                    )],
                ),
                none,
            ),
        ),
        (
            "no pool",
            unplaced(&pod(&small, &[]), |file| file["pools"] = json!([])),
        ),
    ]
}

/// Why a node of four cores with one pod stays.
fn kept(change: impl FnOnce(&mut Value)) -> String {
    let pods = json!([]);
    let plan = disrupt::plan(
        &problem(&pods, |file| {
            file["now"] = json!("2026-11-13T12:00:00Z");
            file["nodes"] = json!([{
                "name": "n", "pool": "default", "phase": "Ready",
                "labels": {"topology.kubernetes.io/zone": "a", "kubernetes.io/arch": "amd64"},
                "capacity": {"cpu": 4000, "memory": 8_i64 << 30, "pods": 20},
                "allocatable": {"cpu": 4000, "memory": 8_i64 << 30, "pods": 20},
                "instanceType": "c4", "capacityType": "on-demand", "price": 0.4,
                "pods": [{"name": "web", "spec": {"requests": {"cpu": 3000, "pods": 1}}}],
            }]);
            file["pools"][0]["disruption"] = json!({"consolidateAfter": "PT0S"});
            change(file);
        }),
        &Options::default(),
    );
    match plan.kept.first() {
        Some(kept) => kept.reason.to_string(),
        None => plan.removals.first().unwrap().reason.to_string(),
    }
}

fn nodes() -> Vec<(&'static str, String)> {
    let light =
        |file: &mut Value| file["nodes"][0]["pods"][0]["spec"]["requests"]["cpu"] = json!(500);
    vec![
        ("no cheaper place", kept(|_| {})),
        ("replaced", kept(light)),
        ("empty", kept(|file| file["nodes"][0]["pods"] = json!([]))),
        (
            "no room",
            kept(|file| file["pools"][0]["limits"] = json!({"nodes": 1})),
        ),
        (
            "node do-not-disrupt",
            kept(|file| file["nodes"][0]["doNotDisrupt"] = json!(true)),
        ),
        (
            "pod do-not-disrupt",
            kept(|file| file["nodes"][0]["pods"][0]["doNotDisrupt"] = json!(true)),
        ),
        (
            "nominated",
            kept(|file| file["nodes"][0]["nominated"] = json!(true)),
        ),
        (
            "starting",
            kept(|file| file["nodes"][0]["phase"] = json!("Starting")),
        ),
        (
            "never",
            kept(|file| file["pools"][0]["disruption"] = json!({"consolidateAfter": null})),
        ),
        (
            "when empty",
            kept(|file| {
                file["pools"][0]["disruption"]["policy"] = json!("WhenEmpty");
            }),
        ),
        (
            "budget",
            kept(|file| {
                light(file);
                file["pools"][0]["disruption"]["budgets"] = json!([{"amount": {"nodes": 0}}]);
            }),
        ),
        (
            "spot for spot",
            kept(|file| {
                light(file);
                file["nodes"][0]["capacityType"] = json!("spot");
                for kind in 0..2 {
                    file["catalogs"][0]["types"][kind]["offerings"][0]["capacityType"] =
                        json!("spot");
                }
            }),
        ),
    ]
}

fn others() -> Vec<(&'static str, String)> {
    let cheapest = |considered, runner_up| Reason::Cheapest {
        considered,
        runner_up,
    };
    let gone = |cause, after, detail: &str| Reason::Disrupted {
        cause,
        before: Money::from_dollars(2.0),
        after: Money::from_dollars(after),
        detail: detail.to_owned(),
    };
    let all = [
        (
            "cheapest",
            cheapest(7, Some(("m5.large".into(), Money::from_dollars(0.096)))),
        ),
        ("only one", cheapest(1, None)),
        (
            "drifted",
            gone(DisruptionReason::Drifted, 1.5, "image changed"),
        ),
        ("expired", gone(DisruptionReason::Expired, 0.0, "")),
    ];
    all.map(|(name, reason)| (name, reason.to_string())).into()
}

#[test]
fn every_reason_reads_as_the_table_says() {
    let mut told = String::new();
    for (title, rows) in [
        ("Pods without a place", placements()),
        ("Nodes", nodes()),
        ("Purchases and removals", others()),
    ] {
        told += title;
        told += "\n";
        for (name, sentence) in rows {
            writeln!(told, "  {name:<20} {sentence}").unwrap();
        }
    }
    assert_eq!(told, include_str!("sentences.txt"), "\n{told}");
}
