//! Machines that bear no marks: whose they are stands on record, and a Joiner that keeps the record badly is seen.

use axum::body::Body;
use http::Request;
use joiner_embedded::api::Local;
use joiner_sim::audit::Invariant;
use serde_json::{Value, json};

use super::{caught_in, claim_in_use, request, text};
use crate::simulate::line::Stray;
use crate::simulate::world::Run;

/// An order on record with the machine that came of it: the name of its ConfigMap and what it says.
fn order(api: &Local) -> Option<(String, Value)> {
    let all = api.list("configmaps").into_iter();
    let mut orders = all.filter_map(|map| {
        let value: Value = serde_json::from_str(text(&map, "/data/value")).ok()?;
        let given = value["node"].is_string() && value["leaving"].is_null();
        given.then(|| (text(&map, "/metadata/name").to_owned(), value))
    });
    orders.next()
}

const RECORDS: &str = "/api/v1/namespaces/kube-system/configmaps";

fn strikes_an_order_off(api: &Local, _: u64) -> Option<Request<Body>> {
    let (name, _) = order(api)?;
    request("DELETE", &format!("{RECORDS}/{name}"), &json!({}))
}

fn gives_a_machine_away(api: &Local, _: u64) -> Option<Request<Body>> {
    let (_, value) = order(api)?;
    let claim = claim_in_use(api)?;
    let uid = text(&claim, "/metadata/uid");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "twice", "namespace": "kube-system", "labels": {"joiner.dev/ledger": "x"}},
        "data": {"key": uid, "value": value.to_string()}});
    let there = api.get("configmaps", "kube-system", "twice").is_ok();
    (!there).then(|| request("POST", RECORDS, &map))?
}

fn lets_a_machine_leave_that_stays(api: &Local, _: u64) -> Option<Request<Body>> {
    let (name, mut value) = order(api)?;
    value["leaving"] = json!(api.clock().now().to_string());
    let leaves = json!({"data": {"value": value.to_string()}});
    request("PATCH", &format!("{RECORDS}/{name}"), &leaves)
}

fn stray(stray: Stray) -> Run {
    Run {
        hours: 1,
        stray: Some(stray),
        ..Run::default()
    }
}

#[test]
fn an_order_struck_off_while_its_machine_is_there_is_caught() {
    caught_in(&stray(strikes_an_order_off), Invariant::MachineFirst);
}

#[test]
fn a_machine_given_to_two_objects_is_caught() {
    caught_in(&stray(gives_a_machine_away), Invariant::OneMachine);
}

#[test]
fn a_machine_sent_away_from_an_object_that_stays_is_caught() {
    caught_in(&stray(lets_a_machine_leave_that_stays), Invariant::Drained);
}
