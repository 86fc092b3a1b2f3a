//! A virtual BMC: no sessions, no versions, and an override for one boot stays for all.

use std::time::Duration;

use super::{Model, Property, Versions};

pub(super) fn model() -> Model {
    Model {
        name: "virtual-bmc",
        vendor: "",
        manufacturer: "Virtual BMC",
        model: "",
        sessions: 0,
        versions: Versions::None,
        disable_names_target: true,
        once_stays: true,
        asset_tag: Property::Absent,
        powers_on: Duration::from_secs(2),
        transitions: false,
        ..Model::plain()
    }
}
