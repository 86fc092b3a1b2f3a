//! The inventory, as one plain struct that a node class of any family can fill.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::resources::Resources;
use secrecy::SecretString;

use crate::ProviderError;
use crate::http::Http;

/// Name and password of an account of a BMC.
#[derive(Clone)]
pub struct Credentials {
    /// Name of the account.
    pub username: String,
    /// Its password.
    pub password: SecretString,
}

/// Where the credentials of a BMC come from. They are read at each login, so that whoever replaces them need not
/// restart anything.
#[async_trait]
pub trait CredentialSource: Send + Sync {
    /// The credentials of now.
    async fn credentials(&self) -> Result<Credentials, ProviderError>;
}

#[async_trait]
impl CredentialSource for Credentials {
    async fn credentials(&self) -> Result<Credentials, ProviderError> {
        Ok(self.clone())
    }
}

/// Firmware interface to boot with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum BootMode {
    /// UEFI.
    #[strum(serialize = "UEFI")]
    Uefi,
    /// BIOS.
    Legacy,
}

/// Where to boot from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
pub enum BootTarget {
    /// The network, by PXE.
    #[default]
    Pxe,
    /// The network, by HTTP.
    UefiHttp,
}

/// How the boot device is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
pub enum BootOverride {
    /// For one boot, set before each power-on.
    #[default]
    Once,
    /// For every boot.
    Continuous,
    /// Never set: the host's own boot order counts.
    None,
}

/// How a host boots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootOptions {
    /// Firmware interface; not written if not set.
    pub mode: Option<BootMode>,
    /// Where from.
    pub target: BootTarget,
    /// For how long.
    pub override_: BootOverride,
    /// Address of the image to boot by HTTP.
    pub http_boot_uri: Option<String>,
}

/// How a host is powered off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerOffOptions {
    /// Whether the operating system is asked to shut down first.
    pub graceful: bool,
    /// How long a graceful shutdown may take before power is cut.
    pub timeout: Duration,
}

impl Default for PowerOffOptions {
    fn default() -> Self {
        PowerOffOptions {
            graceful: true,
            timeout: Duration::from_mins(3),
        }
    }
}

/// How a BMC is reached.
#[derive(Clone)]
pub struct Access {
    /// Where the credentials come from.
    pub credentials: Arc<dyn CredentialSource>,
    /// What requests are sent with: its trust in certificates is that of this host.
    pub http: Http,
    /// Whether any certificate is accepted, which is worth a warning.
    pub unverified: bool,
}

/// One host of the inventory.
#[derive(Clone)]
pub struct HostOptions {
    /// Name in the inventory, unique; also the instance type.
    pub name: Name,
    /// Address of its BMC, such as `https://10.0.9.11`. The path of the system may follow.
    pub address: String,
    /// Path of the system; needed only if the BMC manages several.
    pub system_path: Option<String>,
    /// UUID that the system must have.
    pub system_uuid: Option<String>,
    /// Serial number that the system must have.
    pub serial_number: Option<String>,
    /// Name of its node, where that is fixed.
    pub node_name: Option<Name>,
    /// What it has.
    pub capacity: Resources,
    /// Labels of its node; zone, region and architecture among them.
    pub labels: Labels,
    /// What it is worth while it is on, in dollars per hour.
    pub price: Money,
    /// How its BMC is reached.
    pub access: Access,
    /// How it boots.
    pub boot: BootOptions,
    /// How it is powered off.
    pub power_off: PowerOffOptions,
}

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostOptions")
            .field("name", &self.name)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// An inventory, and how its hosts are used.
#[derive(Clone)]
pub struct RedfishOptions {
    /// Name of the catalogue.
    pub catalog: Name,
    /// The hosts.
    pub hosts: Vec<HostOptions>,
    /// How hosts are reached that are no longer in the inventory while their machine is still there.
    pub fallback: Option<Access>,
    /// Hosts that may be anywhere and without TLS: those of tests and simulations.
    pub allowed_hosts: Vec<String>,
    /// How long a host may take to become a node.
    pub registration_timeout: Duration,
}

/// Splits an address into the BMC and, if it goes on, the path of a system.
pub(super) fn split_address(address: &str) -> (&str, Option<&str>) {
    let address = address.trim();
    let Some((scheme, rest)) = address.split_once("://") else {
        return (address, None);
    };
    let Some(slash) = rest.find('/') else {
        return (address, None);
    };
    let (bmc, path) = address.split_at(scheme.len() + 3 + slash);
    let below = path.trim_end_matches('/').strip_prefix("/redfish/v1");
    match below {
        Some(system) if system.starts_with("/Systems/") => (bmc, Some(path)),
        Some("") => (bmc, None),
        _ if path == "/" => (bmc, None),
        _ => (address, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_go_on_to_the_system() {
        for (address, bmc, path) in [
            ("https://10.0.9.11", "https://10.0.9.11", None),
            ("https://10.0.9.11/", "https://10.0.9.11", None),
            (
                "https://10.0.9.11:8443/redfish/v1/",
                "https://10.0.9.11:8443",
                None,
            ),
            (
                "https://bmc.example/redfish/v1/Systems/1",
                "https://bmc.example",
                Some("/redfish/v1/Systems/1"),
            ),
            (
                "https://bmc.example/other",
                "https://bmc.example/other",
                None,
            ),
            ("10.0.9.11", "10.0.9.11", None),
        ] {
            assert_eq!(split_address(address), (bmc, path), "{address}");
        }
    }
}
