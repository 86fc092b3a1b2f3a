//! Rows of nodes, namespaces, services, events and other parts of a cluster.

use serde_json::{Value, json};

use super::{
    Cells, Printer,
    cells::{each, has_condition, labels, number, text_or},
};
use crate::api::meta;

pub(super) fn layout(table: &str) -> Option<Cells> {
    Some(match table {
        "nodes" => node,
        "namespaces" => namespace,
        "services" => service,
        "events" => event,
        "leases.coordination.k8s.io" => lease,
        "configmaps" => config_map,
        "secrets" => secret,
        "serviceaccounts" => account,
        "endpoints" => endpoints,
        "priorityclasses.scheduling.k8s.io" => priority,
        "customresourcedefinitions.apiextensions.k8s.io"
        | "roles.rbac.authorization.k8s.io"
        | "clusterroles.rbac.authorization.k8s.io" => created,
        "rolebindings.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io" => binding,
        _ => return None,
    })
}

fn name(object: &Value) -> Value {
    json!(meta::name(object))
}

fn node(printer: &Printer, object: &Value) -> Vec<Value> {
    let conditions = &object["status"]["conditions"];
    let known = each(conditions).any(|condition| condition["type"] == "Ready");
    let mut status = match (known, has_condition(object, "Ready")) {
        (false, _) => "Unknown".to_owned(),
        (true, true) => "Ready".to_owned(),
        (true, false) => "NotReady".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let info = &object["status"]["nodeInfo"];
    let address = |kind: &str| {
        each(&object["status"]["addresses"])
            .find(|address| address["type"] == kind)
            .map_or_else(|| json!("<none>"), |address| address["address"].clone())
    };
    vec![
        name(object),
        json!(status),
        json!(roles(object)),
        printer.age(object),
        text_or(&info["kubeletVersion"], ""),
        address("InternalIP"),
        address("ExternalIP"),
        text_or(&info["osImage"], "<unknown>"),
        text_or(&info["kernelVersion"], "<unknown>"),
        text_or(&info["containerRuntimeVersion"], "<unknown>"),
    ]
}

/// Roles that a node's labels give it.
fn roles(object: &Value) -> String {
    let mut roles: Vec<&str> = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) if !role.is_empty() => Some(role),
                _ if key == "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()),
                _ => None,
            },
        )
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    }
}

fn namespace(printer: &Printer, object: &Value) -> Vec<Value> {
    vec![
        name(object),
        text_or(&object["status"]["phase"], ""),
        printer.age(object),
    ]
}

fn service(printer: &Printer, object: &Value) -> Vec<Value> {
    let spec = &object["spec"];
    let ports: Vec<String> = each(&spec["ports"])
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or_default();
            match number(&port["nodePort"]) {
                0 => format!("{}/{protocol}", number(&port["port"])),
                node_port => format!("{}:{node_port}/{protocol}", number(&port["port"])),
            }
        })
        .collect();
    let external = |nothing: &str| {
        let balanced = each(&object["status"]["loadBalancer"]["ingress"]).map(|one| {
            one["ip"]
                .as_str()
                .or_else(|| one["hostname"].as_str())
                .unwrap_or_default()
        });
        let given = each(&spec["externalIPs"]).filter_map(Value::as_str);
        let all: Vec<&str> = balanced.chain(given).collect();
        if all.is_empty() {
            json!(nothing)
        } else {
            json!(all.join(","))
        }
    };
    let external = match spec["type"].as_str() {
        Some("ExternalName") => text_or(&spec["externalName"], ""),
        Some("LoadBalancer") => external("<pending>"),
        Some("ClusterIP" | "NodePort") => external("<none>"),
        _ => json!("<unknown>"),
    };
    vec![
        name(object),
        text_or(&spec["type"], ""),
        text_or(&spec["clusterIPs"][0], "<none>"),
        external,
        json!(if ports.is_empty() {
            "<none>".to_owned()
        } else {
            ports.join(",")
        }),
        printer.age(object),
        json!(labels(&spec["selector"])),
    ]
}

fn event(printer: &Printer, object: &Value) -> Vec<Value> {
    let since_any = |fields: &[&Value]| {
        let found = fields.iter().find(|at| at.is_string());
        found.map_or_else(|| json!("<unknown>"), |at| printer.since(at))
    };
    let first = since_any(&[&object["firstTimestamp"], &object["eventTime"]]);
    let series = &object["series"];
    let (last, count) = if series.is_object() {
        (
            printer.since(&series["lastObservedTime"]),
            number(&series["count"]),
        )
    } else {
        let last = &object["lastTimestamp"];
        let last = if last.is_string() {
            printer.since(last)
        } else {
            first.clone()
        };
        (last, number(&object["count"]).max(1))
    };
    let involved = &object["involvedObject"];
    let kind = involved["kind"].as_str().unwrap_or_default().to_lowercase();
    let target = match involved["name"].as_str() {
        Some(name) if !name.is_empty() => format!("{kind}/{name}"),
        _ => kind,
    };
    let either = |one: &Value, other: &Value| {
        let one = one.as_str().unwrap_or_default();
        if one.is_empty() {
            other.as_str().unwrap_or_default().to_owned()
        } else {
            one.to_owned()
        }
    };
    let component = either(
        &object["source"]["component"],
        &object["reportingComponent"],
    );
    let host = either(&object["source"]["host"], &object["reportingInstance"]);
    let source = if host.is_empty() {
        component
    } else {
        format!("{component}, {host}")
    };
    vec![
        last,
        text_or(&object["type"], ""),
        text_or(&object["reason"], ""),
        json!(target),
        text_or(&involved["fieldPath"], ""),
        json!(source),
        json!(object["message"].as_str().unwrap_or_default().trim()),
        first,
        json!(count),
        name(object),
    ]
}

fn lease(printer: &Printer, object: &Value) -> Vec<Value> {
    vec![
        name(object),
        text_or(&object["spec"]["holderIdentity"], ""),
        printer.age(object),
    ]
}

fn created(_: &Printer, object: &Value) -> Vec<Value> {
    vec![
        name(object),
        object["metadata"]["creationTimestamp"].clone(),
    ]
}

fn entries(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

fn config_map(printer: &Printer, object: &Value) -> Vec<Value> {
    let data = entries(&object["data"]) + entries(&object["binaryData"]);
    vec![name(object), json!(data), printer.age(object)]
}

fn secret(printer: &Printer, object: &Value) -> Vec<Value> {
    vec![
        name(object),
        text_or(&object["type"], ""),
        json!(entries(&object["data"])),
        printer.age(object),
    ]
}

fn account(printer: &Printer, object: &Value) -> Vec<Value> {
    vec![
        name(object),
        json!(each(&object["secrets"]).len()),
        printer.age(object),
    ]
}

fn endpoints(printer: &Printer, object: &Value) -> Vec<Value> {
    const SHOWN: usize = 3;
    let mut all = Vec::new();
    for subset in each(&object["subsets"]) {
        let addresses = || each(&subset["addresses"]).filter_map(|one| one["ip"].as_str());
        if each(&subset["ports"]).len() == 0 {
            all.extend(addresses().map(str::to_owned));
        }
        for port in each(&subset["ports"]) {
            all.extend(addresses().map(|ip| format!("{ip}:{}", number(&port["port"]))));
        }
    }
    let shown = match all.len() {
        0 => "<none>".to_owned(),
        1..=SHOWN => all.join(","),
        count => format!("{} + {} more...", all[..SHOWN].join(","), count - SHOWN),
    };
    vec![name(object), json!(shown), printer.age(object)]
}

fn priority(printer: &Printer, object: &Value) -> Vec<Value> {
    vec![
        name(object),
        json!(number(&object["value"])),
        json!(object["globalDefault"].as_bool().unwrap_or_default()),
        printer.age(object),
        text_or(&object["preemptionPolicy"], ""),
    ]
}

fn binding(printer: &Printer, object: &Value) -> Vec<Value> {
    let role = &object["roleRef"];
    let role = format!(
        "{}/{}",
        role["kind"].as_str().unwrap_or_default(),
        role["name"].as_str().unwrap_or_default()
    );
    let subjects = |kind: &str| {
        let found: Vec<String> = each(&object["subjects"])
            .filter(|subject| subject["kind"] == kind)
            .map(|subject| {
                let name = subject["name"].as_str().unwrap_or_default();
                match subject["namespace"].as_str() {
                    Some(namespace) if kind == "ServiceAccount" => format!("{namespace}/{name}"),
                    _ => name.to_owned(),
                }
            })
            .collect();
        json!(found.join(", "))
    };
    vec![
        name(object),
        json!(role),
        printer.age(object),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
