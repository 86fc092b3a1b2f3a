//! What goes into one machine: greedily, exactly, or with a beam of partial fillings.

pub(crate) mod beam;
pub(crate) mod exact;
pub(crate) mod greedy;
