//! Listing: selectors, pages, and which moment is shown.

use std::{io::Write as _, sync::Arc};

use http::Response;
use serde_json::{Value, json};

use super::{
    Context,
    response::{self, Encoding, ResponseBody, Shape},
};
use crate::api::{
    Cause, Details, Status,
    field::Errors,
    fields, meta,
    registry::Resource,
    selector::{FieldSelector, parse_labels},
    state::State,
    status::Named,
    table, view,
};
use crate::selector::Selector;

/// Which objects a list or watch is about.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) namespace: String,
    pub(crate) labels: Selector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    pub(crate) fn from_context(context: &Context) -> Result<Self, Status> {
        let (label_text, field_text) = (
            context.query.get("labelSelector"),
            context.query.get("fieldSelector"),
        );
        let labels = parse_labels(label_text).map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(field_text).map_err(Status::bad_request)?;
        fields::check(&context.resource, &fields)?;
        Ok(Self {
            namespace: context.namespace.clone(),
            labels,
            fields,
        })
    }

    pub(crate) fn matches(&self, resource: &Resource, object: &Value) -> bool {
        (self.namespace.is_empty() || meta::namespace(object) == self.namespace)
            && (self.labels.is_empty() || self.labels.matches(&object["metadata"]["labels"]))
            && fields::matches(resource, &self.fields, object)
    }
}

/// One page.
struct Page {
    version: u64,
    objects: Vec<Arc<Value>>,
    next: Option<String>,
    remaining: Option<usize>,
}

/// Answers a list request.
pub(crate) fn list(state: &State, context: &Context) -> Result<Response<ResponseBody>, Status> {
    check_options(context)?;
    let selection = Selection::from_context(context)?;
    let page = read_page(state, context, &selection)?;
    Ok(render(context, &page))
}

/// The objects that a collection request is about, all of them.
pub(crate) fn select(state: &State, context: &Context) -> Result<Vec<Arc<Value>>, Status> {
    let selection = Selection::from_context(context)?;
    Ok(state
        .store
        .iter(&context.resource.table, &context.namespace)
        .filter(|(_, object)| selection.matches(&context.resource, object))
        .map(|(_, object)| object.clone())
        .collect())
}

fn check_options(context: &Context) -> Result<(), Status> {
    let query = &context.query;
    let mut errors = Errors::default();
    let matching = query.get("resourceVersionMatch");
    let field = "resourceVersionMatch";
    if !matching.is_empty() {
        if query.get("resourceVersion").is_empty() {
            errors.forbidden(
                field,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if !query.get("continue").is_empty() {
            errors.forbidden(
                field,
                "resourceVersionMatch is forbidden when continue is provided",
            );
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errors.unsupported(field, &json!(matching), &["Exact", "NotOlderThan", ""]);
        }
        if matching == "Exact" && query.get("resourceVersion") == "0" {
            errors.forbidden(
                field,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            );
        }
    }
    if query.has("sendInitialEvents") {
        errors.forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        );
    }
    options_result(errors)
}

pub(crate) fn options_result(errors: Errors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        Named {
            group: "meta.k8s.io",
            what: "ListOptions",
        },
        "",
        errors.into_causes(),
    ))
}

/// A number from a query; nothing is 0.
pub(crate) fn parse_number(text: &str) -> Result<i64, Status> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        Status::bad_request(format!(
            "strconv.ParseInt: parsing {text:?}: invalid syntax"
        ))
    })
}

/// A version from a query; the error is the real server's sentence.
pub(crate) fn parse_version(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
    })
}

/// 504: a version that does not exist yet.
pub(crate) fn too_large(asked: u64, current: u64) -> Status {
    Status {
        details: Some(Box::new(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
            retry_after_seconds: 1,
            ..Details::default()
        })),
        ..Status::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        )
    }
}

fn read_page(state: &State, context: &Context, selection: &Selection) -> Result<Page, Status> {
    let query = &context.query;
    let table = &context.resource.table;
    let limit = usize::try_from(parse_number(query.get("limit"))?).unwrap_or_default();
    let asked = parse_version(query.get("resourceVersion"))
        .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
    let current = state.store.version();
    let (version, after) = match query.get("continue") {
        "" => match asked {
            Some(version) if version > current => return Err(too_large(version, current)),
            Some(version) if query.get("resourceVersionMatch") == "Exact" => (version, None),
            // The oldest read that a paged list may show is the one that was asked for.
            Some(version)
                if limit > 0 && version > 0 && query.get("resourceVersionMatch").is_empty() =>
            {
                (version, None)
            }
            _ => (context.stale_version(state).unwrap_or(current), None),
        },
        token => {
            if asked.is_some_and(|version| version > 0) {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let (version, after) = decode_token(token)?;
            (version.unwrap_or(current), Some(after))
        }
    };
    let snapshot = state
        .store
        .snapshot_at(table, &context.namespace, version)
        .map_err(|_| match &after {
            Some(after) => expired_token(after),
            None => {
                Status::expired("The resourceVersion for the provided list is too old.".to_string())
            }
        })?;
    let mut rest = snapshot
        .objects
        .into_iter()
        .skip_while(|(key, _)| after.as_ref().is_some_and(|after| key <= after));
    let matches = |object: &Value| selection.matches(&context.resource, object);
    if limit == 0 {
        let objects = rest
            .map(|(_, object)| object)
            .filter(|object| matches(object))
            .collect();
        return Ok(Page {
            version,
            objects,
            next: None,
            remaining: None,
        });
    }
    let page: Vec<(String, Arc<Value>)> = rest
        .by_ref()
        .filter(|(_, object)| matches(object))
        .take(limit)
        .collect();
    // Whether what remains matches is only known when it is read.
    let rest = if page.len() == limit { rest.count() } else { 0 };
    let next = (rest > 0)
        .then(|| page.last().map(|(key, _)| encode_token(Some(version), key)))
        .flatten();
    let counts = selection.labels.is_empty() && selection.fields.is_empty();
    Ok(Page {
        version,
        objects: page.into_iter().map(|(_, object)| object).collect(),
        remaining: (rest > 0 && counts).then_some(rest),
        next,
    })
}

/// The token of the next page: a moment and the last key shown.
fn encode_token(version: Option<u64>, key: &str) -> String {
    let rv = version.map_or_else(|| json!(-1), |version| json!(version));
    let token = json!({"v": "meta.k8s.io/v1", "rv": rv, "start": format!("{key}\u{0}")});
    crate::api::base64::encode(token.to_string().as_bytes())
}

fn decode_token(token: &str) -> Result<(Option<u64>, String), Status> {
    let invalid = |why: &str| {
        Status::bad_request(format!(
            "invalid continue token: continue key is not valid: {why}"
        ))
    };
    let bytes = crate::api::base64::decode(token)
        .ok_or_else(|| invalid("illegal base64 data at input byte 0"))?;
    let value = crate::api::gojson::parse(&bytes).map_err(|why| invalid(&why))?;
    if value["v"] != "meta.k8s.io/v1" {
        return Err(Status::bad_request(
            "invalid continue token: continue key is not valid: server does not recognize this encoded version \"\"",
        ));
    }
    let start = value["start"]
        .as_str()
        .unwrap_or_default()
        .trim_end_matches('\u{0}')
        .to_owned();
    Ok((value["rv"].as_u64(), start))
}

/// 410 with a token that goes on without consistency.
fn expired_token(after: &str) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = Some(encode_token(None, after).into_boxed_str());
    status
}

fn list_meta(page: &Page) -> Value {
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] = json!(next);
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

fn render(context: &Context, page: &Page) -> Response<ResponseBody> {
    let resource = &context.resource;
    match context.accepted.shape {
        Shape::Table => {
            let mut table = table::table(&context.table(), &page.objects, table::Headers::Shown);
            table["metadata"] = list_meta(page);
            response::object(200, context.accepted.encoding, &table)
        }
        Shape::Metadata => {
            let items: Vec<Value> = page
                .objects
                .iter()
                .map(|object| view::metadata_only(&view::to_served(resource, object)))
                .collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": list_meta(page),
                "items": items,
            });
            response::object(200, context.accepted.encoding, &list)
        }
        Shape::Object if context.accepted.encoding == Encoding::Json => {
            response::raw(200, "application/json", write_list(resource, page))
        }
        Shape::Object => {
            let list: Value =
                serde_json::from_slice(&write_list(resource, page)).unwrap_or_default();
            response::object(200, context.accepted.encoding, &list)
        }
    }
}

/// Writes a list without copying its objects.
fn write_list(resource: &Resource, page: &Page) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024 * (page.objects.len() + 1));
    let mut metadata = list_meta(page);
    if resource.custom.is_some() && page.next.is_none() {
        // Lists of custom resources always say it.
        metadata["continue"] = json!("");
    }
    // Writing to a vector can't fail, and JSON values always serialise.
    let _ = write!(
        out,
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
        json!(resource.list_kind),
        json!(resource.api_version()),
        metadata
    );
    for (index, object) in page.objects.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_item(&mut out, resource, &view::to_served(resource, object));
    }
    out.extend_from_slice(b"]}\n");
    out
}

/// Items of built-in lists do not repeat their type; custom ones do.
fn write_item(out: &mut Vec<u8>, resource: &Resource, object: &Value) {
    let Some(map) = object.as_object().filter(|_| resource.custom.is_none()) else {
        let _ = serde_json::to_writer(out, object);
        return;
    };
    out.push(b'{');
    let mut first = true;
    for (key, value) in map
        .iter()
        .filter(|(key, _)| *key != "kind" && *key != "apiVersion")
    {
        if !first {
            out.push(b',');
        }
        first = false;
        let _ = write!(out, "{}:", Value::from(key.as_str()));
        let _ = serde_json::to_writer(&mut *out, value);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_round_trip() {
        let token = encode_token(Some(42), "default/web-1");
        assert_eq!(
            decode_token(&token).unwrap(),
            (Some(42), "default/web-1".to_owned())
        );
        assert_eq!(
            decode_token(&encode_token(None, "x")).unwrap(),
            (None, "x".to_owned())
        );
        assert_eq!(decode_token("!").unwrap_err().code, 400);
    }
}
