use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// What somebody who may create pods writes into names, labels and events.
const HOSTILE: &str =
    "</script></title></svg>'\"><script>alert(1)</script><img src=x onerror=alert(2)>&";

/// The same with every text in it hostile that may be any text: words and times that could not be read stay.
fn hostile<T: Serialize + DeserializeOwned>(mut sample: Value) -> T {
    let mut places = Vec::new();
    find(&sample, String::new(), &mut places);
    assert!(!places.is_empty());
    for place in places {
        let kept = sample
            .pointer_mut(&place)
            .map(|text| std::mem::replace(text, json!(HOSTILE)));
        if serde_json::from_value::<T>(sample.clone()).is_err()
            && let (Some(text), Some(kept)) = (sample.pointer_mut(&place), kept)
        {
            *text = kept;
        }
    }
    serde_json::from_value(sample).unwrap()
}

fn find(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::String(_) => places.push(at),
        Value::Array(all) => {
            for (index, one) in all.iter().enumerate() {
                find(one, format!("{at}/{index}"), places);
            }
        }
        Value::Object(all) => {
            for (key, one) in all {
                find(one, format!("{at}/{key}"), places);
            }
        }
        _ => {}
    }
}

const AT: &str = "2026-01-01T00:00:00Z";

fn figure() -> Value {
    json!({"value": 1.0, "bound": "exact"})
}

fn usage() -> Value {
    let one = json!({"requested": 1, "allocatable": 2, "coming": 1});
    json!({"cpu": one, "memory": one, "gpu": one, "pods": one})
}

fn pool() -> Value {
    json!({"pool": "p", "code": "c", "types": 3, "allowed": 2, "offered": 1, "largeEnough": 0, "soldOut": ["s"],
        "sentence": "s", "remedy": "r"})
}

fn verdict() -> Value {
    json!({"outcome": "unplaced", "code": "c", "sentence": "s", "remedies": ["r"], "decision": 1,
        "evidence": {"pools": [pool()], "place": "n", "pool": "p", "considered": 2, "before": 2.0, "after": 1.0,
            "rejected": {"instanceType": "m", "price": 1.0}, "until": AT}})
}

fn said() -> Value {
    let mut said = verdict();
    said["first"] = json!(AT);
    said["last"] = json!(AT);
    said["times"] = json!(2);
    said
}

fn episodes() -> Value {
    let entry = json!({"number": 1, "at": AT, "subject": {"kind": "pod", "name": "n"}, "warning": true, "code": "c",
        "sentence": "s", "before": 2.0, "after": 1.0});
    json!([{"at": AT, "title": "t", "warning": false, "before": 2.0, "after": 1.0,
        "entries": [entry, entry, entry, entry]}])
}

fn nodes() -> Vec<(NodeView, String)> {
    let node = |state: &str, machine: Option<&str>| {
        hostile::<NodeView>(
            json!({"name": "n", "machine": machine, "pool": "p", "class": "c", "instanceType": "t", "zone": "z",
            "capacityType": "spot", "price": figure(), "usage": usage(), "state": state, "created": AT, "here": said(),
            "stays": said(), "onIt": [{"name": "a/b", "cpu": 1, "memory": 1, "daemon": false}]}),
        )
    };
    boxes(vec![node("coming", Some("m")), node("ready", None)])
}

fn overview() -> Overview {
    hostile(
        json!({"schemaVersion": 1, "at": AT, "cluster": "c", "leading": true, "synced": true, "observeOnly": false,
        "cost": figure(), "bound": figure(), "kept": figure(), "spotPercent": figure(), "waste": figure(),
        "nodes": {"ready": 1, "starting": 1, "coming": 1, "leaving": 1, "notReady": 1, "foreign": 1},
        "podsBound": 1, "podsWaiting": 1, "podsUnplaced": 1, "usage": usage(),
        "providers": [{"class": "c", "provider": "p", "ready": false, "sentence": "s", "types": 1, "offerings": 1,
            "forSale": 1, "nodes": 1, "cost": figure(), "read": AT}],
        "pools": [{"name": "n", "family": "f", "nodes": 1, "cost": figure(), "closed": "s",
            "limits": [{"resource": "r", "used": 1, "limit": 2}], "waits": ["w"]}],
        "history": [{"at": AT, "cost": 1.0, "bound": 0.5, "kept": 2.0, "nodes": 1, "pods": 1, "waiting": 1}]}),
    )
}

fn frame() -> Frame {
    Frame {
        here: "nodes",
        mode: "live".to_owned(),
        clock: "00:00:00".to_owned(),
        query: HOSTILE.to_owned(),
    }
}

fn activity_view() -> Activity {
    hostile(json!({"schemaVersion": 1, "at": AT, "episodes": episodes()}))
}

#[expect(clippy::too_many_lines, reason = "one panel after the other")]
/// Every panel, and the page for one day, of a cluster in which every text is hostile.
fn panels() -> Vec<(&'static str, String)> {
    let view = overview();
    let recent = activity_view().episodes;
    let overview_panel = OverviewPanel {
        frame: frame(),
        chart: draw::cost(&view.history),
        bars: bars(&view),
        view: view.clone(),
        recent,
    };
    let demand: Demand = hostile(
        json!({"schemaVersion": 1, "at": AT, "waiting": 9, "groups": [
        {"count": 9, "namespace": "a", "names": ["n"], "cpu": 1, "memory": 1, "requires": ["r"], "waited": 1,
            "placed": false, "said": said(), "pools": [pool()]},
        {"count": 9, "namespace": "a", "names": ["n"], "cpu": 1, "memory": 1, "requires": ["r"], "waited": 1,
            "placed": false, "said": said(), "pools": []}]}),
    );
    let market: Market = hostile(
        json!({"schemaVersion": 1, "at": AT, "offerings": 1, "forSale": 1, "switches": [AT],
        "shown": [{"catalog": "c", "instanceType": "t", "zone": "z", "capacityType": "spot", "price": 1.0,
            "perCore": 1.0, "available": true, "held": 1, "history": [{"at": AT, "price": 1.0}]}]}),
    );
    let rows = market
        .shown
        .iter()
        .map(|one| {
            (
                one.clone(),
                draw::spark(&one.history, market.at, &market.switches),
            )
        })
        .collect();
    let outcome: Outcome = hostile(
        json!({"schemaVersion": 1, "before": 1.0, "after": 2.0, "moved": 1, "placed": 1,
        "bought": [{"count": 1, "pool": "p", "instanceType": "t", "zone": "z", "capacityType": "spot", "price": 1.0,
            "pods": 1}],
        "gone": [{"node": "n", "sentence": "s"}],
        "stranded": [{"pods": 1, "example": "e", "verdict": verdict()}]}),
    );
    let text = HOSTILE.to_owned();
    let asked = Question {
        pods: text.clone(),
        cpu: text.clone(),
        memory: text.clone(),
        remove: text.clone(),
        kind: text.clone(),
        price: text.clone(),
        rebalance: text.clone(),
    };
    let why: Explanation = hostile(
        json!({"schemaVersion": 1, "at": AT, "kind": "pod", "name": "n", "standing": "s",
        "leading": true, "verdicts": [said()], "facts": ["f"],
        "steps": [{"condition": "c", "status": "True", "since": AT, "sentence": "s"}]}),
    );
    vec![
        ("overview", overview_panel.render().unwrap()),
        (
            "demand",
            DemandPanel {
                frame: frame(),
                view: demand,
            }
            .render()
            .unwrap(),
        ),
        (
            "nodes",
            NodesPanel {
                frame: frame(),
                total: 2,
                matching: 2,
                boxes: nodes(),
                sorts: vec![("", "name", true)],
            }
            .render()
            .unwrap(),
        ),
        (
            "activity",
            ActivityPanel {
                frame: frame(),
                view: activity_view(),
            }
            .render()
            .unwrap(),
        ),
        (
            "market",
            MarketPanel {
                frame: frame(),
                view: market,
                rows,
            }
            .render()
            .unwrap(),
        ),
        (
            "what-if",
            WhatIfPanel {
                frame: frame(),
                asked,
                outcome: Some(outcome),
                error: Some(text.clone()),
                before: text.clone(),
                after: text.clone(),
                verdict: text.clone(),
            }
            .render()
            .unwrap(),
        ),
        (
            "why",
            WhyPanel {
                frame: frame(),
                told: why
                    .verdicts
                    .iter()
                    .map(|said| Told::new(said, why.at))
                    .collect(),
                view: why,
            }
            .render()
            .unwrap(),
        ),
        ("message", sign_in(HOSTILE).0),
        (
            "report",
            Report {
                css: CSS,
                title: text.clone(),
                chart: draw::cost(&view.history),
                bars: bars(&view),
                view,
                boxes: nodes(),
                activity: activity_view(),
                facts: vec![text],
            }
            .render()
            .unwrap(),
        ),
    ]
}

#[test]
fn no_text_of_the_cluster_becomes_markup_in_any_panel() {
    for (panel, page) in panels() {
        assert!(page.contains("alert(1)"), "{panel} shows none of it");
        assert!(!page.contains("<script>"), "{panel}: {page}");
        assert!(!page.contains("<img"), "{panel}: {page}");
        // Nor does it end an attribute: outside of our own scripts quotes of the cluster are written as entities.
        assert!(!page.contains("'\">"), "{panel}: {page}");
        assert!(!page.contains("\"&lt;script"), "{panel}: {page}");
    }
}
