//! Defaults of pod specs, in pods and in templates (`pkg/apis/core/v1/defaults.go`).

use serde_json::{Map, Value, json};

use super::defaults::{fill, fill_number, inner, items};

type Object = Map<String, Value>;

/// Fills in a pod spec.
pub(super) fn default(spec: &mut Object) {
    for (field, value) in [
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
    ] {
        fill(spec, field, value);
    }
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "securityContext", json!({}));
    let host_network = spec.get("hostNetwork") == Some(&json!(true));
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(spec, list) {
            default_container(container);
            if host_network {
                default_host_ports(container);
            }
        }
    }
    for volume in items(spec, "volumes") {
        default_volume(volume);
    }
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        // The old name of the field goes with the new one.
        fill(spec, "serviceAccount", account);
    }
}

/// Fills in what only pods (not templates) get.
pub(super) fn default_for_pod(spec: &mut Object) {
    fill(spec, "enableServiceLinks", true);
    for list in ["initContainers", "containers"] {
        for container in items(spec, list) {
            let Some(resources) = inner(container, "resources") else {
                continue;
            };
            let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else {
                continue;
            };
            let requests = resources.entry("requests").or_insert_with(|| json!({}));
            if let Some(requests) = requests.as_object_mut() {
                for (name, quantity) in limits {
                    requests.entry(name).or_insert(quantity);
                }
            }
        }
    }
}

fn default_host_ports(container: &mut Object) {
    for port in items(container, "ports") {
        if let Some(number) = port.get("containerPort").cloned()
            && port.get("hostPort").is_none_or(|port| *port == 0)
        {
            port.insert("hostPort".to_owned(), number);
        }
    }
}

fn default_container(container: &mut Object) {
    let image = container
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let policy = if tag_of(image) == "latest" {
        "Always"
    } else {
        "IfNotPresent"
    };
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    if !container.contains_key("resources") {
        container.insert("resources".to_owned(), json!({}));
    }
    for port in items(container, "ports") {
        fill(port, "protocol", "TCP");
    }
    for env in items(container, "env") {
        if let Some(field) = inner(env, "valueFrom").and_then(|from| inner(from, "fieldRef")) {
            fill(field, "apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = inner(container, probe) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = inner(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(get) = inner(lifecycle, hook).and_then(|hook| inner(hook, "httpGet")) {
                default_http_get(get);
            }
        }
    }
}

fn default_probe(probe: &mut Object) {
    for (field, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        fill_number(probe, field, value);
    }
    if let Some(get) = inner(probe, "httpGet") {
        default_http_get(get);
    }
    if let Some(grpc) = inner(probe, "grpc") {
        grpc.entry("service").or_insert_with(|| json!(""));
    }
}

fn default_http_get(get: &mut Object) {
    fill(get, "path", "/");
    fill(get, "scheme", "HTTP");
}

/// The tag of an image; no tag and no digest is `latest`.
fn tag_of(image: &str) -> &str {
    let (name, digest) = image
        .split_once('@')
        .map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, tag)) => tag,
        None if digest.is_some() => "",
        None => "latest",
    }
}

fn default_volume(volume: &mut Object) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = inner(volume, source) {
            // 0644, and JSON has no octal.
            fill(source, "defaultMode", 420);
        }
    }
    if let Some(path) = inner(volume, "hostPath") {
        path.entry("type").or_insert_with(|| json!(""));
    }
    if let Some(projected) = inner(volume, "projected") {
        for source in items(projected, "sources") {
            if let Some(token) = inner(source, "serviceAccountToken") {
                fill(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = inner(source, "downwardAPI") {
                default_downward_items(downward);
            }
        }
    }
    if let Some(downward) = inner(volume, "downwardAPI") {
        default_downward_items(downward);
    }
    if let Some(template) =
        inner(volume, "ephemeral").and_then(|source| inner(source, "volumeClaimTemplate"))
        && let Some(spec) = inner(template, "spec")
    {
        fill(spec, "volumeMode", "Filesystem");
    }
    if let Some(iscsi) = inner(volume, "iscsi") {
        fill(iscsi, "iscsiInterface", "default");
    }
}

fn default_downward_items(source: &mut Object) {
    for item in items(source, "items") {
        if let Some(field) = inner(item, "fieldRef") {
            fill(field, "apiVersion", "v1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_tag_is_always_pulled() {
        for (image, tag) in [
            ("nginx", "latest"),
            ("nginx:1.2", "1.2"),
            ("host:5000/nginx", "latest"),
            ("host:5000/a/nginx:v1", "v1"),
            ("nginx@sha256:abc", ""),
        ] {
            assert_eq!(tag_of(image), tag, "{image}");
        }
    }

    #[test]
    fn limits_become_requests_of_pods() {
        let mut spec = json!({"containers": [
            {"name": "a", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "2"}, "requests": {"cpu": "500m"}}},
        ]});
        let spec = spec.as_object_mut().unwrap();
        default(spec);
        default_for_pod(spec);
        assert_eq!(
            spec["containers"][0]["resources"]["requests"],
            json!({"cpu": "500m", "memory": "2"})
        );
        assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(spec["restartPolicy"], "Always");
    }
}
