//! From a packing back to a plan: launches with alternatives and labels, an order of binding, and reasons.

pub(crate) mod alternatives;
pub(crate) mod bind_order;
pub(crate) mod node_labels;
pub(crate) mod reasons;
pub(crate) mod render;
