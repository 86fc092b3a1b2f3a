//! Preferences of pods: respected where they can be, given up where they cannot, and bounded by what they may cost.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

use joiner_core::disrupt;
use joiner_core::pack::{Options, solve, solve_while};
use joiner_core::plan::{Plan, check};
use joiner_core::problem::Problem;
use serde_json::{Value, json};

const GIB: i64 = 1 << 30;
const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Machines of four cores: a dollar an hour in zone a, so much more in zone b. Two pools of equal weight buy them, of
/// which the second buys in zone b only.
fn market(percent_more: u32) -> Value {
    let price = 1.0 + f64::from(percent_more) / 100.0;
    json!({
        "catalogs": [{"name": "cloud", "types": [{
            "name": "four",
            "capacity": {"cpu": 4000, "memory": 16 * GIB, "pods": 20},
            "offerings": [
                {"zone": "a", "capacityType": "on-demand", "price": 1.0},
                {"zone": "b", "capacityType": "on-demand", "price": price},
            ],
        }]}],
        "pools": [
            {"name": "anywhere", "catalog": "cloud"},
            {"name": "only-b", "catalog": "cloud",
             "requirements": [{"key": ZONE, "operator": "In", "values": ["b"]}]},
        ],
    })
}

fn pod(name: &str, count: u32, preferences: &Value) -> Value {
    let mut spec = json!({
        "labels": {"app": name},
        "requests": {"cpu": 1000, "memory": GIB, "pods": 1},
    });
    for (field, value) in preferences.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"name": name, "count": count, "spec": spec})
}

fn problem(market: Value, pods: &[Value], settings: Value) -> Problem {
    let mut file = market;
    file["pods"] = json!(pods);
    file["settings"] = settings;
    Problem::from_json(&file.to_string()).unwrap()
}

/// The plan, made with steps counted and with a clock that does not stop it: they are the same.
fn planned(problem: &Problem) -> Plan {
    let options = Options::default();
    let plan = solve(problem, &options);
    assert_eq!(plan, solve_while(problem, &options, || true));
    assert_eq!(check(problem, &plan), []);
    assert!(plan.unplaced.is_empty(), "{:?}", plan.unplaced);
    plan
}

/// Zones of what is bought, in order.
fn zones(plan: &Plan) -> Vec<&str> {
    let mut zones: Vec<&str> = plan
        .launches
        .iter()
        .map(|launch| &*launch.purchase.zone)
        .collect();
    zones.sort_unstable();
    zones
}

fn would_rather_be_in(zone: &str, weight: u32) -> Value {
    json!({"weight": weight, "term": [{"key": ZONE, "operator": "In", "values": [zone]}]})
}

fn towards(app: &str, key: &str) -> Value {
    json!([{"weight": 1, "term": {"topologyKey": key, "selector": {"matchLabels": {"app": app}}}}])
}

/// Every kind of preference that a machine in zone b fulfils, for one pod.
fn preferences_for_b() -> Vec<(&'static str, Value, Value)> {
    let mut shunned = market(5);
    shunned["pools"][0]["taints"] = json!([{"key": "old", "effect": "PreferNoSchedule"}]);
    let mut company = market(5);
    company["nodes"] = json!([full_node("b", "db")]);
    let mut crowd = market(5);
    crowd["nodes"] = json!([full_node("a", "web")]);
    let spread = json!([{
        "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
        "selector": {"matchLabels": {"app": "web"}},
    }]);
    vec![
        (
            "node affinity",
            market(5),
            json!({"preferredAffinity": [would_rather_be_in("b", 1)]}),
        ),
        (
            "pod affinity",
            company,
            json!({"preferredPodAffinity": towards("db", ZONE)}),
        ),
        (
            "pod anti-affinity",
            crowd.clone(),
            json!({"preferredPodAntiAffinity": towards("web", ZONE)}),
        ),
        ("spread", crowd, json!({"spread": spread})),
        ("taint", shunned, json!({})),
    ]
}

/// A node without room, with one pod.
fn full_node(zone: &str, app: &str) -> Value {
    let mut pod = pod(app, 1, &json!({}));
    pod["name"] = json!("bound");
    json!({
        "name": "full", "labels": {ZONE: zone, HOST: "full"},
        "capacity": {"cpu": 1000, "memory": GIB, "pods": 1},
        "allocatable": {"cpu": 1000, "memory": GIB, "pods": 1},
        "pods": [pod],
    })
}

#[test]
fn every_kind_of_wish_is_heard_whatever_it_costs_unless_there_is_a_cap() {
    for (kind, market, preference) in preferences_for_b() {
        let plan = planned(&problem(market, &[pod("web", 1, &preference)], json!({})));
        assert_eq!(zones(&plan), ["b"], "{kind}");
    }
}

#[test]
fn a_wish_that_costs_five_percent_is_heard_with_a_cap_of_ten_and_not_of_two() {
    for (kind, market, preference) in preferences_for_b() {
        for (cap, zone) in [(10, "b"), (5, "b"), (2, "a"), (0, "a")] {
            let settings = json!({"preferenceCap": cap});
            let plan = planned(&problem(
                market.clone(),
                &[pod("web", 1, &preference)],
                settings,
            ));
            assert_eq!(zones(&plan), [zone], "{kind}, cap {cap}");
        }
    }
}

#[test]
fn a_wish_that_cannot_be_met_is_given_up() {
    for (kind, mut market, preference) in preferences_for_b() {
        market["pools"].as_array_mut().unwrap().pop();
        market["catalogs"][0]["types"][0]["offerings"]
            .as_array_mut()
            .unwrap()
            .pop();
        let plan = planned(&problem(market, &[pod("web", 1, &preference)], json!({})));
        assert_eq!(zones(&plan), ["a"], "{kind}");
    }
}

/// As Karpenter: taints that would rather have no pods are no preference of a pod.
#[test]
fn ignored_preferences_decide_nothing_and_taints_still_do() {
    for (kind, market, preference) in preferences_for_b() {
        let settings = json!({"preferences": "Ignore"});
        let plan = planned(&problem(market, &[pod("web", 1, &preference)], settings));
        let zone = if kind == "taint" { "b" } else { "a" };
        assert_eq!(zones(&plan), [zone], "{kind}");
    }
}

#[test]
fn pods_that_would_rather_be_apart_get_a_machine_each_within_the_cap() {
    let apart = json!({"preferredPodAntiAffinity": towards("web", HOST)});
    let machines = |settings: Value| {
        let pods = [pod("web", 3, &apart)];
        planned(&problem(market(5), &pods, settings)).launches.len()
    };
    assert_eq!(machines(json!({})), 3);
    assert_eq!(machines(json!({"preferences": "Ignore"})), 1);
    assert_eq!(machines(json!({"preferenceCap": 300})), 3);
    assert_eq!(machines(json!({"preferenceCap": 100})), 1);
}

#[test]
fn replicas_that_are_spread_if_possible_are_spread() {
    let spread = json!({"spread": [{
        "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
        "selector": {"matchLabels": {"app": "web"}},
    }]});
    let plan = planned(&problem(market(5), &[pod("web", 4, &spread)], json!({})));
    assert_eq!(zones(&plan), ["a", "b"]);
    let settings = json!({"preferences": "Ignore"});
    let plan = planned(&problem(market(5), &[pod("web", 4, &spread)], settings));
    assert_eq!(zones(&plan), ["a"]);
}

#[test]
fn heavy_wishes_are_heard_where_all_of_them_cost_too_much() {
    let heavy = json!({"preferredAffinity": [would_rather_be_in("b", 80)]});
    let mut light = json!({"preferredPodAntiAffinity": towards("web", HOST)});
    light["preferredAffinity"] = heavy["preferredAffinity"].clone();
    let pods = [pod("web", 2, &light)];
    let settings = json!({"preferenceCap": 10});
    let plan = planned(&problem(market(5), &pods, settings));
    assert_eq!(
        zones(&plan),
        ["b"],
        "one machine, and in the zone that weighs much"
    );
}

#[test]
fn the_heaviest_of_several_wishes_about_the_node_is_heard_first() {
    let preferences =
        json!({"preferredAffinity": [would_rather_be_in("a", 10), would_rather_be_in("b", 20)]});
    let plan = planned(&problem(
        market(5),
        &[pod("web", 1, &preferences)],
        json!({}),
    ));
    assert_eq!(zones(&plan), ["b"]);
}

#[test]
fn no_pod_waits_for_the_sake_of_a_cap() {
    // What is cheap is too small for one of the two: with and without preferences both have a place.
    let mut market = market(5);
    market["catalogs"][0]["types"][0]["offerings"][0]["left"] = json!(1);
    let preference = json!({"preferredAffinity": [would_rather_be_in("a", 1)]});
    let mut large = pod("large", 2, &preference);
    large["spec"]["requests"]["cpu"] = json!(3000);
    let plan = planned(&problem(market, &[large], json!({"preferenceCap": 0})));
    assert_eq!(zones(&plan), ["a", "b"]);
}

/// A node in zone b whose like costs a dollar in zone a, with a pod that would rather be in b.
fn lived(settings: Value) -> Problem {
    let preference = json!({"preferredAffinity": [would_rather_be_in("b", 1)]});
    let mut market = market(5);
    market["nodes"] = json!([{
        "name": "old", "pool": "anywhere", "labels": {ZONE: "b", HOST: "old"},
        "capacity": {"cpu": 16000, "memory": 64 * GIB, "pods": 20},
        "allocatable": {"cpu": 16000, "memory": 64 * GIB, "pods": 20},
        "price": 4.0, "pods": [pod("web", 1, &preference)],
    }]);
    market["pools"][0]["disruption"] = json!({"budgets": []});
    problem(market, &[], settings)
}

#[test]
fn nodes_make_way_for_what_wishes_may_cost() {
    for (settings, zone) in [
        (json!({}), "b"),
        (json!({"preferenceCap": 10}), "b"),
        (json!({"preferenceCap": 2}), "a"),
        (json!({"preferences": "Ignore"}), "a"),
    ] {
        let problem = lived(settings.clone());
        let plan = disrupt::plan(&problem, &Options::default());
        assert_eq!(check(&problem, &plan), []);
        assert_eq!(plan.removals.len(), 1);
        assert_eq!(zones(&plan), [zone], "{settings}");
    }
}
