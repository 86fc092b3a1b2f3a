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

use self::backoff::Backoffs;
use self::observed::ObservedAllocatable;
use self::slots::Classes;

/// Node classes as providers, and what is known about what they sell.
pub struct Market {
    /// Providers, by node class.
    pub classes: Classes,
    /// What is left alone for a while.
    pub backoffs: Backoffs,
    /// What nodes really offer pods.
    pub observed: ObservedAllocatable,
}
