//! Data structures that know nothing of Kubernetes: bit sets, resource vectors, interned ids, lists with typed indexes, a seeded generator.

pub(crate) mod bits;
pub(crate) mod intern;
pub(crate) mod room_tree;
pub(crate) mod seeded;
pub(crate) mod typed;
pub(crate) mod vector;
