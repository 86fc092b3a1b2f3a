//! `metav1.Status`: how the API server says no.
//!
//! The constructors produce the code, reason, message and details that the real server produces
//! (`k8s.io/apimachinery/pkg/api/errors`), because clients decide by reason and people read the
//! message.

use serde_json::{Map, Value, json};

/// The reason of answers that are plain text.
pub(crate) const PLAIN: &str = "<plain>";

/// One reason among several, with the field it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// A `FieldValueInvalid`, `DisruptionBudget` and the like.
    pub reason: String,
    /// What is wrong.
    pub message: String,
    /// The field it is wrong at; empty when it is about the whole.
    pub field: String,
}

/// What a status is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// API group.
    pub group: String,
    /// Kind, or resource for errors about resources.
    pub kind: String,
    /// Unique id of the object, where known.
    pub uid: String,
    /// Each single cause.
    pub causes: Vec<Cause>,
    /// When a client may come back.
    pub retry_after_seconds: u32,
}

/// A Kubernetes API error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
    /// What it is about.
    pub details: Option<Box<Details>>,
    /// Where a list that has expired may go on, without consistency.
    pub continue_token: Option<Box<str>>,
}

/// A group and a resource or kind, as error messages name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Resource (plural) or kind.
    pub what: &'a str,
}

impl Named<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.what.to_owned()
        } else {
            format!("{}.{}", self.what, self.group)
        }
    }

    fn details(&self, name: &str) -> Details {
        Details {
            name: name.to_owned(),
            group: self.group.to_owned(),
            kind: self.what.to_owned(),
            ..Details::default()
        }
    }
}

impl Status {
    /// An error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    /// 404 for an object.
    pub fn not_found(resource: Named<'_>, name: &str) -> Self {
        Self {
            code: 404,
            reason: "NotFound",
            message: format!("{} {name:?} not found", resource.qualified()),
            details: Some(Box::new(resource.details(name))),
            continue_token: None,
        }
    }

    /// An answer of the layer below the API: text, and no status object.
    pub fn plain(code: u16, text: &str) -> Self {
        Self::new(code, PLAIN, text)
    }

    /// 404 for a path below a built-in group that no resource has.
    pub fn no_such_resource() -> Self {
        Self {
            details: Some(Box::default()),
            ..Self::new(
                404,
                "NotFound",
                "the server could not find the requested resource",
            )
        }
    }

    /// 404 for a path that nothing serves.
    pub fn no_such_path() -> Self {
        Self::plain(
            404,
            "404 page not found
",
        )
    }

    /// 409 on creating what exists.
    pub fn already_exists(resource: Named<'_>, name: &str) -> Self {
        Self {
            code: 409,
            reason: "AlreadyExists",
            message: format!("{} {name:?} already exists", resource.qualified()),
            details: Some(Box::new(resource.details(name))),
            continue_token: None,
        }
    }

    /// 409 with the given explanation.
    pub fn conflict(resource: Named<'_>, name: &str, why: &str) -> Self {
        Self {
            code: 409,
            reason: "Conflict",
            message: format!(
                "Operation cannot be fulfilled on {} {name:?}: {why}",
                resource.qualified()
            ),
            details: Some(Box::new(resource.details(name))),
            continue_token: None,
        }
    }

    /// 409: the resource version is not the current one.
    pub fn modified(resource: Named<'_>, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422 for the given causes, already in message form (`field: message`).
    pub fn invalid(kind: Named<'_>, name: &str, causes: Vec<Cause>) -> Self {
        let texts: Vec<String> = causes
            .iter()
            .map(|cause| {
                if cause.field.is_empty() {
                    cause.message.clone()
                } else {
                    format!("{}: {}", cause.field, cause.message)
                }
            })
            .collect();
        let mut unique: Vec<String> = Vec::with_capacity(texts.len());
        for text in texts {
            if !unique.contains(&text) {
                unique.push(text);
            }
        }
        let summary = match unique.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut details = kind.details(name);
        details.causes = causes;
        Self {
            code: 422,
            reason: "Invalid",
            message: format!("{} {name:?} is invalid: {summary}", kind.qualified()),
            details: Some(Box::new(details)),
            continue_token: None,
        }
    }

    /// 403 with an explanation.
    pub fn forbidden(resource: Named<'_>, name: &str, why: &str) -> Self {
        Self {
            code: 403,
            reason: "Forbidden",
            message: format!("{} {name:?} is forbidden: {why}", resource.qualified()),
            details: Some(Box::new(resource.details(name))),
            continue_token: None,
        }
    }

    /// 400 with an explanation.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 405 for a verb that a resource does not have.
    pub fn method_not_supported(resource: Named<'_>, verb: &str) -> Self {
        Self {
            code: 405,
            reason: "MethodNotAllowed",
            message: format!(
                "{verb} is not supported on resources of kind {:?}",
                resource.qualified()
            ),
            details: Some(Box::new(resource.details(""))),
            continue_token: None,
        }
    }

    /// 410: the requested version is no longer there.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 429 with a hint when to come back.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self {
            details: Some(Box::new(Details {
                retry_after_seconds,
                ..Details::default()
            })),
            ..Self::new(429, "TooManyRequests", message)
        }
    }

    /// 500 with the real server's prefix.
    pub fn internal(why: &str) -> Self {
        Self {
            details: Some(Box::new(Details {
                causes: vec![Cause {
                    reason: String::new(),
                    message: why.to_owned(),
                    field: String::new(),
                }],
                ..Details::default()
            })),
            ..Self::new(
                500,
                "InternalError",
                format!("Internal error occurred: {why}"),
            )
        }
    }

    /// The object that goes over the wire.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
        }
        if let Some(token) = &self.continue_token {
            status["metadata"] = json!({"continue": token});
        }
        status
    }
}

impl Details {
    pub(crate) fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ] {
            if !text.is_empty() {
                out.insert(key.to_owned(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            out.insert(
                "causes".to_owned(),
                self.causes.iter().map(Cause::to_value).collect(),
            );
        }
        if self.retry_after_seconds > 0 {
            out.insert(
                "retryAfterSeconds".to_owned(),
                json!(self.retry_after_seconds),
            );
        }
        Value::Object(out)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [
            ("reason", &self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ] {
            if !text.is_empty() {
                out.insert(key.to_owned(), json!(text));
            }
        }
        Value::Object(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOYMENTS: Named<'_> = Named {
        group: "apps",
        what: "deployments",
    };

    #[test]
    fn conflict_reads_as_the_real_server_writes_it() {
        let status = Status::modified(DEPLOYMENTS, "web");
        assert_eq!(
            status.message,
            "Operation cannot be fulfilled on deployments.apps \"web\": the object has been modified; \
             please apply your changes to the latest version and try again"
        );
        assert_eq!(
            status.to_value()["details"],
            json!({"name": "web", "group": "apps", "kind": "deployments"})
        );
    }

    #[test]
    fn several_causes_stand_in_brackets() {
        let cause = |field: &str| Cause {
            reason: "FieldValueRequired".into(),
            message: "Required value".into(),
            field: field.into(),
        };
        let one = Status::invalid(
            Named {
                group: "",
                what: "Pod",
            },
            "x",
            vec![cause("spec.containers")],
        );
        assert_eq!(
            one.message,
            "Pod \"x\" is invalid: spec.containers: Required value"
        );
        let two = Status::invalid(
            Named {
                group: "",
                what: "Pod",
            },
            "x",
            vec![cause("a"), cause("b")],
        );
        assert_eq!(
            two.message,
            "Pod \"x\" is invalid: [a: Required value, b: Required value]"
        );
    }
}
