//! One BMC and the host behind it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_embedded::cluster::kubelet::NodeSpec;
use serde_json::{Value, json};

use super::models::{BootPlace, Model, Property, Versions};

/// How long a session may be idle.
const IDLE: Duration = Duration::from_mins(30);

/// What a host is.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// Host and port of its BMC, as in an address.
    pub authority: String,
    /// What kind of BMC.
    pub model: Model,
    /// Account that is let in.
    pub username: String,
    /// Its password.
    pub password: String,
    /// Name of the node that it becomes.
    pub node: String,
    /// Cores.
    pub cpu_cores: i64,
    /// Memory.
    pub memory_mib: i64,
    /// From power to a node, if it boots from the network.
    pub joins_after: Duration,
    /// Boot modes that it knows.
    pub modes: Vec<String>,
    /// What its BMC reports as its health.
    pub health: String,
}

impl HostSetup {
    /// An ordinary host: 16 cores, 64 GiB, a node after four minutes.
    pub fn new(authority: &str, model: Model) -> Self {
        HostSetup {
            authority: authority.to_owned(),
            model,
            username: "admin".to_owned(),
            password: "sim-password".to_owned(),
            node: format!("metal-{}", authority.replace(['.', ':'], "-")),
            cpu_cores: 16,
            memory_mib: 64 * 1024,
            joins_after: Duration::from_mins(4),
            modes: vec!["UEFI".to_owned(), "Legacy".to_owned()],
            health: "OK".to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    Off,
    Starting(Timestamp),
    On,
    Stopping(Timestamp),
}

/// Something to be done in the world of kubelets.
pub(super) enum Order {
    Boot(Box<NodeSpec>),
    Kill(String),
}

/// A refusal: status, message id, message.
pub(super) type Refused = (u16, &'static str, String);

/// One BMC.
pub(super) struct Bmc {
    pub(super) setup: HostSetup,
    power: Power,
    /// Somebody else's work runs on it.
    pub(super) foreign: bool,
    /// Orders that would have disturbed somebody else's work.
    pub(super) disturbed: u32,
    enabled: String,
    target: String,
    mode: String,
    asset_tag: String,
    version: u64,
    /// When it was powered on.
    since: Option<Timestamp>,
    joins: Option<Timestamp>,
    joined: bool,
    /// Boots from the network and from elsewhere.
    pub(super) boots: (u32, u32),
    /// Open sessions by their token: the number, and when it was last used.
    pub(super) sessions: BTreeMap<String, (u64, Timestamp)>,
    /// So many reads do not say whether it is on, because the BMC has just restarted.
    pub(super) unaware: u32,
    /// So many boot changes are accepted and not kept.
    pub(super) forgetful: u32,
    /// So many orders to power on are accepted and not carried out.
    pub(super) stuck: u32,
    pub(super) issued: u64,
    pub(super) opened: u64,
    pub(super) refused_logins: u32,
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

impl Bmc {
    pub(super) fn new(setup: HostSetup) -> Self {
        let mode = setup.modes.first().cloned().unwrap_or_default();
        Bmc {
            setup,
            power: Power::Off,
            foreign: false,
            disturbed: 0,
            enabled: "Disabled".to_owned(),
            target: "None".to_owned(),
            mode,
            asset_tag: String::new(),
            version: 1,
            since: None,
            joins: None,
            joined: false,
            boots: (0, 0),
            sessions: BTreeMap::new(),
            unaware: 0,
            forgetful: 0,
            stuck: 0,
            issued: 0,
            opened: 0,
            refused_logins: 0,
        }
    }

    /// Ends sessions that were not used for long, as BMCs do.
    pub(super) fn end_idle(&mut self, now: Timestamp) {
        self.sessions
            .retain(|_, (_, used)| now.duration_since(*used).unsigned_abs() < IDLE);
    }

    /// Whether it has power or is about to.
    pub(super) fn has_power(&self) -> bool {
        self.power != Power::Off
    }

    /// Whether its next boot is changed.
    pub(super) fn is_armed(&self) -> bool {
        self.enabled != "Disabled"
    }

    /// The asset tag.
    pub(super) fn asset_tag(&self) -> &str {
        &self.asset_tag
    }

    /// Somebody uses the host for something else.
    pub(super) fn occupy(&mut self) {
        self.power = Power::On;
        self.foreign = true;
    }

    /// Somebody cuts its power by hand.
    pub(super) fn unplug(&mut self, now: Timestamp) {
        self.power = Power::Stopping(now);
        self.foreign = false;
    }

    /// What another process needs to know to go on.
    pub(super) fn memory(&self) -> Value {
        json!({"power": self.has_power(), "node": self.joined || self.joins.is_some(), "assetTag": self.asset_tag})
    }

    /// Goes on where another process ended: a host that was a node is one again.
    pub(super) fn restore(&mut self, memory: &Value, now: Timestamp) {
        if memory["power"] == true {
            self.power = Power::On;
            self.since = Some(now);
            self.joins = (memory["node"] == true).then_some(now);
        }
        memory["assetTag"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut self.asset_tag);
    }

    /// Forgets what runs; names the node that somebody else looks after from now on.
    pub(super) fn rest(&mut self) -> Option<String> {
        let node = self.joined.then(|| self.setup.node.clone());
        *self = Bmc::new(self.setup.clone());
        node
    }

    pub(super) fn path(&self) -> String {
        let slash = if self.setup.model.slash { "/" } else { "" };
        format!("/redfish/v1/Systems/{}{slash}", self.setup.model.system)
    }

    pub(super) fn etag(&self) -> Option<String> {
        match self.setup.model.versions {
            Versions::None => None,
            Versions::Weak => Some(format!("W/\"{}\"", self.version)),
            Versions::Optional | Versions::Required => Some(format!("\"{}\"", self.version)),
        }
    }

    /// A number that only this host has.
    fn number(&self) -> String {
        let sum = self.setup.authority.bytes().fold(7_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        format!("{:012x}", sum & 0xffff_ffff_ffff)
    }

    pub(super) fn uuid(&self) -> String {
        format!("4c4c4544-0042-4d10-8034-{}", self.number())
    }

    fn boot(&self) -> Value {
        let model = &self.setup.model;
        let mut boot = json!({"BootSourceOverrideEnabled": self.enabled, "BootSourceOverrideTarget": self.target,
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Cd", "Hdd", "BiosSetup", "UefiHttp"]});
        if model.mode != Property::Absent {
            boot["BootSourceOverrideMode"] = json!(self.mode);
            boot["BootSourceOverrideMode@Redfish.AllowableValues"] = json!(self.setup.modes);
        }
        boot
    }

    pub(super) fn system(&mut self) -> Value {
        let unaware = self.unaware > 0;
        self.unaware = self.unaware.saturating_sub(1);
        let model = &self.setup.model;
        let path = self.path();
        let power = match self.power {
            Power::Starting(_) if model.transitions => "PoweringOn",
            Power::Off | Power::Starting(_) => "Off",
            Power::Stopping(_) if model.transitions => "PoweringOff",
            Power::On | Power::Stopping(_) => "On",
        };
        let mut reset = json!({"target": format!("{}/Actions/ComputerSystem.Reset", path.trim_end_matches('/'))});
        if !model.resets.is_empty() {
            reset["ResetType@Redfish.AllowableValues"] = json!(model.resets);
        }
        let mut system = json!({"@odata.id": path, "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
            "Id": model.system, "Name": "System", "UUID": self.uuid(), "SerialNumber": format!("SN{}", self.number()),
            "Manufacturer": model.manufacturer, "Model": model.model, "PowerState": power, "SystemType": "Physical",
            "Status": {"State": "Enabled", "Health": self.setup.health},
            "ProcessorSummary": {"Count": 2, "Model": "CPU"}, "MemorySummary": {"TotalSystemMemoryGiB": self.setup.memory_mib / 1024},
            "Actions": {"#ComputerSystem.Reset": reset}});
        if unaware {
            system["PowerState"] = Value::Null;
        }
        match model.boot {
            BootPlace::System => system["Boot"] = self.boot(),
            BootPlace::Settings => {
                let settings = format!("{}/Settings", path.trim_end_matches('/'));
                system["@Redfish.Settings"] = json!({"SettingsObject": {"@odata.id": settings}});
            }
        }
        if model.asset_tag != Property::Absent {
            system["AssetTag"] = json!(self.asset_tag);
        }
        system
    }

    pub(super) fn settings(&self) -> Value {
        let path = format!("{}/Settings", self.path().trim_end_matches('/'));
        json!({"@odata.id": path, "Id": "Settings", "Boot": self.boot()})
    }

    /// Something is changed by hand: versions that were read before are out of date.
    pub(super) fn touch(&mut self) {
        self.version += 1;
    }

    /// Changes the system or its settings object.
    pub(super) fn patch(
        &mut self,
        change: &Value,
        version: Option<&str>,
        at: BootPlace,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let model = self.setup.model.clone();
        let strong = format!("\"{}\"", self.version);
        match (model.versions, version) {
            (Versions::Required, None) => {
                return Err((
                    428,
                    "Base.1.8.PreconditionRequired",
                    "If-Match is required".to_owned(),
                ));
            }
            (Versions::None, _) | (_, None) => {}
            (_, Some(sent)) if sent == strong => {}
            _ => {
                return Err((
                    412,
                    "Base.1.8.PreconditionFailed",
                    "the ETag does not match".to_owned(),
                ));
            }
        }
        if let Some(tag) = change["AssetTag"].as_str() {
            if model.asset_tag != Property::Writable {
                let said = "AssetTag is a read only property".to_owned();
                return Err((400, "Base.1.8.PropertyNotWritable", said));
            }
            tag.clone_into(&mut self.asset_tag);
        }
        if change["Boot"].is_object() {
            if at != model.boot {
                let said = "Boot is not a property of this resource".to_owned();
                return Err((400, "Base.1.8.PropertyUnknown", said));
            }
            self.change_boot(&change["Boot"], &model, now)?;
        }
        self.version += 1;
        Ok(())
    }

    fn change_boot(&mut self, boot: &Value, model: &Model, now: Timestamp) -> Result<(), Refused> {
        let testing = self
            .since
            .is_some_and(|since| now < later(since, model.self_test));
        if testing {
            let said = "nothing can be changed during POST".to_owned();
            return Err((400, "iLO.2.14.UnableToModifyDuringSystemPOST", said));
        }
        let (enabled, target, mode) = (
            boot["BootSourceOverrideEnabled"].as_str(),
            boot["BootSourceOverrideTarget"].as_str(),
            boot["BootSourceOverrideMode"].as_str(),
        );
        if mode.is_some() && model.mode != Property::Writable {
            let said = "BootSourceOverrideMode is a read only property".to_owned();
            return Err((400, "Base.1.8.PropertyNotWritable", said));
        }
        if mode.is_some_and(|mode| !self.setup.modes.iter().any(|one| one == mode)) {
            let said = "the mode is not in the list".to_owned();
            return Err((400, "Base.1.8.PropertyValueNotInList", said));
        }
        let disables = enabled == Some("Disabled");
        if model.disable_names_target && disables && target.is_none_or(|target| target == "None") {
            let said = "BootSourceOverrideTarget is missing".to_owned();
            return Err((400, "Base.1.8.PropertyMissing", said));
        }
        if model.whole_boot && (enabled.is_none() || target.is_none() || mode.is_none()) {
            let said = "BootSourceOverrideMode is a required property".to_owned();
            return Err((400, "Base.1.8.PropertyMissing", said));
        }
        if self.forgetful > 0 {
            self.forgetful -= 1;
            return Ok(());
        }
        if let Some(mode) = mode {
            mode.clone_into(&mut self.mode);
        }
        if let Some(target) = target {
            target.clone_into(&mut self.target);
        }
        if let Some(enabled) = enabled {
            let kept = if model.once_stays && enabled == "Once" {
                "Continuous"
            } else {
                enabled
            };
            kept.clone_into(&mut self.enabled);
        }
        Ok(())
    }

    /// Does what a reset asks for.
    pub(super) fn reset(&mut self, kind: &str, now: Timestamp) -> Result<(), Refused> {
        let model = self.setup.model.clone();
        let known = [
            "On",
            "ForceOn",
            "PushPowerButton",
            "ForceOff",
            "GracefulShutdown",
        ];
        let listed = model.resets.is_empty() || model.resets.contains(&kind);
        if !listed || !known.contains(&kind) {
            let said = format!("the value {kind} is not supported");
            return Err((400, "Base.1.8.ActionParameterNotSupported", said));
        }
        self.disturbed += u32::from(self.foreign);
        let repeated = || -> Result<(), Refused> {
            if model.refuses_repeats {
                let said = "the system is in that state already".to_owned();
                return Err((409, "IDRAC.2.1.PSU501", said));
            }
            Ok(())
        };
        match (kind, self.power) {
            ("ForceOff" | "GracefulShutdown", Power::Off) => repeated(),
            ("ForceOff", _) => {
                self.power = Power::Stopping(later(now, model.powers_off));
                Ok(())
            }
            // Only an operating system that runs hears it.
            ("GracefulShutdown", Power::On) if self.joined => {
                self.power = Power::Stopping(later(now, model.shuts_down));
                Ok(())
            }
            ("GracefulShutdown", _) => Ok(()),
            (_, Power::Off) if self.stuck > 0 => {
                self.stuck -= 1;
                Ok(())
            }
            (_, Power::Off) => {
                self.power = Power::Starting(later(now, model.powers_on));
                Ok(())
            }
            _ => repeated(),
        }
    }

    /// Does what is due, and says when to come again.
    pub(super) fn due(&mut self, now: Timestamp) -> (Vec<Order>, Option<Timestamp>) {
        let mut orders = Vec::new();
        match self.power {
            Power::Starting(at) if at <= now => {
                self.power = Power::On;
                self.since = Some(now);
                let network =
                    self.enabled != "Disabled" && ["Pxe", "UefiHttp"].contains(&&*self.target);
                if network {
                    self.boots.0 += 1;
                    self.joins = Some(later(now, self.setup.joins_after));
                } else {
                    self.boots.1 += 1;
                }
                if self.enabled == "Once" {
                    "Disabled".clone_into(&mut self.enabled);
                    "None".clone_into(&mut self.target);
                    self.version += 1;
                }
            }
            Power::Stopping(at) if at <= now => {
                self.power = Power::Off;
                self.since = None;
                self.joins = None;
                if std::mem::take(&mut self.joined) {
                    orders.push(Order::Kill(self.setup.node.clone()));
                }
            }
            _ => {}
        }
        if self.power == Power::On && self.joins.is_some_and(|at| at <= now) {
            self.joins = None;
            self.joined = true;
            orders.push(Order::Boot(Box::new(self.node())));
        }
        let next = match self.power {
            Power::Starting(at) | Power::Stopping(at) => Some(at),
            Power::On => self.joins,
            Power::Off => None,
        };
        (orders, next)
    }

    fn node(&self) -> NodeSpec {
        let setup = &self.setup;
        let mut spec = NodeSpec::named(setup.node.clone())
            .with("cpu", &setup.cpu_cores.to_string())
            .with("memory", &format!("{}Mi", setup.memory_mib * 98 / 100));
        spec.provider_id = format!(
            "redfish://{}/Systems/{}",
            setup.authority, setup.model.system
        );
        spec.ready_after = SignedDuration::from_secs(10);
        spec
    }
}
