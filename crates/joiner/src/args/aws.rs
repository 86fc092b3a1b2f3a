//! AWS and `LeftoverNodePools`, as typed. Endpoints have the variables of AWS's own tools.

use clap::{ArgAction, Args};

/// AWS and `LeftoverNodePools`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AwsArgs {
    /// EC2 endpoint instead of the region's own.
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL_EC2")]
    pub(crate) aws_ec2_endpoint: Option<String>,
    /// AWS endpoint instead of each service's own.
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL")]
    pub(crate) aws_endpoint: Option<String>,
    /// Price list endpoint instead of AWS's own.
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL_PRICING")]
    pub(crate) aws_pricing_endpoint: Option<String>,
    /// Ask AWS for list prices (pricing:GetProducts); otherwise the built-in list of us-east-1 is used.
    #[arg(long, env = "AWS_LIST_PRICES", num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) aws_list_prices: bool,
    /// IAM role of nodes whose `LeftoverNodePool` names none.
    #[arg(long, value_name = "ROLE", env = "LEFTOVER_NODE_ROLE")]
    pub(crate) aws_node_role: Option<String>,
    /// IAM instance profile of such nodes, instead of a role.
    #[arg(
        long,
        value_name = "PROFILE",
        env = "LEFTOVER_INSTANCE_PROFILE",
        conflicts_with = "aws_node_role"
    )]
    pub(crate) aws_instance_profile: Option<String>,
    /// Image of nodes whose `LeftoverNodePool` names none, as family and version.
    #[arg(
        long,
        value_name = "ALIAS",
        env = "LEFTOVER_AMI_ALIAS",
        default_value = "al2023@latest"
    )]
    pub(crate) aws_ami_alias: String,
    /// Leftover's switch for its webhooks. Rules are in the definition of the kind, so there are none to switch.
    #[arg(long, value_name = "BOOL", env = "ENABLE_WEBHOOKS", hide = true)]
    pub(crate) enable_webhooks: Option<String>,
}
