//! Checks of resource quantities.

use serde_json::{Value, json};

use super::super::field::Errors;
use crate::schema::quantity::Quantity;

fn parse(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

/// Checks requests and limits of a container.
pub(super) fn validate_resources(resources: &Value, path: &str, errors: &mut Errors) {
    for side in ["limits", "requests"] {
        for (name, quantity) in resources[side].as_object().into_iter().flatten() {
            let path = format!("{path}.{side}");
            standard_name(name, &path, errors);
            if parse(quantity).is_some_and(|quantity| quantity.sign() < 0) {
                errors.invalid(
                    &format!("{path}[{name}]"),
                    quantity,
                    "must be greater than or equal to 0",
                );
            }
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let Some(limit) = resources["limits"].get(name) else {
            if !is_native(name) {
                errors.required(
                    &format!("{path}.limits"),
                    "Limit must be set for non overcommitable resources",
                );
            }
            continue;
        };
        let (Some(wanted), Some(most)) = (parse(request), parse(limit)) else {
            continue;
        };
        let over = most.sub(wanted).is_some_and(|rest| rest.sign() < 0);
        if is_native(name) && over {
            errors.invalid(
                &format!("{path}.requests"),
                request,
                &format!(
                    "must be less than or equal to {name} limit of {}",
                    limit.as_str().unwrap_or_default()
                ),
            );
        } else if !is_native(name) && most.sub(wanted).is_some_and(|rest| rest.sign() != 0) {
            errors.invalid(
                &format!("{path}.requests"),
                request,
                &format!(
                    "must be equal to {name} limit of {}",
                    limit.as_str().unwrap_or_default()
                ),
            );
        }
    }
}

/// Resources of Kubernetes itself may be promised more than once; extended ones may not.
fn is_native(name: &str) -> bool {
    (!name.contains('/') || name.contains("kubernetes.io/")) && !name.starts_with("hugepages-")
}

fn standard_name(name: &str, path: &str, errors: &mut Errors) {
    if name.contains('/') {
        return;
    }
    let known =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !known {
        errors.invalid(
            &format!("{path}[{name}]"),
            &json!(name),
            "must be a standard resource type or fully qualified",
        );
    }
}
