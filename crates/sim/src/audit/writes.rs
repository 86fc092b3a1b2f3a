//! Who may write what: Joiner its own objects, and of others only what is its part.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::family::Family;
use super::journal::subject;
use super::ledger::{Claim, Ledger, MACHINE_UID, MANAGED_BY};
use super::{AuditOptions, Finding, Invariant};
use joiner_embedded::api::{ChangeKind, Commit, Verb};
use joiner_embedded::cluster::fields::Fields as _;

/// The label on entries of a ledger: what a cloud cannot carry is kept in ConfigMaps.
pub(super) const LEDGER: &str = "joiner.dev/ledger";

/// Whether a change over HTTP was Joiner's to make.
pub(super) fn judge(
    ledger: &Ledger,
    options: &AuditOptions,
    commit: &Commit<'_>,
) -> Option<Finding> {
    let asked = commit.asked?;
    if let Some(family) = ledger.of_machines(commit.resource) {
        return of_machine(options, family, commit);
    }
    let (invariant, why) = match commit.resource {
        "events" | "events.events.k8s.io" | "leases.coordination.k8s.io" => return None,
        pools if ledger.of_pools(pools).is_some() => {
            let family = ledger.of_pools(pools)?;
            if !options.serves(&(family.terms)(commit.object).class) {
                (Invariant::Foreign, "the pool of another controller")
            } else if spec_changed(commit) || !(commit.kind == ChangeKind::Modified || ends(commit))
            {
                (Invariant::OwnFields, "a user's pool")
            } else {
                return None;
            }
        }
        "nodes" => {
            let Some(uid) = commit.previous.and_then(|node| ledger.uid_of_node(node)) else {
                let why = "a node that is not Joiner's";
                return Some(written(Invariant::Foreign, why, commit));
            };
            let marks = marks(commit.object);
            if marks.is_none_or(|(_, marked)| marked == uid) {
                return None;
            }
            (Invariant::Marked, "the mark of another machine on a node")
        }
        "pods" => {
            let leaves = asked.subresource == "eviction" || asked.verb == Verb::Delete;
            let told = asked.subresource == "status" && only_nominated(commit);
            if leaves || told {
                return None;
            }
            (Invariant::OwnFields, "a pod")
        }
        "poddisruptionbudgets.policy" if asked.subresource == "eviction" => return None,
        _ if asked.subresource == "status" => return None,
        classes if is_class(options, classes) && only_finalizers(commit) => return None,
        "configmaps" if commit.object.label(LEDGER).is_some() => return None,
        _ => (
            Invariant::OwnFields,
            "an object that is none of its business",
        ),
    };
    Some(written(invariant, why, commit))
}

fn written(invariant: Invariant, why: &str, commit: &Commit<'_>) -> Finding {
    let verb = commit.asked.map(|asked| format!("{:?}", asked.verb));
    let message = format!(
        "Joiner wrote {why}: {} of {} {}",
        verb.unwrap_or_default().to_lowercase(),
        commit.resource,
        commit.key
    );
    let about = [subject(commit.resource, commit.key)];
    Finding::new(invariant, message, about)
}

/// Whether a machine object was Joiner's to write.
fn of_machine(
    options: &AuditOptions,
    family: &'static Family,
    commit: &Commit<'_>,
) -> Option<Finding> {
    // What it was before counts: a mark that Joiner has just written proves nothing.
    let claim = Claim::new(family, commit.previous.unwrap_or(commit.object));
    let (invariant, why) = if options.is_foreign(&claim) {
        (
            Invariant::Foreign,
            "the machine object of another controller",
        )
    } else if spec_changed(commit) && !family.own_spec {
        (Invariant::OwnFields, "the spec of a machine object")
    } else if commit.kind == ChangeKind::Added && !is_marked(&claim, options) {
        (Invariant::Marked, "a machine object without its mark")
    } else {
        return None;
    };
    Some(written(invariant, why, commit))
}

/// Whether a machine object says that Joiner looks after it.
pub(super) fn is_marked(claim: &Claim, options: &AuditOptions) -> bool {
    claim.annotation(MANAGED_BY) == Some(options.manager(claim.family).as_str())
}

/// The mark on a node: who looks after it, and the UID of its machine object.
pub(super) fn marks(node: &Value) -> Option<(String, String)> {
    let managed_by = node.annotation(MANAGED_BY)?.to_owned();
    Some((managed_by, node.annotation(MACHINE_UID)?.to_owned()))
}

/// Whether these are node classes that Joiner serves: one in use is held by a finalizer.
fn is_class(options: &AuditOptions, resource: &str) -> bool {
    let group = resource.split_once('.').map(|(_, group)| group);
    group.is_some_and(|group| options.classes.keys().any(|class| class.group == group))
}

/// Whether nothing but the finalizers of an object has changed.
fn only_finalizers(commit: &Commit<'_>) -> bool {
    let bare = |object: &Arc<Value>| {
        let mut object = (**object).clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in ["finalizers", "managedFields", "resourceVersion"] {
                metadata.remove(field);
            }
        }
        object
    };
    commit
        .previous
        .is_some_and(|before| bare(before) == bare(commit.object))
}

/// Events are forgotten after an hour: of a pod that waits for something that nobody sells, users are told again, as
/// Karpenter does, no sooner than the first of these, and each time after twice as long, up to the last.
const TOLD_AGAIN: (SignedDuration, SignedDuration) =
    (SignedDuration::from_mins(5), SignedDuration::from_mins(30));

/// What was told about whom, for which reason, in which words; when last, and after how long it may be told again.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<(String, String, String), (Timestamp, SignedDuration)>);

impl Told {
    /// Processes that die forget how often they have told something: from now on none dies, and none is excused.
    pub(super) fn calm(&mut self) {
        for (_, wait) in self.0.values_mut() {
            *wait = TOLD_AGAIN.0;
        }
    }

    /// Whether an event only repeats an old one so that it is not forgotten.
    fn reminds(&mut self, commit: &Commit<'_>) -> bool {
        if !commit.resource.starts_with("events") {
            return false;
        }
        let object = commit.object;
        let key = (
            object.text(&["involvedObject", "uid"]).to_owned(),
            object.text(&["reason"]).to_owned(),
            object.text(&["message"]).to_owned(),
        );
        let known = self.0.get(&key).copied();
        let reminds = known.is_some_and(|(last, wait)| commit.at.duration_since(last) >= wait);
        let wait = known
            .filter(|_| reminds)
            .map_or(TOLD_AGAIN.0, |(_, wait)| (wait * 2).min(TOLD_AGAIN.1));
        self.0.insert(key, (commit.at, wait));
        reminds
    }
}

/// SpotNodes say when their price was last looked up, so that users see it is. No more often than this while it stays.
const PRICE_SHOWN: SignedDuration = SignedDuration::from_mins(10);

/// Whether nothing has changed but when a price was last looked up, which was told long ago.
fn price_looked_up(commit: &Commit<'_>) -> bool {
    let Some(before) = commit.previous else {
        return false;
    };
    let at = |object: &Value| object.time(&["status", "lastPriceCheck"]);
    let (Some(old), Some(new)) = (at(before), at(commit.object)) else {
        return false;
    };
    let rest = |object: &Arc<Value>| {
        let mut object = (**object).clone();
        if let Some(status) = object["status"].as_object_mut() {
            status.remove("lastPriceCheck");
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in ["managedFields", "resourceVersion", "generation"] {
                metadata.remove(field);
            }
        }
        object
    };
    new.duration_since(old) >= PRICE_SHOWN && rest(before) == rest(commit.object)
}

/// What must not have been written at rest. Leases are renewed for ever.
pub(super) fn at_rest(told: &mut Told, commit: &Commit<'_>) -> Option<Finding> {
    let asked = commit.asked?;
    let renewed = commit.resource == "leases.coordination.k8s.io" || price_looked_up(commit);
    if renewed || told.reminds(commit) {
        return None;
    }
    let what = if commit.resource.starts_with("events") {
        format!(
            " ({}: {})",
            commit.object.text(&["reason"]),
            commit.object.text(&["message"])
        )
    } else {
        String::new()
    };
    let verb = format!("{:?}", asked.verb).to_lowercase();
    let message = format!(
        "{verb} of {} {}{what} although nothing has changed",
        commit.resource, commit.key
    );
    let about = [subject(commit.resource, commit.key)];
    Some(Finding::new(Invariant::Rest, message, about))
}

/// Whether nothing has changed about a pod but where it should go.
fn only_nominated(commit: &Commit<'_>) -> bool {
    let rest = |pod: &Arc<Value>| {
        let mut status = pod["status"].clone();
        if let Some(fields) = status.as_object_mut() {
            fields.remove("nominatedNodeName");
        }
        status
    };
    let before = commit.previous.map(rest);
    before.is_some_and(|before| before == rest(commit.object)) && !spec_changed(commit)
}

/// Whether an object that a user has deleted is gone because its last finalizer was taken off.
fn ends(commit: &Commit<'_>) -> bool {
    let asked = commit.asked.is_some_and(|asked| asked.verb != Verb::Delete);
    let mut before = commit.previous.into_iter();
    asked && commit.kind == ChangeKind::Deleted && before.any(|object| object.deleting())
}

fn spec_changed(commit: &Commit<'_>) -> bool {
    commit
        .previous
        .is_some_and(|before| before["spec"] != commit.object["spec"])
}
