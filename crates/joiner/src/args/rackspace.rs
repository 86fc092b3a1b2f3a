//! Rackspace Spot and Karpetrack, as typed. Names and defaults are those of Karpetrack's document.

use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args};
use jiff::Timestamp;
use joiner_controllers::classes::rackspace::{RackspaceDefaults, endpoint};
use joiner_controllers::dialects::karpetrack::KarpetrackOptions;
use joiner_providers::http::{Http, Reach};
use joiner_providers::rackspace::prices::FEED_URL;
use joiner_providers::rackspace::{API_URL, OAUTH_URL};

use super::run::duration;
use crate::failure::Failure;

/// The cloudspace, and how SpotNodePools are looked after.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Rackspace Spot")]
pub(crate) struct RackspaceArgs {
    /// Refresh token of the console (API Access, Get New Token).
    #[arg(
        long,
        value_name = "TOKEN",
        env = "RACKSPACE_SPOT_REFRESH_TOKEN",
        hide_env_values = true
    )]
    pub(crate) refresh_token: Option<String>,
    /// Name of the cloudspace that servers join: this cluster.
    #[arg(
        long,
        alias = "cloudspace",
        value_name = "NAME",
        env = "RACKSPACE_SPOT_CLOUDSPACE_ID"
    )]
    pub(crate) cloudspace_id: Option<String>,
    /// The same under the name that Karpetrack's tools have for it.
    #[arg(long, hide = true, env = "RACKSPACE_SPOT_CLOUDSPACE")]
    pub(crate) cloudspace_name: Option<String>,
    /// Organisation, by name or id; without it the one that the token belongs to.
    #[arg(long, value_name = "NAME", env = "RACKSPACE_SPOT_ORG")]
    pub(crate) org: Option<String>,
    /// Where the API is.
    #[arg(long, value_name = "URL", env = "RACKSPACE_SPOT_API_URL", default_value = API_URL)]
    pub(crate) rackspace_api_url: String,
    /// Where tokens are exchanged.
    #[arg(long, value_name = "URL", env = "RACKSPACE_SPOT_OAUTH_URL", default_value = OAUTH_URL)]
    pub(crate) rackspace_oauth_url: String,
    /// Where the public price feed is.
    #[arg(long, value_name = "URL", env = "RACKSPACE_SPOT_FEED_URL", default_value = FEED_URL)]
    pub(crate) rackspace_feed_url: String,
    /// How often prices are read.
    #[arg(long, value_name = "TIME", env = "PRICING_REFRESH_INTERVAL", default_value = "30s",
          value_parser = duration)]
    pub(crate) pricing_refresh_interval: Duration,
    /// What a replacement must save before a node makes way for it, as a share: 0.20 is a fifth.
    #[arg(long, value_name = "SHARE", env = "OPTIMIZATION_THRESHOLD", default_value = "0.20",
          value_parser = share)]
    pub(crate) optimization_threshold: Share,
    /// How old a node must be before its price is reason enough to replace it.
    #[arg(long, value_name = "TIME", env = "OPTIMIZATION_MIN_AGE", default_value = "10m",
          value_parser = duration)]
    pub(crate) optimization_min_age: Duration,
    /// Whether empty and underused nodes of SpotNodePools are taken away.
    #[arg(long, env = "CONSOLIDATION_ENABLED", num_args = 0..=1, require_equals = true,
          default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) consolidation_enabled: bool,
    /// How long pods are gathered before servers are bid for.
    #[arg(long, value_name = "TIME", env = "BATCH_WINDOW", default_value = "10s",
          value_parser = duration)]
    pub(crate) batch_window: Duration,
    /// How long a node must have been empty, where its SpotNodePool does not say.
    #[arg(long, value_name = "TIME", env = "EMPTY_NODE_GRACE_PERIOD", default_value = "5m",
          value_parser = duration)]
    pub(crate) empty_node_grace_period: Duration,
}

/// A share in whole percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(pub(crate) u32);

impl RackspaceArgs {
    /// The cloudspace, under either name.
    pub(crate) fn cloudspace(&self) -> Option<&str> {
        let name = self
            .cloudspace_id
            .as_deref()
            .or(self.cloudspace_name.as_deref());
        name.map(str::trim).filter(|name| !name.is_empty())
    }

    /// The refresh token, if one was given that is more than blanks.
    pub(crate) fn token(&self) -> Option<&str> {
        let token = self.refresh_token.as_deref().map(str::trim);
        token.filter(|token| !token.is_empty())
    }

    /// What classes use that do not say otherwise. Addresses that the operator wrote may be anywhere; only an operator
    /// can write one.
    pub(crate) fn defaults(&self, namespace: &str) -> Result<RackspaceDefaults, Failure> {
        let mut hosts = Vec::new();
        let mut address = |flag: &str, url: &str| {
            let read = endpoint(url);
            let read = read.map_err(|error| Failure::Usage(format!("{flag}: {error}")))?;
            hosts.push(read.host().to_owned());
            Ok::<_, Failure>(read)
        };
        let api = address("--rackspace-api-url", &self.rackspace_api_url)?;
        let oauth = address("--rackspace-oauth-url", &self.rackspace_oauth_url)?;
        let feed = address("--rackspace-feed-url", &self.rackspace_feed_url)?;
        let reach = Reach {
            allowed_hosts: hosts,
            ..Reach::default()
        };
        let http = Http::production(&reach).map_err(|error| Failure::Cluster(error.to_string()))?;
        Ok(RackspaceDefaults {
            token: self.token().map(|token| token.to_owned().into()),
            cloudspace: self.cloudspace().map(str::to_owned),
            organization: self.org.clone(),
            api,
            oauth,
            feed,
            // A catalogue that is read as often must not find the prices of the time before.
            price_ttl: self.pricing_refresh_interval.mul_f32(0.9),
            period: Some(self.pricing_refresh_interval),
            namespace: namespace.to_owned(),
            http,
            clock: Arc::new(Timestamp::now),
        })
    }

    /// How SpotNodePools are looked after, in a cloudspace.
    pub(crate) fn karpetrack(&self, cloudspace: &str) -> KarpetrackOptions {
        KarpetrackOptions {
            cloudspace: cloudspace.to_owned(),
            batch_window: self.batch_window,
            min_savings: self.optimization_threshold.0,
            min_age: self.optimization_min_age,
            consolidation: self.consolidation_enabled,
            empty_grace: self.empty_node_grace_period,
        }
    }
}

fn share(text: &str) -> Result<Share, String> {
    let wanted = "write a share between 0 and 1, such as 0.20";
    let share: f64 = text
        .trim()
        .parse()
        .map_err(|_| format!("{text:?} is not a share: {wanted}"))?;
    if !(0.0..1.0).contains(&share) {
        return Err(format!("{text:?} is no share of a price: {wanted}"));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 100"
    )]
    Ok(Share((share * 100.0).round() as u32))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        rackspace: RackspaceArgs,
    }

    fn parse(arguments: &[&str]) -> Result<RackspaceArgs, String> {
        let line = Line::try_parse_from(std::iter::once(&"run").chain(arguments));
        line.map(|line| line.rackspace)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_the_document() {
        let options = parse(&[]).unwrap().karpetrack("demo");
        assert_eq!(options, KarpetrackOptions::new("demo"));
    }

    #[test]
    fn thresholds_are_shares_and_times_are_written_as_in_go() {
        let args = parse(&["--optimization-threshold=0.15", "--batch-window", "1m30s"]).unwrap();
        assert_eq!(args.optimization_threshold, Share(15));
        assert_eq!(args.batch_window, Duration::from_secs(90));
        for wrong in ["20", "-0.1", "1", "a fifth"] {
            let refused = parse(&[&format!("--optimization-threshold={wrong}")]).unwrap_err();
            assert!(refused.contains("such as 0.20"), "{refused}");
        }
    }

    #[test]
    fn a_cloudspace_has_two_names_and_blanks_are_none() {
        assert_eq!(
            parse(&["--cloudspace", "demo"]).unwrap().cloudspace(),
            Some("demo")
        );
        assert_eq!(parse(&["--cloudspace-id", " "]).unwrap().cloudspace(), None);
        assert_eq!(parse(&["--refresh-token", " "]).unwrap().token(), None);
    }
}
