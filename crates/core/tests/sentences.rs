//! Every sentence that tells why: as one table, so that a change of words is seen as a whole.
#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use joiner_core::disrupt;
use joiner_core::money::Money;
use joiner_core::pack::{Options, solve};
use joiner_core::plan::{Code, Reason};
use joiner_core::problem::{DisruptionReason, Problem};
use serde_json::{Value, json};
use strum::IntoEnumIterator as _;

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

/// A row of the table: what is shown, its code and its sentence.
type Row = (&'static str, (Code, String));

fn row(reason: &Reason, code: Code) -> (Code, String) {
    (code, reason.to_string())
}

/// Why the first pod without a place has none.
fn unplaced(pods: &Value, change: impl FnOnce(&mut Value)) -> (Code, String) {
    let plan = solve(&problem(pods, change), &Options::default());
    let first = plan.unplaced.first().unwrap();
    row(&first.reason, first.code())
}

fn placements() -> Vec<Row> {
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
        (
            "closed pool",
            unplaced(&pod(&small, &[]), |file| {
                file["pools"][0]["closed"] = json!("its node class is not ready");
            }),
        ),
        (
            "too many resources",
            unplaced(&pod(&many_resources(), &[]), none),
        ),
    ]
}

/// More different resources than are counted.
fn many_resources() -> Value {
    let mut all = json!({"cpu": 100, "pods": 1});
    for number in 10..30 {
        all[format!("example.com/r{number}")] = json!(1);
    }
    all
}

/// Why a node of four cores with one pod stays.
fn kept(change: impl FnOnce(&mut Value)) -> (Code, String) {
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
    if let Some(kept) = plan.kept.first() {
        return row(&kept.reason, kept.code);
    }
    let gone = plan.removals.first().unwrap();
    row(&gone.reason, gone.code())
}

fn nodes() -> Vec<Row> {
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
        ("spot for spot", kept(|file| spot(file, &light))),
        (
            "spot choice",
            kept(|file| {
                spot(file, &light);
                file["pools"][0]["disruption"]["spotToSpot"] = json!(true);
            }),
        ),
        (
            "just now",
            kept(|file| {
                file["pools"][0]["disruption"] = json!({"consolidateAfter": "PT1H"});
                file["nodes"][0]["lastPodEvent"] = json!("2026-11-13T11:59:00Z");
            }),
        ),
        (
            "replicas",
            kept(|file| file["pools"][0]["replicas"] = json!(1)),
        ),
        (
            "young",
            kept(|file| {
                light(file);
                file["nodes"][0]["created"] = json!("2026-11-13T11:59:00Z");
                file["pools"][0]["disruption"]["minAge"] = json!("PT1H");
            }),
        ),
        (
            "no price",
            kept(|file| {
                light(file);
                file["nodes"][0]["price"] = json!(null);
            }),
        ),
        (
            "PodDisruptionBudget",
            kept(|file| {
                light(file);
                guard(file, &["web"]);
            }),
        ),
        (
            "two of them",
            kept(|file| {
                light(file);
                guard(file, &["web", "shop"]);
            }),
        ),
        (
            "minValues",
            kept(|file| {
                light(file);
                file["pools"][0]["requirements"] = json!([{"key": "node.kubernetes.io/instance-type",
                    "operator": "Exists", "minValues": 2}]);
            }),
        ),
        (
            "minSavings",
            kept(|file| {
                light(file);
                file["pools"][0]["disruption"]["minSavings"] = json!(90);
            }),
        ),
    ]
}

/// Everything is spot, and the node has room to spare.
fn spot(file: &mut Value, light: &impl Fn(&mut Value)) {
    light(file);
    file["nodes"][0]["capacityType"] = json!("spot");
    for kind in 0..2 {
        file["catalogs"][0]["types"][kind]["offerings"][0]["capacityType"] = json!("spot");
    }
}

/// Budgets that let no pod go now.
fn guard(file: &mut Value, names: &[&str]) {
    file["nodes"][0]["pods"][0]["spec"]["namespace"] = json!("default");
    let budget = |name: &&str| json!({"namespace": "default", "name": name, "selector": {}, "disruptionsAllowed": 0});
    file["podDisruptionBudgets"] = names.iter().map(budget).collect();
}

fn others() -> Vec<Row> {
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
    all.map(|(name, reason)| {
        let code = reason.code();
        (name, row(&reason, code))
    })
    .into()
}

#[test]
fn every_reason_reads_as_the_table_says_and_no_code_lacks_a_sentence() {
    let mut told = String::new();
    let mut seen = BTreeSet::new();
    for (title, rows) in [
        ("Pods without a place", placements()),
        ("Nodes", nodes()),
        ("Purchases and removals", others()),
    ] {
        told += title;
        told += "\n";
        for (name, (code, sentence)) in rows {
            seen.insert(code);
            writeln!(told, "  {name:<20} {:<20} {sentence}", <&str>::from(code)).unwrap();
        }
    }
    let silent: Vec<Code> = Code::iter()
        .filter(|code| *code != Code::Other && !seen.contains(code))
        .collect();
    assert_eq!(silent, [], "codes without a sentence\n{told}");
    assert_eq!(told, include_str!("sentences.txt"), "\n{told}");
}
