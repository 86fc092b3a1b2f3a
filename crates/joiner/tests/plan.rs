//! `joiner plan`, as it is typed.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "only tests use this"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

const GIB: i64 = 1 << 30;

/// What a command said and how it ended.
struct Ended {
    status: i32,
    out: String,
    err: String,
}

impl Ended {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect("the output is JSON")
    }
}

fn joiner(arguments: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .arg("plan")
        .args(arguments)
        .output()
        .expect("joiner can be run");
    let text = |bytes| String::from_utf8(bytes).expect("joiner prints UTF-8");
    Ended {
        status: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// A folder with a file in it, which goes when the test ends.
struct File {
    folder: TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("problem.json");
        fs::write(&path, text).expect("there is room");
        File { folder, path }
    }

    fn path(&self) -> &str {
        text(&self.path)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths are UTF-8")
}

fn plan(problem: &Value, arguments: &[&str]) -> Ended {
    let file = File::new(&problem.to_string());
    joiner(&[&["--problem", file.path()], arguments].concat())
}

/// A shop: four web servers that spread over zones, and jobs of many sizes.
fn shop() -> Value {
    let mut pods = vec![json!({
        "name": "web", "count": 4,
        "spec": {
            "labels": {"app": "web"},
            "requests": {"cpu": 900, "memory": GIB, "pods": 1},
            "spread": [{
                "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
                "selector": {"matchLabels": {"app": "web"}},
            }],
        },
    })];
    pods.extend((1_i64..40).map(|size| {
        json!({
            "name": format!("job-{size}"),
            "spec": {"requests": {"cpu": 70 * size, "memory": (size * 37 % 11 + 1) * GIB / 4, "pods": 1}},
        })
    }));
    let types = [2, 4, 8, 16].map(|cores| {
        let offering = |zone: &str, cents: f64| {
            json!({"zone": zone, "capacityType": "on-demand", "price": f64::from(cores) * cents / 100.0})
        };
        json!({
            "name": format!("c{cores}"),
            "capacity": {"cpu": cores * 1000, "memory": i64::from(cores) * 4 * GIB, "pods": 60},
            "overhead": {"cpu": 100, "memory": GIB / 4},
            "offerings": [offering("a", 5.0), offering("b", 5.1)],
        })
    });
    json!({
        "catalogs": [{"name": "cloud", "types": types}],
        "pools": [{"name": "default", "catalog": "cloud"}],
        "pods": pods,
    })
}

#[test]
fn the_table_shows_machines_their_use_and_what_they_cost_together() {
    let ended = plan(&shop(), &[]);
    assert_eq!((ended.status, &*ended.err), (0, ""));
    let mut lines = ended.out.lines();
    let header: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let columns = [
        "count", "type", "zone", "capacity", "pool", "pods", "cpu", "memory", "each", "together",
    ];
    assert_eq!(header, columns);
    let rows: Vec<&str> = lines
        .clone()
        .take_while(|line| line.contains("on-demand"))
        .collect();
    assert!(rows.len() >= 2, "both zones are used: {}", ended.out);
    for row in rows {
        assert!(
            row.contains("default") && row.contains('█') && row.contains("$0."),
            "{row}"
        );
    }
    let total = ended.out.lines().last().unwrap();
    for part in [
        " machines, $",
        " an hour; no plan costs less than $",
        "% above). 43 pods, ",
        " ms.",
    ] {
        assert!(total.contains(part), "{part:?} is not in {total:?}");
    }
}

#[test]
fn nothing_to_buy_is_said() {
    let mut problem = shop();
    problem["pods"] = json!([]);
    let ended = plan(&problem, &[]);
    assert_eq!(ended.status, 0);
    assert!(
        ended.out.starts_with("Nothing to buy.\n0 machines, $0"),
        "{}",
        ended.out
    );
}

#[test]
fn pods_without_a_place_are_named_with_the_reason_and_the_status_is_four() {
    let mut problem = shop();
    problem["pods"][0]["spec"]["requests"]["cpu"] = json!(64_000);
    let ended = plan(&problem, &[]);
    assert_eq!(ended.status, 4);
    assert_eq!(ended.err, "joiner: 4 pods have no place\n");
    let line = ended.out.lines().last().unwrap();
    assert!(
        line.starts_with("No place for web-0 and 3 like it: "),
        "{line}"
    );
    assert!(line.contains("default"), "the pool is named: {line}");
}

#[test]
fn a_plan_as_json_has_a_reason_for_every_machine() {
    let plan = plan(&shop(), &["-o", "json"]).json();
    let launches = plan["launches"].as_array().unwrap();
    assert!(!launches.is_empty());
    for launch in launches {
        assert!(!launch["reason"].is_null(), "{launch}");
    }
    let lower = plan["lowerBound"].as_f64().unwrap();
    assert!(0.0 < lower && lower <= plan["cost"].as_f64().unwrap());
}

#[test]
fn a_solution_is_written_instead_of_a_table() {
    let file = File::new(&shop().to_string());
    let out = file.folder.path().join("solution.json");
    let arguments = ["--problem", file.path(), "--out", text(&out), "--runs", "3"];
    let ended = joiner(&arguments);
    assert_eq!((ended.status, &*ended.out, &*ended.err), (0, "", ""));
    let solution: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(solution["podsTotal"], 43);
    assert_eq!(solution["podsScheduled"], 43);
    assert_eq!(solution["runs"], 3);
    assert_eq!(solution["solveMsAll"].as_array().unwrap().len(), 3);
    let claims = solution["claims"].as_array().unwrap();
    let pods: usize = claims
        .iter()
        .map(|one| one["pods"].as_array().unwrap().len())
        .sum();
    assert_eq!(pods, 43);
}

#[test]
fn what_cannot_be_read_or_written_is_said_with_status_one() {
    let ended = joiner(&["--problem", "/nowhere/problem.json"]);
    assert_eq!(ended.status, 1);
    assert!(
        ended
            .err
            .starts_with("joiner: cannot read /nowhere/problem.json: "),
        "{}",
        ended.err
    );
    let ended = plan(&shop(), &["--out", "/nowhere/solution.json"]);
    assert_eq!(ended.status, 1);
    assert!(
        ended
            .err
            .starts_with("joiner: cannot write /nowhere/solution.json: "),
        "{}",
        ended.err
    );
}

#[test]
fn wrong_usage_has_status_two() {
    for arguments in [
        &[][..],
        &["--problem", "a", "-f", "b"],
        &["--problem", "a", "--steps", "1", "--time-limit", "1s"],
        &["--problem", "a", "--steps", "many"],
        &["--problem", "a", "--time-limit", "soon"],
        &["--problem", "a", "--runs", "0"],
        &["--problem", "a", "--catalog", "b"],
    ] {
        let ended = joiner(arguments);
        assert_eq!(ended.status, 2, "{arguments:?}: {}", ended.err);
        assert!(ended.err.starts_with("error: "), "{}", ended.err);
    }
}

#[test]
fn a_malformed_file_is_refused_with_place_field_reason_and_way_out() {
    let pretty = serde_json::to_string_pretty(&shop()).unwrap();
    for (good, bad, says) in [
        (
            "\"cpu\": 900",
            "\"cpu\": \"900m\"",
            "requests.cpu: invalid type: string \"900m\", expected i64",
        ),
        (
            "\"cpu\": 900",
            "\"cpu\": -900",
            "pods[0].spec.requests: cpu is -900 (write whole numbers from 0 to 2^50: cpu in thousandths of a core, \
             everything else in units or bytes)",
        ),
        (
            "\"catalog\": \"cloud\"",
            "\"catalog\": \"clod\"",
            "pools[0].catalog: unknown catalogue \"clod\" (name one that catalogs lists)",
        ),
        ("\"maxSkew\"", "\"maxSkev\"", "unknown field `maxSkev`"),
    ] {
        let malformed = pretty.replacen(good, bad, 1);
        assert_ne!(malformed, pretty, "{good} is not in the file");
        let file = File::new(&malformed);
        let ended = joiner(&["--problem", file.path()]);
        assert_eq!((ended.status, &*ended.out), (3, ""), "{}", ended.err);
        let start = format!("joiner: {}: line ", file.path());
        let rest = ended
            .err
            .strip_prefix(&start)
            .expect("the file and the line");
        let line: usize = rest.split(',').next().unwrap().parse().expect("a number");
        let place = malformed[..malformed.find(bad).unwrap()]
            .matches('\n')
            .count()
            + 1;
        // The fault is in the field that is named, or in the object that holds it.
        assert!(
            line.abs_diff(place) <= 1,
            "line {line}, not {place}: {}",
            ended.err
        );
        assert!(
            ended.err.contains(says),
            "{says:?} is not in {:?}",
            ended.err
        );
    }
}

#[test]
fn a_plan_depends_on_steps_and_seed_and_not_on_threads() {
    let with = |arguments: &[&str]| {
        let ended = plan(&shop(), &[&["-o", "json"], arguments].concat());
        assert_eq!(ended.status, 0, "{}", ended.err);
        ended.json()
    };
    let usual = with(&["--steps", "60", "--seed", "7"]);
    assert_eq!(usual, with(&["--steps", "60", "--seed", "7"]));
    assert_eq!(
        usual,
        with(&["--steps", "60", "--seed", "7", "--threads", "4"])
    );
    let cost = |plan: &Value| plan["cost"].as_f64().unwrap();
    let first = with(&["--steps", "0"]);
    assert!(
        cost(&with(&[])) <= cost(&first),
        "more steps never make it dearer"
    );
    assert!(cost(&usual) <= cost(&first));
}

#[test]
fn a_time_limit_ends_the_search_and_the_plan_is_valid() {
    let start = Instant::now();
    let ended = plan(&shop(), &["--time-limit", "200ms", "-o", "json", "--check"]);
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "it takes {:?}",
        start.elapsed()
    );
    let first = plan(&shop(), &["--steps", "0", "-o", "json"]).json();
    assert!(ended.json()["cost"].as_f64() <= first["cost"].as_f64());
}

#[test]
fn wishes_cost_no_more_than_their_cap_whatever_ends_the_search() {
    let mut problem = shop();
    problem["pods"] = json!([{
        "name": "web",
        "spec": {
            "requests": {"cpu": 900, "memory": GIB, "pods": 1},
            "preferredAffinity": [{"weight": 1, "term": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]},
            ]}],
        },
    }]);
    for (cap, zone) in [(10, "b"), (1, "a")] {
        problem["settings"] = json!({"preferenceCap": cap});
        for arguments in [&["-o", "json"][..], &["-o", "json", "--time-limit", "20ms"]] {
            let plan = plan(&problem, arguments).json();
            assert_eq!(
                plan["launches"][0]["purchase"]["zone"], zone,
                "cap {cap}, {arguments:?}"
            );
        }
    }
}

#[test]
fn settings_of_the_command_line_win_over_those_of_the_file() {
    let mut problem = shop();
    problem["settings"] = json!({"maxNewNodes": 100, "nodeSurcharge": 0.0});
    let few = plan(&problem, &["--max-new-nodes", "1", "-o", "json"]);
    assert_eq!(few.status, 4, "one machine is not enough for all");
    assert_eq!(few.json()["launches"].as_array().unwrap().len(), 1);
    let prices = |plan: &Value| -> f64 {
        let launches = plan["launches"].as_array().unwrap().iter();
        launches
            .map(|one| one["purchase"]["price"].as_f64().unwrap())
            .sum()
    };
    let taxed = plan(&problem, &["--node-surcharge", "1.5", "-o", "json"]).json();
    let machines = taxed["launches"].as_array().unwrap().len();
    let surcharge = taxed["cost"].as_f64().unwrap() - prices(&taxed);
    assert!((surcharge - 1.5 * f64::from(u32::try_from(machines).unwrap())).abs() < 1e-6);
    let refused = plan(&problem, &["--spot-share", "101"]);
    assert_eq!(refused.status, 2);
    assert!(
        refused.err.contains("101 is not in 0..=100"),
        "{}",
        refused.err
    );
}

#[test]
fn manifests_are_planned_with_a_catalogue_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("types.json");
    fs::write(&catalog, shop()["catalogs"][0].to_string()).unwrap();
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    let work = r"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec: {template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: any}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template: {spec: {containers: [{name: main, resources: {requests: {cpu: 900m, memory: 1Gi}}}]}}
";
    fs::write(manifests.join("work.yaml"), work).unwrap();
    let ended = joiner(&[
        "-f",
        text(&manifests),
        "--catalog",
        text(&catalog),
        "-o",
        "json",
    ]);
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert_eq!(
        ended.json()["launches"][0]["purchase"]["instanceType"],
        "c4"
    );
    let ended = joiner(&["-f", text(&manifests)]);
    assert_eq!(ended.status, 3);
    assert!(
        ended.err.contains("--catalog"),
        "the way out is named: {}",
        ended.err
    );
}

#[test]
fn nodes_are_rebalanced_on_paper_with_their_cost_before_and_after() {
    let mut problem = shop();
    problem["pods"] = json!([]);
    let nodes = ["one", "two"].map(|name| {
        json!({
            "name": name, "pool": "default", "instanceType": "c4", "price": 0.2,
            "labels": {"topology.kubernetes.io/zone": "a", "node.kubernetes.io/instance-type": "c4",
                "karpenter.sh/capacity-type": "on-demand"},
            "capacity": {"cpu": 4000, "memory": 16 * GIB, "pods": 60},
            "allocatable": {"cpu": 3900, "memory": 15 * GIB, "pods": 60},
            "pods": [{"name": format!("{name}-0"), "spec": {"requests": {"cpu": 500, "memory": GIB, "pods": 1}}}],
        })
    });
    problem["nodes"] = json!(nodes);
    let ended = plan(&problem, &["--rebalance", "-o", "json"]);
    assert_eq!((ended.status, &*ended.err), (0, ""));
    let outcome = ended.json();
    let (before, after) = (&outcome["before"], &outcome["after"]);
    assert!((before.as_f64().unwrap() - 0.4).abs() < 1e-9, "{outcome}");
    assert!(after.as_f64().unwrap() <= 0.2, "{outcome}");
    assert!(!outcome["gone"].as_array().unwrap().is_empty(), "{outcome}");
    let ended = plan(&problem, &["--rebalance"]);
    let last = ended.out.lines().last().unwrap();
    assert!(last.starts_with("$0.400 an hour becomes $0."), "{last}");
    assert!(last.ends_with("Nothing was changed."), "{last}");
    let ended = plan(&problem, &["--rebalance", "--out", "x.json"]);
    assert_eq!(ended.status, 2, "there is no solution to write");
}
