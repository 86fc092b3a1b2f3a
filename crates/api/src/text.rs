//! Values that people write as text: durations, quantities, budgets, prices, taints.
//!
//! Each type keeps the text exactly as written, so that an object that is read and written back is byte for byte the
//! same (a GitOps tool must never see a difference), and says what the text means on demand. Reading never fails on a
//! malformed value: one bad field must not hide the whole object from its controller, which can then say which field
//! is wrong (see [`crate::validate`]).

mod budget;
mod duration;
mod percent;
mod price;
mod quantity;
mod taint;

pub use budget::{BudgetNodes, BudgetNodesError, NodeCount};
pub use duration::{Duration, DurationError, DurationOrNever};
pub use percent::{Percent, PercentError};
pub use price::{Price, PriceAdjustment, PriceChange, PriceError};
pub use quantity::{Quantity, ResourceList};
pub use taint::{TaintText, TaintTextError};

/// A newtype over the text as written, with the impls that all of them share.
macro_rules! written {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The text as written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                $name(text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }
    };
}
use written;
