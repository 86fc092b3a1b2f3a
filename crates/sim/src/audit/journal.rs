//! What happened to whom: enough lines to explain a violation, and a hash over all there ever were.

use std::collections::VecDeque;
use std::fmt::Write as _;

use jiff::Timestamp;
use joiner_core::labels;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::ledger::Ledger;
use crate::clouds::watched::{CloudEvent, GroupEvent};
use joiner_embedded::api::{ChangeKind, Commit};
use joiner_embedded::cluster::fields::Fields as _;

/// How many lines are kept: some hours of a small world.
const KEPT: usize = 50_000;

/// The subject of what nobody in the cluster did.
const WORLD: &str = "world";
/// How many lines about the world a history has.
const MOST_WORLDLY: usize = 10;

#[derive(Debug)]
struct Line {
    at: Timestamp,
    subject: String,
    text: String,
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    lines: VecDeque<Line>,
    hasher: Sha256,
}

impl Journal {
    pub(super) fn write(&mut self, at: Timestamp, subject: &str, text: String) {
        self.hasher
            .update(format!("{} {subject} {text}\n", at.as_nanosecond()));
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(Line {
            at,
            subject: subject.to_owned(),
            text,
        });
    }

    pub(super) fn commit(&mut self, commit: &Commit<'_>, ledger: &Ledger) {
        let facts = match commit.resource {
            machines if ledger.of_machines(machines).is_some() => claim(commit.object),
            pools if ledger.of_pools(pools).is_some() => String::new(),
            "nodes" => node(commit.object),
            "pods" => pod(commit.object),
            "deployments.apps"
            | "jobs.batch"
            | "daemonsets.apps"
            | "poddisruptionbudgets.policy" => String::new(),
            "events" if commit.asked.is_some() => return self.said(commit),
            "configmaps" => return self.recorded(commit, ledger),
            _ => return,
        };
        let done = match commit.kind {
            ChangeKind::Added => "created",
            ChangeKind::Modified => "changed",
            ChangeKind::Deleted => "gone",
        };
        let by = match commit.asked {
            None => "",
            Some(asked) if asked.subresource == "eviction" => " by Joiner, evicting",
            Some(_) => " by Joiner",
        };
        let text = format!("{done}{by}{facts}");
        // What a kubelet reports again and again is no news.
        if commit.asked.is_none()
            && commit.kind == ChangeKind::Modified
            && commit.resource == "nodes"
            && commit.previous.is_some_and(|before| node(before) == facts)
        {
            return;
        }
        self.write(commit.at, &subject(commit.resource, commit.key), text);
    }

    /// What stands in a provider's ledger about a machine.
    fn recorded(&mut self, commit: &Commit<'_>, ledger: &Ledger) {
        let Some(order) = ledger.records.read(commit.object) else {
            return;
        };
        let subject = ledger.claim_by_uid(&order.uid).map_or_else(
            || subject("group", &order.record.group),
            super::ledger::Claim::subject,
        );
        let done = match commit.kind {
            ChangeKind::Deleted => "struck off the record",
            _ => "on record",
        };
        let machine = order.record.machine.map(|id| id.to_string());
        let leaving = if order.record.leaving {
            ", leaving"
        } else {
            ""
        };
        let text = format!(
            "{done}: {} of group {}{leaving}",
            machine.as_deref().unwrap_or("no machine yet"),
            order.record.group,
        );
        self.write(commit.at, &subject, text);
    }

    /// What Joiner says about an object.
    fn said(&mut self, commit: &Commit<'_>) {
        let field = |name| commit.object.text(&["involvedObject", name]);
        let resource = format!("{}s", field("kind").to_lowercase());
        let key = match field("namespace") {
            "" => field("name").to_owned(),
            namespace => format!("{namespace}/{}", field("name")),
        };
        let (reason, message) = (
            commit.object.text(&["reason"]),
            commit.object.text(&["message"]),
        );
        let text = format!("Joiner says {reason}: {message}");
        self.write(commit.at, &subject(&resource, &key), text);
    }

    /// What happened to a group of machines.
    fn group(&mut self, group: &str, event: &GroupEvent, now: Timestamp) {
        let text = match event {
            GroupEvent::Made => "made".to_owned(),
            GroupEvent::Told { before, wanted } => {
                format!("told to have {wanted} machines, before {before}")
            }
            GroupEvent::Added(machine) => {
                let text = format!("made: {} in {}", machine.instance_type, machine.zone);
                let text = format!("{text}, for group {group}");
                self.write(now, &subject("machine", &machine.id.0), text);
                format!("has a machine more: {}", machine.id)
            }
            GroupEvent::Ended => "told to go".to_owned(),
            GroupEvent::Gone => "gone".to_owned(),
        };
        self.write(now, &subject("group", group), text);
    }

    pub(super) fn event(&mut self, event: &CloudEvent, now: Timestamp) {
        let (id, text) = match event {
            CloudEvent::Launched(machine) => {
                let price = machine.price.map(|price| price.to_string());
                let text = format!(
                    "sold: {} as {} in {} for {}, object {}",
                    machine.instance_type,
                    machine.capacity_type,
                    machine.zone,
                    price.as_deref().unwrap_or("nothing"),
                    machine.uid.as_ref().map_or("unknown", |uid| &*uid.0),
                );
                (machine.id.to_string(), text)
            }
            CloudEvent::Booted(name) => {
                self.write(now, &subject("nodes", name), "its machine booted".into());
                return;
            }
            CloudEvent::Announced(id) => (id.to_string(), "its end is announced".to_owned()),
            CloudEvent::Taken(id) => (id.to_string(), "taken, its order stands".to_owned()),
            CloudEvent::Terminating(id) => (id.to_string(), "told to go".to_owned()),
            CloudEvent::Gone { id, taken: true } => {
                (id.to_string(), "taken back by the cloud".to_owned())
            }
            CloudEvent::Gone { id, .. } => (id.to_string(), "gone".to_owned()),
            CloudEvent::Group(group, event) => {
                self.group(group, event, now);
                return;
            }
        };
        self.write(now, &subject("machine", &id), text);
    }

    /// The newest lines about some subjects, oldest first; about everything where none is named.
    pub(super) fn about(&self, subjects: &[String], most: usize) -> Vec<String> {
        // Of what the world did, only the latest: it does a lot.
        let mut worldly = 0;
        let mut concerned = |line: &&Line| {
            if line.subject == WORLD {
                worldly += 1;
                return worldly <= MOST_WORLDLY;
            }
            subjects.is_empty() || subjects.contains(&line.subject)
        };
        let mut lines: Vec<String> = self
            .lines
            .iter()
            .rev()
            .filter(|line| concerned(line))
            .take(most)
            .map(|line| format!("{} {} {}", line.at, line.subject, line.text))
            .collect();
        lines.reverse();
        lines
    }

    pub(super) fn hash(&self) -> String {
        let digest = self.hasher.clone().finalize();
        digest.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// How the journal calls an object.
pub(super) fn subject(resource: &str, key: &str) -> String {
    let kind = resource.split('.').next().unwrap_or(resource);
    format!("{kind}/{key}")
}

fn claim(claim: &Value) -> String {
    let mut text = String::new();
    for kind in [
        "Launched",
        "Registered",
        "Initialized",
        "InstanceTerminating",
    ] {
        if claim.condition_true(kind) {
            text.push_str(", ");
            text.push_str(kind);
        }
    }
    for (word, annotation) in [
        ("disruption", super::ledger::INTENT),
        ("tried", "joiner.dev/purchases-tried"),
        ("interrupted", "joiner.dev/interrupted-at"),
    ] {
        if let Some(value) = claim.annotation(annotation) {
            let _ = write!(text, ", {word} {value}");
        }
    }
    if let Some(blocked) = claim
        .condition("Drained")
        .filter(|one| one["status"] != "True")
    {
        let _ = write!(text, ", drain: {}", blocked.text(&["message"]));
    }
    if claim.deleting() {
        text.push_str(", deleting");
    }
    text
}

fn node(node: &Value) -> String {
    let taints: Vec<&str> = node
        .items(&["spec", "taints"])
        .iter()
        .map(|taint| taint.text(&["key"]))
        .collect();
    let ready = if node.condition_true("Ready") {
        "ready"
    } else {
        "not ready"
    };
    let going = if node.deleting() { ", deleting" } else { "" };
    let kind = node.label(labels::INSTANCE_TYPE).unwrap_or("-");
    format!(", {kind}, {ready}{going}, taints {taints:?}")
}

fn pod(pod: &Value) -> String {
    let going = if pod.deleting() { ", deleting" } else { "" };
    let node = pod.text(&["spec", "nodeName"]);
    let phase = pod.text(&["status", "phase"]);
    format!(", {phase} on {node:?}{going}")
}
