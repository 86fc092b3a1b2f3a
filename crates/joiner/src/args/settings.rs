//! How to decide where users may differ, as typed: the same flags for a cluster and for files.

use clap::{Args, value_parser};
use joiner_core::money::Money;
use joiner_core::problem::wire::price;
use joiner_core::problem::{MinValuesPolicy, PreferencePolicy, Settings};

/// How to decide. What is not given stays as it is.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct SettingsArgs {
    /// Whether preferred terms of pods count: Respect (as long as they can be met) or Ignore.
    #[arg(long, env = "PREFERENCE_POLICY", value_name = "POLICY")]
    pub(crate) preference_policy: Option<PreferencePolicy>,
    /// What preferred terms may cost, in percent of the cheapest plan without them; without it whatever they cost.
    #[arg(long, env = "PREFERENCE_CAP", value_name = "PERCENT")]
    pub(crate) preference_cap: Option<u32>,
    /// What happens when minValues of a pool cannot be met: `Strict` (it cannot buy) or `BestEffort`.
    #[arg(long, env = "MIN_VALUES_POLICY", value_name = "POLICY")]
    pub(crate) min_values_policy: Option<MinValuesPolicy>,
    /// The largest share of new machines, in percent, that one spot offering may have.
    #[arg(long, env = "SPOT_SHARE", value_name = "PERCENT", value_parser = value_parser!(u32).range(0..=100))]
    pub(crate) spot_share: Option<u32>,
    /// How many machines one plan may buy.
    #[arg(long, env = "MAX_NEW_NODES", value_name = "N")]
    pub(crate) max_new_nodes: Option<u32>,
    /// What every node costs beside its price (licences, monitoring), in dollars an hour.
    #[arg(long, env = "NODE_SURCHARGE", value_name = "DOLLARS", value_parser = dollars)]
    pub(crate) node_surcharge: Option<Money>,
}

impl SettingsArgs {
    /// Settings with what was given instead of what they said.
    pub(crate) fn over(&self, settings: &Settings) -> Settings {
        Settings {
            preferences: self.preference_policy.unwrap_or(settings.preferences),
            preference_cap: self.preference_cap.or(settings.preference_cap),
            min_values: self.min_values_policy.unwrap_or(settings.min_values),
            node_surcharge: self.node_surcharge.unwrap_or(settings.node_surcharge),
            spot_share: self.spot_share.or(settings.spot_share),
            max_new_nodes: self.max_new_nodes.or(settings.max_new_nodes),
        }
    }
}

fn dollars(text: &str) -> Result<Money, String> {
    let read = text
        .parse()
        .map_err(|_| format!("{text:?} is no number: write dollars per hour, such as 0.01"))?;
    price(read)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        settings: SettingsArgs,
    }

    fn parse(arguments: &[&str]) -> Result<SettingsArgs, String> {
        let line = Line::try_parse_from(std::iter::once(&"run").chain(arguments));
        line.map(|line| line.settings)
            .map_err(|error| error.to_string())
    }

    fn given() -> Settings {
        Settings {
            preferences: PreferencePolicy::Ignore,
            preference_cap: Some(1),
            min_values: MinValuesPolicy::BestEffort,
            node_surcharge: Money::from_dollars(1.0),
            spot_share: Some(2),
            max_new_nodes: Some(3),
        }
    }

    #[test]
    fn what_is_not_given_stays_as_it_is() {
        let nothing = parse(&[]).unwrap();
        assert_eq!(nothing.over(&given()), given());
        assert_eq!(nothing.over(&Settings::default()), Settings::default());
    }

    #[test]
    fn every_setting_can_be_given() {
        let all = parse(&[
            "--preference-policy=Respect",
            "--preference-cap=10",
            "--min-values-policy=Strict",
            "--spot-share=50",
            "--max-new-nodes=20",
            "--node-surcharge=0.01",
        ]);
        let expected = Settings {
            preferences: PreferencePolicy::Respect,
            preference_cap: Some(10),
            min_values: MinValuesPolicy::Strict,
            node_surcharge: Money::from_dollars(0.01),
            spot_share: Some(50),
            max_new_nodes: Some(20),
        };
        assert_eq!(all.unwrap().over(&given()), expected);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_way_out() {
        for (argument, says) in [
            ("--spot-share=101", "101 is not in 0..=100"),
            ("--spot-share=half", "invalid digit"),
            ("--max-new-nodes=-1", "-1 is not in 0.."),
            ("--preference-cap=1.5", "invalid digit"),
            (
                "--node-surcharge=free",
                "write dollars per hour, such as 0.01",
            ),
            (
                "--node-surcharge=-1",
                "-1 is not a price (write dollars per hour",
            ),
            (
                "--preference-policy=Maybe",
                "'Maybe' for '--preference-policy",
            ),
        ] {
            let refused = parse(&[argument]).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
