//! Evicting pods, within their disruption budgets, and binding them to nodes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    delete::DeleteOptions,
    meta,
    registry::Resource,
    state::State,
    status::{Cause, Named, Status},
    store,
    write::WriteOptions,
};
use crate::selector::Selector;

const PDBS: &str = "poddisruptionbudgets.policy";
/// A budget remembers at most this many evictions that its controller has not seen.
const MOST_DISRUPTED_PODS: usize = 2000;

impl State {
    /// Deletes a pod if its disruption budget allows.
    pub(crate) fn evict(
        &mut self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let pods = self.resource("pods")?;
        let pod = self.get(&pods, namespace, name)?;
        let ignores_budgets = meta::is_deleting(&pod)
            || matches!(
                pod["status"]["phase"].as_str(),
                Some("Succeeded" | "Failed" | "Pending")
            );
        if !ignores_budgets {
            self.spend_budget(namespace, &pod, options)?;
        }
        self.mark_and_delete(&pods, namespace, &pod, options)
    }

    fn spend_budget(
        &mut self,
        namespace: &str,
        pod: &Value,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let budgets: Vec<Arc<Value>> = self
            .store
            .iter(PDBS, namespace)
            .filter(|(_, budget)| {
                Selector::read(&budget["spec"]["selector"]).matches(&pod["metadata"]["labels"])
            })
            .map(|(_, budget)| budget.clone())
            .collect();
        let budget = match budgets.as_slice() {
            [] => return Ok(()),
            [one] => one,
            _ => {
                return Err(Status::new(
                    500,
                    "",
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        if !is_ready(pod) && unhealthy_may_go(budget) {
            return Ok(());
        }
        let spent = check_and_decrement(budget, meta::name(pod), &self.clock.rfc3339())?;
        if !options.dry_run {
            let resource = self.resource(PDBS)?;
            let key = store::key(namespace, meta::name(budget));
            self.commit(&resource, key, spent);
        }
        Ok(())
    }

    fn mark_and_delete(
        &mut self,
        pods: &Resource,
        namespace: &str,
        pod: &Value,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let name = meta::name(pod);
        let mut options = options.clone();
        if !options.dry_run {
            let mut marked = pod.clone();
            let now = self.clock.rfc3339();
            set_condition(
                &mut marked,
                &json!({
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                }),
                &now,
            );
            super::delete::check_preconditions(pods, pod, &options)?;
            if marked != *pod {
                let marked = self.commit(pods, store::key(namespace, name), marked);
                if options.preconditions.resource_version.is_some() {
                    options.preconditions.resource_version =
                        Some(meta::resource_version(&marked).to_owned());
                }
            }
        }
        self.delete(pods, namespace, name, &options).map(|_| ())
    }

    /// Puts a pod on a node.
    pub(crate) fn bind(
        &mut self,
        namespace: &str,
        name: &str,
        binding: &Value,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let pods = self.resource("pods")?;
        let pod = self.get(&pods, namespace, name)?;
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        let conflict = |why: &str| {
            Err(Status::conflict(
                Named {
                    group: "",
                    what: "pods/binding",
                },
                name,
                why,
            ))
        };
        let uid = meta::uid(binding);
        if !uid.is_empty() && uid != meta::uid(&pod) {
            return conflict(&format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                meta::uid(&pod)
            ));
        }
        if meta::is_deleting(&pod) {
            return conflict(&format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            ));
        }
        let assigned = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if !assigned.is_empty() {
            return conflict(&format!(
                "pod {name} is already assigned to node {assigned:?}"
            ));
        }
        if pod["spec"]["schedulingGates"]
            .as_array()
            .is_some_and(|gates| !gates.is_empty())
        {
            return conflict(&format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        let mut bound = (*pod).clone();
        bound["spec"]["nodeName"] = json!(node);
        for (key, value) in binding["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten()
        {
            if let Some(annotations) = bound["metadata"]
                .as_object_mut()
                .and_then(|metadata| meta::child(metadata, "annotations"))
            {
                annotations.insert(key.clone(), value.clone());
            }
        }
        let now = self.clock.rfc3339();
        set_condition(
            &mut bound,
            &json!({"type": "PodScheduled", "status": "True"}),
            &now,
        );
        if !options.dry_run {
            self.commit(&pods, store::key(namespace, name), bound);
        }
        Ok(())
    }
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn unhealthy_may_go(budget: &Value) -> bool {
    if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
        return true;
    }
    let healthy = budget["status"]["currentHealthy"]
        .as_i64()
        .unwrap_or_default();
    let desired = budget["status"]["desiredHealthy"]
        .as_i64()
        .unwrap_or_default();
    healthy >= desired && desired > 0
}

fn refused(cause: String, retry_after_seconds: u32) -> Status {
    let mut status = Status::too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        retry_after_seconds,
    );
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            reason: "DisruptionBudget".to_owned(),
            message: cause,
            field: String::new(),
        });
    }
    status
}

/// The budget after one more disruption, or why there can be none.
fn check_and_decrement(budget: &Value, pod: &str, now: &str) -> Result<Value, Status> {
    let name = meta::name(budget);
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let forbidden = |why: &str| {
        Err(Status::forbidden(
            Named {
                group: "policy",
                what: "poddisruptionbudget",
            },
            name,
            why,
        ))
    };
    if number("observedGeneration") < meta::generation(budget) {
        return Err(refused(
            format!("The disruption budget {name} is still being processed by the server."),
            10,
        ));
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    let disrupted = budget["status"]["disruptedPods"].as_object();
    if disrupted.is_some_and(|pods| pods.len() > MOST_DISRUPTED_PODS) {
        return forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        );
    }
    if allowed == 0 {
        return Err(refused(
            format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                number("desiredHealthy"),
                number("currentHealthy")
            ),
            0,
        ));
    }
    let mut spent = budget.clone();
    if let Some(status) = spent
        .as_object_mut()
        .and_then(|map| meta::child(map, "status"))
    {
        status.insert("disruptionsAllowed".to_owned(), json!(allowed - 1));
        if let Some(disrupted) = meta::child(status, "disruptedPods") {
            disrupted.insert(pod.to_owned(), json!(now));
        }
    }
    if allowed == 1 {
        set_condition(
            &mut spent,
            &json!({
                "type": "DisruptionAllowed",
                "status": "False",
                "reason": "InsufficientPods",
                "message": "",
                "observedGeneration": number("observedGeneration"),
            }),
            now,
        );
    }
    Ok(spent)
}

/// Sets a condition in `status.conditions`, keeping the transition time if the status stays.
pub(crate) fn set_condition(object: &mut Value, condition: &Value, now: &str) {
    let Some(status) = object
        .as_object_mut()
        .and_then(|map| meta::child(map, "status"))
    else {
        return;
    };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if conditions.is_null() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    let mut new = condition.clone();
    new["lastTransitionTime"] = json!(now);
    if let Some(old) = conditions
        .iter_mut()
        .find(|one| one["type"] == condition["type"])
    {
        if old["status"] == condition["status"] {
            new["lastTransitionTime"] = old["lastTransitionTime"].clone();
        }
        if let Some(probe) = old.get("lastProbeTime") {
            new["lastProbeTime"] = probe.clone();
        }
        *old = new;
    } else {
        if object_is_pod_condition(condition) {
            new["lastProbeTime"] = Value::Null;
        }
        conditions.push(new);
    }
}

/// Pod conditions print a probe time that is never set.
fn object_is_pod_condition(condition: &Value) -> bool {
    matches!(
        condition["type"].as_str(),
        Some("DisruptionTarget" | "PodScheduled")
    )
}
