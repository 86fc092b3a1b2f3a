//! The packer: which machines to buy for pods that wait, at the least cost, within every rule.
//!
//! ```text
//! Problem ─► Compiled (numbers, bit sets) ─► Assignment (onto nodes; domains) ─► Packing (machines) ─► Plan
//!                                                                              ▲        │
//!                                                             strategies compete└─ improve┘  in counted steps
//! ```

mod alternatives;
mod appraisal;
mod assign;
mod beam;
mod best_fit;
mod binding;
mod bins;
mod bits;
mod bound;
mod caps;
mod choice;
mod columns;
mod compile;
mod cut;
mod demand;
mod dice;
mod evenly;
mod filler;
mod finder;
mod first_fit;
#[cfg(test)]
mod fixtures;
mod fluid;
mod generate;
mod groups;
mod improve;
mod intern;
mod labels;
mod ledger;
mod made;
mod measure;
mod near;
mod nodes;
mod offers;
mod patterns;
mod profile;
mod reasons;
mod redeal;
mod render;
mod scenario;
mod second_look;
mod sets;
mod shapes;
mod simplex;
mod solve;
mod spill;
mod stock;
mod tailor;
mod topology;
mod trifle;
mod variants;
mod vector;
mod wishes;
mod worth;

pub(crate) use scenario::{Scenario, clings};
pub use solve::Options;
pub(crate) use wishes::{Readings, solve_closing};
pub use wishes::{solve, solve_while};
