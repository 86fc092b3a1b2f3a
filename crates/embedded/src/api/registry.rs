//! Which resources there are: the built-in ones and those that CRDs add.

mod builtin;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{scale::ScalePaths, status::Named, table::custom::PrinterColumn};
use crate::schema::Posted;

/// One resource in one served version.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    /// API group, empty for core.
    pub(crate) group: String,
    /// Served version.
    pub(crate) version: String,
    /// Plural, lower-case name: the one in paths.
    pub(crate) plural: String,
    /// Singular, lower-case name.
    pub(crate) singular: String,
    /// Kind of the objects.
    pub(crate) kind: String,
    /// Kind of lists.
    pub(crate) list_kind: String,
    /// Short names that kubectl accepts.
    pub(crate) short_names: Vec<String>,
    /// Categories such as `all`.
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Name of the table that holds the objects; versions share one.
    pub(crate) table: String,
    /// Whether `status` is written only through its subresource.
    pub(crate) has_status: bool,
    /// Whether the server counts changes of the desired state in `metadata.generation`.
    pub(crate) has_generation: bool,
    /// Other subresources (besides status), in the order of discovery.
    pub(crate) subresources: Vec<String>,
    /// What a CRD adds.
    pub(crate) custom: Option<Arc<Custom>>,
}

/// The part of a resource that only CRDs have.
#[derive(Debug)]
pub(crate) struct Custom {
    /// Version in which objects are stored.
    pub(crate) storage_version: String,
    /// Name of the CRD object.
    pub(crate) definition: String,
    /// Whether this version can be asked for; the storage version may not be.
    pub(crate) served: bool,
    /// What objects look like, and what must hold between their fields.
    pub(crate) posted: Arc<Posted>,
    /// The schema as it was posted, for `/openapi/v3`.
    pub(crate) openapi: Value,
    /// What `kubectl get` prints.
    pub(crate) columns: Vec<PrinterColumn>,
    /// Fields that can be selected by, without the leading dot.
    pub(crate) selectable: Vec<String>,
    /// Where the replicas are.
    pub(crate) scale: Option<ScalePaths>,
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// How messages name the resource.
    pub(crate) fn named(&self) -> Named<'_> {
        Named {
            group: &self.group,
            what: &self.plural,
        }
    }

    /// How messages name the kind.
    pub(crate) fn kind_named(&self) -> Named<'_> {
        Named {
            group: &self.group,
            what: &self.kind,
        }
    }

    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        (name == "status" && self.has_status) || self.subresources.iter().any(|sub| sub == name)
    }
}

/// Path of a served resource: group, version, plural.
type Served = (String, String, String);

/// All resources.
#[derive(Debug)]
pub(crate) struct Registry {
    served: BTreeMap<Served, Arc<Resource>>,
    /// By table name (`pods`, `deployments.apps`), in the version that in-process callers get.
    tables: BTreeMap<String, Arc<Resource>>,
    /// Grows with each change, for discovery's entity tags.
    generation: u64,
}

impl Registry {
    /// The built-in resources.
    pub(crate) fn builtin() -> Self {
        let mut registry = Self {
            served: BTreeMap::new(),
            tables: BTreeMap::new(),
            generation: 0,
        };
        for resource in builtin::resources() {
            registry.add(resource);
        }
        registry
    }

    pub(crate) fn add(&mut self, resource: Resource) {
        self.generation += 1;
        let resource = Arc::new(resource);
        let stored_here = resource.custom.as_ref().map_or_else(
            || table_name(&resource.group, &resource.plural) == resource.table,
            |custom| custom.storage_version == resource.version,
        );
        if stored_here {
            self.tables.insert(resource.table.clone(), resource.clone());
        }
        if resource.custom.as_ref().is_none_or(|custom| custom.served) {
            let path = (
                resource.group.clone(),
                resource.version.clone(),
                resource.plural.clone(),
            );
            self.served.insert(path, resource);
        }
    }

    /// Takes away every version that a CRD added.
    pub(crate) fn remove_custom(&mut self, definition: &str) {
        self.generation += 1;
        let keep = |resource: &Arc<Resource>| {
            resource
                .custom
                .as_ref()
                .is_none_or(|custom| custom.definition != definition)
        };
        self.served.retain(|_, resource| keep(resource));
        self.tables.retain(|_, resource| keep(resource));
    }

    /// The resource behind a path.
    pub(crate) fn served(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<&Arc<Resource>> {
        self.served
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// The resource that in-process callers call `pods` or `deployments.apps`.
    pub(crate) fn table(&self, name: &str) -> Option<&Arc<Resource>> {
        self.tables.get(name)
    }

    /// Every served resource, sorted by group, version and name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.served.values()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}

/// The name of a table: `pods`, `deployments.apps`.
pub(crate) fn table_name(group: &str, plural: &str) -> String {
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_resources_are_found_by_path_and_by_table() {
        let registry = Registry::builtin();
        let deployments = registry.served("apps", "v1", "deployments").unwrap();
        assert_eq!(deployments.kind, "Deployment");
        assert_eq!(deployments.api_version(), "apps/v1");
        assert!(deployments.has_subresource("status") && deployments.has_subresource("scale"));
        assert!(Arc::ptr_eq(
            registry.table("deployments.apps").unwrap(),
            deployments
        ));
    }

    #[test]
    fn both_event_apis_share_one_table() {
        let registry = Registry::builtin();
        let new = registry.served("events.k8s.io", "v1", "events").unwrap();
        assert_eq!(new.table, "events");
        assert_eq!(registry.table("events").unwrap().group, "");
    }
}
