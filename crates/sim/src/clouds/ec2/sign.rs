//! Whether a request is signed as it should be: signature version 4, computed again.

use std::fmt::Write as _;

use http::HeaderMap;
use sha2::{Digest as _, Sha256};

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unsigned {
    Missing,
    Incomplete(String),
    UnknownKey,
    Wrong,
}

/// What an `Authorization` header says.
pub(super) struct Claim {
    pub(super) key_id: String,
    date: String,
    pub(super) region: String,
    service: String,
    signed: Vec<String>,
    signature: String,
}

impl Claim {
    pub(super) fn read(headers: &HeaderMap) -> Result<Claim, Unsigned> {
        let text = headers
            .get("authorization")
            .and_then(|one| one.to_str().ok());
        let Some(text) = text.and_then(|text| text.strip_prefix("AWS4-HMAC-SHA256 ")) else {
            return Err(Unsigned::Missing);
        };
        let part = |name: &str| {
            let mut all = text.split(',').map(str::trim);
            let found = all.find_map(|one| one.strip_prefix(name));
            found.ok_or_else(|| Unsigned::Incomplete(name.to_owned()))
        };
        let scope: Vec<&str> = part("Credential=")?.split('/').collect();
        let [key_id, date, region, service, "aws4_request"] = scope.as_slice() else {
            return Err(Unsigned::Incomplete("Credential".to_owned()));
        };
        Ok(Claim {
            key_id: (*key_id).to_owned(),
            date: (*date).to_owned(),
            region: (*region).to_owned(),
            service: (*service).to_owned(),
            signed: part("SignedHeaders=")?
                .split(';')
                .map(str::to_owned)
                .collect(),
            signature: part("Signature=")?.to_owned(),
        })
    }

    /// Computes the signature of a POST to `/` again.
    pub(super) fn check(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        secret: &str,
    ) -> Result<(), Unsigned> {
        let value = |name: &str| {
            let one = headers.get(name).and_then(|one| one.to_str().ok());
            one.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let mut canonical = "POST\n/\n\n".to_owned();
        for name in &self.signed {
            let value = value(name).ok_or_else(|| Unsigned::Incomplete(name.clone()))?;
            // Writing to a string cannot fail.
            let _ = writeln!(canonical, "{name}:{value}");
        }
        if !self.signed.iter().any(|one| one == "host") {
            return Err(Unsigned::Incomplete("host".to_owned()));
        }
        let moment =
            value("x-amz-date").ok_or_else(|| Unsigned::Incomplete("x-amz-date".to_owned()))?;
        let _ = write!(
            canonical,
            "\n{}\n{}",
            self.signed.join(";"),
            hex(&Sha256::digest(body))
        );
        let scope = format!(
            "{}/{}/{}/aws4_request",
            self.date, self.region, self.service
        );
        let text = format!(
            "AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}",
            hex(&Sha256::digest(canonical.as_bytes()))
        );
        let mut key = hmac(format!("AWS4{secret}").as_bytes(), self.date.as_bytes());
        for part in [self.region.as_str(), &self.service, "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        if hex(&hmac(&key, text.as_bytes())) == self.signature {
            Ok(())
        } else {
            Err(Unsigned::Wrong)
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64;
    let mut padded = if key.len() > BLOCK {
        Sha256::digest(key).to_vec()
    } else {
        key.to_vec()
    };
    padded.resize(BLOCK, 0);
    let pad = |with: u8| padded.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = Sha256::digest([pad(0x36), text.to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}
