//! HPE iLO 5: paths end with a slash, the boot mode cannot be written, and nothing changes during the self-test.

use std::time::Duration;

use super::{Model, Property, Versions};

pub(super) fn model() -> Model {
    Model {
        name: "hpe-ilo5",
        vendor: "HPE",
        manufacturer: "HPE",
        model: "ProLiant DL360 Gen10",
        slash: true,
        versions: Versions::Weak,
        mode: Property::ReadOnly,
        disable_names_target: true,
        self_test: Duration::from_secs(90),
        resets: &[
            "On",
            "ForceOff",
            "GracefulShutdown",
            "ForceRestart",
            "Nmi",
            "PushPowerButton",
        ],
        refuses_repeats: true,
        transitions: false,
        ..Model::plain()
    }
}
