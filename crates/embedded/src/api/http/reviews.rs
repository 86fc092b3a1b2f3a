//! Reviews: questions that are answered and not stored. Everything is allowed here.

use http::{Method, Response};
use serde_json::{Value, json};

use super::{
    request::Target,
    response::{self, Accepted, ResponseBody},
};
use crate::api::{Status, body, meta, protobuf, state::State};

const REVIEWS: [(&str, &str, &str); 6] = [
    (
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    ),
    (
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
    ),
    (
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
    ),
    (
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
    ),
    (
        "authentication.k8s.io",
        "selfsubjectreviews",
        "SelfSubjectReview",
    ),
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
];

/// The reviews of a group, for discovery: resource and kind.
pub(crate) fn of_group(group: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    REVIEWS
        .into_iter()
        .filter(move |(one, ..)| *one == group)
        .map(|(_, plural, kind)| (plural, kind))
}

fn find(target: &Target) -> Option<&'static str> {
    REVIEWS
        .into_iter()
        .find(|(group, plural, _)| {
            *group == target.group && *plural == target.plural && target.version == "v1"
        })
        .map(|(.., kind)| kind)
}

pub(crate) fn is_review(target: &Target) -> bool {
    find(target).is_some()
}

/// Answers a review.
pub(crate) fn respond(
    state: &mut State,
    target: &Target,
    method: &Method,
    body: &[u8],
    accepted: Accepted,
) -> Result<Response<ResponseBody>, Status> {
    let kind = find(target).ok_or_else(super::not_served)?;
    if *method != Method::POST || target.name.is_some() {
        return Err(super::not_allowed());
    }
    let format = if protobuf::is_protobuf(body) {
        body::Format::Protobuf
    } else {
        body::Format::Json
    };
    let mut review =
        body::parse(body, format).map_err(|why| body::unrecognized(kind, &why, body))?;
    if !review.is_object() {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind})"
        )));
    }
    let user = json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]});
    let status = match kind {
        "SelfSubjectReview" => json!({"userInfo": user}),
        "TokenReview" => json!({"authenticated": true, "user": user}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true}),
    };
    meta::put(&mut review, "kind", Some(json!(kind)));
    meta::put(
        &mut review,
        "apiVersion",
        Some(json!(format!("{}/v1", target.group))),
    );
    meta::set(&mut review, "creationTimestamp", Value::Null);
    if kind == "SelfSubjectReview" {
        meta::set(&mut review, "creationTimestamp", state.clock.rfc3339());
    }
    meta::put(&mut review, "status", Some(status));
    Ok(response::object(201, accepted.encoding, &review))
}
