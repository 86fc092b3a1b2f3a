//! AMI MegaRAC, as on ASRock Rack boards: every change needs a version and the whole boot override, and `/SD` is a trap.

use super::{Model, Property, Versions};

pub(super) fn model() -> Model {
    Model {
        name: "ami-megarac",
        vendor: "AMI",
        manufacturer: "ASRockRack",
        model: "ROMED8-2T",
        system: "Self",
        versions: Versions::Required,
        whole_boot: true,
        asset_tag: Property::ReadOnly,
        ..Model::plain()
    }
}
