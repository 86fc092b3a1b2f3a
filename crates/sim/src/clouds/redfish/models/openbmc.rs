//! OpenBMC, newer: boot overrides are only in the settings object, and a graceful shutdown takes its time.

use std::time::Duration;

use super::{BootPlace, Model, Property, Versions};

pub(super) fn model() -> Model {
    Model {
        name: "openbmc",
        vendor: "OpenBMC",
        manufacturer: "Quanta",
        model: "S6Q",
        system: "system",
        versions: Versions::None,
        boot: BootPlace::Settings,
        asset_tag: Property::Absent,
        resets: &[],
        shuts_down: Duration::from_mins(5),
        ..Model::plain()
    }
}
