//! Each rule with a plan that breaks it and one that does not.

mod binding;
mod bookkeeping;
mod buying;
mod fitting;
mod removing;
mod world;
