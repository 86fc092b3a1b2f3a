//! Overlays, buffers and node classes of any kind.

use joiner_api::karpenter::{CapacityBuffer, NodeOverlay};
use joiner_api::validate::Validate as _;
use joiner_core::resources::Resources;

use crate::dialects::convert::{key, lower_conditions, lower_resources, text};
use crate::record::{BufferRecord, BufferStatus, OverlayRecord, PriceRule, ScalableRef};
use crate::view::version;

/// An overlay as the engine keeps it.
pub(super) fn lower_overlay(overlay: &NodeOverlay) -> OverlayRecord {
    let mut invalid: Vec<String> = overlay.validate().iter().map(ToString::to_string).collect();
    let spec = &overlay.spec;
    let fixed = spec
        .price
        .as_ref()
        .map(|price| price.get().map(PriceRule::Fixed));
    let changed = spec
        .price_adjustment
        .as_ref()
        .map(|change| change.get().map(PriceRule::Change));
    let price = fixed.or(changed).transpose().unwrap_or_else(|error| {
        invalid.push(format!("spec.price: {error}"));
        None
    });
    let capacity = lower_resources(spec.capacity.as_ref()).unwrap_or_else(|error| {
        invalid.push(format!("spec.capacity.{error}"));
        Resources::new()
    });
    let status = overlay.status.clone().unwrap_or_default();
    OverlayRecord {
        key: key(super::NAME, &overlay.metadata),
        uid: text(overlay.metadata.uid.as_ref()),
        version: version(overlay.metadata.resource_version.as_deref()),
        generation: overlay.metadata.generation.unwrap_or(0),
        weight: spec.weight.unwrap_or(0),
        requirements: spec
            .requirements
            .iter()
            .map(joiner_api::scheduling::NodeSelectorRequirement::to_expression)
            .collect(),
        price,
        capacity,
        invalid: (!invalid.is_empty()).then(|| invalid.join("; ")),
        conditions: lower_conditions(&status.conditions),
    }
}

/// A buffer as the engine keeps it.
pub(super) fn lower_buffer(buffer: &CapacityBuffer) -> Result<BufferRecord, String> {
    let spec = &buffer.spec;
    let count = |number: Option<i32>| number.and_then(|one| u32::try_from(one).ok());
    let status = buffer.status.clone().unwrap_or_default();
    Ok(BufferRecord {
        key: key(super::NAME, &buffer.metadata),
        uid: text(buffer.metadata.uid.as_ref()),
        version: version(buffer.metadata.resource_version.as_deref()),
        generation: buffer.metadata.generation.unwrap_or(0),
        template: spec
            .pod_template_ref
            .as_ref()
            .map(|one| one.name.as_str().into()),
        scalable: spec.scalable_ref.as_ref().map(|one| ScalableRef {
            group: one.api_group.as_deref().unwrap_or_default().into(),
            kind: one.kind.as_str().into(),
            name: one.name.as_str().into(),
        }),
        replicas: count(spec.replicas),
        percentage: count(spec.percentage),
        limits: lower_resources(spec.limits.as_ref())
            .map_err(|error| format!("spec.limits.{error}"))?,
        strategy: spec.provisioning_strategy.as_deref().map(Into::into),
        status: BufferStatus {
            replicas: count(status.replicas),
            template: status
                .pod_template_ref
                .as_ref()
                .map(|one| one.name.as_str().into()),
            template_generation: status.pod_template_generation,
            strategy: status.provisioning_strategy.as_deref().map(Into::into),
        },
        conditions: lower_conditions(&status.conditions),
    })
}
