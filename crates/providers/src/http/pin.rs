//! Trust in one certificate: the one whose SHA-256 was written down.
//!
//! Proxmox and most management controllers sign their own certificates. Who has seen the fingerprint at the console
//! needs no authority.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use sha2::{Digest as _, Sha256};

use super::HttpError;

/// TLS that accepts the certificate with this SHA-256 and no other.
pub(super) fn config(fingerprint: &str) -> Result<ClientConfig, HttpError> {
    let expected = parse(fingerprint).ok_or_else(|| {
        HttpError::Setup(format!(
            "{fingerprint:?} is not a SHA-256 fingerprint: write 32 octets in hexadecimal, joined by colons"
        ))
    })?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpError::Setup(error.to_string()))?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { expected, provider }))
        .with_no_client_auth())
}

fn parse(text: &str) -> Option<[u8; 32]> {
    let digits: String = text.chars().filter(|c| *c != ':').collect();
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    let mut octets = [0; 32];
    for (octet, at) in octets.iter_mut().zip((0..64).step_by(2)) {
        *octet = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(octets)
}

#[derive(Debug)]
struct Pinned {
    expected: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found: [u8; 32] = Sha256::digest(end_entity.as_ref()).into();
        if found == self.expected {
            return Ok(ServerCertVerified::assertion());
        }
        let octets: Vec<String> = found.iter().map(|octet| format!("{octet:02X}")).collect();
        let said = format!(
            "the server's certificate has the SHA-256 fingerprint {}, which is not the one that was written down",
            octets.join(":")
        );
        Err(Error::InvalidCertificate(CertificateError::Other(
            rustls::OtherError(Arc::new(std::io::Error::other(said))),
        )))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_proxmox_prints_it() {
        let colons = vec!["AB"; 32].join(":");
        assert_eq!(parse(&colons), Some([0xab; 32]));
        assert_eq!(parse(&"ab".repeat(32)), Some([0xab; 32]));
        for wrong in ["", "AB:CD", &"zz".repeat(32), &"ä".repeat(32)] {
            assert_eq!(parse(wrong), None, "{wrong}");
            let said = config(wrong).unwrap_err().to_string();
            assert!(said.contains("SHA-256 fingerprint"), "{said}");
        }
    }
}
