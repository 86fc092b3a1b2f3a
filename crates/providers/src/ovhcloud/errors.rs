//! What a refusal of the API means.

use http::Method;

use super::types::Refusal;
use crate::ProviderError;
use crate::http::{Reply, excerpt, excerpt_redacted};

/// What to do about a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The credentials may not make this call. Holds the method and the path.
    NotGranted(String),
    /// The credentials are wrong, expired or not validated.
    Credentials,
    /// The signature or its timestamp is not accepted: read the clock again.
    Clock,
    /// The object is not there.
    NotFound,
    /// There is one of this name already.
    Exists,
    /// The project may not have more.
    Quota,
    /// The flavour cannot be had now.
    OutOfStock,
    /// The cluster has no zones to choose from.
    SingleZone,
    /// The cluster wants a zone.
    ZoneWanted,
    /// This flavour cannot be paid by the month.
    NoMonthly,
    /// The cluster has as many pools as it may.
    PoolLimit,
    /// The pool has as many nodes as it may.
    NodeLimit,
    /// The object is busy (a pool that is still installing): later.
    Busy,
    /// Too many calls.
    Throttled,
    /// The project is suspended or unpaid.
    Suspended,
    /// The request can never work.
    Invalid,
    /// May work when tried again.
    Transient,
}

/// A refusal, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What it means.
    pub meaning: Meaning,
    /// The error to hand on.
    pub error: ProviderError,
}

impl From<ProviderError> for Refused {
    fn from(error: ProviderError) -> Self {
        let meaning = match &error {
            ProviderError::NotFound(_) => Meaning::NotFound,
            ProviderError::Throttled { .. } => Meaning::Throttled,
            ProviderError::Unauthorised(_) => Meaning::Credentials,
            ProviderError::Quota(_) => Meaning::Quota,
            ProviderError::OutOfCapacity(_) => Meaning::OutOfStock,
            ProviderError::Invalid(_) => Meaning::Invalid,
            ProviderError::Transient(_) => Meaning::Transient,
        };
        Refused { meaning, error }
    }
}

impl From<Refused> for ProviderError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

/// Understands a refusal of `method path` by its status, its code and, where these say nothing, its words.
pub fn understand(
    method: &Method,
    path: &str,
    reply: &Reply,
    redact: impl Fn(&str) -> String,
) -> Refused {
    let refusal: Refusal = serde_json::from_slice(&reply.body).unwrap_or_default();
    let said = if refusal.message.is_empty() {
        excerpt_redacted(&reply.body, redact)
    } else {
        excerpt_redacted(refusal.message.as_bytes(), redact)
    };
    let path = path.split('?').next().unwrap_or(path);
    let meaning = meaning(reply.status.as_u16(), &refusal, &said, method, path);
    let query = reply
        .headers
        .get("x-ovh-queryid")
        .and_then(|id| id.to_str().ok())
        .map(|id| excerpt(id.as_bytes()))
        .unwrap_or_default();
    // OVHcloud's support asks for it. It is another each time: a condition with it in its words would change for ever.
    let status = reply.status.as_u16();
    tracing::info!(%method, path, status, query, said, "OVHcloud refused a call");
    let error = error(&meaning, &said, method, path, reply);
    Refused { meaning, error }
}

fn meaning(code: u16, refusal: &Refusal, said: &str, method: &Method, path: &str) -> Meaning {
    let lower = said.to_ascii_lowercase();
    let about = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let pools = path.ends_with("/nodepool");
    let limit = about(&["limit", "maximum", "too many"]);
    match code {
        400 | 401 | 403
            if matches!(
                refusal.error_code.as_str(),
                "INVALID_SIGNATURE" | "QUERY_TIME_OUT"
            ) || about(&["timestamp", "invalid signature", "query out of time"]) =>
        {
            Meaning::Clock
        }
        401 | 403
            if matches!(
                refusal.error_code.as_str(),
                "INVALID_KEY" | "INVALID_CREDENTIAL" | "NOT_CREDENTIAL"
            ) =>
        {
            Meaning::Credentials
        }
        403 if about(&["pool"]) && limit => Meaning::PoolLimit,
        403 => Meaning::NotGranted(format!("{method} {path}")),
        401 => Meaning::Credentials,
        404 | 410 => Meaning::NotFound,
        408 | 425 => Meaning::Transient,
        409 if about(&["installing", "not ready", "in progress", "busy"]) => Meaning::Busy,
        409 => Meaning::Exists,
        412 if about(&["quota"]) => Meaning::Quota,
        422 if about(&["not multi-zone compatible"]) => Meaning::SingleZone,
        429 => Meaning::Throttled,
        460 => Meaning::Suspended,
        400..=499 => {
            if about(&["availabilityzones is mandatory"]) {
                Meaning::ZoneWanted
            } else if about(&["monthly"]) && about(&["not supported", "not available"]) {
                Meaning::NoMonthly
            } else if about(&["quota"]) {
                Meaning::Quota
            } else if about(&[
                "out of stock",
                "stock",
                "no capacity",
                "insufficient capacity",
            ]) {
                Meaning::OutOfStock
            } else if pools && about(&["pool"]) && limit {
                Meaning::PoolLimit
            } else if about(&["maxnodes", "nodes"]) && limit {
                Meaning::NodeLimit
            } else if about(&["installing", "not ready", "in progress"]) {
                Meaning::Busy
            } else {
                Meaning::Invalid
            }
        }
        _ => Meaning::Transient,
    }
}

fn error(
    meaning: &Meaning,
    said: &str,
    method: &Method,
    path: &str,
    reply: &Reply,
) -> ProviderError {
    let call = format!("{method} {path}");
    match meaning {
        Meaning::NotGranted(call) => ProviderError::Unauthorised(format!(
            "the OVHcloud credentials may not call {call}: {said}; add this rule to the consumer key, or the \
             matching action to the service account's policy"
        )),
        Meaning::Credentials => ProviderError::Unauthorised(format!(
            "the OVHcloud credentials are not accepted: {said}; check the keys in the Secret, and that the consumer \
             key is validated and has not expired"
        )),
        Meaning::Clock => ProviderError::Transient(format!(
            "{call}: the signature is not accepted: {said}; check applicationSecret and the clock of this machine"
        )),
        Meaning::NotFound => ProviderError::NotFound(format!("{call}: {said}")),
        Meaning::Quota => ProviderError::Quota(format!(
            "{said}; raise the quota of the project in the OVHcloud console"
        )),
        Meaning::OutOfStock | Meaning::PoolLimit | Meaning::NodeLimit => {
            ProviderError::OutOfCapacity(said.to_owned())
        }
        Meaning::Suspended => ProviderError::Unauthorised(format!(
            "the project is suspended or expired: {said}; see its billing in the OVHcloud console"
        )),
        Meaning::Throttled => ProviderError::Throttled {
            message: format!("{call}: {said}"),
            retry_after: reply.retry_after(),
        },
        Meaning::Exists | Meaning::Busy | Meaning::Transient => {
            ProviderError::Transient(format!("{call}: {} {said}", reply.status.as_u16()))
        }
        Meaning::SingleZone | Meaning::ZoneWanted | Meaning::NoMonthly | Meaning::Invalid => {
            ProviderError::Invalid(format!("{call}: {said}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};

    use super::*;

    fn refused(code: u16, body: &str) -> Refused {
        let reply = Reply {
            status: StatusCode::from_u16(code).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            reason: None,
        };
        let path = "/cloud/project/p/kube/k/nodepool?x=y";
        understand(&Method::POST, path, &reply, str::to_owned)
    }

    #[test]
    fn a_key_that_the_server_repeats_is_taken_out_before_the_text_is_cut() {
        let said = format!("{}app-secret-1", "x".repeat(248));
        for body in [
            said.clone(),
            serde_json::json!({"message": said}).to_string(),
        ] {
            let reply = Reply {
                status: StatusCode::FORBIDDEN,
                headers: HeaderMap::new(),
                body: Bytes::from(body),
                reason: None,
            };
            let clean = |text: &str| text.replace("app-secret-1", "[redacted]");
            let refused = understand(&Method::GET, "/cloud/project/p", &reply, clean);
            let said = refused.error.to_string();
            assert!(!said.contains("app-se"), "{said}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of refusals")]
    fn every_refusal_has_a_meaning() {
        let table = [
            (
                403,
                r#"{"class":"Client::Forbidden","message":"This call has not been granted","errorCode":"NOT_GRANTED_CALL"}"#,
                "unauthorised",
                "POST /cloud/project/p/kube/k/nodepool",
            ),
            (
                403,
                r#"{"message":"This application key is invalid","errorCode":"INVALID_KEY"}"#,
                "unauthorised",
                "check the keys in the Secret",
            ),
            (
                403,
                r#"{"message":"This credential is not valid","errorCode":"INVALID_CREDENTIAL"}"#,
                "unauthorised",
                "expired",
            ),
            (
                400,
                r#"{"message":"Invalid signature","errorCode":"INVALID_SIGNATURE"}"#,
                "transient",
                "clock",
            ),
            (
                404,
                r#"{"message":"This service does not exist"}"#,
                "not_found",
                "does not exist",
            ),
            (
                412,
                r#"{"message":"[InsufficientVCPUsQuota] Cannot perform operation: current vCPUs quota is insufficient"}"#,
                "quota",
                "raise the quota",
            ),
            (
                422,
                r#"{"message":"cluster is not multi-zone compatible"}"#,
                "invalid",
                "multi-zone",
            ),
            (
                429,
                r#"{"message":"Too many requests"}"#,
                "throttled",
                "Too many",
            ),
            (
                460,
                r#"{"message":"This service is expired"}"#,
                "unauthorised",
                "billing",
            ),
            (
                400,
                r#"{"message":"monthly billing not supported yet"}"#,
                "invalid",
                "monthly",
            ),
            (
                400,
                r#"{"message":"flavor b3-8 is out of stock"}"#,
                "out_of_capacity",
                "stock",
            ),
            (
                400,
                r#"{"message":"the maximum number of node pools is reached"}"#,
                "out_of_capacity",
                "maximum",
            ),
            (502, "<html>Bad gateway</html>", "transient", "502"),
            (
                500,
                r#"{"message":"Internal Server Error"}"#,
                "transient",
                "500",
            ),
        ];
        for (code, body, kind, text) in table {
            let error = refused(code, body).error;
            assert_eq!(error.kind(), kind, "{code} {body}: {error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn an_id_with_a_number_in_it_does_not_decide() {
        let body = r#"{"message":"flavor b3-504 does not exist"}"#;
        assert_eq!(refused(400, body).meaning, Meaning::Invalid);
        assert_eq!(
            refused(409, r#"{"message":"name is already used"}"#).meaning,
            Meaning::Exists
        );
    }
}
