//! Which servers may be talked to.
//!
//! Addresses come from objects that users of the cluster write, and Joiner may stand where they may not look: an
//! endpoint must not be a way to the metadata service of the machine or to whatever listens on its loopback.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use http::Uri;
use http::uri::{Authority, Scheme};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;

/// Why an endpoint is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EndpointError {
    /// It cannot be read.
    #[error("{0:?} is not a URL such as https://cloud.example.com")]
    Malformed(String),
    /// It is not https.
    #[error("{0:?} must begin with https://")]
    Plain(String),
    /// It carries a user, a query or a fragment.
    #[error("{0:?} must be a host and a path only, without user, query or fragment")]
    Extra(String),
    /// It means this machine or its link.
    #[error("{0:?} is an address that only this machine could mean")]
    Local(String),
}

/// Where a cloud's API is: scheme, host and the beginning of every path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    scheme: Scheme,
    authority: Authority,
    path: String,
}

impl Endpoint {
    /// Reads an endpoint that users may set. Hosts in `allowed` may be anywhere and without TLS.
    pub fn parse(text: &str, allowed: &[String]) -> Result<Self, EndpointError> {
        let malformed = || EndpointError::Malformed(text.to_owned());
        // `http::Uri` drops fragments without a word.
        if text.contains(['#', '?']) {
            return Err(EndpointError::Extra(text.to_owned()));
        }
        let uri: Uri = text.trim().parse().map_err(|_| malformed())?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(malformed());
        };
        if authority.as_str().contains('@') {
            return Err(EndpointError::Extra(text.to_owned()));
        }
        if !allowed.iter().any(|host| host == authority.host()) {
            if scheme != Scheme::HTTPS {
                return Err(EndpointError::Plain(text.to_owned()));
            }
            let host = authority.host().trim_matches(['[', ']']);
            let local = host.parse().is_ok_and(is_local) || host == "localhost";
            if local {
                return Err(EndpointError::Local(text.to_owned()));
            }
        }
        let path = parts
            .path_and_query
            .map(|path| path.path().trim_end_matches('/').to_owned())
            .unwrap_or_default();
        Ok(Endpoint {
            scheme,
            authority,
            path,
        })
    }

    /// The address of something under this endpoint; `path` begins with a slash and may hold a query.
    pub fn at(&self, path: &str) -> String {
        format!("{self}{path}")
    }

    /// The host.
    pub fn host(&self) -> &str {
        self.authority.host()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// Whether an address means this machine, its link or a group: never a cloud.
fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => {
            four.is_loopback()
                || four.is_link_local()
                || four.is_multicast()
                || four.is_unspecified()
                || four.is_broadcast()
        }
        IpAddr::V6(six) => {
            six.is_loopback()
                || six.is_multicast()
                || six.is_unspecified()
                || six.is_unicast_link_local()
                || six
                    .to_ipv4_mapped()
                    .is_some_and(|four| is_local(four.into()))
        }
    }
}

/// Looks names up and leaves out what they must not lead to: a name that is checked once may lead elsewhere later.
pub(super) struct Resolver {
    allowed: Vec<String>,
}

impl Resolver {
    pub(super) fn new(allowed: Vec<String>) -> Self {
        Resolver { allowed }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let free = self.allowed.iter().any(|host| host == name.as_str());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let (good, bad): (Vec<SocketAddr>, Vec<SocketAddr>) =
                found.partition(|address| free || !is_local(address.ip()));
            if good.is_empty() && !bad.is_empty() {
                let text = EndpointError::Local(name.as_str().to_owned()).to_string();
                return Err(text.into());
            }
            let addresses: Addrs = Box::new(good.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_lead_inside_are_refused() {
        for (text, why) in [
            ("http://cloud.example.com", "https"),
            ("https://user:pw@cloud.example.com", "without user"),
            ("https://cloud.example.com/#x", "fragment"),
            ("https://127.0.0.1", "only this machine"),
            ("https://169.254.169.254/latest", "only this machine"),
            ("https://[::1]:8443", "only this machine"),
            ("https://[::ffff:127.0.0.1]", "only this machine"),
            ("https://localhost", "only this machine"),
            ("cloud.example.com", "not a URL"),
            ("", "not a URL"),
        ] {
            let error = Endpoint::parse(text, &[]).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_good_endpoint_keeps_port_and_path() {
        let endpoint = Endpoint::parse("https://pve.example.com:8006/api2/json/", &[]).unwrap();
        assert_eq!(
            endpoint.at("/version"),
            "https://pve.example.com:8006/api2/json/version"
        );
        assert_eq!(endpoint.host(), "pve.example.com");
    }

    #[test]
    fn an_allowed_host_may_be_anywhere() {
        let allowed = ["127.0.0.1".to_owned()];
        assert!(Endpoint::parse("http://127.0.0.1:8080", &allowed).is_ok());
    }
}
