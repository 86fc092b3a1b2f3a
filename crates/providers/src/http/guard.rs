//! Which servers may be talked to.
//!
//! Addresses come from objects that users of the cluster write, and Joiner may stand where they may not look: an
//! endpoint must not be a way to the metadata service of the machine or to whatever listens on its loopback.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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
            // The host as it will be dialled: 127.1, 2130706433, 0x7f.1 and 0177.0.0.1 are all 127.0.0.1.
            let url = reqwest::Url::parse(text.trim()).map_err(|_| malformed())?;
            if leads_inside(&url) {
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

/// Whether a URL names this machine or an address that only it could mean. Names are judged when they are looked up.
fn leads_inside(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_matches(['[', ']']).trim_end_matches('.');
    match host.parse() {
        Ok(address) => is_local(address),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Whether a request may go where its URL leads. No name is looked up for a URL that holds an address, so the resolver
/// does not see it.
pub(super) fn check(url: &reqwest::Url, allowed: &[String]) -> Result<(), EndpointError> {
    let host = url.host_str().unwrap_or_default();
    let free = allowed.iter().any(|one| one == host);
    if !free && leads_inside(url) {
        return Err(EndpointError::Local(host.to_owned()));
    }
    Ok(())
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, or translated by NAT64 or 6to4.
fn embedded(six: Ipv6Addr) -> Option<Ipv4Addr> {
    let four = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match six.segments() {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(four(high, low))
        }
        [0x2002, high, low, ..] => Some(four(high, low)),
        _ => None,
    }
}

/// Where some clouds serve the metadata of their machines over IPv6.
const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Whether an address means this machine, its link or a group: never a cloud.
fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => {
            four.octets()[0] == 0
                || four.is_loopback()
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
                || six == METADATA
                || embedded(six).is_some_and(|four| is_local(four.into()))
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
            ("https://LOCALHOST.", "only this machine"),
            ("https://api.localhost", "only this machine"),
            ("https://127.1", "only this machine"),
            ("https://2130706433", "only this machine"),
            ("https://0x7f.1", "only this machine"),
            ("https://0177.0.0.1", "only this machine"),
            ("https://0xa9fea9fe/latest", "only this machine"),
            ("https://0/", "only this machine"),
            ("https://[::127.0.0.1]", "only this machine"),
            ("https://[64:ff9b::7f00:1]", "only this machine"),
            ("https://[2002:7f00:1::]", "only this machine"),
            ("https://[fd00:ec2::254]", "only this machine"),
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

    #[test]
    fn what_is_dialled_is_judged_however_the_address_is_written() {
        let url = |text: &str| reqwest::Url::parse(text).unwrap();
        assert!(check(&url("https://2130706433/x"), &[]).is_err());
        assert!(check(&url("https://127.1/x"), &["127.0.0.1".to_owned()]).is_ok());
        assert!(check(&url("https://cloud.example.com"), &[]).is_ok());
        assert!(check(&url("https://203.0.113.7"), &[]).is_ok());
    }

    #[tokio::test]
    async fn a_name_that_leads_to_this_machine_is_refused_when_it_is_looked_up() {
        let look = |allowed: Vec<String>| {
            let name: Name = "localhost".parse().unwrap();
            Resolver::new(allowed).resolve(name)
        };
        let refused = look(Vec::new()).await.err().unwrap().to_string();
        assert!(refused.contains("only this machine"), "{refused}");
        assert!(look(vec!["localhost".to_owned()]).await.is_ok());
    }
}
