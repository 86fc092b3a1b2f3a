//! Signature version 4.

use aws_credential_types::Credentials as Keys;
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SigningParams, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request};
use jiff::Timestamp;

use super::error::{AwsError, AwsErrorKind};

/// What is signed for.
pub(super) struct Scope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) action: &'a str,
}

/// A signed POST.
pub(super) fn post(
    url: &str,
    headers: &[(&'static str, &str)],
    body: Bytes,
    keys: &Keys,
    scope: &Scope<'_>,
    now: Timestamp,
) -> Result<Request<Bytes>, AwsError> {
    let invalid =
        |error: String| AwsError::new(scope.action, "Unsignable", error, AwsErrorKind::Invalid);
    let identity = keys.clone().into();
    let params: SigningParams<'_> = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.service)
        .time(now.into())
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| invalid(error.to_string()))?
        .into();
    let signable = SignableRequest::new(
        "POST",
        url,
        headers.iter().copied(),
        SignableBody::Bytes(&body),
    )
    .map_err(|error| invalid(error.to_string()))?;
    let signed = sign(signable, &params).map_err(|error| invalid(error.to_string()))?;
    let (instructions, _) = signed.into_parts();
    let (more, _) = instructions.into_parts();
    let mut request = Request::builder().method(Method::POST).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    for header in more {
        let name = HeaderName::from_bytes(header.name().as_bytes())
            .map_err(|error| invalid(error.to_string()))?;
        let mut value =
            HeaderValue::from_str(header.value()).map_err(|error| invalid(error.to_string()))?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }
    request
        .body(body)
        .map_err(|error| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

    fn signature(token: Option<&str>) -> String {
        let keys = Keys::new(
            "AKIDEXAMPLE",
            SECRET,
            token.map(str::to_owned),
            None,
            "test",
        );
        let scope = Scope {
            region: "us-east-1",
            service: "ec2",
            action: "DescribeAvailabilityZones",
        };
        let request = post(
            "https://ec2.us-east-1.amazonaws.com/",
            &[(
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8",
            )],
            Bytes::from_static(b"Action=DescribeAvailabilityZones&Version=2016-11-15"),
            &keys,
            &scope,
            "2026-01-02T03:04:05Z".parse().unwrap(),
        )
        .unwrap();
        request.headers()["authorization"]
            .to_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn the_signature_is_what_others_compute() {
        assert_eq!(
            signature(None),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/ec2/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=77b6cf4869fd4833e33da3f99345a524372bd86699eb53ebaa10888e948a1b66"
        );
        let with_token = signature(Some("TOKENEXAMPLE"));
        let expected = "b5290af5cfdb6c924fbc6075ad5fb519d51084d534e5eb42991d7d655431ad75";
        assert!(with_token.ends_with(expected), "{with_token}");
    }
}
