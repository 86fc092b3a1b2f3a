//! How BMCs differ. A platform is classified once, from what its service root and system say; each difference is one
//! predicate, with the reason for it.

use serde_json::Value;

use super::types::System;
use crate::http::Reply;

/// Who made the BMC or its firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// AMI, and board makers that build on its firmware.
    Ami,
    /// Dell iDRAC.
    Dell,
    /// HPE iLO.
    Hpe,
    /// Lenovo XCC or TSM.
    Lenovo,
    /// Supermicro.
    Supermicro,
    /// Anything else, taken to follow the standard.
    Other,
}

/// What kind of BMC it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Who made it.
    pub vendor: Vendor,
    /// Whether boot overrides are shown in the system, or only in its settings object.
    boot_in_settings: bool,
}

impl Platform {
    /// Classifies a BMC by its service root and its system.
    pub fn of(root: &Value, system: &System) -> Self {
        let said = [
            root["Vendor"].as_str().unwrap_or_default(),
            root["Product"].as_str().unwrap_or_default(),
            &system.manufacturer,
            &system.model,
        ];
        let oem: Vec<&str> = root["Oem"]
            .as_object()
            .into_iter()
            .flat_map(|oem| oem.keys().map(String::as_str))
            .collect();
        let words: Vec<&str> = said.into_iter().chain(oem).collect();
        let said = format!(" {} ", words.join("  ").to_ascii_lowercase());
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        // Board makers ship AMI's firmware under their own name: the firmware decides, so it is looked for first.
        let vendor = if has(&[" ami", "megarac", "asrock"]) {
            Vendor::Ami
        } else if has(&["supermicro", "super micro"]) {
            Vendor::Supermicro
        } else if has(&[" dell", "idrac"]) {
            Vendor::Dell
        } else if has(&[" hpe ", "hewlett", " hp ", "ilo "]) {
            Vendor::Hpe
        } else if has(&["lenovo"]) {
            Vendor::Lenovo
        } else {
            Vendor::Other
        };
        Platform {
            vendor,
            boot_in_settings: !system.boot.is_shown() && system.settings.is_some(),
        }
    }

    /// Each boot change must repeat mode, duration and target, or the others fall back to defaults.
    pub fn wants_whole_boot(self) -> bool {
        matches!(self.vendor, Vendor::Ami | Vendor::Supermicro)
    }

    /// The boot mode cannot be written: iLO answers 400 to a change that mentions it.
    pub fn refuses_boot_mode(self) -> bool {
        self.vendor == Vendor::Hpe
    }

    /// Boot overrides are shown and changed in the settings object. AMI shows one too, and wants the system changed.
    pub fn keeps_boot_in_settings(self) -> bool {
        self.boot_in_settings && self.vendor != Vendor::Ami
    }
}

/// Every message and message id of an error, in one text.
fn messages(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// No session is free: the table is small (8 on iDRAC, 16 on Supermicro) and others forget to log out.
pub fn sessions_exhausted(reply: &Reply) -> bool {
    let said = messages(reply).to_ascii_lowercase();
    reply.status == 503
        && (said.contains("rac0218")
            || said.contains("maximum number of user sessions")
            || said.contains("sessionlimitexceeded"))
}

/// Nothing can be changed while the firmware runs its self-test (iLO), a job runs or the BMC starts (iDRAC).
pub fn is_busy(reply: &Reply) -> bool {
    let said = messages(reply);
    matches!(reply.status.as_u16(), 400 | 409 | 503)
        && [
            "UnableToModifyDuringSystemPOST",
            "SYS518",
            "ActionParameterValueConflict",
            "ServiceTemporarilyUnavailable",
        ]
        .iter()
        .any(|id| said.contains(id))
}

/// A reset may be refused because the system is in that state already (PSU501 and PSU502 on iDRAC,
/// `InvalidOperationForSystemState` on iLO): its power tells.
pub fn may_be_there_already(reply: &Reply) -> bool {
    matches!(reply.status.as_u16(), 400 | 409)
}

/// The change was refused for want of a matching version. Which of the two codes depends on the vendor.
pub fn wants_other_etag(reply: &Reply) -> bool {
    matches!(reply.status.as_u16(), 412 | 428)
}

/// The strong form of a weak version: some BMCs show `W/"x"` and compare with `"x"`.
pub fn strong(etag: &str) -> Option<&str> {
    etag.strip_prefix("W/")
}

/// A change of the override was refused because it named too little or too much of it.
pub fn wants_other_properties(reply: &Reply) -> bool {
    matches!(reply.status.as_u16(), 400 | 405 | 501)
}

/// An override that was set for one boot may be shown as lasting: virtual BMCs know no other kind.
pub fn counts_as(wanted: &str, shown: &str) -> bool {
    wanted == shown || (wanted == "Once" && shown == "Continuous")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;

    fn platform(root: &Value, manufacturer: &str, boot: &Value) -> Platform {
        let system = json!({"PowerState": "Off", "Manufacturer": manufacturer, "Boot": boot,
            "@Redfish.Settings": {"SettingsObject": {"@odata.id": "/redfish/v1/Systems/1/SD"}}});
        let system = System::read("/redfish/v1/Systems/1", &system, None).unwrap();
        Platform::of(root, &system)
    }

    fn reply(status: u16, body: &str) -> Reply {
        Reply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from(body.to_owned()),
            reason: None,
        }
    }

    #[test]
    fn a_platform_is_known_by_any_of_its_names() {
        let boot = json!({"BootSourceOverrideTarget": "None"});
        for (root, manufacturer, vendor) in [
            (json!({"Vendor": "Dell"}), "Dell Inc.", Vendor::Dell),
            (json!({"Oem": {"Hpe": {}}}), "HPE", Vendor::Hpe),
            (json!({}), "Supermicro", Vendor::Supermicro),
            (json!({"Vendor": "AMI"}), "Lenovo", Vendor::Ami),
            (json!({}), "Lenovo", Vendor::Lenovo),
            (json!({}), "Sushy Emulator", Vendor::Other),
        ] {
            let found = platform(&root, manufacturer, &boot);
            assert_eq!(found.vendor, vendor, "{manufacturer}");
            assert!(!found.keeps_boot_in_settings());
        }
        assert!(platform(&json!({}), "Newer", &json!({})).keeps_boot_in_settings());
        assert!(!platform(&json!({"Vendor": "AMI"}), "", &json!({})).keeps_boot_in_settings());
    }

    #[test]
    fn refusals_are_told_apart_by_what_they_say() {
        let full = r#"{"error":{"@Message.ExtendedInfo":[{"MessageId":"IDRAC.2.1.RAC0218"}]}}"#;
        assert!(sessions_exhausted(&reply(503, full)));
        assert!(!sessions_exhausted(&reply(503, "busy")));
        assert!(is_busy(&reply(
            400,
            "iLO.2.14.UnableToModifyDuringSystemPOST"
        )));
        assert!(!is_busy(&reply(400, "PropertyNotWritable")));
        assert!(wants_other_etag(&reply(428, "")) && wants_other_etag(&reply(412, "")));
        assert_eq!(strong("W/\"7\""), Some("\"7\""));
        assert_eq!(strong("\"7\""), None);
        assert!(counts_as("Once", "Continuous") && !counts_as("Continuous", "Once"));
    }
}
