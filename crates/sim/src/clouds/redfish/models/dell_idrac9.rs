//! Dell iDRAC 9: eight sessions, repeated resets are conflicts, the service tag is the SKU.

use std::time::Duration;

use super::{Model, Property};

pub(super) fn model() -> Model {
    Model {
        name: "dell-idrac9",
        vendor: "Dell",
        manufacturer: "Dell Inc.",
        model: "PowerEdge R650",
        system: "System.Embedded.1",
        sessions: 8,
        asset_tag: Property::Writable,
        resets: &[
            "On",
            "ForceOff",
            "ForceRestart",
            "GracefulShutdown",
            "PushPowerButton",
            "Nmi",
            "PowerCycle",
        ],
        refuses_repeats: true,
        transitions: false,
        powers_on: Duration::from_secs(12),
        ..Model::plain()
    }
}
