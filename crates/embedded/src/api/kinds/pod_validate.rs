//! Checks of pod specs, in pods and in templates: the mistakes that people make.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    super::{field::Errors, names},
    metadata,
};

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Checks a pod spec at a path.
pub(super) fn validate(spec: &Value, path: &str, errors: &mut Errors) {
    let volumes = validate_volumes(spec, path, errors);
    if list(spec, "containers").is_empty() {
        errors.required(&format!("{path}.containers"), "");
    }
    let mut seen = BTreeSet::new();
    for field in ["containers", "initContainers"] {
        for (index, container) in list(spec, field).iter().enumerate() {
            let path = format!("{path}.{field}[{index}]");
            validate_container(container, &path, &volumes, &mut seen, errors);
        }
    }
    one_of(
        spec,
        path,
        "restartPolicy",
        &["Always", "OnFailure", "Never"],
        errors,
    );
    one_of(
        spec,
        path,
        "dnsPolicy",
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        errors,
    );
    metadata::labels(
        &spec["nodeSelector"],
        &format!("{path}.nodeSelector"),
        errors,
    );
    for (field, check) in [
        (
            "serviceAccountName",
            names::dns1123_subdomain as fn(&str) -> Vec<String>,
        ),
        ("nodeName", names::dns1123_subdomain),
        ("hostname", names::dns1123_label),
        ("subdomain", names::dns1123_label),
        ("priorityClassName", names::dns1123_subdomain),
    ] {
        let value = text(spec, field);
        if !value.is_empty() {
            errors.name_problems(&format!("{path}.{field}"), value, check(value));
        }
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        errors.invalid(
            &format!("{path}.activeDeadlineSeconds"),
            &json!(seconds),
            "must be between 1 and 2147483647, inclusive",
        );
    }
    if let Some(seconds) = spec["terminationGracePeriodSeconds"].as_i64()
        && seconds < 0
    {
        errors.invalid(
            &format!("{path}.terminationGracePeriodSeconds"),
            &json!(seconds),
            "must be greater than or equal to 0",
        );
    }
    validate_node_affinity(
        &spec["affinity"]["nodeAffinity"],
        &format!("{path}.affinity.nodeAffinity"),
        errors,
    );
    validate_tolerations(spec, path, errors);
    validate_spread(spec, path, errors);
    validate_gates(spec, path, errors);
}

fn one_of(spec: &Value, path: &str, field: &str, supported: &[&str], errors: &mut Errors) {
    let value = text(spec, field);
    let path = format!("{path}.{field}");
    if value.is_empty() {
        errors.required(&path, "");
    } else if !supported.contains(&value) {
        errors.unsupported(&path, &json!(value), supported);
    }
}

/// Checks volumes; returns their names.
fn validate_volumes<'a>(spec: &'a Value, path: &str, errors: &mut Errors) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let (path, name) = (
            format!("{path}.volumes[{index}].name"),
            text(volume, "name"),
        );
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        errors.name_problems(&path, name, names::dns1123_label(name));
        if !seen.insert(name) {
            errors.duplicate(&path, &json!(name));
        }
    }
    seen
}

fn validate_container<'a>(
    container: &'a Value,
    path: &str,
    volumes: &BTreeSet<&str>,
    seen: &mut BTreeSet<&'a str>,
    errors: &mut Errors,
) {
    let name = text(container, "name");
    if name.is_empty() {
        errors.required(&format!("{path}.name"), "");
    } else {
        errors.name_problems(&format!("{path}.name"), name, names::dns1123_label(name));
        if !seen.insert(name) {
            errors.duplicate(&format!("{path}.name"), &json!(name));
        }
    }
    let image = text(container, "image");
    if image.is_empty() {
        errors.required(&format!("{path}.image"), "");
    } else if image.trim() != image {
        errors.invalid(
            &format!("{path}.image"),
            &json!(image),
            "must not have leading or trailing whitespace",
        );
    }
    validate_ports(container, path, errors);
    validate_env(container, path, errors);
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let name = text(mount, "name");
        if name.is_empty() {
            errors.required(&format!("{path}.name"), "");
        } else if !volumes.contains(name) {
            errors.not_found(&format!("{path}.name"), &json!(name));
        }
        if text(mount, "mountPath").is_empty() {
            errors.required(&format!("{path}.mountPath"), "");
        }
    }
    let policy = text(container, "imagePullPolicy");
    if !matches!(policy, "" | "Always" | "IfNotPresent" | "Never") {
        errors.unsupported(
            &format!("{path}.imagePullPolicy"),
            &json!(policy),
            &["Always", "IfNotPresent", "Never"],
        );
    }
    super::quantities::validate_resources(
        &container["resources"],
        &format!("{path}.resources"),
        errors,
    );
}

fn validate_ports(container: &Value, path: &str, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(port, "name");
        if !name.is_empty() && !names.insert(name) {
            errors.duplicate(&format!("{path}.name"), &json!(name));
        }
        let number = port["containerPort"].as_i64().unwrap_or_default();
        if number == 0 {
            errors.required(&format!("{path}.containerPort"), "");
        } else if !(1..=65_535).contains(&number) {
            errors.invalid(
                &format!("{path}.containerPort"),
                &json!(number),
                "must be between 1 and 65535, inclusive",
            );
        }
        let protocol = text(port, "protocol");
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            errors.unsupported(
                &format!("{path}.protocol"),
                &json!(protocol),
                &["SCTP", "TCP", "UDP"],
            );
        }
    }
}

fn validate_env(container: &Value, path: &str, errors: &mut Errors) {
    for (index, env) in list(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{index}]");
        let name = text(env, "name");
        if name.is_empty() {
            errors.required(&format!("{path}.name"), "");
        } else if name.contains('=') || !name.is_ascii() {
            errors.invalid(
                &format!("{path}.name"),
                &json!(name),
                "a valid environment variable name must consist only of printable ASCII characters other than '='",
            );
        }
        if env["valueFrom"].is_object() && !text(env, "value").is_empty() {
            errors.invalid(
                &format!("{path}.valueFrom"),
                &json!(""),
                "may not be specified when `value` is not empty",
            );
        }
    }
}

fn validate_node_affinity(affinity: &Value, path: &str, errors: &mut Errors) {
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    if required.is_object() {
        let path =
            format!("{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
        let terms = list(required, "nodeSelectorTerms");
        if terms.is_empty() {
            errors.required(&path, "must have at least one node selector term");
        }
        for (index, term) in terms.iter().enumerate() {
            validate_node_term(term, &format!("{path}[{index}]"), errors);
        }
    }
    let preferred = list(affinity, "preferredDuringSchedulingIgnoredDuringExecution");
    for (index, preference) in preferred.iter().enumerate() {
        let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]");
        let weight = preference["weight"].as_i64().unwrap_or_default();
        if !(1..=100).contains(&weight) {
            errors.invalid(
                &format!("{path}.weight"),
                &json!(weight),
                "must be in the range 1-100",
            );
        }
        validate_node_term(
            &preference["preference"],
            &format!("{path}.preference"),
            errors,
        );
    }
}

fn validate_node_term(term: &Value, path: &str, errors: &mut Errors) {
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = list(expression, "values").len();
        match text(expression, "operator") {
            "In" | "NotIn" if values == 0 => errors.required(
                &format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            "Exists" | "DoesNotExist" if values > 0 => errors.forbidden(
                &format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "Gt" | "Lt" if values != 1 => errors.required(
                &format!("{path}.values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                errors.invalid(
                    &format!("{path}.operator"),
                    &json!(other),
                    "not a valid selector operator",
                );
            }
        }
        let key = text(expression, "key");
        errors.name_problems(&format!("{path}.key"), key, names::qualified_name(key));
    }
}

fn validate_tolerations(spec: &Value, path: &str, errors: &mut Errors) {
    for (index, toleration) in list(spec, "tolerations").iter().enumerate() {
        let path = format!("{path}.tolerations[{index}]");
        let (key, operator, value) = (
            text(toleration, "key"),
            text(toleration, "operator"),
            text(toleration, "value"),
        );
        if !key.is_empty() {
            errors.name_problems(&format!("{path}.key"), key, names::qualified_name(key));
        } else if operator != "Exists" {
            errors.invalid(
                &format!("{path}.operator"),
                &json!(operator),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        let effect = text(toleration, "effect");
        if toleration["tolerationSeconds"].is_i64() && effect != "NoExecute" {
            errors.invalid(
                &format!("{path}.effect"),
                &json!(effect),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => {
                errors.name_problems(
                    &format!("{path}.operator"),
                    value,
                    names::label_value(value),
                );
            }
            "Exists" if !value.is_empty() => errors.invalid(
                &format!("{path}.operator"),
                &json!(value),
                "value must be empty when `operator` is 'Exists'",
            ),
            "Exists" => {}
            other => errors.unsupported(
                &format!("{path}.operator"),
                &json!(other),
                &["Equal", "Exists"],
            ),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            errors.unsupported(
                &format!("{path}.effect"),
                &json!(effect),
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            );
        }
    }
}

fn validate_spread(spec: &Value, path: &str, errors: &mut Errors) {
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        let skew = constraint["maxSkew"].as_i64().unwrap_or_default();
        if skew <= 0 {
            errors.invalid(
                &format!("{path}.maxSkew"),
                &json!(skew),
                "must be greater than zero",
            );
        }
        if text(constraint, "topologyKey").is_empty() {
            errors.required(&format!("{path}.topologyKey"), "can not be empty");
        }
        let action = text(constraint, "whenUnsatisfiable");
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            errors.unsupported(
                &format!("{path}.whenUnsatisfiable"),
                &json!(action),
                &["DoNotSchedule", "ScheduleAnyway"],
            );
        }
    }
}

fn validate_gates(spec: &Value, path: &str, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let path = format!("{path}.schedulingGates[{index}]");
        let name = text(gate, "name");
        errors.name_problems(&path, name, names::qualified_name(name));
        if !seen.insert(name) {
            errors.duplicate(&path, &json!(name));
        }
    }
}
