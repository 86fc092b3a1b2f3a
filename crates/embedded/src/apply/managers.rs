//! `metadata.managedFields`: reading, writing, and the two ways in which an operation changes them.
//!
//! Mirrors `structured-merge-diff/merge/update.go` and `apimachinery/pkg/util/managedfields`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::set::FieldSet;
use super::typed::Type;
use super::walk::{self, Comparison};

/// More update entries than this are put together into one.
const MAX_UPDATE_MANAGERS: usize = 10;

/// Who owns fields. Appliers are the same whatever version they speak.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) manager: String,
    /// `Apply` or `Update`.
    pub(super) operation: String,
    /// Empty for appliers.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Identity {
    pub(super) fn applier(manager: &str, subresource: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            operation: "Apply".to_owned(),
            api_version: String::new(),
            subresource: subresource.to_owned(),
        }
    }

    pub(super) fn updater(manager: &str, api_version: &str, subresource: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            operation: "Update".to_owned(),
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    fn applies(&self) -> bool {
        self.operation == "Apply"
    }

    /// As in conflict messages.
    pub(super) fn describe(&self) -> String {
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            name => format!(" with subresource {name:?}"),
        };
        let version = if self.applies() {
            String::new()
        } else {
            format!(" using {}", self.api_version)
        };
        format!("{:?}{subresource}{version}", self.manager)
    }
}

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
    pub(super) time: Option<String>,
}

/// All entries of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers {
    pub(super) entries: BTreeMap<Identity, Owned>,
}

impl Managers {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads the entries; nothing if any of them cannot be read.
    pub(super) fn read(list: &Value) -> Option<Self> {
        let mut managers = Self::default();
        for entry in list.as_array()? {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let operation = text("operation");
            let api_version = text("apiVersion");
            let known = matches!(operation, "Apply" | "Update");
            if !known || api_version.is_empty() || text("fieldsType") != "FieldsV1" {
                return None;
            }
            let identity = match operation {
                "Apply" => Identity::applier(text("manager"), text("subresource")),
                _ => Identity::updater(text("manager"), api_version, text("subresource")),
            };
            let set = match entry.get("fieldsV1") {
                Some(fields) => FieldSet::from_json(fields)?,
                None => FieldSet::default(),
            };
            let owned = Owned {
                set,
                api_version: api_version.to_owned(),
                time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
            };
            managers.entries.insert(identity, owned);
        }
        Some(managers)
    }

    /// Writes the entries in the server's order: appliers first, then by time, then by name.
    pub(super) fn write(&self) -> Value {
        let mut entries: Vec<(&Identity, &Owned)> = self.entries.iter().collect();
        entries.sort_by_key(|(identity, owned)| {
            (
                identity.operation.clone(),
                seconds(owned.time.as_deref()),
                identity.manager.clone(),
                owned.api_version.clone(),
                identity.subresource.clone(),
            )
        });
        let entries = entries.into_iter().map(|(identity, owned)| {
            let mut entry = Map::new();
            entry.insert("manager".to_owned(), json!(identity.manager));
            entry.insert("operation".to_owned(), json!(identity.operation));
            entry.insert("apiVersion".to_owned(), json!(owned.api_version));
            if let Some(time) = &owned.time {
                entry.insert("time".to_owned(), json!(time));
            }
            entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
            entry.insert("fieldsV1".to_owned(), owned.set.to_json());
            if !identity.subresource.is_empty() {
                entry.insert("subresource".to_owned(), json!(identity.subresource));
            }
            Value::Object(entry)
        });
        Value::Array(entries.collect())
    }

    /// Takes what changed from everybody but `own`; those who are left with nothing go.
    fn take(&mut self, comparison: &Comparison, own: Option<&Identity>) {
        let changed = comparison.modified.union(&comparison.added);
        for (identity, owned) in &mut self.entries {
            if Some(identity) != own {
                owned.set = owned
                    .set
                    .difference(&changed)
                    .difference(&comparison.removed);
            }
        }
        self.entries.retain(|_, owned| !owned.set.is_empty());
    }

    /// What others own of what an apply changes.
    pub(super) fn conflicts(
        &self,
        comparison: &Comparison,
        own: &Identity,
    ) -> Vec<(Identity, FieldSet)> {
        let changed = comparison.modified.union(&comparison.added);
        self.entries
            .iter()
            .filter(|(identity, _)| *identity != own)
            .map(|(identity, owned)| (identity.clone(), owned.set.intersection(&changed)))
            .filter(|(_, set)| !set.is_empty())
            .collect()
    }

    /// Settles an apply whose conflicts are none or overruled.
    pub(super) fn settle(&mut self, comparison: &Comparison, own: &Identity) {
        self.take(comparison, Some(own));
    }

    /// Records an update: the updater owns what it changed, and its time moves only if there was something.
    pub(super) fn update(
        &mut self,
        comparison: &Comparison,
        own: Identity,
        api_version: &str,
        now: &str,
    ) {
        self.take(comparison, None);
        let set = comparison.modified.union(&comparison.added);
        let set = set.difference(&own_metadata());
        if set.is_empty() {
            return;
        }
        let set = match self.entries.get(&own) {
            Some(previous) => set.union(&previous.set),
            None => set,
        };
        let owned = Owned {
            set,
            api_version: api_version.to_owned(),
            time: Some(now.to_owned()),
        };
        self.entries.insert(own, owned);
    }

    /// Puts the oldest update entries together while there are too many.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<Identity> = self
            .entries
            .keys()
            .filter(|identity| !identity.applies())
            .cloned()
            .collect();
        let mut count = updaters.len();
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        updaters.sort_by_key(|identity| {
            let time = self
                .entries
                .get(identity)
                .and_then(|owned| owned.time.as_deref());
            (seconds(time), identity.clone())
        });
        let mut first_of: BTreeMap<String, Identity> = BTreeMap::new();
        for identity in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                break;
            }
            let Some(owned) = self.entries.get(&identity).cloned() else {
                continue;
            };
            let version = owned.api_version.clone();
            let bucket = Identity::updater("ancient-changes", &version, "");
            let Some(first) = first_of.get(&version) else {
                first_of.insert(version, identity);
                continue;
            };
            if !self.entries.contains_key(&bucket)
                && let Some(start) = self.entries.remove(first)
            {
                self.entries.insert(bucket.clone(), start);
            }
            self.entries.remove(&identity);
            if let Some(target) = self.entries.get_mut(&bucket) {
                target.set = target.set.union(&owned.set);
                // The one merged in is younger.
                target.time = owned.time;
            }
            count -= 1;
        }
    }
}

fn seconds(time: Option<&str>) -> i64 {
    time.and_then(|time| time.parse::<jiff::Timestamp>().ok())
        .map_or(0, jiff::Timestamp::as_second)
}

/// The fields that nobody owns: they are the server's.
pub(super) fn own_metadata() -> FieldSet {
    use super::element::Element;

    let mut set = FieldSet::default();
    for name in ["apiVersion", "kind", "metadata"] {
        set.insert(&[Element::field(name)]);
    }
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        set.insert(&[Element::field("metadata"), Element::field(name)]);
    }
    set
}

/// Removes what an applier applied before, does not apply now, and nobody else owns.
pub(super) fn prune(
    merged: Value,
    managers: &Managers,
    last: Option<&FieldSet>,
    ty: Type<'_>,
) -> Value {
    let Some(last) = last.filter(|last| !last.is_empty()) else {
        return merged;
    };
    let named = |set: &FieldSet| walk::with_named_fields(set, ty);
    let last = named(last);
    let pruned = walk::remove(&merged, &last, ty);
    // What anybody owns comes back, the applier's own new configuration included.
    let owned = managers
        .entries
        .values()
        .fold(FieldSet::default(), |all, owned| all.union(&owned.set));
    let whole = named(&walk::field_set(&merged, ty));
    let kept = named(&walk::field_set(&pruned, ty)).union(&named(&owned));
    let pruned = walk::remove(&merged, &whole.difference(&kept), ty);
    // What nobody owned, but stood below something that was removed, comes back as well.
    let kept = named(&walk::field_set(&pruned, ty));
    let gone = whole.difference(&kept).intersection(&last);
    walk::remove(&merged, &gone, ty)
}
