//! Deleting: finalizers, grace, propagation, preconditions.
//!
//! The order of steps is that of `k8s.io/apiserver/pkg/registry/generic/registry/store.go`:
//! a graceful kind is marked first, then finalizers hold it, then it goes.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{kinds, meta, registry::Resource, state::State, status::Status, store};
use crate::clock::rfc3339;

/// What happens to the objects that the deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

/// What must hold for a deletion to happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object's unique id.
    pub uid: Option<String>,
    /// The object's resource version.
    pub resource_version: Option<String>,
}

/// How to delete. The default asks for nothing special.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds that a pod may take; 0 removes it at once.
    pub grace_period_seconds: Option<i64>,
    /// What must hold.
    pub preconditions: Preconditions,
    /// What happens to dependents.
    pub propagation: Option<Propagation>,
    /// Do everything but commit.
    pub dry_run: bool,
}

/// What became of an object.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// It is gone; this was its last state.
    Gone(Arc<Value>),
    /// It is marked, and waits for its grace period or finalizers.
    Pending(Arc<Value>),
}

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What the grace period says about a deletion.
enum Grace {
    /// The kind knows no grace.
    None,
    /// Already being deleted, and not to be hurried.
    Pending,
    /// Marked with this many seconds.
    Marked(i64),
}

impl State {
    /// Deletes an object, or begins to.
    pub(crate) fn delete(
        &mut self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let current = self.get(resource, namespace, name)?;
        check_preconditions(resource, &current, options)?;
        kinds::admit_delete(resource, &current)?;

        let mut marked = (*current).clone();
        let now = self.clock.now();
        let grace = mark_graceful(resource, &mut marked, options, now);
        if matches!(grace, Grace::Pending) {
            return Ok(Deleted::Pending(current));
        }
        apply_propagation(resource, &mut marked, options);
        kinds::mark_deleting(resource, &mut marked, &rfc3339(now));
        let held = kinds::has_finalizers(resource, &marked);
        if held && matches!(grace, Grace::None) {
            mark_held(&mut marked, now);
        }

        let key = store::key(namespace, name);
        let waits = held || matches!(grace, Grace::Marked(1..));
        if options.dry_run {
            let marked = Arc::new(marked);
            return Ok(if waits {
                Deleted::Pending(marked)
            } else {
                Deleted::Gone(marked)
            });
        }
        if waits {
            if marked == *current {
                return Ok(Deleted::Pending(current));
            }
            let marked = self.commit(resource, key, marked);
            kinds::after_commit(self, resource, &marked);
            return Ok(Deleted::Pending(marked));
        }
        if matches!(grace, Grace::Marked(_)) && marked != *current {
            // Watchers see the mark before the object goes, as on the real server.
            self.commit(resource, key.clone(), marked);
        }
        let gone = self
            .commit_removal(resource, &key)
            .unwrap_or_else(|| current.clone());
        kinds::after_removal(self, resource, &current);
        Ok(Deleted::Gone(gone))
    }
}

pub(crate) fn check_preconditions(
    resource: &Resource,
    current: &Value,
    options: &DeleteOptions,
) -> Result<(), Status> {
    // The real server names the kind where other conflicts name the resource.
    let fail = |why: String| {
        Err(Status::conflict(
            resource.kind_named(),
            meta::name(current),
            &why,
        ))
    };
    if let Some(uid) = &options.preconditions.uid
        && uid != meta::uid(current)
    {
        return fail(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            meta::uid(current)
        ));
    }
    if let Some(version) = &options.preconditions.resource_version
        && version != meta::resource_version(current)
    {
        return fail(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            meta::resource_version(current)
        ));
    }
    Ok(())
}

fn mark_graceful(
    resource: &Resource,
    object: &mut Value,
    options: &DeleteOptions,
    now: Timestamp,
) -> Grace {
    // Negative periods mean one second.
    let asked = options
        .grace_period_seconds
        .map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(default) = kinds::default_grace(resource, object) else {
        return Grace::None;
    };
    if !meta::is_deleting(object) {
        let seconds = kinds::limit_grace(object, asked.unwrap_or(default));
        meta::set(object, "deletionTimestamp", rfc3339(later(now, seconds)));
        meta::set(object, "deletionGracePeriodSeconds", seconds);
        bump_generation(object);
        return Grace::Marked(seconds);
    }
    let running = object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or_default();
    if running == 0 {
        return Grace::None;
    }
    match asked {
        Some(seconds) if seconds < running => {
            let until: Timestamp = meta::text(object, "deletionTimestamp")
                .parse()
                .unwrap_or(now);
            let sooner = later(until, seconds - running);
            let (sooner, seconds) = if sooner < now {
                (now, seconds.min(1))
            } else {
                (sooner, seconds)
            };
            meta::set(object, "deletionTimestamp", rfc3339(sooner));
            meta::set(object, "deletionGracePeriodSeconds", seconds);
            Grace::Marked(seconds)
        }
        _ => Grace::Pending,
    }
}

/// Marks an object whose kind knows no grace but whose finalizers hold it.
fn mark_held(object: &mut Value, now: Timestamp) {
    if !meta::is_deleting(object) {
        bump_generation(object);
        meta::set(object, "deletionTimestamp", rfc3339(now));
    }
    meta::set(object, "deletionGracePeriodSeconds", 0);
    if object["kind"] == "Namespace" {
        // Namespaces are deleted by a path of their own, which knows no grace.
        meta::unset(object, "deletionGracePeriodSeconds");
    }
}

fn bump_generation(object: &mut Value) {
    let generation = meta::generation(object);
    if generation > 0 {
        meta::set(object, "generation", generation + 1);
    }
}

/// Adds or removes the finalizers that stand for "orphan" and "dependents first".
fn apply_propagation(resource: &Resource, object: &mut Value, options: &DeleteOptions) {
    let has = |finalizer: &str| meta::finalizers(object).any(|one| one == finalizer);
    let (orphan, foreground) = match options.propagation {
        Some(Propagation::Orphan) => (true, false),
        Some(Propagation::Foreground) => (false, true),
        Some(Propagation::Background) => (false, false),
        None => (
            has(ORPHAN) || kinds::orphans_by_default(resource),
            has(FOREGROUND),
        ),
    };
    let before: Vec<String> = meta::finalizers(object).map(str::to_owned).collect();
    let mut after: Vec<String> = before
        .iter()
        .filter(|one| *one != ORPHAN && *one != FOREGROUND)
        .cloned()
        .collect();
    if orphan {
        after.push(ORPHAN.to_owned());
    }
    if foreground {
        after.push(FOREGROUND.to_owned());
    }
    let unchanged = before.len() == after.len() && after.iter().all(|one| before.contains(one));
    if !unchanged {
        meta::set_finalizers(object, after);
    }
}

fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(at)
}
