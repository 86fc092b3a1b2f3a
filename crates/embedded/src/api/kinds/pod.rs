//! Pods: defaults, admission, and what may change later.

use serde_json::{Value, json};

use super::{
    super::{
        field::Errors,
        meta,
        state::State,
        status::{Named, Status},
        write::Part,
    },
    defaults::spec,
    pod_spec,
};

const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";
const TOLERATED_SECONDS: i64 = 300;

pub(super) fn default(object: &mut Value) {
    if let Some(spec) = spec(object) {
        pod_spec::default(spec);
        pod_spec::default_for_pod(spec);
    }
}

/// Priority and default tolerations.
pub(super) fn admit(state: &State, object: &mut Value) -> Result<(), Status> {
    resolve_priority(state, object)?;
    add_tolerations(object);
    Ok(())
}

fn resolve_priority(state: &State, object: &mut Value) -> Result<(), Status> {
    let name = meta::name(object).to_owned();
    let class = object["spec"]["priorityClassName"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let found = if class.is_empty() {
        state
            .store
            .iter(PRIORITY_CLASSES, "")
            .map(|(_, class)| class)
            .filter(|class| class["globalDefault"] == true)
            .min_by_key(|class| class["value"].as_i64())
            .cloned()
    } else {
        let found = state.store.get(PRIORITY_CLASSES, &class).cloned();
        if found.is_none() {
            return Err(Status::forbidden(
                Named {
                    group: "",
                    what: "pods",
                },
                &name,
                &format!("no PriorityClass with name {class} was found"),
            ));
        }
        found
    };
    let (value, policy) = match &found {
        Some(class) => (
            class["value"].as_i64().unwrap_or_default(),
            class["preemptionPolicy"].clone(),
        ),
        None => (0, json!("PreemptLowerPriority")),
    };
    let given = object["spec"]["priority"].as_i64();
    if given.is_some_and(|given| given != value) {
        return Err(Status::forbidden(
            Named {
                group: "",
                what: "pods",
            },
            &name,
            &format!(
                "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name",
                given.unwrap_or_default()
            ),
        ));
    }
    if let Some(spec) = spec(object) {
        spec.insert("priority".to_owned(), json!(value));
        if let Some(class) = &found {
            spec.insert("priorityClassName".to_owned(), json!(meta::name(class)));
        }
        let policy = if policy.is_string() {
            policy
        } else {
            json!("PreemptLowerPriority")
        };
        spec.entry("preemptionPolicy").or_insert(policy);
    }
    Ok(())
}

/// Pods stay five minutes on a node that is lost, unless they say otherwise.
fn add_tolerations(object: &mut Value) {
    let Some(spec) = spec(object) else { return };
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if tolerations.is_null() {
        *tolerations = json!([]);
    }
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerated = tolerations.iter().any(|one| {
            let (its_key, effect) = (
                one["key"].as_str().unwrap_or_default(),
                one["effect"].as_str().unwrap_or_default(),
            );
            (its_key == key || its_key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": TOLERATED_SECONDS,
            }));
        }
    }
}

pub(super) fn prepare_create(object: &mut Value, now: &str) {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(object)});
    if object["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": now,
        }]);
    }
    meta::put(object, "status", Some(status));
}

/// Guaranteed, Burstable or `BestEffort`, from requests and limits of cpu and memory.
pub(super) fn qos_class(pod: &Value) -> &'static str {
    let (mut any, mut guaranteed) = (false, true);
    let lists = ["containers", "initContainers"];
    for container in lists
        .iter()
        .filter_map(|list| pod["spec"][*list].as_array())
        .flatten()
    {
        let (requests, limits) = (
            &container["resources"]["requests"],
            &container["resources"]["limits"],
        );
        for resource in ["cpu", "memory"] {
            let given = |side: &Value| {
                side.get(resource)
                    .is_some_and(|quantity| !quantity_is_zero(quantity))
            };
            any |= given(requests) || given(limits);
            guaranteed &=
                given(limits) && (!given(requests) || requests[resource] == limits[resource]);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Whether a quantity has no digit but zeros before its suffix.
fn quantity_is_zero(quantity: &Value) -> bool {
    match quantity {
        Value::String(text) => text
            .trim_start_matches(['+', '-'])
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .all(|c| c == '0' || c == '.'),
        other => other.as_f64().is_none_or(|number| number == 0.0),
    }
}

/// What only the server sets in a pod's status stays.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    if let Some(class) = old["status"].get("qosClass").cloned()
        && let Some(status) = new.get_mut("status").and_then(Value::as_object_mut)
    {
        status.insert("qosClass".to_owned(), class);
    }
}

/// Keeps all of a pod but the part that a subresource may change.
pub(super) fn keep_all_but(new: &mut Value, old: &Value, part: Part) {
    let mut kept = old.clone();
    if part == Part::Ephemeral {
        if let Some(list) = new["spec"].get("ephemeralContainers") {
            kept["spec"]["ephemeralContainers"] = list.clone();
        }
    } else {
        for list in ["containers", "initContainers"] {
            let wanted = new["spec"][list].as_array().cloned().unwrap_or_default();
            let Some(containers) = kept["spec"].get_mut(list).and_then(Value::as_array_mut) else {
                continue;
            };
            for (container, wanted) in containers.iter_mut().zip(wanted) {
                if let Some(resources) = wanted.get("resources") {
                    container["resources"] = resources.clone();
                }
            }
        }
    }
    *new = kept;
}

const MUTABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A pod's spec is fixed but for a few fields.
pub(super) fn validate_update(new: &Value, old: &Value, part: Part, errors: &mut Errors) {
    if part != Part::Main || new["spec"] == old["spec"] {
        return;
    }
    for list in ["containers", "initContainers"] {
        let count = |object: &Value| object["spec"][list].as_array().map_or(0, Vec::len);
        if count(new) != count(old) {
            errors.forbidden(
                &format!("spec.{list}"),
                "pod updates may not add or remove containers",
            );
            return;
        }
    }
    check_deadline(new, old, errors);
    check_tolerations(new, old, errors);
    check_gates(new, old, errors);
    if !errors.is_empty() {
        return;
    }
    let mut munged = new["spec"].clone();
    for list in ["containers", "initContainers"] {
        for (index, container) in munged
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .enumerate()
        {
            container["image"] = old["spec"][list][index]["image"].clone();
        }
    }
    let gated = old["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty());
    let mut kept = vec!["activeDeadlineSeconds", "schedulingGates", "tolerations"];
    if gated {
        kept.extend(["nodeSelector", "affinity"]);
    }
    for field in kept {
        meta::put(&mut munged, field, old["spec"].get(field).cloned());
    }
    if munged != old["spec"] {
        errors.forbidden(
            "spec",
            &format!(
                "pod updates may not change fields other than {MUTABLE}\n{}",
                difference(&old["spec"], &munged)
            ),
        );
    }
}

/// The first differing fields, for people.
fn difference(old: &Value, new: &Value) -> String {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        return String::new();
    };
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let shown = |side: Option<&Value>| side.map_or_else(|| "nil".to_owned(), Value::to_string);
    let lines: Vec<String> = keys
        .into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .flat_map(|key| {
            let (old, new) = (shown(before.get(key)), shown(after.get(key)));
            [format!("- {key}: {old}"), format!("+ {key}: {new}")]
        })
        .collect();
    lines.join("\n")
}

fn check_deadline(new: &Value, old: &Value, errors: &mut Errors) {
    let path = "spec.activeDeadlineSeconds";
    let (after, before) = (
        new["spec"]["activeDeadlineSeconds"].as_i64(),
        old["spec"]["activeDeadlineSeconds"].as_i64(),
    );
    match (before, after) {
        (_, Some(after)) if !(0..=i64::from(i32::MAX)).contains(&after) => {
            errors.invalid(
                path,
                &json!(after),
                "must be between 0 and 2147483647, inclusive",
            );
        }
        (Some(before), Some(after)) if after > before => {
            errors.invalid(
                path,
                &json!(after),
                "must be less than or equal to previous value",
            );
        }
        (Some(_), None) => {
            errors.invalid(
                path,
                &Value::Null,
                "must not update from a positive integer to nil value",
            );
        }
        _ => {}
    }
}

fn check_tolerations(new: &Value, old: &Value, errors: &mut Errors) {
    let after = new["spec"]["tolerations"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for before in old["spec"]["tolerations"].as_array().into_iter().flatten() {
        let same = |one: &Value| {
            ["key", "operator", "value", "effect"]
                .iter()
                .all(|field| one[*field] == before[*field])
        };
        if !after.iter().any(same) {
            errors.forbidden(
                "spec.tolerations",
                "existing toleration can not be modified except its tolerationSeconds",
            );
            return;
        }
    }
}

fn check_gates(new: &Value, old: &Value, errors: &mut Errors) {
    let before = old["spec"]["schedulingGates"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for (index, gate) in new["spec"]["schedulingGates"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if !before.contains(gate) {
            errors.forbidden(
                &format!("spec.schedulingGates[{index}].name"),
                "only deletion is allowed, but found new scheduling gate",
            );
        }
    }
}
