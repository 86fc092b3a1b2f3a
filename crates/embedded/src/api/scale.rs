//! The scale subresource: a small common face of everything that has replicas.

use serde_json::{Value, json};

use super::{field::Errors, meta, registry::Resource, status::Status, write::Part};
use crate::patch;

/// Where a resource keeps its replica numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) label_selector: Option<String>,
}

impl ScalePaths {
    /// The paths of a resource that can be scaled.
    pub(crate) fn of(resource: &Resource) -> Option<Self> {
        if let Some(custom) = &resource.custom {
            return custom.scale.clone();
        }
        resource.has_subresource("scale").then(|| Self {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            label_selector: None,
        })
    }
}

impl ScalePaths {
    /// Checks that the numbers can be read, in the words of Go's accessors.
    pub(crate) fn validate(&self, object: &Value, part: Part, errors: &mut Errors) {
        let mut check = |path: &str| match integer_at(object, path) {
            Err(why) => {
                errors.shown_invalid(path, "0", &format!("{path} accessor error: {why}"));
            }
            Ok(Some(number)) if number < 0 => {
                errors.shown_invalid(
                    path,
                    &number.to_string(),
                    "should be a non-negative integer",
                );
            }
            Ok(_) => {}
        };
        if part != Part::Status {
            check(&self.spec_replicas);
        }
        if part == Part::Status {
            check(&self.status_replicas);
        }
    }
}

/// The integer at a path, if there is something; the error is Go's.
fn integer_at(object: &Value, path: &str) -> Result<Option<i64>, String> {
    let wrong = |value: &Value, expected: &str| {
        format!(
            "{} is of the type {}, expected {expected}",
            patch::go_print(value),
            patch::go_type(value)
        )
    };
    let mut value = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let Value::Object(fields) = value else {
            return Err(wrong(value, "map[string]interface{}"));
        };
        match fields.get(part) {
            Some(found) => value = found,
            None => return Ok(None),
        }
    }
    value
        .as_i64()
        .map(Some)
        .ok_or_else(|| wrong(value, "int64"))
}

/// Reads `.a.b.c`.
fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .filter(|part| !part.is_empty())
        .fold(object, |value, part| &value[part])
}

/// The `autoscaling/v1` Scale of an object.
pub(crate) fn read(resource: &Resource, object: &Value) -> Result<Value, Status> {
    let paths = ScalePaths::of(resource).ok_or_else(Status::no_such_path)?;
    let replicas = at(object, &paths.spec_replicas).as_i64();
    if resource.custom.is_some() && replicas.is_none() {
        return Err(Status::internal(&format!(
            "the spec replicas field {:?} does not exist",
            paths.spec_replicas
        )));
    }
    let mut metadata = json!({});
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {},
        "status": {"replicas": at(object, &paths.status_replicas).as_i64().unwrap_or_default()},
    });
    if let Some(replicas) = replicas.filter(|replicas| *replicas != 0) {
        scale["spec"]["replicas"] = json!(replicas);
    }
    let selector = match &paths.label_selector {
        Some(path) => at(object, path).as_str().unwrap_or_default().to_owned(),
        None if resource.custom.is_some() => String::new(),
        None => selector_text(&object["spec"]["selector"]),
    };
    if !selector.is_empty() {
        scale["status"]["selector"] = json!(selector);
    }
    Ok(scale)
}

/// The object with the replicas of a Scale.
pub(crate) fn write(resource: &Resource, object: &Value, scale: &Value) -> Result<Value, Status> {
    let paths = ScalePaths::of(resource).ok_or_else(Status::no_such_path)?;
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    let mut changed = object.clone();
    let parts: Vec<&str> = paths
        .spec_replicas
        .split('.')
        .filter(|part| !part.is_empty())
        .collect();
    if let Some((last, parents)) = parts.split_last() {
        let mut map = changed.as_object_mut();
        for parent in parents {
            map = map.and_then(|map| meta::child(map, parent));
        }
        if let Some(map) = map {
            map.insert((*last).to_owned(), json!(replicas));
        }
    }
    if let Some(version) = scale["metadata"]
        .get("resourceVersion")
        .and_then(Value::as_str)
    {
        meta::set(&mut changed, "resourceVersion", version);
    }
    Ok(changed)
}

/// A `metav1.LabelSelector` (or plain map) as a query would write it.
pub(crate) fn selector_text(selector: &Value) -> String {
    let is_plain =
        selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let labels = if is_plain {
        selector
    } else {
        &selector["matchLabels"]
    };
    let mut parts: Vec<(String, String)> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            (
                key.clone(),
                format!("{key}={}", value.as_str().unwrap_or_default()),
            )
        })
        .collect();
    for expression in selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let text = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("Exists") => key.to_owned(),
            _ => format!("!{key}"),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort();
    parts
        .into_iter()
        .map(|(_, text)| text)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_as_queries() {
        let selector = json!({
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x"]}],
        });
        assert_eq!(selector_text(&selector), "a=1,b=2,c in (x,y)");
        assert_eq!(selector_text(&json!({"app": "web"})), "app=web");
    }
}
