//! The differential suite: one list of API behaviours, played on two servers that must answer alike.
//!
//! ```text
//! differential/*.yaml ──► Case ──play──► Answers of the real server ────┐
//!                           └────play──► Answers of the embedded one ───┴─normalise─► compare
//! ```
//!
//! A case is data ([`case`]), playing it is HTTP ([`play`]), and the comparison forgives only what cannot be the same:
//! ids, times, resource versions, generated names and ports ([`normalise`]).

mod case;
mod compare;
mod normalise;
mod play;
mod suite;
mod text;

pub use case::{Case, Step, Subject, load};
pub use compare::{Difference, differences};
pub use normalise::Normaliser;
pub use play::{Answer, Content, Player};
pub use suite::{broken_promises, normalised, report_of, unequal};
