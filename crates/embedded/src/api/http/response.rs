//! Writing a response, in the form that the client asked for.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use serde_json::Value;

use super::super::status::{PLAIN, Status};

/// The body of every response: whole or streamed.
pub type ResponseBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// How objects are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As they are.
    Object,
    /// `metav1.Table`.
    Table,
    /// `metav1.PartialObjectMetadata`.
    Metadata,
}

/// How text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    PrettyJson,
    Yaml,
}

/// What the client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) shape: Shape,
    pub(crate) encoding: Encoding,
}

impl Accepted {
    pub(crate) const JSON: Self = Self {
        shape: Shape::Object,
        encoding: Encoding::Json,
    };

    /// Chooses the first acceptable form, as the real server does.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Self, Status> {
        let accept = headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("");
        if accept.trim().is_empty() {
            return Ok(Self::JSON);
        }
        accept
            .split(',')
            .find_map(accepted_clause)
            .ok_or_else(|| Status {
                details: Some(Box::default()),
                ..Status::new(
                    406,
                    "NotAcceptable",
                    "406: Not Acceptable

Available representations: application/json, application/yaml, application/vnd.kubernetes.protobuf",
                )
            })
    }
}

fn accepted_clause(clause: &str) -> Option<Accepted> {
    let mut parts = clause.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "*/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        _ => return None,
    };
    let (mut kind, mut group, mut version) = ("", "", "");
    let mut encoding = encoding;
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            Some(("pretty", "1")) if encoding == Encoding::Json => encoding = Encoding::PrettyJson,
            _ => {}
        }
    }
    let shape = match (kind, group, version) {
        ("", ..) => Shape::Object,
        ("Table", "meta.k8s.io", "v1") => Shape::Table,
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
            Shape::Metadata
        }
        _ => return None,
    };
    Some(Accepted { shape, encoding })
}

/// A whole body.
pub(crate) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// A response with a whole body.
pub(crate) fn raw(
    code: u16,
    content_type: &'static str,
    bytes: impl Into<Bytes>,
) -> Response<ResponseBody> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

/// A response that carries an object.
pub(crate) fn object(code: u16, encoding: Encoding, value: &Value) -> Response<ResponseBody> {
    match encoding {
        Encoding::Json => {
            let mut text = value.to_string();
            text.push('\n');
            raw(code, "application/json", text)
        }
        Encoding::PrettyJson => {
            let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
            raw(code, "application/json", text)
        }
        Encoding::Yaml => {
            let text = serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string());
            raw(code, "application/yaml", text)
        }
    }
}

/// A response that says no.
pub(crate) fn failure(status: &Status, encoding: Encoding) -> Response<ResponseBody> {
    if status.reason == PLAIN {
        return raw(
            status.code,
            "text/plain; charset=utf-8",
            status.message.clone(),
        );
    }
    let mut response = object(status.code, encoding, &status.to_value());
    let retry = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(retry));
    }
    response
}

/// Adds `Warning` headers.
pub(crate) fn warn(response: &mut Response<ResponseBody>, warnings: &[String]) {
    for warning in warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &'static str) -> Result<Accepted, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(text));
        Accepted::from_headers(&headers)
    }

    #[test]
    fn the_first_form_that_can_be_served_is_chosen() {
        let table =
            accept("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").unwrap();
        assert_eq!(table.shape, Shape::Table);
        let old =
            accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json").unwrap();
        assert_eq!(old, Accepted::JSON);
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf")
                .unwrap_err()
                .code,
            406
        );
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf,*/*").unwrap(),
            Accepted::JSON
        );
        assert_eq!(accept("application/yaml").unwrap().encoding, Encoding::Yaml);
    }
}
