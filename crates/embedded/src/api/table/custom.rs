//! Rows of custom resources: the printer columns of their definition.

use serde_json::{Value, json};

use super::Printer;
use crate::api::{custom::jsonpath::JsonPath, meta, registry::Resource};

/// One of `additionalPrinterColumns`.
#[derive(Debug, Clone)]
pub(crate) struct PrinterColumn {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    path: Option<JsonPath>,
}

impl PrinterColumn {
    /// Reads a column; a path that can't be parsed prints nothing.
    pub(crate) fn read(column: &Value) -> Self {
        let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column["priority"].as_i64().unwrap_or_default(),
            path: JsonPath::parse(column["jsonPath"].as_str().unwrap_or_default()),
        }
    }

    /// What is printed for a definition without columns.
    pub(crate) fn age() -> Self {
        Self::read(&json!({
            "name": "Age",
            "type": "date",
            "description": "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
            "jsonPath": ".metadata.creationTimestamp",
        }))
    }

    fn cell(&self, printer: &Printer, object: &Value) -> Value {
        let Some(value) = self.path.as_ref().and_then(|path| path.first(object)) else {
            return Value::Null;
        };
        match self.kind.as_str() {
            "integer" => value.as_i64().map_or(Value::Null, Value::from),
            "number" => value.as_f64().map_or(Value::Null, Value::from),
            "boolean" => value.as_bool().map_or(Value::Null, Value::from),
            "date" => match value.as_str() {
                Some(text) if text.parse::<jiff::Timestamp>().is_ok() => printer.since(value),
                Some(_) => json!("<invalid>"),
                None => Value::Null,
            },
            _ => match value {
                Value::String(_) => value.clone(),
                other => json!(other.to_string()),
            },
        }
    }
}

pub(super) fn definitions(resource: &Resource) -> Value {
    let mut columns = vec![json!({
        "name": "Name", "type": "string", "format": "name", "priority": 0,
        "description": "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
    })];
    let custom = resource.custom.iter().flat_map(|custom| &custom.columns);
    columns.extend(custom.map(|column| {
        let description = if column.description.is_empty() {
            format!(
                "Custom resource definition column (in JSONPath format): {}",
                column
                    .path
                    .as_ref()
                    .map(JsonPath::source)
                    .unwrap_or_default()
            )
        } else {
            column.description.clone()
        };
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": description, "priority": column.priority,
        })
    }));
    json!(columns)
}

pub(super) fn cells(resource: &Resource, printer: &Printer, object: &Value) -> Vec<Value> {
    let mut cells = vec![json!(meta::name(object))];
    let columns = resource.custom.iter().flat_map(|custom| &custom.columns);
    cells.extend(columns.map(|column| column.cell(printer, object)));
    cells
}
