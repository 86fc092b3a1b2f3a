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
             from zero to a million; mark what cannot be bought as unavailable)",
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

/// A native file with one of everything that can be wrong.
const NATIVE: &str = r#"{
 "catalogs":[{"name":"c",
  "types":[{"name":"t","capacity":{"cpu":4000},"overhead":{"cpu":100},
   "offerings":[{"zone":"a","capacityType":"spot","price":0.1}]}],
  "ranges":[{"name":"r","min":{"cpu":1000},"max":{"cpu":8000},"step":{"cpu":500},"prices":{"core":0.01},
   "hosts":[{"name":"h","zone":"a","free":{"cpu":16000}}]}]}],
 "pools":[{"name":"p","catalog":"c","limits":{"resources":{"cpu":100000},"cost":5.0}}],
 "daemonSets":[{"name":"d","spec":{"requests":{"cpu":50}}}],
 "pods":[{"name":"w","spec":{"requests":{"cpu":500},
   "requiredAffinity":[[{"key":"gen","operator":"Gt","values":["4"]}]],
   "preferredAffinity":[{"weight":7,"term":[{"key":"gen","operator":"Lt","values":["8"]}]}],
   "spread":[{"topologyKey":"z","maxSkew":1,"selector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}}],
   "antiAffinity":[{"topologyKey":"z","selector":{"matchExpressions":[{"key":"app","operator":"In","values":["w"]}]}}],
   "preferredPodAffinity":[{"weight":9,"term":{"topologyKey":"z","selector":{"matchExpressions":[{"key":"tier","operator":"NotIn","values":["x"]}]}}}],
   "volumes":[{"claim":"v","topology":[[{"key":"rack","operator":"Gte","values":["2"]}]]}]}}],
 "nodes":[{"name":"n","capacity":{"cpu":2000},"allocatable":{"cpu":1900},"price":0.2}],
 "podDisruptionBudgets":[{"name":"b","selector":{"matchExpressions":[{"key":"app","operator":"DoesNotExist"}]}}],
 "settings":{"nodeSurcharge":0.01,"spotShare":50}}"#;

const AMOUNTS: &str = "(write whole numbers from 0 to 2^50: cpu in thousandths of a core, everything else in units \
                       or bytes)";
const PRICES: &str =
    "(write dollars per hour, from zero to a million; mark what cannot be bought as unavailable)";
const SELECTORS: &str = "(write In, NotIn, Exists or DoesNotExist)";
const INTEGERS: &str = "(write one whole number, as a string: [\"4\"])";

/// What is replaced, by what, the field that is named then, what is wrong with it, and the way out.
const WRONG: &[(&str, &str, &str, &str, &str)] = &[
    (
        r#""cpu":4000"#,
        r#""cpu":-1"#,
        "catalogs[0].types[0].capacity",
        "cpu is -1",
        AMOUNTS,
    ),
    (
        r#""cpu":100}"#,
        r#""cpu":-2}"#,
        "catalogs[0].types[0].overhead",
        "cpu is -2",
        AMOUNTS,
    ),
    (
        r#""price":0.1"#,
        r#""price":-0.1"#,
        "catalogs[0].types[0].offerings[0].price",
        "-0.1 is not a price",
        PRICES,
    ),
    (
        r#""price":0.1"#,
        r#""price":2e6"#,
        "catalogs[0].types[0].offerings[0].price",
        "2000000 is not a price",
        PRICES,
    ),
    (
        r#""cpu":1000"#,
        r#""cpu":9000"#,
        "catalogs[0].ranges[0].max",
        "cpu is 8000, and at least 9000 by min",
        "(write as much as min has, or more)",
    ),
    (
        r#""step":{"cpu":500}"#,
        r#""step":{"cpu":0}"#,
        "catalogs[0].ranges[0].step",
        "cpu is 0",
        "(write by how much sizes grow, or leave it out: it is then always as in max)",
    ),
    (
        r#""core":0.01"#,
        r#""core":-1"#,
        "catalogs[0].ranges[0].prices.core",
        "-1 is not a price",
        PRICES,
    ),
    (
        r#""cpu":16000"#,
        r#""cpu":-3"#,
        "catalogs[0].ranges[0].hosts[0].free",
        "cpu is -3",
        AMOUNTS,
    ),
    (
        r#""cpu":100000"#,
        r#""cpu":-4"#,
        "pools[0].limits.resources",
        "cpu is -4",
        AMOUNTS,
    ),
    (
        r#""cost":5.0"#,
        r#""cost":-5"#,
        "pools[0].limits.cost",
        "-5 is not a price",
        PRICES,
    ),
    (
        r#""cpu":50}"#,
        r#""cpu":-5}"#,
        "daemonSets[0].spec.requests",
        "cpu is -5",
        AMOUNTS,
    ),
    (
        r#"{"requests":{"cpu":500}"#,
        r#"{"requests":{"cpu":-6}"#,
        "pods[0].spec.requests",
        "cpu is -6",
        AMOUNTS,
    ),
    (
        r#"{"requests":{"cpu":500}"#,
        r#"{"requests":{"cpu":9000000000000000000}"#,
        "pods[0].spec.requests",
        "cpu is 9000000000000000000",
        AMOUNTS,
    ),
    (
        r#"["4"]"#,
        r#"["four"]"#,
        "pods[0].spec.requiredAffinity[0][0].values",
        r#"gen Gt needs one integer in values, got ["four"]"#,
        INTEGERS,
    ),
    (
        r#""weight":7"#,
        r#""weight":0"#,
        "pods[0].spec.preferredAffinity[0].weight",
        "0 is not a weight",
        "(write a whole number from 1 to 100)",
    ),
    (
        r#"["8"]"#,
        r#"["x"]"#,
        "pods[0].spec.preferredAffinity[0].term[0].values",
        r#"gen Lt needs one integer in values, got ["x"]"#,
        INTEGERS,
    ),
    (
        r#""maxSkew":1"#,
        r#""maxSkew":0"#,
        "pods[0].spec.spread[0].maxSkew",
        "0 is not a skew",
        "(write one or more: the fullest domain may be so many pods ahead)",
    ),
    (
        r#""operator":"Exists"}"#,
        r#""operator":"Gt"}"#,
        "pods[0].spec.spread[0].selector.matchExpressions[0].operator",
        "label selectors do not know Gt",
        SELECTORS,
    ),
    (
        r#""operator":"In","values":["w"]"#,
        r#""operator":"Lt","values":["1"]"#,
        "pods[0].spec.antiAffinity[0].selector.matchExpressions[0].operator",
        "label selectors do not know Lt",
        SELECTORS,
    ),
    (
        r#""weight":9"#,
        r#""weight":101"#,
        "pods[0].spec.preferredPodAffinity[0].weight",
        "101 is not a weight",
        "(write a whole number from 1 to 100)",
    ),
    (
        r#""operator":"NotIn""#,
        r#""operator":"Gte""#,
        "pods[0].spec.preferredPodAffinity[0].term.selector.matchExpressions[0].operator",
        "label selectors do not know Gte",
        SELECTORS,
    ),
    (
        r#"["2"]"#,
        "[]",
        "pods[0].spec.volumes[0].topology[0][0].values",
        "rack Gte needs one integer in values, got []",
        INTEGERS,
    ),
    (
        r#""cpu":1900"#,
        r#""cpu":-7"#,
        "nodes[0].allocatable",
        "cpu is -7",
        AMOUNTS,
    ),
    (
        r#""price":0.2"#,
        r#""price":-0.2"#,
        "nodes[0].price",
        "-0.2 is not a price",
        PRICES,
    ),
    (
        r#""operator":"DoesNotExist""#,
        r#""operator":"Lte""#,
        "podDisruptionBudgets[0].selector.matchExpressions[0].operator",
        "label selectors do not know Lte",
        SELECTORS,
    ),
    (
        r#""nodeSurcharge":0.01"#,
        r#""nodeSurcharge":-0.01"#,
        "settings.nodeSurcharge",
        "-0.01 is not a price",
        PRICES,
    ),
    (
        r#""spotShare":50"#,
        r#""spotShare":101"#,
        "settings.spotShare",
        "101 is not a share",
        "(write percent of the new machines: 0 to 100)",
    ),
];

#[test]
fn native_amounts_prices_and_conditions_are_judged_with_field_value_and_remedy() {
    Problem::from_json(NATIVE).unwrap();
    for (good, bad, field, fault, remedy) in WRONG {
        let text = NATIVE.replacen(good, bad, 1);
        assert_ne!(text, NATIVE, "{good} is not in the file");
        let found = Problem::from_json(&text).expect_err(bad);
        let line = text[..text.find(bad).unwrap()].matches('\n').count() + 1;
        assert_eq!(found.line, line, "{found}");
        let said = format!(
            "line {line}, column {}: {field}: {fault} {remedy}",
            found.column
        );
        assert_eq!(found.to_string(), said);
    }
}

#[test]
fn a_catalogue_by_itself_is_judged_too() {
    let text = r#"{"types":[{"name":"t","capacity":{"cpu":-1},"offerings":[]}]}"#;
    let error = crate::problem::Catalog::from_json(text).unwrap_err();
    assert_eq!(error.field, "types[0].capacity");
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
