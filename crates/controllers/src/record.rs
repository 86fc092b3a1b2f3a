//! What the engine knows of pools, machines and node classes, whatever family of custom resources they come from.

mod condition;
mod machine;
mod mark;
mod pool;

use std::fmt;

use joiner_core::name::Name;

pub use condition::{Condition, Conditions, Truth, kinds};
pub use machine::{
    Intent, MachineRecord, MachineStatus, MetadataChange, NewMachine, Offer, annotations,
    price_text,
};
pub use mark::{MACHINE_UID, MANAGED_BY, Mark, manager};
pub use pool::{
    Behind, BufferRecord, BufferStatus, ClassRecord, GateRecord, OverlayRecord, PoolRecord,
    PoolStatus, PriceRule, ScalableRef,
};

/// Which object of a dialect: a pool or a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Name of the dialect.
    pub dialect: &'static str,
    /// Namespace; empty for what has none.
    pub namespace: Name,
    /// Name.
    pub name: Name,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Which node class.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassKey {
    /// API group, without a version.
    pub group: Name,
    /// Kind.
    pub kind: Name,
    /// Namespace; empty for what has none.
    pub namespace: Name,
    /// Name.
    pub name: Name,
}

impl ClassKey {
    /// What its catalogue is called in problems.
    pub fn catalog(&self) -> Name {
        self.to_string().into()
    }
}

impl fmt::Display for ClassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}/", self.kind, self.group)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
