//! Creating and updating objects: the path that every write takes, over HTTP or in process.

use std::sync::Arc;

use serde_json::Value;

use super::{
    field::Errors,
    kinds, meta,
    registry::Resource,
    schemas,
    state::State,
    status::{Named, Status},
    store,
};

/// Which part of an object a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but `status`, where that is a subresource.
    Main,
    /// Only `status`.
    Status,
    /// Only `spec.finalizers` of a namespace.
    Finalize,
    /// Only the ephemeral containers of a pod.
    Ephemeral,
    /// Only the resources of a pod's containers.
    Resize,
}

/// What was asked for besides the object itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    /// Do everything but commit.
    pub(crate) dry_run: bool,
    /// Who writes; `None` for writers that nobody tracks, and for applies, which track themselves.
    pub(crate) manager: Option<String>,
    /// The door, if it is not the one that the part says.
    pub(crate) subresource: &'static str,
}

/// Resources whose updates must say which version they are based on.
const CONDITIONAL_ONLY: &[&str] = &[
    "poddisruptionbudgets.policy",
    "leases.coordination.k8s.io",
    "csinodes.storage.k8s.io",
    "csidrivers.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "runtimeclasses.node.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
];

impl State {
    /// Creates an object.
    pub(crate) fn create(
        &mut self,
        resource: &Resource,
        namespace: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, Status> {
        check_namespace_matches(namespace, &object)?;
        if resource.namespaced {
            meta::set(&mut object, "namespace", namespace);
        } else {
            meta::unset(&mut object, "namespace");
        }
        self.check_namespace(resource, namespace, meta::name(&object))?;
        if meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty() {
            let name = self.next_name(meta::text(&object, "generateName"));
            meta::set(&mut object, "name", name);
        }
        self.stamp_new(resource, &mut object);
        kinds::default(resource, &mut object);
        self.track(resource, None, &mut object, options, Part::Main);
        kinds::admit_create(self, resource, &mut object)?;
        kinds::prepare_create(self, resource, &mut object)?;
        check(resource, &object, kinds::validate_create(resource, &object))?;

        if !matches!(meta::resource_version(&object), "" | "0") {
            return Err(Status::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let key = store::key(namespace, meta::name(&object));
        if self.store.get(&resource.table, &key).is_some() {
            return Err(Status::already_exists(
                resource.named(),
                meta::name(&object),
            ));
        }
        if options.dry_run {
            return Ok(Arc::new(object));
        }
        let created = self.commit(resource, key, object);
        kinds::after_commit(self, resource, &created);
        Ok(created)
    }

    /// Records who owns what, if somebody says who writes.
    fn track(
        &self,
        resource: &Resource,
        old: Option<&Value>,
        new: &mut Value,
        options: &WriteOptions,
        part: Part,
    ) {
        let Some(manager) = &options.manager else {
            return;
        };
        let subresource = match part {
            Part::Main => options.subresource,
            Part::Status => "status",
            Part::Finalize => "finalize",
            Part::Ephemeral => "ephemeralcontainers",
            Part::Resize => "resize",
        };
        let author = schemas::Author {
            manager,
            subresource,
            now: &self.clock.rfc3339(),
        };
        schemas::track(resource, old, new, &author);
    }

    /// Sets what only the server sets.
    fn stamp_new(&mut self, resource: &Resource, object: &mut Value) {
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            meta::unset(object, field);
        }
        let uid = self.next_uid();
        meta::set(object, "uid", uid);
        meta::set(object, "creationTimestamp", self.clock.rfc3339());
        if resource.has_generation {
            meta::set(object, "generation", 1);
        }
    }

    /// Replaces an object or its status.
    pub(crate) fn update(
        &mut self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        mut object: Value,
        part: Part,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, Status> {
        let key = store::key(namespace, name);
        let Some(current) = self.store.get(&resource.table, &key).cloned() else {
            return Err(Status::not_found(resource.named(), name));
        };
        if resource.namespaced {
            meta::set(&mut object, "namespace", namespace);
        } else {
            meta::unset(&mut object, "namespace");
        }
        check_precondition(resource, &object, &current)?;
        keep_server_fields(&mut object, &current);
        kinds::default(resource, &mut object);
        self.track(resource, Some(&current), &mut object, options, part);
        kinds::prepare_update(self, resource, &mut object, &current, part)?;
        if resource.has_generation
            && part == Part::Main
            && kinds::desired_changed(resource, &object, &current)
        {
            meta::set(&mut object, "generation", meta::generation(&current) + 1);
        }
        check(
            resource,
            &object,
            kinds::validate_update(resource, &object, &current, part),
        )?;

        if crate::apply::keep_times(&current, &mut object) {
            return Ok(current);
        }
        if options.dry_run {
            return Ok(Arc::new(object));
        }
        if meta::is_deleting(&object)
            && !kinds::has_finalizers(resource, &object)
            && grace_is_over(&object)
        {
            // The last finalizer went: this update is the deletion.
            self.commit_removal(resource, &key);
            kinds::after_removal(self, resource, &current);
            return Ok(Arc::new(object));
        }
        let updated = self.commit(resource, key, object);
        kinds::after_commit(self, resource, &updated);
        Ok(updated)
    }
}

fn check(resource: &Resource, object: &Value, errors: Errors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = match meta::name(object) {
        "" => meta::text(object, "generateName"),
        name => name,
    };
    // Events are validated as what they are stored as.
    let group = if resource.group == "events.k8s.io" {
        ""
    } else {
        &resource.group
    };
    let kind = Named {
        group,
        what: &resource.kind,
    };
    Err(Status::invalid(kind, name, errors.into_causes()))
}

/// The namespace in the object, if any, must be the one of the request.
fn check_namespace_matches(namespace: &str, object: &Value) -> Result<(), Status> {
    let given = meta::namespace(object);
    if given.is_empty() || given == namespace {
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

fn check_precondition(resource: &Resource, object: &Value, current: &Value) -> Result<(), Status> {
    let name = meta::name(current);
    let version = meta::resource_version(object);
    if !version.is_empty() && version.parse::<u64>().is_err() {
        return Err(Status::new(
            500,
            "",
            format!("strconv.ParseUint: parsing {version:?}: invalid syntax"),
        ));
    }
    let uid = meta::uid(object);
    if !uid.is_empty() && uid != meta::uid(current) {
        return Err(Status::conflict(
            resource.named(),
            name,
            &format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                storage_key(resource, current),
                meta::uid(current)
            ),
        ));
    }
    if version.is_empty() {
        let unconditional =
            resource.custom.is_none() && !CONDITIONAL_ONLY.contains(&resource.table.as_str());
        if unconditional {
            return Ok(());
        }
        let mut errors = Errors::default();
        // Go prints the missing version as the number it is parsed into.
        errors.extend([super::Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: "Invalid value: 0: must be specified for an update".to_owned(),
            field: "metadata.resourceVersion".to_owned(),
        }]);
        return Err(Status::invalid(
            Named {
                group: &resource.group,
                what: &resource.plural,
            },
            name,
            errors.into_causes(),
        ));
    }
    if version != meta::resource_version(current) {
        return Err(Status::modified(resource.named(), name));
    }
    Ok(())
}

/// Where the real server would keep an object; some of its messages say so.
fn storage_key(resource: &Resource, object: &Value) -> String {
    let place = match resource.table.as_str() {
        "services" => "services/specs".to_owned(),
        "nodes" => "minions".to_owned(),
        "ingresses.networking.k8s.io" => "ingress".to_owned(),
        _ if resource.custom.is_some() || resource.group == "apiextensions.k8s.io" => {
            format!("{}/{}", resource.group, resource.plural)
        }
        _ => resource.plural.clone(),
    };
    format!(
        "/registry/{place}/{}",
        store::key(meta::namespace(object), meta::name(object))
    )
}

/// Copies what clients can't change from the stored object.
fn keep_server_fields(object: &mut Value, current: &Value) {
    for field in ["uid", "creationTimestamp", "generation", "resourceVersion"] {
        match current["metadata"].get(field) {
            Some(value) => meta::set(object, field, value.clone()),
            None => meta::unset(object, field),
        }
    }
    // These can't be taken back, and setting them is an error that validation tells.
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if let Some(value) = current["metadata"].get(field) {
            meta::set(object, field, value.clone());
        }
    }
    meta::unset(object, "selfLink");
}

fn grace_is_over(object: &Value) -> bool {
    object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or_default()
        == 0
}
