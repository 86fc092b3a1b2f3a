//! What can be bought: providers by node class, their catalogues, price overlays, and what is known to be sold out.

pub mod backoff;
pub(crate) mod calls;
pub(crate) mod launches;
pub mod observed;
pub(crate) mod overlays;
pub(crate) mod prices;
pub mod slots;
pub(crate) mod stock;
pub(crate) mod terms;
