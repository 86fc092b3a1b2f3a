//! Options of writes: dry run, field validation, field manager, and how to delete.

use serde_json::Value;

use super::{Context, request::Query};
use crate::api::{
    DeleteOptions, Preconditions, Propagation, Status, body, field::Errors, status::Named,
    write::WriteOptions,
};

/// What to do about fields that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Options of a create, update or patch.
#[derive(Debug, Clone)]
pub(crate) struct ObjectOptions {
    pub(crate) write: WriteOptions,
    pub(crate) validation: FieldValidation,
}

impl ObjectOptions {
    /// Reads and checks the query; `kind` is what messages call the options.
    pub(crate) fn from_context(context: &Context, kind: &str) -> Result<Self, Status> {
        let query = &context.query;
        let mut errors = Errors::default();
        let dry_run = read_dry_run(query, &mut errors);
        let validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.unsupported(
                    "fieldValidation",
                    &Value::from(other),
                    &["", "Ignore", "Strict", "Warn"],
                );
                FieldValidation::Warn
            }
        };
        let manager = query.get("fieldManager");
        if manager.len() > 128 {
            errors.too_long("fieldManager", 128);
        }
        if manager.chars().any(char::is_control) {
            errors.invalid(
                "fieldManager",
                &Value::from(manager),
                "should only contain printable characters",
            );
        }
        if !errors.is_empty() {
            return Err(Status::invalid(
                Named {
                    group: "meta.k8s.io",
                    what: kind,
                },
                "",
                errors.into_causes(),
            ));
        }
        let manager = if manager.is_empty() {
            default_manager(&context.user_agent)
        } else {
            manager
        };
        Ok(Self {
            write: WriteOptions {
                dry_run,
                manager: Some(manager.to_owned()),
                subresource: "",
            },
            validation,
        })
    }
}

/// The part of the user agent before the version.
fn default_manager(user_agent: &str) -> &str {
    user_agent
        .split('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or("unknown")
}

fn read_dry_run(query: &Query, errors: &mut Errors) -> bool {
    let mut dry_run = false;
    for value in query.all("dryRun") {
        if value == "All" {
            dry_run = true;
        } else {
            let shown = Value::from(vec![Value::from(value)]);
            errors.unsupported("dryRun", &shown, &["All"]);
        }
    }
    dry_run
}

/// Reads how to delete: from the body, or from the query when there is none.
pub(crate) fn delete_options(context: &Context) -> Result<DeleteOptions, Status> {
    let from_query;
    let options = if context.body.is_empty() {
        from_query = query_object(&context.query);
        &from_query
    } else {
        let format = body::Format::from_content_type(&context.content_type)?;
        from_query = body::parse(&context.body, format).map_err(|why| Status::new(500, "", why))?;
        &from_query
    };
    read_delete_options(options, &context.query)
}

fn query_object(query: &Query) -> Value {
    let mut object = serde_json::Map::new();
    if let Ok(seconds) = query.get("gracePeriodSeconds").parse::<i64>() {
        object.insert("gracePeriodSeconds".to_owned(), seconds.into());
    }
    if query.has("propagationPolicy") {
        object.insert(
            "propagationPolicy".to_owned(),
            query.get("propagationPolicy").into(),
        );
    }
    if query.has("orphanDependents") {
        object.insert(
            "orphanDependents".to_owned(),
            query.flag("orphanDependents").into(),
        );
    }
    let dry_run: Vec<Value> = query.all("dryRun").map(Value::from).collect();
    if !dry_run.is_empty() {
        object.insert("dryRun".to_owned(), dry_run.into());
    }
    Value::Object(object)
}

/// Reads a `metav1.DeleteOptions` object.
pub(crate) fn read_delete_options(options: &Value, query: &Query) -> Result<DeleteOptions, Status> {
    let mut errors = Errors::default();
    let orphan = options["orphanDependents"].as_bool();
    let propagation = match options["propagationPolicy"].as_str() {
        None | Some("") => None,
        Some("Background") => Some(Propagation::Background),
        Some("Foreground") => Some(Propagation::Foreground),
        Some("Orphan") => Some(Propagation::Orphan),
        Some(other) => {
            errors.unsupported(
                "propagationPolicy",
                &Value::from(other),
                &["Foreground", "Background", "Orphan", "nil"],
            );
            None
        }
    };
    if orphan.is_some() && propagation.is_some() {
        errors.invalid(
            "propagationPolicy",
            &options["propagationPolicy"],
            "orphanDependents and deletionPropagation cannot be both set",
        );
    }
    let dry_run = options["dryRun"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if dry_run.iter().any(|value| value != "All") {
        errors.unsupported("dryRun", &options["dryRun"], &["All"]);
    }
    if !errors.is_empty() {
        return Err(Status::invalid(
            Named {
                group: "meta.k8s.io",
                what: "DeleteOptions",
            },
            "",
            errors.into_causes(),
        ));
    }
    let text = |field: &str| options["preconditions"][field].as_str().map(str::to_owned);
    Ok(DeleteOptions {
        grace_period_seconds: options["gracePeriodSeconds"].as_i64(),
        preconditions: Preconditions {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        },
        propagation: propagation.or(match orphan {
            Some(true) => Some(Propagation::Orphan),
            Some(false) => Some(Propagation::Background),
            None => None,
        }),
        dry_run: !dry_run.is_empty() || query.all("dryRun").any(|value| value == "All"),
    })
}
