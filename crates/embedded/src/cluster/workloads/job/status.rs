//! The numbers of a job's status, and the protocol by which ended pods enter them exactly once.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{TRACKING, View, uids};
use crate::cluster::fields::{Fields as _, set, unset};
use crate::cluster::workloads::{Action, pods};

const UNCOUNTED: &str = "uncountedTerminatedPods";

/// Moves ends that were noted earlier into the totals, notes new ones, and returns the pods to let go of once the status
/// is written.
pub(super) fn count_ends<'a>(object: &mut Value, pods: &'a [Arc<Value>]) -> Vec<&'a Arc<Value>> {
    let tracked = |uid: &str| {
        pods.iter()
            .any(|pod| pod.uid() == uid && pod.has_finalizer(TRACKING))
    };
    let mut release = Vec::new();
    for (of, phase) in [("succeeded", "Succeeded"), ("failed", "Failed")] {
        let noted = object.items(&["status", UNCOUNTED, of]).to_vec();
        let (still, over): (Vec<Value>, Vec<Value>) = noted
            .into_iter()
            .partition(|uid| uid.as_str().is_some_and(tracked));
        let mut total = object.int(&["status", of]).unwrap_or_default();
        total += i64::try_from(over.len()).unwrap_or_default();
        let mut noted = still;
        for pod in pods.iter().filter(|pod| pod.has_finalizer(TRACKING)) {
            if pod.text(&["status", "phase"]) != phase {
                continue;
            }
            release.push(pod);
            if !uids(&noted).contains(pod.uid()) {
                noted.push(json!(pod.uid()));
            }
        }
        set(object, &["status", UNCOUNTED, of], noted);
        if total > 0 {
            set(object, &["status", of], total);
        }
    }
    release
}

/// Writes the numbers of pods; those that the deeds create and delete count already, as upstream has it.
pub(super) fn write_numbers(object: &mut Value, view: &View<'_>, deeds: &[Action]) {
    let (mut active, mut terminating) = (i64::try_from(view.active.len()).unwrap_or_default(), 0);
    for deed in deeds {
        match deed {
            Action::Create { .. } => active += 1,
            Action::Delete { .. } => {
                active -= 1;
                terminating += 1;
            }
            _ => {}
        }
    }
    let going = view
        .pods
        .iter()
        .filter(|pod| pod.deleting() && !pods::finished(pod));
    terminating += i64::try_from(going.count()).unwrap_or_default();
    let ready = view.active.iter().filter(|pod| pods::ready(pod)).count();
    if active == 0 {
        unset(object, &["status", "active"]);
    } else {
        set(object, &["status", "active"], active);
    }
    set(object, &["status", "ready"], ready);
    set(object, &["status", "terminating"], terminating);
    if let Some(indexes) = &view.indexes {
        let written = indexes.written();
        if !written.is_empty() {
            set(object, &["status", "completedIndexes"], written);
        }
    }
    for of in ["succeeded", "failed"] {
        if object.items(&["status", UNCOUNTED, of]).is_empty() {
            unset(object, &["status", UNCOUNTED, of]);
        }
    }
}
