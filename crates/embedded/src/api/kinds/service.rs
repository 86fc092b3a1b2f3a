//! Services: defaults, and the addresses and ports that the server hands out.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    super::{
        field::Errors,
        state::State,
        status::{Named, Status},
    },
    defaults::{fill, items, spec},
};

/// The range of cluster addresses: 10.0.0.0/24 less its first (the API server's) and last.
const ADDRESSES: std::ops::Range<u8> = 2..255;
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

pub(super) fn default(object: &mut Value) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "sessionAffinity", "None");
    fill(spec, "type", "ClusterIP");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("ClientIP") => {
            let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
            fill(spec, "sessionAffinityConfig", config);
        }
        _ => {
            spec.remove("sessionAffinityConfig");
        }
    }
    for port in items(spec, "ports") {
        fill(port, "protocol", "TCP");
        let zero = port
            .get("targetPort")
            .is_none_or(|port| port.is_null() || *port == 0 || *port == "");
        if zero && let Some(number) = port.get("port").cloned() {
            port.insert("targetPort".to_owned(), number);
        }
    }
    let kind = spec
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind != "ExternalName" {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// Hands out cluster addresses and node ports.
pub(super) fn allocate(
    state: &State,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let kind = object["spec"]["type"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let name = super::super::meta::name(object).to_owned();
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for (_, service) in state.store.iter("services", "") {
        addresses.extend(service["spec"]["clusterIP"].as_str().map(str::to_owned));
        ports.extend(
            service["spec"]["ports"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|port| port["nodePort"].as_i64()),
        );
    }
    if kind != "ExternalName" {
        let kept = old
            .map(|old| old["spec"]["clusterIP"].clone())
            .filter(Value::is_string);
        allocate_address(object, kept, &addresses, &name)?;
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        && let Some(spec) = spec(object)
    {
        for port in items(spec, "ports") {
            if port
                .get("nodePort")
                .and_then(Value::as_i64)
                .unwrap_or_default()
                != 0
            {
                continue;
            }
            if let Some(free) = NODE_PORTS
                .into_iter()
                .find(|number| !ports.contains(number))
            {
                ports.insert(free);
                port.insert("nodePort".to_owned(), json!(free));
            }
        }
    }
    Ok(())
}

fn allocate_address(
    object: &mut Value,
    kept: Option<Value>,
    taken: &BTreeSet<String>,
    name: &str,
) -> Result<(), Status> {
    let Some(spec) = spec(object) else {
        return Ok(());
    };
    let asked = spec
        .get("clusterIP")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let address = match (kept, asked.as_str()) {
        (Some(kept), "") => kept.as_str().unwrap_or_default().to_owned(),
        (None, "") => ADDRESSES
            .map(|last| format!("10.0.0.{last}"))
            .find(|address| !taken.contains(address))
            .ok_or_else(|| Status::internal("failed to allocate IP: range is full"))?,
        (Some(kept), asked) if kept == asked => asked.to_owned(),
        (_, "None") => "None".to_owned(),
        (_, asked) if taken.contains(asked) => {
            let mut errors = Errors::default();
            errors.invalid(
                "spec.clusterIPs",
                &json!([asked]),
                &format!("failed to allocate IP {asked}: provided IP is already allocated"),
            );
            return Err(Status::invalid(
                Named {
                    group: "",
                    what: "Service",
                },
                name,
                errors.into_causes(),
            ));
        }
        (_, asked) => asked.to_owned(),
    };
    spec.insert("clusterIP".to_owned(), json!(address));
    spec.insert("clusterIPs".to_owned(), json!([address]));
    fill(spec, "ipFamilies", json!(["IPv4"]));
    fill(spec, "ipFamilyPolicy", "SingleStack");
    Ok(())
}

/// Checks a service.
pub(super) fn validate(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    let ports = spec["ports"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let headless = spec["clusterIP"] == "None";
    if ports.is_empty() && spec["type"] != "ExternalName" && !headless {
        errors.required("spec.ports", "");
    }
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = port["name"].as_str().unwrap_or_default();
        if name.is_empty() && ports.len() > 1 {
            errors.required(&format!("{path}.name"), "");
        } else if !name.is_empty() {
            errors.name_problems(
                &format!("{path}.name"),
                name,
                super::super::names::dns1123_label(name),
            );
            if !names.insert(name) {
                errors.duplicate(&format!("{path}.name"), &json!(name));
            }
        }
        let number = port["port"].as_i64().unwrap_or_default();
        if !(1..=65_535).contains(&number) {
            errors.invalid(
                &format!("{path}.port"),
                &json!(number),
                "must be between 1 and 65535, inclusive",
            );
        }
        if !matches!(port["protocol"].as_str(), Some("TCP" | "UDP" | "SCTP")) {
            errors.unsupported(
                &format!("{path}.protocol"),
                &port["protocol"],
                &["SCTP", "TCP", "UDP"],
            );
        }
    }
    if !matches!(
        spec["type"].as_str(),
        Some("ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName")
    ) {
        errors.unsupported(
            "spec.type",
            &spec["type"],
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        );
    }
    if spec["type"] == "ExternalName"
        && spec["externalName"].as_str().unwrap_or_default().is_empty()
    {
        errors.required("spec.externalName", "");
    }
}

/// The cluster address stays for life.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (before, after) = (&old["spec"]["clusterIP"], &new["spec"]["clusterIP"]);
    let typed = |object: &Value| object["spec"]["type"] != "ExternalName";
    if typed(new) && typed(old) && before != after && before.is_string() {
        errors.invalid(
            "spec.clusterIPs[0]",
            &json!([after]),
            "may not change once set",
        );
    }
    validate(new, errors);
}
