//! Hardware models: how BMCs differ, one file each. Timings are shorter than real ones only where noted.

mod ami_megarac;
mod dell_idrac9;
mod hpe_ilo5;
mod lenovo_xcc;
mod openbmc;
mod supermicro_x11;
mod virtual_bmc;

use std::time::Duration;

/// How a property can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// Not shown, and refused.
    Absent,
    /// Shown, and refused.
    ReadOnly,
    /// Shown, and kept.
    Writable,
}

/// How versions of resources are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// There are none.
    None,
    /// Shown, and compared if sent.
    Optional,
    /// Shown, and demanded.
    Required,
    /// Shown in their weak form, compared in their strong one.
    Weak,
}

/// Where boot overrides are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootPlace {
    /// In the system.
    System,
    /// In its settings object only.
    Settings,
}

/// One kind of BMC.
#[expect(clippy::struct_excessive_bools, reason = "independent quirks")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Short name.
    pub name: &'static str,
    /// `Vendor` of the service root.
    pub vendor: &'static str,
    /// `Manufacturer` of the system.
    pub manufacturer: &'static str,
    /// `Model` of the system.
    pub model: &'static str,
    /// Last part of the path of the system.
    pub system: &'static str,
    /// Paths end with a slash, and those that do not are redirected.
    pub slash: bool,
    /// How many sessions there may be; none at all if 0.
    pub sessions: usize,
    /// Versions of the system.
    pub versions: Versions,
    /// Where boot overrides are.
    pub boot: BootPlace,
    /// The boot mode.
    pub mode: Property,
    /// Every boot change must name mode, duration and target.
    pub whole_boot: bool,
    /// Disabling must name the target.
    pub disable_names_target: bool,
    /// `Once` is shown and kept as `Continuous`.
    pub once_stays: bool,
    /// Boot changes are refused for so long after power-on.
    pub self_test: Duration,
    /// The asset tag.
    pub asset_tag: Property,
    /// Resets that are allowed, as shown; empty if the BMC does not say.
    pub resets: &'static [&'static str],
    /// Resets to where the system is already are refused with 409.
    pub refuses_repeats: bool,
    /// Resets are answered with a task.
    pub tasks: bool,
    /// `PoweringOn` and `PoweringOff` are shown.
    pub transitions: bool,
    /// From the order to on.
    pub powers_on: Duration,
    /// From forced off to off.
    pub powers_off: Duration,
    /// From a graceful shutdown to off.
    pub shuts_down: Duration,
}

impl Model {
    /// A BMC that follows the standard.
    pub fn plain() -> Self {
        Model {
            name: "plain",
            vendor: "Contoso",
            manufacturer: "Contoso",
            model: "3500",
            system: "1",
            slash: false,
            sessions: 64,
            versions: Versions::Optional,
            boot: BootPlace::System,
            mode: Property::Writable,
            whole_boot: false,
            disable_names_target: false,
            once_stays: false,
            self_test: Duration::ZERO,
            asset_tag: Property::Writable,
            resets: &["On", "ForceOff", "GracefulShutdown", "ForceRestart"],
            refuses_repeats: false,
            tasks: false,
            transitions: true,
            powers_on: Duration::from_secs(5),
            powers_off: Duration::from_secs(3),
            shuts_down: Duration::from_secs(20),
        }
    }

    /// Every model.
    pub fn all() -> Vec<Model> {
        vec![
            Model::plain(),
            ami_megarac::model(),
            dell_idrac9::model(),
            hpe_ilo5::model(),
            lenovo_xcc::model(),
            openbmc::model(),
            supermicro_x11::model(),
            virtual_bmc::model(),
        ]
    }
}
