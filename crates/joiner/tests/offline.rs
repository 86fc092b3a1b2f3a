//! Commands that need no cluster, as they are typed: what they print, how they refuse and how they end.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "only tests use this"
)]

use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const GIB: i64 = 1 << 30;

fn joiner(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_joiner"));
    command.args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("joiner prints UTF-8")
}

/// A folder with a problem in it, and the path of the problem.
fn file(problem: &Value) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("problem.json");
    std::fs::write(&path, problem.to_string()).expect("there is room");
    let path = path.to_str().expect("paths are UTF-8").to_owned();
    (folder, path)
}

/// Three nodes of eight cores: one empty, one that is nearly empty, one that is full and may not be touched.
fn wasteful() -> Value {
    let kind = |cores: i64| {
        json!({
            "name": format!("c{cores}"),
            "labels": {"kubernetes.io/arch": "amd64"},
            "capacity": {"cpu": cores * 1000, "memory": cores * 4 * GIB, "pods": 50},
            "offerings": [{"zone": "a", "capacityType": "on-demand", "price": format!("0.{}", cores * 5).parse::<f64>().unwrap()}],
        })
    };
    let node = |name: &str, pods: Value| {
        json!({
            "name": name, "pool": "default", "phase": "Ready",
            "labels": {"topology.kubernetes.io/zone": "a", "kubernetes.io/arch": "amd64"},
            "capacity": {"cpu": 8000, "memory": 32 * GIB, "pods": 50},
            "allocatable": {"cpu": 8000, "memory": 32 * GIB, "pods": 50},
            "instanceType": "c8", "capacityType": "on-demand", "price": 0.4, "pods": pods,
        })
    };
    let pod = |name: &str, count: u32| {
        json!({"name": name, "count": count,
            "spec": {"requests": {"cpu": 700, "memory": GIB, "pods": 1}}})
    };
    let mut held = node("held", json!([pod("db", 11)]));
    held["doNotDisrupt"] = json!(true);
    json!({
        "catalogs": [{"name": "cloud", "types": [kind(2), kind(4), kind(8)]}],
        "pools": [{"name": "default", "catalog": "cloud",
            "disruption": {"consolidateAfter": "PT0S", "budgets": [{"amount": {"percent": 100}}]}}],
        "nodes": [node("empty", json!([])), node("idle", json!([pod("web", 2)])), held],
    })
}

/// What a consolidation printed, without how long its rounds took: the last column of its table, and their sum.
fn timeless(output: &Output) -> String {
    let out = text(&output.stdout);
    let mut told = String::new();
    let mut table = true;
    for line in out.lines() {
        if let (true, Some((pods, _))) = (table, line.split_once(" pods, ")) {
            table = false;
            told += pods;
            told += " pods";
        } else if let (true, Some((row, _))) = (table, line.trim_end().rsplit_once(' ')) {
            told += row.trim_end();
        } else {
            told += line;
        }
        told += "\n";
    }
    told
}

#[test]
fn a_consolidation_says_what_goes_comes_moves_and_stays_and_why() {
    let (_folder, path) = file(&wasteful());
    let output = joiner(&["consolidate", "--problem", &path])
        .output()
        .expect("it runs");
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
    let told = timeless(&output);
    assert_eq!(told, include_str!("consolidate.txt"), "\n{told}");
}

#[test]
fn a_bare_plan_says_both_ways_to_call_it() {
    let output = joiner(&["plan"]).output().expect("it runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for way in ["--problem <FILE>", "--manifests <PATH>"] {
        assert!(said.contains(way), "{way} is missing: {said}");
    }
}

#[test]
fn a_reader_who_has_seen_enough_ends_the_command_quietly() {
    let pods: Vec<Value> = (0..3000)
        .map(|index| {
            json!({"name": format!("pod-{index}"), "spec": {"nodeSelector": {"no": index.to_string()},
                "requests": {"cpu": 100, "memory": GIB, "pods": 1}}})
        })
        .collect();
    let mut problem = wasteful();
    problem["pods"] = json!(pods);
    let (_folder, path) = file(&problem);
    let mut child = joiner(&["plan", "--problem", &path, "--output", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut first = [0; 1];
    let mut out = child.stdout.take().expect("it is piped");
    out.read_exact(&mut first).expect("it prints something");
    drop(out);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(
        (ended.status.code(), text(&ended.stderr)),
        (Some(0), String::new())
    );
}

#[test]
fn a_category_that_does_not_exist_is_refused_before_anything_is_fetched() {
    // Nothing answers there: whoever asks first fails in another way.
    let nowhere = "http://127.0.0.1:9/feed";
    let output = joiner(&["prices", "--category", "foo", "--feed-url", nowhere])
        .output()
        .expect("it runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(
        said,
        "joiner: --category foo: there is no such category; write one of gp, ch, mh, gpu, bm\n"
    );
}
