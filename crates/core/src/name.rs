//! Shared strings: names, label keys and label values are cloned often and compared more often.

use std::sync::Arc;

/// A cheaply cloned string.
pub type Name = Arc<str>;

/// A set of labels, ordered by key.
pub type Labels = std::collections::BTreeMap<Name, Name>;
