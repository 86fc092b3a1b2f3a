//! A small cluster to look at.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use joiner_controllers::decisions::{Said, Verdict};

use super::state::{Origin, Picture, Screen};
use crate::api::column::Column;
use crate::api::model::{
    Bound, Figure, NodeCounts, NodeView, Overview, ProviderView, SCHEMA, Sample, State, Usage,
    Usages,
};

const GIB: i64 = 1 << 30;

/// When everything is looked at.
pub(super) fn noon() -> Timestamp {
    "2026-11-19T12:00:00Z".parse().unwrap()
}

/// So many seconds after that.
pub(super) fn later(seconds: i64) -> Timestamp {
    noon() + SignedDuration::from_secs(seconds)
}

fn usage(requested: i64, allocatable: i64) -> Usage {
    Usage {
        requested,
        allocatable,
        coming: 0,
    }
}

fn said(code: &str, sentence: &str) -> Said {
    let verdict = Verdict {
        code: code.into(),
        sentence: sentence.to_owned(),
        ..Verdict::default()
    };
    Said {
        first: noon(),
        last: noon(),
        times: 1,
        decision: 1,
        verdict: Arc::new(verdict),
    }
}

/// A node of ours: what is requested of 4 cores in percent, and its price.
pub(super) fn node(name: &str, percent: i64, price: f64) -> NodeView {
    NodeView {
        name: name.to_owned(),
        machine: Some(name.to_owned()),
        pool: Some("default".to_owned()),
        class: Some("SimNodeClass/cloud".to_owned()),
        instance_type: "m-4x".to_owned(),
        zone: "zone-a".to_owned(),
        capacity_type: "spot".to_owned(),
        price: Figure::exact(price),
        usage: Usages {
            cpu: usage(40 * percent, 4000),
            memory: usage(GIB * 16 * percent / 200, 16 * GIB),
            gpu: Usage::default(),
            pods: usage(percent / 5, 110),
        },
        state: State::Ready,
        created: later(-3 * 3600),
        stays: Some(said(
            "NotCheaper",
            "stays: nothing cheaper holds its pods: the cheapest replacement costs $0.240 an hour",
        )),
        ..NodeView::default()
    }
}

/// Five nodes in different states; one with GPUs if that is asked.
pub(super) fn nodes(gpus: bool) -> Vec<NodeView> {
    let foreign = NodeView {
        name: "control-plane".to_owned(),
        instance_type: "bare".to_owned(),
        price: Figure::maybe(None),
        usage: Usages {
            cpu: usage(500, 2000),
            memory: usage(GIB, 4 * GIB),
            gpu: Usage::default(),
            pods: usage(7, 110),
        },
        created: later(-40 * 86_400),
        ..NodeView::default()
    };
    let mut coming = node("default-c2d4", 0, 0.5);
    coming.state = State::Coming;
    coming.stays = None;
    coming.created = later(-25);
    for one in [
        &mut coming.usage.cpu,
        &mut coming.usage.memory,
        &mut coming.usage.pods,
    ] {
        one.coming = std::mem::take(&mut one.allocatable);
    }
    let mut dear = node("default-b8fj", 20, 1.25);
    dear.capacity_type = "on-demand".to_owned();
    dear.zone = "zone-b".to_owned();
    dear.state = State::Leaving;
    dear.stays = Some(said(
        "Underutilized",
        "goes: Underutilized: $0.500 an hour instead of $1.25 (its 4 pods move)",
    ));
    if gpus {
        dear.usage.gpu = usage(1, 4);
    }
    vec![
        foreign,
        node("default-a1x7", 82, 0.25),
        dear,
        coming,
        node(
            "default-very-long-name-of-a-node-e9.eu-west-1.internal",
            47,
            0.25,
        ),
    ]
}

/// So many nodes of several pools, one in eight with GPUs, no two of which are alike.
pub(super) fn many(count: i64) -> Vec<NodeView> {
    let one = |number: i64| {
        #[expect(clippy::cast_precision_loss, reason = "a price")]
        let price = 0.1 + (number % 97) as f64 / 10.0;
        let name = format!(
            "ip-10-0-{}-{}.eu-west-1.compute.internal",
            number / 250,
            number % 250
        );
        let mut node = node(&name, number * 7 % 101, price);
        node.pool = Some(format!("pool-{}", number % 13));
        node.instance_type = format!("m{}i.{}xlarge", number % 7, 1 << (number % 6));
        node.capacity_type =
            ["spot", "on-demand", "reserved"][usize::try_from(number % 3).unwrap()].to_owned();
        node.zone = format!(
            "eu-west-1{}",
            ["a", "b", "c"][usize::try_from(number % 3).unwrap()]
        );
        node.created = later(-number * 61);
        if number % 8 == 0 {
            node.usage.gpu = usage(number / 8 % 9, 8);
        }
        node
    };
    (0..count).map(one).collect()
}

/// The cluster that these nodes are.
pub(super) fn picture(nodes: Vec<NodeView>) -> Picture {
    let mut all = Usages::default();
    for node in &nodes {
        all.cpu.add(&node.usage.cpu);
        all.memory.add(&node.usage.memory);
        all.gpu.add(&node.usage.gpu);
        all.pods.add(&node.usage.pods);
    }
    let provider = ProviderView {
        class: "SimNodeClass/cloud".to_owned(),
        provider: "sim".to_owned(),
        ready: true,
        sentence: None,
        types: 12,
        offerings: 60,
        for_sale: 58,
        nodes: 4,
        cost: Figure::exact(2.25),
        read: None,
    };
    let overview = Overview {
        schema_version: SCHEMA,
        at: noon(),
        cluster: "sample".to_owned(),
        leading: true,
        synced: true,
        observe_only: false,
        cost: Figure::exact(2.25),
        bound: Figure::bounded(1.8, Bound::AtLeast),
        kept: Figure::exact(3.0),
        spot_percent: Figure::exact(44.4),
        waste: Figure::bounded(1.19, Bound::AtLeast),
        nodes: NodeCounts {
            ready: 3,
            starting: 0,
            coming: 1,
            leaving: 1,
            not_ready: 0,
            foreign: 1,
        },
        pods_bound: 36,
        pods_waiting: 4,
        pods_unplaced: 1,
        usage: all,
        providers: vec![provider],
        pools: Vec::new(),
        history: Vec::new(),
    };
    Picture {
        overview,
        total: nodes.len(),
        nodes,
        read: noon(),
    }
}

/// So many measurements of a cost that rises, one a minute.
pub(super) fn history(count: i32) -> Vec<Sample> {
    let samples = (0..count).map(|minute| Sample {
        at: later(60 * i64::from(minute - count)),
        cost: f64::from(minute + 1) / 4.0,
        bound: None,
        kept: 3.0,
        nodes: 5,
        pods: 36,
        waiting: 0,
    });
    samples.collect()
}

/// All of it on a screen, by name.
pub(super) fn screen(gpus: bool) -> Screen {
    screen_of(nodes(gpus))
}

/// These nodes on a screen, by name.
pub(super) fn screen_of(nodes: Vec<NodeView>) -> Screen {
    let origin = Origin {
        name: "http://127.0.0.1:8082".to_owned(),
        page: true,
    };
    Screen::new(origin, picture(nodes), Column::Name, "")
}
