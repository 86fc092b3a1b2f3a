//! `metav1.Table`: what `kubectl get` prints.
//!
//! Columns and cells are those of the real server (`pkg/printers/internalversion`) for the
//! built-in kinds, and the printer columns of the CRD for custom ones.

mod cells;
mod cluster;
pub(crate) mod custom;
mod duration;
mod pods;
mod storage;
mod workloads;

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{meta, registry::Resource, view};

/// Column definitions of the built-in kinds, as a real server prints them.
static COLUMNS: &str = include_str!("../../assets/tables/columns.json");

fn columns(table: &str) -> &'static [Value] {
    static LOADED: OnceLock<Value> = OnceLock::new();
    let all = LOADED.get_or_init(|| serde_json::from_str(COLUMNS).unwrap_or_default());
    all[table].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// How much of each object goes with its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

/// Whether the column definitions go with the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Headers {
    Shown,
    Hidden,
}

/// How a table is made.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    resource: Arc<Resource>,
    include: Include,
    now: Timestamp,
}

impl Options {
    pub(crate) fn new(resource: Arc<Resource>, include: &str, now: Timestamp) -> Self {
        let include = match include {
            "None" => Include::Nothing,
            "Object" => Include::Object,
            _ => Include::Metadata,
        };
        Self {
            resource,
            include,
            now,
        }
    }
}

/// What a printer sees.
pub(crate) struct Printer {
    now: Timestamp,
}

impl Printer {
    /// Time since a timestamp, or `<unknown>`.
    pub(crate) fn since(&self, at: &Value) -> Value {
        match at.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
            Some(at) => json!(duration::human(self.now.duration_since(at))),
            None => json!("<unknown>"),
        }
    }

    /// Age of an object.
    pub(crate) fn age(&self, object: &Value) -> Value {
        self.since(&object["metadata"]["creationTimestamp"])
    }
}

type Cells = fn(&Printer, &Value) -> Vec<Value>;

/// The printer of a built-in kind; kinds without one show what their columns ask of metadata.
fn print(table: &str, printer: &Printer, object: &Value) -> Vec<Value> {
    let layout = pods::layout(table)
        .or_else(|| workloads::layout(table))
        .or_else(|| cluster::layout(table))
        .or_else(|| storage::layout(table));
    if let Some(cells) = layout {
        return cells(printer, object);
    }
    columns(table)
        .iter()
        .map(|column| match column["name"].as_str() {
            Some("Name") => json!(meta::name(object)),
            Some("Age") => printer.age(object),
            Some("Created At") => object["metadata"]["creationTimestamp"].clone(),
            _ => json!(""),
        })
        .collect()
}

/// A table of stored objects.
pub(crate) fn table(options: &Options, objects: &[Arc<Value>], headers: Headers) -> Value {
    let resource = &options.resource;
    let printer = Printer { now: options.now };
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| row(options, &printer, object))
        .collect();
    let mut table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}});
    table["columnDefinitions"] = match headers {
        Headers::Shown => definitions(resource),
        Headers::Hidden => Value::Null,
    };
    table["rows"] = json!(rows);
    if let [one] = objects {
        table["metadata"] = json!({"resourceVersion": meta::resource_version(one)});
    }
    table
}

/// A bookmark of a watch that receives tables: the version sits in the table's own metadata too.
pub(crate) fn bookmark(options: &Options, object: &Value) -> Value {
    let mut row = json!({"cells": []});
    row["object"] = included(options, object);
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": meta::resource_version(object)},
        "columnDefinitions": null,
        "rows": [row],
    })
}

fn definitions(resource: &Resource) -> Value {
    if resource.custom.is_some() {
        return custom::definitions(resource);
    }
    json!(columns(&resource.table))
}

fn row(options: &Options, printer: &Printer, object: &Arc<Value>) -> Value {
    let resource = &options.resource;
    let served = view::to_served(resource, object);
    let cells = if resource.custom.is_some() {
        custom::cells(resource, printer, &served)
    } else {
        print(&resource.table, printer, object)
    };
    let mut row = Map::new();
    row.insert("cells".to_owned(), json!(cells));
    if let Some(condition) = pods::completion(&resource.table, object) {
        row.insert("conditions".to_owned(), json!([condition]));
    }
    row.insert("object".to_owned(), included(options, &served));
    Value::Object(row)
}

fn included(options: &Options, object: &Value) -> Value {
    match options.include {
        Include::Nothing => Value::Null,
        Include::Metadata => {
            let mut shown = view::metadata_only(object);
            if options.resource.table == "daemonsets.apps" {
                // Tables are made from the internal type, which keeps this number elsewhere.
                workloads::hide_template_generation(&mut shown);
            }
            shown
        }
        Include::Object => object.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::registry::Registry;

    #[test]
    fn every_built_in_kind_prints_one_cell_per_column() {
        let printer = Printer {
            now: Timestamp::UNIX_EPOCH,
        };
        for resource in Registry::builtin().all() {
            let columns = columns(&resource.table);
            assert!(!columns.is_empty(), "{} has no columns", resource.table);
            let cells = print(
                &resource.table,
                &printer,
                &json!({"metadata": {"name": "x"}}),
            );
            assert_eq!(cells.len(), columns.len(), "{}", resource.table);
        }
    }
}
