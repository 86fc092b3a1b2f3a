//! Settings of bare metal that Redfish can switch on and off.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SecretReference, Tls};
use crate::text::{Duration, Price};

/// Hosts that can be switched on to join and off to leave. What is set here holds for every host that does not say
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RedfishSettings {
    /// The inventory.
    #[schemars(extend(
        "minItems" = 1,
        "maxItems" = 500,
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"]
    ))]
    pub hosts: Vec<RedfishHost>,
    /// Secret with the keys `username` and `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
    /// Whom to trust; management controllers sign their own certificates as a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// How hosts boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<Boot>,
    /// How hosts are switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_off: Option<PowerOff>,
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RedfishHost {
    /// Name in the inventory.
    #[schemars(extend("minLength" = 1, "maxLength" = 63))]
    pub name: String,
    /// Address of its management controller, such as `https://10.0.9.11`.
    #[schemars(schema_with = "crate::schema::url")]
    pub address: String,
    /// Path of the system, such as `/redfish/v1/Systems/1`; needed only if the controller manages several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 1024))]
    pub system_path: Option<String>,
    /// UUID that the system must have. A host that answers with another is never touched.
    #[serde(
        rename = "systemUUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("maxLength" = 64))]
    pub system_uuid: Option<String>,
    /// Serial number that the system must have. A host that answers with another is never touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 128))]
    pub serial_number: Option<String>,
    /// Hardware address that it boots from.
    #[serde(
        rename = "bootMACAddress",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("pattern" = "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$"))]
    pub boot_mac_address: Option<String>,
    /// Name of the node that it becomes, where that is fixed; otherwise it is known by its UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 253))]
    pub node_name: Option<String>,
    /// Cores: controllers often cannot tell while the host is off.
    #[schemars(extend("minimum" = 1))]
    pub cpu_cores: i64,
    /// Memory in MiB.
    #[serde(rename = "memoryMiB")]
    #[schemars(extend("minimum" = 1))]
    pub memory_mib: i64,
    /// What else it has, such as `nvidia.com/gpu` or `ephemeral-storage` (in bytes).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub extended_resources: BTreeMap<String, i64>,
    /// Labels of its node, its zone and architecture for example.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::node_labels")]
    pub labels: BTreeMap<String, String>,
    /// What it is worth while it is on, in dollars per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::price")]
    pub price_per_hour: Option<Price>,
    /// Secret with the keys `username` and `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
    /// Whom to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// How it boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<Boot>,
    /// How it is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_off: Option<PowerOff>,
}

// What a host leaves out is filled in from the settings of all hosts, and only then by defaults: defaults in the schema
// would come first, and hide what was set for all.
impl RedfishSettings {
    /// How a host boots, with everything but the mode and the image filled in.
    pub fn boot(&self, host: &RedfishHost) -> Boot {
        let host = host.boot.clone().unwrap_or_default();
        let shared = self.boot.clone().unwrap_or_default();
        Boot {
            mode: host.mode.or(shared.mode),
            target: Some(host.target.or(shared.target).unwrap_or_default()),
            override_: Some(host.override_.or(shared.override_).unwrap_or_default()),
            http_boot_uri: host.http_boot_uri.or(shared.http_boot_uri),
        }
    }

    /// How a host is switched off, with everything filled in.
    pub fn power_off(&self, host: &RedfishHost) -> PowerOff {
        let host = host.power_off.clone().unwrap_or_default();
        let shared = self.power_off.clone().unwrap_or_default();
        let timeout = host.timeout.or(shared.timeout);
        PowerOff {
            mode: Some(host.mode.or(shared.mode).unwrap_or_default()),
            timeout: timeout.or_else(|| Some("3m".into())),
        }
    }

    /// Whom to trust at a host.
    pub fn tls(&self, host: &RedfishHost) -> Tls {
        let tls = host.tls.clone().or_else(|| self.tls.clone());
        tls.unwrap_or_default()
    }

    /// Where the credentials of a host are, if anywhere.
    pub fn credentials<'a>(&'a self, host: &'a RedfishHost) -> Option<&'a SecretReference> {
        let of_host = host.credentials_secret_ref.as_ref();
        of_host.or(self.credentials_secret_ref.as_ref())
    }
}

/// Firmware interface to boot with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
pub enum BootMode {
    /// UEFI.
    #[serde(rename = "UEFI")]
    Uefi,
    /// BIOS.
    Legacy,
}

/// Where to boot from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
pub enum BootTarget {
    /// The network, by PXE.
    #[default]
    Pxe,
    /// The network, by HTTP.
    UefiHttp,
}

/// How the boot device is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
pub enum BootOverride {
    /// Set anew before each start.
    #[default]
    Once,
    /// Set to stay.
    Continuous,
    /// Left as the host has it.
    None,
}

/// How a host boots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Boot {
    /// Firmware interface; left alone if not set, since some controllers refuse to have it written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<BootMode>,
    /// Where from: PXE, unless HTTP is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<BootTarget>,
    /// Whether that is set anew before each start, which is the rule, set to stay, or left as the host has it.
    #[serde(rename = "override", default, skip_serializing_if = "Option::is_none")]
    pub override_: Option<BootOverride>,
    /// Address of the image to boot by HTTP.
    #[serde(
        rename = "httpBootURI",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::schema::url")]
    pub http_boot_uri: Option<String>,
}

/// Whether a host is asked or forced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
pub enum PowerOffMode {
    /// Asked first, forced when the time is up.
    #[default]
    Graceful,
    /// Forced at once.
    Force,
}

/// How a host is switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PowerOff {
    /// Asked first, which is the rule, or forced at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PowerOffMode>,
    /// How long to wait for a host that was asked before it is forced; 3m if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub timeout: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_says_comes_before_what_all_say_and_that_before_defaults() {
        let settings = RedfishSettings {
            boot: Some(Boot {
                target: Some(BootTarget::UefiHttp),
                ..Boot::default()
            }),
            power_off: Some(PowerOff {
                timeout: Some("10m".into()),
                ..PowerOff::default()
            }),
            credentials_secret_ref: Some(SecretReference {
                name: Some("all".into()),
                namespace: None,
            }),
            ..RedfishSettings::default()
        };
        let host = RedfishHost {
            boot: Some(Boot {
                mode: Some(BootMode::Uefi),
                ..Boot::default()
            }),
            power_off: Some(PowerOff {
                mode: Some(PowerOffMode::Force),
                ..PowerOff::default()
            }),
            ..RedfishHost::default()
        };
        let boot = settings.boot(&host);
        assert_eq!(boot.mode, Some(BootMode::Uefi));
        assert_eq!(boot.target, Some(BootTarget::UefiHttp));
        assert_eq!(boot.override_, Some(BootOverride::Once));
        let power_off = settings.power_off(&host);
        assert_eq!(power_off.mode, Some(PowerOffMode::Force));
        assert_eq!(power_off.timeout, Some("10m".into()));
        let secret = settings.credentials(&host).unwrap();
        assert_eq!(secret.name.as_deref(), Some("all"));

        let bare = RedfishSettings::default();
        let host = RedfishHost::default();
        assert_eq!(bare.power_off(&host).timeout, Some("3m".into()));
        assert_eq!(bare.boot(&host).target, Some(BootTarget::Pxe));
        assert_eq!(bare.credentials(&host), None);
        assert_eq!(bare.tls(&host), Tls::default());
    }
}
