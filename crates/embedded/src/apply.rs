//! Server-side apply: who owns which field, and what happens when two want the same one.
//!
//! ```text
//! live ──┐
//!        ├─ merge ─► prune what was applied before and is not now ─► compare with live ─► conflicts, or new owners
//! config ┘
//! ```
//!
//! Mirrors `structured-merge-diff` and `apimachinery/pkg/util/managedfields` as kube-apiserver v1.34 uses them. All
//! functions are pure; the time is an argument. Objects of built-in kinds must be in the form in which the server
//! stores them (see [`crate::schema::decode`]).

mod check;
mod element;
mod last_applied;
mod managers;
mod merge;
mod set;
mod typed;
mod walk;

use std::fmt;

use serde_json::{Map, Value};

use crate::schema::{self, Schema};
use element::Element;
use managers::{Identity, Managers, Owned};
use set::FieldSet;
use typed::Type;

/// Who writes, through which door, and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager; empty is written as `unknown`.
    pub manager: &'a str,
    /// `status`, `scale`, …; empty for the main resource.
    pub subresource: &'a str,
    /// The version that the request speaks, e.g. `apps/v1`.
    pub api_version: &'a str,
    /// The time of the request, RFC 3339 with whole seconds.
    pub now: &'a str,
    /// Fields that this door does not write, e.g. `[&["status"]]` for the main resource of a kind with a status
    /// subresource and `[&["spec"], …]` for its status: they are reset after the request and owned by nobody through it.
    pub ignored: &'a [&'a [&'a str]],
}

impl Writer<'_> {
    fn name(&self) -> &str {
        if self.manager.is_empty() {
            "unknown"
        } else {
            self.manager
        }
    }

    fn ignored_set(&self) -> FieldSet {
        let mut set = FieldSet::default();
        for path in self.ignored {
            let path: Vec<Element> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }
}

/// Why an apply was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 409: somebody else owns what would change.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// 400: the request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// 500: the configuration does not fit the schema.
    #[error("{0}")]
    Mismatch(String),
}

/// Fields that others own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

/// One field and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner as messages name it, e.g. `"kubectl" using apps/v1`.
    pub manager: String,
    /// The field, e.g. `.spec.containers[name="a"].image`.
    pub field: String,
}

impl Conflict {
    /// The message of a Status cause; its reason is `FieldManagerConflict`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {}: {}",
                only.manager, only.field
            );
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last: Option<&str> = None;
        for conflict in &self.0 {
            if last != Some(conflict.manager.as_str()) {
                if last.is_some() {
                    f.write_str("\n")?;
                }
                write!(f, "conflicts with {}:", conflict.manager)?;
                last = Some(&conflict.manager);
            }
            write!(f, "\n- {}", conflict.field)?;
        }
        Ok(())
    }
}

/// Applies a configuration to a live object, or to nothing.
///
/// The result holds what the server would store before it fills in defaults, with new `managedFields`.
pub fn apply(
    live: Option<&Value>,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
    schema: &Schema,
) -> Result<Value, ApplyError> {
    let ty = Type::root(schema.root());
    precheck(config, writer, ty)?;
    let fresh = empty(config, schema);
    let live = live.unwrap_or(&fresh);
    let (bare, mut managers) = split(live, None);
    if managers.is_empty() {
        // Whoever wrote the object before ownership was kept must not lose it silently.
        let identity = Identity::updater("before-first-apply", writer.api_version, "");
        let comparison = walk::compare(&fresh, &bare, ty).without(&writer.ignored_set());
        managers.update(&comparison, identity, writer.api_version, writer.now);
    }
    let attempt = Attempt {
        live: &bare,
        config,
        writer,
        ty,
    };
    let (mut object, managers) = match attempt.run(managers.clone(), force) {
        Err(conflicts) if writer.manager == "kubectl" => {
            let allowed = last_applied::owned(&bare, writer.api_version, ty);
            let left = without(conflicts, allowed.as_ref());
            if left.is_empty() {
                attempt.run(managers, true)
            } else {
                Err(left)
            }
        }
        result => result,
    }
    .map_err(|conflicts| ApplyError::Conflicts(report(&conflicts)))?;
    if writer.manager == "kubectl" {
        last_applied::refresh(&mut object, config);
    }
    join(&mut object, &managers);
    Ok(object)
}

/// Records who owns what after a create, an update or a patch, in `new`'s `managedFields`.
pub fn track(old: Option<&Value>, new: &mut Value, writer: &Writer<'_>, schema: &Schema) {
    let ty = Type::root(schema.root());
    let fresh = empty(new, schema);
    let created = old.is_none();
    let (before, old_managers) = split(old.unwrap_or(&fresh), None);
    let (mut after, mut managers) = if writer.subresource.is_empty() {
        split(new, Some(&old_managers))
    } else {
        // Owners cannot be set through a subresource.
        let (after, _) = split(new, None);
        (after, old_managers)
    };
    // An object that was never tracked stays so until somebody applies.
    if created || !managers.is_empty() {
        let comparison = walk::compare(&before, &after, ty).without(&writer.ignored_set());
        let identity = Identity::updater(writer.name(), writer.api_version, writer.subresource);
        managers.update(&comparison, identity, writer.api_version, writer.now);
        managers.cap();
    }
    join(&mut after, &managers);
    *new = after;
}

/// If two objects differ in nothing but the times of their owners, gives `new` the old times: then nothing changed. Says
/// whether the two are the same in the end.
pub fn keep_times(old: &Value, new: &mut Value) -> bool {
    if !differ_in_times_at_most(old, new) {
        return false;
    }
    new.clone_from(old);
    true
}

/// Whether two objects are the same but for the times of their owners. Every update asks this: nothing is copied.
fn differ_in_times_at_most(old: &Value, new: &Value) -> bool {
    same_fields(old, new, |key, old, new| {
        key == "metadata"
            && same_fields(old, new, |key, old, new| {
                key == "managedFields" && same_owners(old, new)
            })
    })
}

fn same_owners(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else {
        return false;
    };
    let timeless = |key: &str| key != "time";
    old.len() == new.len()
        && old
            .iter()
            .zip(new)
            .all(|(old, new)| match (old.as_object(), new.as_object()) {
                (Some(old), Some(new)) => {
                    let old = old.iter().filter(|(key, _)| timeless(key));
                    old.eq(new.iter().filter(|(key, _)| timeless(key)))
                }
                _ => old == new,
            })
}

/// Whether two objects have the same fields with the same values, or values that `alike` takes for the same.
fn same_fields(old: &Value, new: &Value, alike: impl Fn(&str, &Value, &Value) -> bool) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return old == new;
    };
    old.len() == new.len()
        && old.iter().all(|(key, old)| {
            new.get(key)
                .is_some_and(|new| old == new || alike(key, old, new))
        })
}

fn precheck(config: &Value, writer: &Writer<'_>, ty: Type<'_>) -> Result<(), ApplyError> {
    let text = |path: &str| config.pointer(path).and_then(Value::as_str);
    let version = text("/apiVersion").unwrap_or_default();
    if version != writer.api_version {
        return Err(ApplyError::BadRequest(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {}",
            writer.api_version
        )));
    }
    let managed = config.pointer("/metadata/managedFields");
    if managed.is_some_and(|managed| !managed.is_null()) {
        return Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".to_owned(),
        ));
    }
    if let Some(problem) = check::problem(config, ty) {
        // A group-version-kind of the core group prints its empty group.
        let version = if version.contains('/') {
            version.to_owned()
        } else {
            format!("/{version}")
        };
        return Err(ApplyError::Mismatch(format!(
            "failed to create typed patch object ({}/{}; {version}, Kind={}): {problem}",
            text("/metadata/namespace").unwrap_or_default(),
            text("/metadata/name").unwrap_or_default(),
            text("/kind").unwrap_or_default(),
        )));
    }
    Ok(())
}

/// One try at applying.
struct Attempt<'a> {
    live: &'a Value,
    config: &'a Value,
    writer: &'a Writer<'a>,
    ty: Type<'a>,
}

type Contested = Vec<(Identity, FieldSet)>;

impl Attempt<'_> {
    fn run(&self, mut managers: Managers, force: bool) -> Result<(Value, Managers), Contested> {
        let ignored = self.writer.ignored_set();
        let identity = Identity::applier(self.writer.name(), self.writer.subresource);
        let merged = merge::merge(Some(self.live), Some(self.config), self.ty);
        let merged = merged.unwrap_or_else(|| Value::Object(Map::new()));
        let last = managers.entries.get(&identity).cloned();
        let set = walk::field_set(self.config, self.ty).without_trees(&ignored);
        managers.entries.insert(
            identity.clone(),
            Owned {
                set,
                api_version: self.writer.api_version.to_owned(),
                time: last.as_ref().and_then(|last| last.time.clone()),
            },
        );
        let last = last.map(|last| last.set);
        let object = managers::prune(merged, &managers, last.as_ref(), self.ty);
        let comparison = walk::compare(self.live, &object, self.ty).without(&ignored);
        let conflicts = managers.conflicts(&comparison, &identity);
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        managers.settle(&comparison, &identity);
        if let Some(owned) = managers.entries.get_mut(&identity) {
            owned.set = owned.set.difference(&managers::own_metadata());
            if object != *self.live {
                owned.time = Some(self.writer.now.to_owned());
            }
        }
        managers.entries.retain(|_, owned| !owned.set.is_empty());
        Ok((object, managers))
    }
}

fn without(conflicts: Contested, allowed: Option<&FieldSet>) -> Contested {
    let Some(allowed) = allowed else {
        return conflicts;
    };
    conflicts
        .into_iter()
        .map(|(identity, set)| (identity, set.difference(allowed)))
        .filter(|(_, set)| !set.is_empty())
        .collect()
}

fn report(conflicts: &Contested) -> Conflicts {
    let conflicts = conflicts.iter().flat_map(|(identity, set)| {
        set.paths().into_iter().map(|path| Conflict {
            manager: identity.describe(),
            field: path.iter().map(ToString::to_string).collect(),
        })
    });
    Conflicts(conflicts.collect())
}

/// An object of the same kind with nothing in it, as the server makes one.
fn empty(like: &Value, schema: &Schema) -> Value {
    let mut object = if schema.root().definition().is_some() {
        schema::empty_object(schema.root())
    } else {
        Map::new()
    };
    for key in ["apiVersion", "kind"] {
        if let Some(value) = like.get(key) {
            object.insert(key.to_owned(), value.clone());
        }
    }
    Value::Object(object)
}

/// The object without its owners, and the owners: its own, or else those it had before.
fn split(object: &Value, before: Option<&Managers>) -> (Value, Managers) {
    let mut bare = object.clone();
    let metadata = bare.get_mut("metadata").and_then(Value::as_object_mut);
    let list = metadata.and_then(|metadata| metadata.remove("managedFields"));
    let reset = list.as_ref().and_then(Value::as_array).is_some_and(|list| {
        list.is_empty()
            || matches!(list.as_slice(), [only] if only.as_object().is_some_and(Map::is_empty))
    });
    if reset {
        return (bare, Managers::default());
    }
    let own = list.as_ref().and_then(Managers::read);
    let managers = own
        .filter(|managers| !managers.is_empty())
        .or_else(|| before.cloned());
    (bare, managers.unwrap_or_default())
}

fn join(object: &mut Value, managers: &Managers) {
    if managers.is_empty() {
        return;
    }
    if let Value::Object(fields) = object
        && let Value::Object(metadata) = fields
            .entry("metadata")
            .or_insert_with(|| Value::Object(Map::new()))
    {
        metadata.insert("managedFields".to_owned(), managers.write());
    }
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
