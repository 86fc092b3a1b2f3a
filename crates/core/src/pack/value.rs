//! What pods and room are worth: linear programs whose values bound every plan's cost and tell which machines are bargains.

pub(crate) mod appraisal;
pub(crate) mod fractional_knapsack;
pub(crate) mod machine_prices;
pub(crate) mod resource_values;
pub(crate) mod shapes;
pub(crate) mod simplex;
