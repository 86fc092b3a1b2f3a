//! AWS, read only: which GPU instance types there are, where they are offered, what they cost, and how likely spot
//! capacity is. Nothing is bought here.
//!
//! ```text
//!   credentials ──► sign ──► client (EC2 query protocol, XML) ──► market (cached, shared by pools, with ages)
//!                              └── pricing (list prices, JSON)
//! ```

mod client;
mod credentials;
mod error;
mod facts;
mod market;
mod pricing;
mod sign;
mod types;

use std::sync::Arc;

use jiff::Timestamp;

pub use client::{Ec2, ScoreRequest};
pub use credentials::Credentials;
pub use error::{AwsError, AwsErrorKind};
pub use facts::{Fact, GpuFact, facts};
pub use market::{Age, Ages, Aws, Reading};
pub use types::{
    InstanceType, PlacementScore, SecurityGroup, SpotPrice, Subnet, TypeOffering, Zone,
};

/// Says what time it is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How AWS is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwsOptions {
    /// EC2 endpoint instead of the region's own, for a proxy, a test double or a simulated cloud.
    pub ec2_endpoint: Option<String>,
    /// Price list endpoint instead of AWS's own.
    pub pricing_endpoint: Option<String>,
    /// Whether list prices are asked for; otherwise the built-in list is used.
    pub pricing: bool,
}

/// The host of an endpoint that was set by hand, so that it may be anywhere.
pub fn host_of(endpoint: &str) -> Option<String> {
    let uri: http::Uri = endpoint.trim().parse().ok()?;
    uri.host().map(str::to_owned)
}
