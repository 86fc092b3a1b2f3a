//! Lenovo: resets are answered with a task, and versions are demanded.

use super::{Model, Versions};

pub(super) fn model() -> Model {
    Model {
        name: "lenovo-xcc",
        vendor: "Lenovo",
        manufacturer: "Lenovo",
        model: "ThinkSystem SR650",
        versions: Versions::Required,
        tasks: true,
        resets: &[
            "On",
            "ForceOff",
            "GracefulShutdown",
            "GracefulRestart",
            "ForceRestart",
            "Nmi",
            "ForceOn",
        ],
        ..Model::plain()
    }
}
