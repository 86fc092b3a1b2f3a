//! Operators that render, one folder each.

pub mod leftover;
