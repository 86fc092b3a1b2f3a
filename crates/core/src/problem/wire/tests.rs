use std::sync::Arc;

use super::*;
use crate::labels;
use crate::money::Money;
use crate::plan::{Home, Launch, Plan, PodRef, Purchase, Reason, Unplaced};
use crate::problem::CapacityType;
use crate::resources::{CPU, MEMORY, NVIDIA_GPU, PODS, Resources};

const TINY: &str = r#"{"name":"tiny","kind":"plain","seed":1,
 "instanceTypes":[{"name":"s","arch":"amd64","cpuMilli":2000,"memoryMiB":8192,"pods":29,"gpus":1,"zones":["a"],
  "labels":{"model":"t4"},
  "offerings":[{"zone":"a","capacityType":"spot","price":0.03},{"zone":"a","capacityType":"on-demand","price":0.09,"unavailable":true}],
  "overheadCpuMilli":70,"overheadMemoryMiB":700}],
 "nodePools":[{"name":"default","requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]}],"taints":[]}],
 "daemonSets":[{"name":"proxy","cpuMilli":100,"memoryMiB":64,"tolerations":[{"operator":"Exists"}]}],
 "pods":[{"name":"web","count":3,"labels":{"app":"web"},"cpuMilli":500,"memoryMiB":512,"gpus":1,
   "topologySpread":[{"topologyKey":"topology.kubernetes.io/zone","maxSkew":1,"matchLabels":{"app":"web"}}]},
  {"name":"one","cpuMilli":1,"memoryMiB":1}],
 "nodes":[{"name":"n","nodePool":"default","instanceType":"s","zone":"a","capacityType":"on-demand",
   "pods":[{"name":"old","cpuMilli":250,"memoryMiB":1}]}]}"#;

#[test]
fn the_comparison_form_is_read_whole() {
    let problem = Problem::from_json(TINY).unwrap();
    let kind = &problem.catalogs[0].types[0];
    assert_eq!(
        kind.capacity,
        Resources::new()
            .with(CPU, 2000)
            .with(MEMORY, 8192 << 20)
            .with(PODS, 29)
            .with(NVIDIA_GPU, 1)
    );
    assert_eq!(kind.allocatable().get(MEMORY), (8192 - 700) << 20);
    assert_eq!(&*kind.labels[labels::OS], "linux");
    assert_eq!(&*kind.labels["model"], "t4");
    assert!(kind.offerings[0].available && !kind.offerings[1].available);
    assert_eq!(problem.pending(), 4);
    assert_eq!(problem.pods[0].spec.requests.get(PODS), 1);
    assert_eq!(problem.pods[1].count, 1);
    assert_eq!(problem.daemon_sets[0].spec.requests.get(CPU), 100);
    let node = &problem.nodes[0];
    assert_eq!(node.price, Some(Money::from_dollars(0.09)));
    assert_eq!(node.capacity_type, CapacityType::OnDemand);
    assert_eq!(&*node.labels[labels::HOSTNAME], "n");
    assert_eq!(&*node.labels[labels::ARCH], "amd64");
    assert_eq!(node.allocatable.get(CPU), 1930);
    assert!(problem.pools[0].disruption.budgets.is_empty());
}

#[test]
fn equal_pods_share_what_they_need() {
    let text = TINY.replace(
        r#"{"name":"one","cpuMilli":1,"memoryMiB":1}"#,
        r#"{"name":"one","cpuMilli":1,"memoryMiB":1},{"name":"two","cpuMilli":1,"memoryMiB":1}"#,
    );
    let problem = Problem::from_json(&text).unwrap();
    assert!(std::sync::Arc::ptr_eq(
        &problem.pods[1].spec,
        &problem.pods[2].spec
    ));
}

#[test]
fn the_native_form_survives_a_round_trip() {
    let problem = Problem::from_json(TINY).unwrap();
    let text = serde_json::to_string_pretty(&problem).unwrap();
    assert_eq!(Problem::from_json(&text).unwrap(), problem);
}

#[test]
fn a_native_pod_without_a_count_is_one_pod() {
    let problem = Problem::from_json(r#"{"pods":[{"name":"a"}]}"#).unwrap();
    assert_eq!(problem.pending(), 1);
}

/// What is replaced in the good file, by what, and the error that names place, field, value and remedy.
#[test]
fn malformed_files_get_line_field_reason_and_remedy() {
    for (good, bad, error) in [
        (
            r#""cpuMilli":500"#,
            r#""cpuMilli":"500m""#,
            "pods[0].cpuMilli: invalid type: string \"500m\", expected u32 \
             (write thousandths of a core as a whole number: 500)",
        ),
        (
            r#""memoryMiB":512"#,
            r#""memoryMiB":-5"#,
            "pods[0].memoryMiB: invalid value: integer `-5`, expected u32 \
             (write MiB as a whole number: 512)",
        ),
        (
            r#""operator":"In""#,
            r#""operator":"in""#,
            "nodePools[0].requirements[0].operator: unknown variant `in`, expected one of \
             `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte`, `Lte`",
        ),
        (
            r#""operator":"In","values":["spot"]"#,
            r#""operator":"Gt","values":["x"]"#,
            "nodePools[0].requirements[0].values: karpenter.sh/capacity-type Gt needs one \
             integer in values, got [\"x\"] (write one whole number, as a string: [\"4\"])",
        ),
        (
            r#""price":0.03"#,
            r#""price":-0.03"#,
            "instanceTypes[0].offerings[0].price: -0.03 is not a price (write dollars per hour, \
             from zero to a billion; mark what cannot be bought as unavailable)",
        ),
        (
            r#""maxSkew":1"#,
            r#""maxSkew":0"#,
            "pods[0].topologySpread[0].maxSkew: 0 is not a skew (write one or more: the fullest \
             domain may be so many pods ahead)",
        ),
        (
            r#"{"name":"one""#,
            r#"{"name":"web""#,
            "pods[1].name: pod \"web\" appears twice (give every pod a name of its own)",
        ),
        (
            r#""instanceType":"s""#,
            r#""instanceType":"xl""#,
            "nodes[0].instanceType: unknown instance type \"xl\" \
             (name one that instanceTypes lists)",
        ),
    ] {
        let text = TINY.replacen(good, bad, 1);
        assert_ne!(text, TINY, "{good} is not in the file");
        let found = Problem::from_json(&text).unwrap_err();
        let shown = found.to_string();
        let place = format!("line {}, column {}: ", found.line, found.column);
        assert_eq!(shown.strip_prefix(&place), Some(error));
        let start = text.rfind(bad).unwrap();
        let line = text[..start].matches('\n').count() + 1;
        let column = start - text[..start].rfind('\n').map_or(0, |newline| newline + 1) + 1;
        assert_eq!(found.line, line, "{shown}");
        assert!(
            (column..=column + bad.len()).contains(&found.column),
            "{shown}, the piece begins at {column}"
        );
    }
}

#[test]
fn unknown_fields_are_refused_in_both_forms() {
    let wire = Problem::from_json(&TINY.replacen("\"gpus\"", "\"gpu\"", 1)).unwrap_err();
    assert_eq!(wire.field, "instanceTypes[0].gpu");
    assert!(
        wire.fault
            .starts_with("unknown field `gpu`, expected one of"),
        "{wire}"
    );
    let native = Problem::from_json(r#"{"podz":[]}"#).unwrap_err();
    assert!(native.fault.contains("`podz`"), "{native}");
}

#[test]
fn a_list_is_no_problem() {
    let error = Problem::from_json("[{}]").unwrap_err().to_string();
    assert!(
        error.starts_with("line 1, column 1: the file: this is no problem (a problem is an object"),
        "{error}"
    );
}

#[test]
fn cut_off_files_and_trailing_text_are_refused() {
    let cut = Problem::from_json(&TINY[..TINY.len() - 5]).unwrap_err();
    assert!(cut.fault.starts_with("EOF while parsing"), "{cut}");
    let more = Problem::from_json(&format!("{TINY} x")).unwrap_err();
    assert_eq!(more.fault, "trailing characters");
}

#[test]
fn the_native_form_is_checked_for_references_too() {
    let error = Problem::from_json(r#"{"pools":[{"name":"a","catalog":"nope"}]}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 1, column 33: pools[0].catalog: unknown catalogue \"nope\" (name one that catalogs lists)"
    );
}

#[test]
fn a_plan_is_written_in_names_with_totals() {
    let problem = Problem::from_json(TINY).unwrap();
    let web = |position| PodRef {
        home: Home::Pending,
        group: 0,
        position,
    };
    let launch = Launch {
        pool: "default".into(),
        purchase: Purchase {
            catalog: "catalog".into(),
            instance_type: "s".into(),
            zone: "a".into(),
            capacity_type: CapacityType::Spot,
            reservation: None,
            host: None,
            price: Money::from_dollars(0.03),
        },
        alternatives: Arc::default(),
        capacity: Resources::new(),
        requests: Resources::new(),
        labels: crate::name::Labels::new(),
        pods: vec![web(0)],
        reason: Reason::NoPool,
    };
    let plan = Plan {
        launches: vec![
            launch.clone(),
            Launch {
                pods: vec![web(1)],
                ..launch
            },
        ],
        unplaced: vec![Unplaced {
            pods: vec![web(2)],
            reason: Reason::NoPool,
        }],
        order: vec![web(1), web(0)],
        ..Plan::default()
    };
    let solution = Solution::new(&problem, &plan, Measurements::default());
    let json: serde_json::Value = serde_json::to_value(&solution).unwrap();
    assert_eq!(json["claims"][1]["pods"][0], "web-1");
    assert_eq!(json["unscheduled"][0]["pod"], "web-2");
    assert_eq!(json["order"], serde_json::json!(["web-1", "web-0"]));
    assert_eq!(json["totalPrice"], 0.06);
    assert_eq!(
        (
            solution.pods_total,
            solution.pods_scheduled,
            solution.claim_count
        ),
        (3, 2, 2)
    );
}
