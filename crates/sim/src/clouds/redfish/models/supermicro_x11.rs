//! Supermicro X11: what a boot change leaves out falls back to defaults, and there are sixteen sessions.

use std::time::Duration;

use super::{Model, Property};

pub(super) fn model() -> Model {
    Model {
        name: "supermicro-x11",
        vendor: "Supermicro",
        manufacturer: "Supermicro",
        model: "X11DPi-N",
        sessions: 16,
        whole_boot: true,
        asset_tag: Property::ReadOnly,
        resets: &[
            "On",
            "ForceOff",
            "GracefulShutdown",
            "GracefulRestart",
            "ForceRestart",
            "Nmi",
            "ForceOn",
        ],
        transitions: false,
        powers_on: Duration::from_secs(46),
        ..Model::plain()
    }
}
