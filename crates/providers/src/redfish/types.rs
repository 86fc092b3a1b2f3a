//! What a BMC says, read leniently: only what is needed is looked at, and what is missing or odd is unknown.

use serde_json::Value;

/// Power of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// On.
    On,
    /// Off.
    Off,
    /// On its way to on.
    PoweringOn,
    /// On its way to off.
    PoweringOff,
    /// Not said: a BMC that starts does not know.
    Unknown,
}

impl Power {
    fn read(text: Option<&str>) -> Self {
        match text {
            // A paused system has power, and what runs on it is not ours to judge.
            Some("On" | "Paused") => Power::On,
            Some("Off") => Power::Off,
            Some("PoweringOn") => Power::PoweringOn,
            Some("PoweringOff") => Power::PoweringOff,
            _ => Power::Unknown,
        }
    }
}

/// Boot override of a system, as shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// `BootSourceOverrideEnabled`.
    pub enabled: Option<String>,
    /// `BootSourceOverrideTarget`.
    pub target: Option<String>,
    /// Targets that are allowed, if the BMC says.
    pub targets: Option<Vec<String>>,
    /// `BootSourceOverrideMode`.
    pub mode: Option<String>,
    /// Modes that are allowed, if the BMC says.
    pub modes: Option<Vec<String>>,
}

impl Boot {
    fn read(boot: &Value) -> Self {
        Boot {
            enabled: text(&boot["BootSourceOverrideEnabled"]),
            target: text(&boot["BootSourceOverrideTarget"]),
            targets: texts(&boot["BootSourceOverrideTarget@Redfish.AllowableValues"]),
            mode: text(&boot["BootSourceOverrideMode"]),
            modes: texts(&boot["BootSourceOverrideMode@Redfish.AllowableValues"]),
        }
    }

    /// Whether the BMC shows boot overrides at all.
    pub fn is_shown(&self) -> bool {
        self.enabled.is_some() || self.target.is_some() || self.targets.is_some()
    }
}

/// A system, as the resource `ComputerSystem` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Its path.
    pub path: String,
    /// Last part of its path.
    pub id: String,
    /// UUID, if it has a real one.
    pub uuid: Option<String>,
    /// Serial number and whatever else vendors use as one.
    pub serials: Vec<String>,
    /// Whether the serial number is shown: some BMCs leave it out for a while after they have started.
    pub shows_serial: bool,
    /// Manufacturer.
    pub manufacturer: String,
    /// Model.
    pub model: String,
    /// Asset tag; `None` if the BMC does not show one.
    pub asset_tag: Option<String>,
    /// Power.
    pub power: Power,
    /// Health.
    pub health: Option<String>,
    /// Boot override.
    pub boot: Boot,
    /// Where a reset is asked for.
    pub reset_target: Option<String>,
    /// Resets that are allowed, if the BMC says.
    pub resets: Option<Vec<String>>,
    /// Where pending settings are.
    pub settings: Option<String>,
    /// How far it has booted.
    pub progress: Option<String>,
    /// Version of the resource.
    pub etag: Option<String>,
}

impl System {
    /// Reads a system that was asked for at `path`; `None` if it is none.
    pub fn read(path: &str, body: &Value, etag: Option<String>) -> Option<Self> {
        let object = body.as_object()?;
        if !object.contains_key("PowerState") && !object.contains_key("Actions") {
            return None;
        }
        let reset = &body["Actions"]["#ComputerSystem.Reset"];
        let path = link(body).unwrap_or(path);
        Some(System {
            path: path.to_owned(),
            id: path
                .trim_end_matches('/')
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned(),
            uuid: text(&body["UUID"]).filter(|uuid| is_real_uuid(uuid)),
            serials: [text(&body["SerialNumber"]), text(&body["SKU"])]
                .into_iter()
                .flatten()
                .filter(|serial| !serial.trim().is_empty())
                .collect(),
            shows_serial: body["SerialNumber"]
                .as_str()
                .is_some_and(|serial| !serial.trim().is_empty()),
            manufacturer: text(&body["Manufacturer"]).unwrap_or_default(),
            model: text(&body["Model"]).unwrap_or_default(),
            asset_tag: object
                .contains_key("AssetTag")
                .then(|| text(&body["AssetTag"]).unwrap_or_default()),
            power: Power::read(body["PowerState"].as_str()),
            health: text(&body["Status"]["Health"]),
            boot: Boot::read(&body["Boot"]),
            reset_target: text(&reset["target"]).filter(|path| is_path(path)),
            resets: texts(&reset["ResetType@Redfish.AllowableValues"]),
            settings: link(&body["@Redfish.Settings"]["SettingsObject"]).map(str::to_owned),
            progress: text(&body["BootProgress"]["LastState"]),
            etag: etag.or_else(|| text(&body["@odata.etag"])),
        })
    }

    /// What tells this system from every other one: two inventories that name one host agree on it.
    pub fn identity(&self, bmc: &str) -> String {
        match (&self.uuid, self.serials.first()) {
            (Some(uuid), Some(serial)) => {
                format!("{}/{}", uuid.to_ascii_lowercase(), serial.trim())
            }
            (Some(uuid), None) => uuid.to_ascii_lowercase(),
            // A serial number alone is unique for one vendor only.
            (None, _) => format!("{bmc}/Systems/{}", self.id),
        }
    }

    /// Whether this is the system that was claimed under an identity. New firmware may write the UUID in the other byte
    /// order, and a serial number that is not shown says nothing.
    pub fn is(&self, identity: &str, bmc: &str) -> bool {
        if self.identity(bmc) == identity {
            return true;
        }
        let (uuid, serial) = match identity.split_once('/') {
            Some((uuid, serial)) => (uuid, Some(serial)),
            None => (identity, None),
        };
        let shown = |serial: &str| self.serials.iter().any(|one| one.trim() == serial);
        let other = serial.is_some_and(|serial| self.shows_serial && !shown(serial));
        let own = self.uuid.as_deref();
        own.is_some_and(|own| same_uuid(own, uuid)) && !other
    }

    /// Whether a reset may be asked for.
    pub fn allows(&self, reset: &str) -> bool {
        let listed = self.resets.as_ref().filter(|all| !all.is_empty());
        listed.is_none_or(|all| all.iter().any(|one| one == reset))
    }
}

/// The link that an object is, if it leads somewhere on the same BMC.
pub(super) fn link(object: &Value) -> Option<&str> {
    object["@odata.id"].as_str().filter(|path| is_path(path))
}

/// Whether a text is a path on the BMC itself: a link must not lead credentials elsewhere.
pub(super) fn is_path(text: &str) -> bool {
    text.starts_with('/')
        && !text.starts_with("//")
        && !text.contains("..")
        && text.len() <= 1024
        && text.chars().all(|c| c.is_ascii_graphic())
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let all = value.as_array()?;
    Some(all.iter().filter_map(text).collect())
}

/// All zeros and all ones mean that there is none.
fn is_real_uuid(uuid: &str) -> bool {
    let digits: Vec<char> = uuid.chars().filter(|c| *c != '-').collect();
    digits.len() == 32
        && digits.iter().all(char::is_ascii_hexdigit)
        && !digits.iter().all(|c| *c == '0')
        && !digits.iter().all(|c| c.eq_ignore_ascii_case(&'f'))
}

/// Whether two UUIDs are one: firmware may write the first three fields in either byte order.
pub(super) fn same_uuid(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || swapped(a).is_some_and(|a| a.eq_ignore_ascii_case(b))
}

fn swapped(uuid: &str) -> Option<String> {
    let mut fields = uuid.split('-').map(str::to_owned);
    let mut all: Vec<String> = fields.by_ref().collect();
    if all.len() != 5 || !uuid.is_ascii() {
        return None;
    }
    for field in all.iter_mut().take(3) {
        let bytes: Vec<&str> = (0..field.len() / 2)
            .filter_map(|at| field.get(at * 2..at * 2 + 2))
            .collect();
        *field = bytes.into_iter().rev().collect();
    }
    Some(all.join("-"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_bmc_leaves_out_is_unknown() {
        let body = json!({"@odata.id": "/redfish/v1/Systems/1", "PowerState": null, "UUID": "",
            "Boot": null, "Actions": {"#ComputerSystem.Reset": {}}});
        let system = System::read("/redfish/v1/Systems/1", &body, None).unwrap();
        assert_eq!(system.power, Power::Unknown);
        assert_eq!(system.uuid, None);
        assert!(!system.boot.is_shown());
        assert!(system.allows("On"));
        assert_eq!(system.identity("bmc"), "bmc/Systems/1");
        assert_eq!(System::read("/x", &json!({"Members": []}), None), None);
        assert_eq!(System::read("/x", &json!("<html>"), None), None);
    }

    #[test]
    fn a_system_stays_the_one_that_was_claimed() {
        let read = |uuid: &str, serial: &str| {
            let body = json!({"@odata.id": "/redfish/v1/Systems/1", "PowerState": "On", "UUID": uuid,
                "SerialNumber": serial, "SKU": "K1"});
            System::read("/redfish/v1/Systems/1", &body, None).unwrap()
        };
        let straight = "00112233-4455-6677-8899-AABBCCDDEEFF";
        let claimed = read(straight, "S1").identity("bmc");
        for (uuid, serial, same) in [
            (straight, "S1", true),
            ("33221100-5544-7766-8899-aabbccddeeff", "S1", true),
            (straight, "", true),
            ("33221100-5544-7766-8899-aabbccddeeff", "", true),
            (straight, "S2", false),
            ("00112233-4455-6677-8899-AABBCCDDEE00", "S1", false),
            ("00112233-4455-6677-8899-AABBCCDDEE00", "", false),
            ("", "S1", false),
        ] {
            assert_eq!(
                read(uuid, serial).is(&claimed, "bmc"),
                same,
                "{uuid} {serial}"
            );
        }
        // Claimed while the serial number was not shown.
        let claimed = read(straight, "").identity("bmc");
        assert!(read(straight, "S1").is(&claimed, "bmc"));
        let claimed = read("", "S1").identity("bmc");
        assert!(read("", "S1").is(&claimed, "bmc"));
        assert!(!read("", "S1").is(&claimed, "other"));
    }

    #[test]
    fn a_link_that_leads_away_is_none() {
        for odd in [
            "https://evil.example/",
            "//evil.example/x",
            "/redfish/../x",
            "redfish",
            "/a b",
        ] {
            assert_eq!(link(&json!({"@odata.id": odd})), None, "{odd}");
        }
        assert_eq!(
            link(&json!({"@odata.id": "/redfish/v1/Systems/1/"})),
            Some("/redfish/v1/Systems/1/")
        );
    }

    #[test]
    fn a_uuid_is_the_same_in_either_byte_order() {
        let straight = "00112233-4455-6677-8899-AABBCCDDEEFF";
        assert!(same_uuid(straight, "33221100-5544-7766-8899-aabbccddeeff"));
        assert!(same_uuid(straight, "00112233-4455-6677-8899-aabbccddeeff"));
        assert!(!same_uuid(straight, "00112233-4455-6677-8899-aabbccddeefe"));
        assert!(!is_real_uuid("00000000-0000-0000-0000-000000000000"));
        assert!(!is_real_uuid("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"));
    }
}
