//! Bodies of requests: their formats, and whether they hold what the path says.

use serde_json::{Value, json};

use super::{meta, registry::Resource, status::Status};

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    /// The format of an object's content type.
    pub(crate) fn from_content_type(content_type: &str) -> Result<Self, Status> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => Err(unsupported_media_type(&[
                "application/json",
                "application/yaml",
                "application/vnd.kubernetes.protobuf",
            ])),
        }
    }
}

/// 415, with what would have been fine.
pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Status {
    Status::new(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        ),
    )
}

/// Parses a body; the error is the decoder's sentence.
pub(crate) fn parse(bytes: &[u8], format: Format) -> Result<Value, String> {
    match format {
        Format::Json => super::gojson::parse(bytes)
            .map_err(|why| format!("couldn't get version/kind; json parse error: {why}")),
        Format::Protobuf => super::protobuf::parse(bytes),
        Format::Yaml => {
            let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
            serde_saphyr::from_str(text)
                .map_err(|error| format!("error converting YAML to JSON: {error}"))
        }
    }
}

/// 400 for a body that is no object of the kind.
pub(crate) fn unrecognized(kind: &str, why: &str, body: &[u8]) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({})",
        summary(body)
    ))
}

/// The beginning of a body, as error messages show it.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let head = &body[..body.len().min(SHOWN)];
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(head).into_owned(),
        Some(_) => super::base64::hex(head),
    };
    if body.len() > SHOWN {
        format!("{shown} ...")
    } else {
        shown
    }
}

/// Checks kind and version of an object against the resource, filling them in where built-in
/// kinds may leave them out.
pub(crate) fn check_type(
    resource: &Resource,
    object: &mut Value,
    body: &[u8],
) -> Result<(), Status> {
    if !object.is_object() {
        let why = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            crate::api::gojson::type_name(object)
        );
        return Err(unrecognized(&resource.kind, &why, body));
    }
    for field in ["kind", "apiVersion"] {
        let value = &object[field];
        if !value.is_null() && !value.is_string() {
            let why = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{field} of type string",
                crate::api::gojson::type_name(value)
            );
            return Err(unrecognized(&resource.kind, &why, body));
        }
    }
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let api_version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let expected = resource.api_version();
    if resource.custom.is_some() && kind.is_empty() {
        let shown = String::from_utf8_lossy(body).into_owned();
        return Err(unrecognized(
            &resource.kind,
            &format!("Object 'Kind' is missing in '{shown}'"),
            body,
        ));
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let known = crate::schema::Builtins::load()
            .is_ok_and(|builtins| builtins.kind(&resource.group, version, &kind).is_some());
        let why = if known {
            let package = match resource.group.split('.').next().unwrap_or_default() {
                "" => "core",
                group => group,
            };
            format!(
                "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
                resource.kind
            )
        } else {
            format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
            )
        };
        return Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: {why}",
            resource.kind
        )));
    }
    meta::put(object, "kind", Some(json!(resource.kind)));
    meta::put(object, "apiVersion", Some(json!(expected)));
    Ok(())
}
