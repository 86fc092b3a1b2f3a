//! AWS for a command: the real one, or the simulated one in this process.

use std::sync::Arc;

use jiff::Timestamp;
use joiner_controllers::operators::leftover::ClassDefaults;
use joiner_embedded::clock::Clock;
use joiner_providers::aws::{Aws, AwsOptions, Credentials, host_of};
use joiner_providers::http::{Http, Reach};
use joiner_sim::clouds::ec2::{Ec2Cloud, Ec2CloudOptions};

use crate::args::AwsArgs;
use crate::failure::Failure;

/// Where STS is asked when neither the environment nor a profile names a region.
const HOME: &str = "us-east-1";
/// The host that the simulated EC2 is signed for.
const SIMULATED: &str = "ec2.simulated";

/// AWS as the arguments say.
pub(crate) fn open(args: &AwsArgs, mock: bool) -> Result<Arc<Aws>, Failure> {
    if mock {
        return Ok(Arc::new(simulated()));
    }
    let set = |one: &Option<String>| one.clone().filter(|url| !url.trim().is_empty());
    let everywhere = set(&args.aws_endpoint);
    let options = AwsOptions {
        ec2_endpoint: set(&args.aws_ec2_endpoint).or_else(|| everywhere.clone()),
        pricing_endpoint: set(&args.aws_pricing_endpoint).or(everywhere),
        pricing: args.aws_list_prices,
    };
    let allowed = [&options.ec2_endpoint, &options.pricing_endpoint];
    let allowed = allowed.into_iter().flatten().filter_map(|url| host_of(url));
    let reach = Reach {
        allowed_hosts: allowed.collect(),
        ..Reach::default()
    };
    let http = Http::production(&reach).map_err(|error| Failure::Usage(error.to_string()))?;
    let region = std::env::var("AWS_REGION").or_else(|_| std::env::var("AWS_DEFAULT_REGION"));
    let region = region.ok().filter(|one| !one.is_empty());
    let credentials = Credentials::chain(region.as_deref().unwrap_or(HOME));
    Ok(Arc::new(Aws::new(
        http,
        options,
        credentials,
        Arc::new(Timestamp::now),
    )))
}

/// What nodes get whose pool says nothing.
pub(crate) fn defaults(args: &AwsArgs, mock: bool) -> ClassDefaults {
    let none = args.aws_node_role.is_none() && args.aws_instance_profile.is_none();
    let role = args.aws_node_role.clone();
    ClassDefaults {
        // Nothing is bought in mock mode: any role will do.
        role: role.or_else(|| (mock && none).then(|| "mock-node-role".to_owned())),
        instance_profile: args.aws_instance_profile.clone(),
        ami_alias: Some(args.aws_ami_alias.clone()),
    }
}

fn simulated() -> Aws {
    let options = Ec2CloudOptions {
        moving: true,
        ..Ec2CloudOptions::calm(1)
    };
    let credentials = Credentials::fixed(&options.key_id, &options.secret, None);
    let cloud = Ec2Cloud::new(options, Clock::wall());
    let router = cloud.in_process(SIMULATED);
    let options = AwsOptions {
        ec2_endpoint: Some(format!("http://{SIMULATED}")),
        pricing_endpoint: Some(format!("http://{SIMULATED}")),
        pricing: true,
    };
    Aws::new(
        Http::new(router),
        options,
        credentials,
        Arc::new(Timestamp::now),
    )
}
