//! Rows of volumes and storage.

use serde_json::{Value, json};

use super::{
    Cells, Printer,
    cells::{access_modes, each, text_or},
};
use crate::api::meta;

pub(super) fn layout(table: &str) -> Option<Cells> {
    Some(match table {
        "persistentvolumes" => volume,
        "persistentvolumeclaims" => claim,
        "storageclasses.storage.k8s.io" => class,
        "csinodes.storage.k8s.io" => node,
        "volumeattachments.storage.k8s.io" => attachment,
        _ => return None,
    })
}

fn name(object: &Value) -> Value {
    json!(meta::name(object))
}

fn phase(object: &Value) -> Value {
    if meta::is_deleting(object) {
        return json!("Terminating");
    }
    text_or(&object["status"]["phase"], "")
}

fn volume(printer: &Printer, object: &Value) -> Vec<Value> {
    let spec = &object["spec"];
    let claim = &spec["claimRef"];
    let claimed = if claim.is_object() {
        format!(
            "{}/{}",
            claim["namespace"].as_str().unwrap_or_default(),
            claim["name"].as_str().unwrap_or_default()
        )
    } else {
        String::new()
    };
    vec![
        name(object),
        text_or(&spec["capacity"]["storage"], "0"),
        json!(access_modes(&spec["accessModes"])),
        text_or(&spec["persistentVolumeReclaimPolicy"], ""),
        phase(object),
        json!(claimed),
        text_or(&spec["storageClassName"], ""),
        text_or(&spec["volumeAttributesClassName"], "<unset>"),
        text_or(&object["status"]["reason"], ""),
        printer.age(object),
        text_or(&spec["volumeMode"], "<unset>"),
    ]
}

fn claim(printer: &Printer, object: &Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let bound = spec["volumeName"]
        .as_str()
        .is_some_and(|name| !name.is_empty());
    let (capacity, modes) = if bound {
        (
            text_or(&status["capacity"]["storage"], "0"),
            access_modes(&status["accessModes"]),
        )
    } else {
        (json!(""), String::new())
    };
    vec![
        name(object),
        phase(object),
        text_or(&spec["volumeName"], ""),
        capacity,
        json!(modes),
        text_or(&spec["storageClassName"], ""),
        text_or(&spec["volumeAttributesClassName"], "<unset>"),
        printer.age(object),
        text_or(&spec["volumeMode"], "<unset>"),
    ]
}

fn class(printer: &Printer, object: &Value) -> Vec<Value> {
    let default =
        object["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
    let suffix = if default { " (default)" } else { "" };
    vec![
        json!(format!("{}{suffix}", meta::name(object))),
        text_or(&object["provisioner"], ""),
        text_or(&object["reclaimPolicy"], "Delete"),
        text_or(&object["volumeBindingMode"], "Immediate"),
        json!(object["allowVolumeExpansion"].as_bool().unwrap_or_default()),
        printer.age(object),
    ]
}

fn node(printer: &Printer, object: &Value) -> Vec<Value> {
    vec![
        name(object),
        json!(each(&object["spec"]["drivers"]).len()),
        printer.age(object),
    ]
}

fn attachment(printer: &Printer, object: &Value) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        text_or(&spec["attacher"], ""),
        text_or(&spec["source"]["persistentVolumeName"], ""),
        text_or(&spec["nodeName"], ""),
        json!(object["status"]["attached"].as_bool().unwrap_or_default()),
        printer.age(object),
    ]
}
