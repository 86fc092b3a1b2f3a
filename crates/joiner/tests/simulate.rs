//! `joiner simulate`, as it is typed: the main test of reliability.
#![allow(clippy::expect_used, reason = "only tests use this")]

use std::process::Command;

use serde_json::Value;

fn simulate(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .arg("simulate")
        .args(arguments)
        .output()
        .expect("joiner can be run");
    let text = String::from_utf8(output.stdout).expect("joiner prints UTF-8");
    (output.status.code().unwrap_or(-1), text)
}

#[test]
fn worlds_go_well_under_every_fault() {
    let (status, text) = simulate(&["--seeds", "1..5", "--hours", "1", "--faults", "all"]);
    assert_eq!(status, 0, "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("4 worlds, "), "{last}");
}

/// A sample: `make simulate` runs two hundred.
#[test]
fn twelve_worlds_of_six_hours_go_well_under_every_fault() {
    let (status, text) = simulate(&["--seeds", "0..12", "--hours", "6", "--faults", "all"]);
    assert_eq!(status, 0, "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("12 worlds, "), "{last}");
}

#[test]
fn a_report_for_programs_lists_every_seed_with_its_hash() {
    let arguments = [
        "--seeds", "3..5", "--hours", "1", "--faults", "none", "-o", "json",
    ];
    let (status, text) = simulate(&arguments);
    assert_eq!(status, 0, "{text}");
    let report: Value = serde_json::from_str(&text).expect("the report is JSON");
    let seeds = report["seeds"].as_array().expect("it has seeds");
    let numbers: Vec<u64> = seeds
        .iter()
        .filter_map(|one| one["seed"].as_u64())
        .collect();
    assert_eq!(numbers, [3, 4]);
    assert!(
        seeds
            .iter()
            .all(|one| one["hash"].as_str().is_some_and(|hash| hash.len() == 32))
    );
    assert_eq!(report["violations"], 0);
}

#[test]
fn a_range_without_a_seed_is_refused_with_the_way_out() {
    let output = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args(["simulate", "--seeds", "5..5"])
        .output()
        .expect("joiner can be run");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("the end of a range is not part of it"),
        "{said}"
    );
}
