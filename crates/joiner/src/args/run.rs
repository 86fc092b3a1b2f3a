//! `joiner run`, as typed. Every flag has a variable; where Karpenter has both, they are Karpenter's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use joiner_api::Dialect;

use super::{AwsArgs, OvhArgs, RackspaceArgs, SettingsArgs};

/// How logs look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON everywhere else.
    #[default]
    Auto,
    /// Short lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Only what went wrong.
    Error,
    /// And what may go wrong.
    Warn,
    /// And every decision that was carried out.
    Info,
    /// And why.
    Debug,
    /// And every request.
    Trace,
}

/// Arguments of `joiner run`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Exit status: 0 ended by SIGTERM or SIGINT; 1 a file cannot be read or an address cannot be listened \
                  on; 2 wrong usage; 6 the cluster cannot be reached, or does not let us in."
)]
pub(crate) struct RunArgs {
    /// Which cluster, and as whom.
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Who leads.
    #[command(flatten)]
    pub(crate) election: ElectionArgs,
    /// What is served.
    #[command(flatten)]
    pub(crate) serving: ServingArgs,
    /// How to behave.
    #[command(flatten)]
    pub(crate) behaviour: BehaviourArgs,
    /// Rackspace Spot and SpotNodePools.
    #[command(flatten)]
    pub(crate) rackspace: RackspaceArgs,
    /// OVHcloud Managed Kubernetes.
    #[command(flatten)]
    pub(crate) ovhcloud: OvhArgs,
    /// AWS and `LeftoverNodePools`.
    #[command(flatten)]
    pub(crate) aws: AwsArgs,
}

/// Which cluster, and as whom.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig; without it $KUBECONFIG, else ~/.kube/config, else the account of the pod.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without it the current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Family of custom resources to serve, may be given several times; without it every family that is installed.
    #[arg(
        long = "dialect",
        value_name = "NAME",
        env = "DIALECTS",
        value_delimiter = ','
    )]
    pub(crate) dialects: Vec<Dialect>,
    /// Name of the node that this process runs on: it is not taken away voluntarily.
    #[arg(long, value_name = "NAME", env = "NODE_NAME", hide_env_values = true)]
    pub(crate) node_name: Option<String>,
}

/// Who leads.
#[derive(Args, Clone, Debug)]
pub(crate) struct ElectionArgs {
    /// Lead by Lease, so that of several replicas one acts.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) leader_elect: bool,
    /// The same as --leader-elect=false.
    #[arg(long, env = "DISABLE_LEADER_ELECTION", num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) disable_leader_election: bool,
    /// Namespace of the Lease; without it the namespace of the pod, or of the kubeconfig's context.
    #[arg(long, value_name = "NAME", env = "LEADER_ELECTION_NAMESPACE")]
    pub(crate) leader_election_namespace: Option<String>,
    /// Name of the Lease.
    #[arg(
        long,
        value_name = "NAME",
        env = "LEADER_ELECTION_NAME",
        default_value = "joiner-leader-election"
    )]
    pub(crate) leader_election_name: String,
}

/// What is served.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServingArgs {
    /// Where /healthz and /readyz are; 0 for nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", value_parser = address)]
    pub(crate) health_probe_bind_address: Bind,
    /// The same, only the port.
    #[arg(long, value_name = "PORT", env = "HEALTH_PROBE_PORT")]
    pub(crate) health_probe_port: Option<u16>,
    /// Where /metrics is; 0 for nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", value_parser = address)]
    pub(crate) metrics_bind_address: Bind,
    /// The same, only the port.
    #[arg(long, value_name = "PORT", env = "METRICS_PORT")]
    pub(crate) metrics_port: Option<u16>,
    /// Where the page and /api/v1 are; 0 for nowhere. On other addresses than loopback they ask for a token of an account
    /// that may list nodes and pods.
    #[arg(long, value_name = "ADDRESS", env = "PAGE_BIND_ADDRESS", default_value = "127.0.0.1:8082", value_parser = address)]
    pub(crate) page_bind_address: Bind,
    /// What to log; `RUST_LOG` says it in more detail.
    #[arg(
        long,
        value_enum,
        env = "LOG_LEVEL",
        default_value = "info",
        ignore_case = true
    )]
    pub(crate) log_level: LogLevel,
    /// How logs look.
    #[arg(
        long,
        value_enum,
        env = "LOG_FORMAT",
        default_value_t,
        ignore_case = true
    )]
    pub(crate) log_format: LogFormat,
}

/// How to behave.
#[derive(Args, Clone, Debug)]
pub(crate) struct BehaviourArgs {
    /// Plan and say what would be done, and change nothing.
    #[arg(long, env = "OBSERVE_ONLY", num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) observe_only: bool,
    /// Buy nothing and take nothing away for the time being.
    #[arg(long, env = "PAUSED", num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) paused: bool,
    /// Pods are gathered until no new one came for so long, such as 1s.
    #[arg(long, value_name = "TIME", env = "BATCH_IDLE_DURATION", value_parser = duration)]
    pub(crate) batch_idle_duration: Option<Duration>,
    /// But no longer than this, such as 10s.
    #[arg(long, value_name = "TIME", env = "BATCH_MAX_DURATION", value_parser = duration)]
    pub(crate) batch_max_duration: Option<Duration>,
    /// How to decide.
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// How often nodes are looked at that might go although nothing has changed; changes are looked at when they come.
    #[arg(long, value_name = "TIME", env = "DISRUPTION_PERIOD", default_value = "5m", value_parser = duration)]
    pub(crate) disruption_period: Duration,
    /// How often catalogues and prices are read.
    #[arg(long, value_name = "TIME", env = "CATALOG_PERIOD", default_value = "30s", value_parser = duration)]
    pub(crate) catalog_period: Duration,
    /// How often clouds are asked what machines there are.
    #[arg(long, value_name = "TIME", env = "GARBAGE_PERIOD", default_value = "1m", value_parser = duration)]
    pub(crate) garbage_period: Duration,
    /// How often drift is looked for.
    #[arg(long, value_name = "TIME", env = "DRIFT_PERIOD", default_value = "5m", value_parser = duration)]
    pub(crate) drift_period: Duration,
    /// Karpenter's feature gates: `NodeRepair`, `SpotToSpotConsolidation`; others are ignored with a warning.
    #[arg(long, value_name = "NAME=BOOL", env = "FEATURE_GATES", value_delimiter = ',', value_parser = gate)]
    pub(crate) feature_gates: Vec<(String, bool)>,
    /// Every provider is replaced by a simulated cloud: nothing is bought, everything else is real.
    #[arg(long, env = "MOCK_MODE", num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) mock_mode: bool,
}

/// An address to listen on, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bind(pub(crate) Option<SocketAddr>);

impl Bind {
    /// The address with another port, if one was given.
    pub(crate) fn with_port(self, port: Option<u16>) -> Option<SocketAddr> {
        let Some(port) = port else { return self.0 };
        let ip = self.0.map_or(EVERYWHERE, |address| address.ip());
        (port != 0).then_some(SocketAddr::new(ip, port))
    }
}

/// Where the page is unless another address is given.
pub(crate) const USUAL_PAGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8082);

/// Both families of addresses, where the machine has both.
const EVERYWHERE: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// As controller-runtime reads it: `:8081`, `127.0.0.1:8081`, or `0` for none.
fn address(text: &str) -> Result<Bind, String> {
    if text == "0" {
        return Ok(Bind(None));
    }
    let full = match text.strip_prefix(':') {
        Some(port) => port
            .parse()
            .map(|port| SocketAddr::new(EVERYWHERE, port))
            .ok(),
        None => text.parse().ok(),
    };
    let wanted = "write :PORT, IP:PORT, or 0 to switch it off";
    full.map(|address| Bind(Some(address)))
        .ok_or_else(|| format!("{text:?} is not an address: {wanted}"))
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let read = joiner_api::text::Duration::from(text)
        .get()
        .map_err(|error| error.to_string())?;
    Duration::try_from(read).map_err(|error| error.to_string())
}

fn gate(text: &str) -> Result<(String, bool), String> {
    let read = text.split_once('=').and_then(|(name, value)| {
        let value = value.to_lowercase().parse().ok()?;
        Some((name.trim().to_owned(), value))
    });
    read.ok_or_else(|| format!("{text:?} is not a feature gate: write NAME=true or NAME=false"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    fn parse(arguments: &[&str]) -> Result<RunArgs, String> {
        let line = Line::try_parse_from(std::iter::once(&"run").chain(arguments));
        line.map(|line| line.run).map_err(|error| error.to_string())
    }

    #[test]
    fn leader_election_is_on_until_somebody_says_otherwise() {
        assert!(parse(&[]).unwrap().election.leader_elect);
        assert!(parse(&["--leader-elect"]).unwrap().election.leader_elect);
        assert!(
            !parse(&["--leader-elect=false"])
                .unwrap()
                .election
                .leader_elect
        );
    }

    #[test]
    fn addresses_are_read_as_controller_runtime_reads_them() {
        let bind = |text: &str| address(text).map(|bind| bind.0.map(|at| at.to_string()));
        assert_eq!(bind(":8081"), Ok(Some("[::]:8081".to_owned())));
        assert_eq!(bind("127.0.0.1:0"), Ok(Some("127.0.0.1:0".to_owned())));
        assert_eq!(bind("0"), Ok(None));
        assert!(bind("8081").unwrap_err().contains(":PORT"));
        let args = parse(&["--metrics-port", "9000"]).unwrap().serving;
        let bound = args.metrics_bind_address.with_port(args.metrics_port);
        assert_eq!(bound.map(|at| at.port()), Some(9000));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_way_out() {
        for (arguments, says) in [
            (["--batch-idle-duration", "soon"], "such as 30s"),
            (["--dialect", "klingon"], "karpenter, karpetrack"),
            (["--feature-gates", "NodeRepair"], "NAME=true"),
            (["--log-level", "loud"], "debug"),
        ] {
            let refused = parse(&arguments).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn durations_are_written_as_in_go() {
        let args = parse(&["--batch-max-duration=1m30s"]).unwrap();
        assert_eq!(
            args.behaviour.batch_max_duration,
            Some(Duration::from_secs(90))
        );
    }
}
