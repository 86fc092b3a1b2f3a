//! Settings of own hardware, shared by the kinds that can name it.
//!
//! The `proxmox` and `redfish` blocks of a NodeSmithProvider and of the node classes of our own are the same, so that
//! they can be copied from one to the other.

mod proxmox;
mod redfish;
pub(crate) mod validate;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use proxmox::{NetworkInterface, Overcommit, ProxmoxSettings, VmIdRange, VmOption, VmTemplate};
pub use redfish::{
    Boot, BootMode, BootOverride, BootTarget, PowerOff, PowerOffMode, RedfishHost, RedfishSettings,
};

use joiner_core::money::Money;

use crate::text::{Price, PriceError};

/// Reference to a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretReference {
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace; that of the object itself if left out, or that of the controller if the object has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Whom to trust at the other end of a connection; without settings, the certificate authorities of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Tls {
    /// Certificates of authorities to trust, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 65536))]
    pub ca_bundle: Option<String>,
    /// SHA-256 of the one certificate to accept, as hexadecimal octets joined by colons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^([0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}$"))]
    pub sha256_fingerprint: Option<String>,
    /// Accepts any certificate. Whoever sits in between can then read the credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_verify: Option<bool>,
}

/// What own hardware is worth, so that it can be compared with what is for rent. What is left out is 0.001 dollars per
/// core and 0.0001 per GiB: cheaper than anything for rent, so that own racks fill up first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct HardwarePrice {
    /// Dollars per hour for each core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::price")]
    pub per_core: Option<Price>,
    /// Dollars per hour for each GiB of memory.
    #[serde(rename = "perGiB", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::price")]
    pub per_gib: Option<Price>,
}

impl HardwarePrice {
    /// Dollars per hour for each core, with the default filled in.
    pub fn per_core(&self) -> Price {
        self.per_core.clone().unwrap_or_else(|| "0.001".into())
    }

    /// Dollars per hour for each GiB of memory, with the default filled in.
    pub fn per_gib(&self) -> Price {
        self.per_gib.clone().unwrap_or_else(|| "0.0001".into())
    }

    /// What a machine of this size is worth per hour.
    pub fn of(&self, cores: i64, memory_mib: i64) -> Result<Money, PriceError> {
        let cores = i128::from(self.per_core().get()?.nanos()) * i128::from(cores);
        let memory = i128::from(self.per_gib().get()?.nanos()) * i128::from(memory_mib) / 1024;
        let nanos = i64::try_from(cores + memory).unwrap_or(i64::MAX);
        Ok(Money::from_nanos(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_worth_its_cores_and_its_memory() {
        let price = HardwarePrice {
            per_core: Some("0.01".into()),
            per_gib: None,
        };
        assert_eq!(price.of(4, 10 * 1024).unwrap(), Money::from_dollars(0.041));
        let default = HardwarePrice::default().of(4, 15 * 1024).unwrap();
        // The least that a spot server of this size is sold for.
        assert!(default < Money::from_dollars(0.01), "{default:?}");
        let nonsense = HardwarePrice {
            per_core: Some("free".into()),
            per_gib: None,
        };
        assert!(nonsense.of(1, 1).is_err());
    }
}
