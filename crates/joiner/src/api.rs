//! What can be seen of a running Joiner: plain data made from the view and the ledger of decisions. The JSON under
//! `/api/v1`, the page, `joiner why` and `joiner top` all show these.

pub(crate) mod activity;
pub(crate) mod bought;
pub(crate) mod column;
pub(crate) mod demand;
pub(crate) mod fleet;
pub(crate) mod history;
pub(crate) mod market;
pub(crate) mod model;
pub(crate) mod opencost;
pub(crate) mod overview;
pub(crate) mod watched;
pub(crate) mod why;

pub(crate) use watched::Watched;
