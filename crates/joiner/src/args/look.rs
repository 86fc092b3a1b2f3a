//! Commands that look: `why`, `what-if`, `savings` and `top`, as typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use joiner_controllers::decisions::Kind;

use super::ReportFormat;
use crate::api::column::Column;

/// How often nodes may be asked for: the page looks no more often itself.
const SHORTEST: Duration = Duration::from_secs(1);

/// Whom to ask.
#[derive(Args, Clone, Debug)]
pub(crate) struct AskArgs {
    /// The page of the leader, such as <http://127.0.0.1:8082>; without it the answer is computed from the cluster of the
    /// kubeconfig, with the right to view it.
    #[arg(long, value_name = "URL", env = "JOINER_API")]
    pub(crate) api: Option<String>,
    /// Token for a page that asks for one.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "JOINER_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: Option<String>,
    /// Kubeconfig; without it $KUBECONFIG, or ~/.kube/config.
    #[arg(long, value_name = "FILE", conflicts_with = "api")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without it the current one.
    #[arg(long, value_name = "NAME", conflicts_with = "api")]
    pub(crate) context: Option<String>,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: ReportFormat,
}

/// Arguments of `joiner why`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  joiner why pod shop/web-7c9d --api http://127.0.0.1:8082\n  joiner why node worker-3\n  \
                  joiner why pool default -o json\n\nExit status: 0 answered; 1 whom to ask cannot be reached; 3 there is \
                  nothing of that name; 6 the cluster cannot be reached."
)]
pub(crate) struct WhyArgs {
    /// What it is.
    #[arg(value_name = "pod|node|pool|machine", value_parser = kind)]
    pub(crate) kind: Kind,
    /// Its name; of a pod NAMESPACE/NAME, or NAME where it is the only one.
    pub(crate) name: String,
    /// Whom to ask.
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// Arguments of `joiner savings`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  joiner savings --api http://127.0.0.1:8082\n  joiner savings -o json\n  joiner savings \
                  --context staging"
)]
pub(crate) struct SavingsArgs {
    /// Whom to ask.
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// Arguments of `joiner what-if`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Nothing is changed: the core is asked about a copy of the cluster.\n\nExamples:\n  joiner what-if add \
                  deployment.yaml\n  joiner what-if remove worker-3 worker-4\n  joiner what-if price m-4x=0.10\n\nExit \
                  status: 0 worked out; 1 whom to ask cannot be reached; 3 the change makes no sense; 4 pods would have \
                  no place."
)]
pub(crate) struct WhatIfArgs {
    /// What would be different.
    #[command(subcommand)]
    pub(crate) what: What,
}

/// What would be different.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum What {
    /// The pods of these manifests come.
    Add {
        /// Pods, Deployments, Jobs and others, as YAML.
        file: PathBuf,
        /// Of which cluster.
        #[command(flatten)]
        base: BaseArgs,
    },
    /// These nodes go.
    Remove {
        /// Names of nodes.
        #[arg(required = true)]
        nodes: Vec<String>,
        /// Of which cluster.
        #[command(flatten)]
        base: BaseArgs,
    },
    /// Instance types have other prices.
    Price {
        /// Type and dollars an hour, such as m-4x=0.10.
        #[arg(required = true, value_name = "TYPE=DOLLARS", value_parser = price)]
        prices: Vec<(String, f64)>,
        /// Of which cluster.
        #[command(flatten)]
        base: BaseArgs,
    },
    /// There is a pool more, or another in place of the one of its name.
    Pool {
        /// `NodePools`, as YAML.
        file: PathBuf,
        /// Of which cluster.
        #[command(flatten)]
        base: BaseArgs,
    },
    /// Nodes are removed and replaced to save money, as far as budgets allow.
    Rebalance {
        /// Of which cluster.
        #[command(flatten)]
        base: BaseArgs,
    },
}

/// A cluster as it stands, or a problem.
#[derive(Args, Clone, Debug)]
pub(crate) struct BaseArgs {
    /// A problem file instead of a cluster.
    #[arg(long, value_name = "FILE", conflicts_with = "api")]
    pub(crate) problem: Option<PathBuf>,
    /// Whom to ask.
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// Arguments of `joiner top`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "On a terminal it is live: ? lists the keys. Where standard output is no terminal, or with --once or -o json, it is \
                  a table, printed once.\n\nExamples:\n  joiner top --api http://127.0.0.1:8082\n  joiner top --sort price \
                  --interval 5s\n  joiner top --filter spot | head\n\nExit status: 0 ended by its reader; 1 whom to ask \
                  cannot be reached; 6 the cluster cannot be reached."
)]
pub(crate) struct TopArgs {
    /// Order of nodes.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sort: Column,
    /// Only nodes whose name, pool, type, zone, capacity type or state has these words.
    #[arg(long, value_name = "WORDS", default_value = "")]
    pub(crate) filter: String,
    /// How often the live terminal asks again.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print a table and end, on a terminal too.
    #[arg(long)]
    pub(crate) once: bool,
    /// Whom to ask.
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

fn interval(text: &str) -> Result<Duration, String> {
    let read = super::run::duration(text)?;
    if read < SHORTEST {
        return Err(format!("{text} is too short: a second is the least"));
    }
    Ok(read)
}

fn price(text: &str) -> Result<(String, f64), String> {
    let read = text.split_once('=').and_then(|(kind, dollars)| {
        let dollars: f64 = dollars.trim_start_matches('$').parse().ok()?;
        (dollars >= 0.0).then(|| (kind.to_owned(), dollars))
    });
    read.ok_or_else(|| format!("{text:?} is not a price: write TYPE=DOLLARS, such as m-4x=0.10"))
}

fn kind(text: &str) -> Result<Kind, String> {
    // Karpenter's users know machines as claims.
    let text = if matches!(text, "claim" | "nodeclaim") {
        "machine"
    } else {
        text
    };
    let read = text.trim_end_matches('s').parse();
    read.map_err(|_| format!("{text:?} is none of pod, node, pool and machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_asked_for_once_a_second_at_most() {
        assert_eq!(interval("1m30s"), Ok(Duration::from_secs(90)));
        assert!(interval("999ms").unwrap_err().contains("too short"));
        assert!(interval("often").is_err());
    }
}
