//! Looking at a cluster without changing anything: for commands that have no leader to ask.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use joiner_controllers::context::Context;
use tokio::time::{Instant, sleep};

use super::detect::Wanted;
use super::session::{Session, Will};
use super::site::Site;
use crate::args::{Args, Command};
use crate::board::Board;
use crate::failure::Failure;

/// How long lists and catalogues may take to come in.
const LISTS: Duration = Duration::from_mins(1);
const CATALOGUES: Duration = Duration::from_secs(15);
/// How often to look whether they have.
const LOOK: Duration = Duration::from_millis(100);

/// An engine that reads and decides, and cannot write: its fence is closed.
pub(crate) struct Observer {
    context: Arc<Context>,
    server: String,
    _session: Session,
}

impl Observer {
    /// Reads the cluster of a kubeconfig and decides once.
    pub(crate) async fn start(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self, Failure> {
        // What `joiner run` takes from its environment holds here too: credentials above all.
        let typed = ["joiner", "run", "--observe-only", "--page-bind-address=0"];
        let Ok(Args {
            command: Command::Run(mut args),
        }) = Args::try_parse_from(typed)
        else {
            return Err(Failure::Usage(
                "the environment has settings of joiner run that cannot be read".to_owned(),
            ));
        };
        args.cluster.kubeconfig = kubeconfig.map(Path::to_owned);
        args.cluster.context = context.map(str::to_owned);
        let site = Site::open(&args.cluster, &args.election).await?;
        let wanted = Wanted::new(&args.cluster.dialects, super::credentials(&args))?;
        let families = tokio::time::timeout(LISTS, wanted.installed(&site.client)).await;
        let families = families.map_err(|_| {
            let said = format!("{}: no custom resources of Joiner's are installed: joiner crds | kubectl apply -f -", site.server);
            Failure::Cluster(said)
        })?;
        let board = Board::default();
        let session = Session::start(&site, &families, &args, &board, Will::Observe)?;
        let Some(context) = board.context() else {
            return Err(Failure::Cluster("the engine did not start".to_owned()));
        };
        let begun = Instant::now();
        while !context.view.synced() {
            if begun.elapsed() > LISTS {
                let missing = context.view.read().missing().join(", ");
                let said = format!(
                    "{}: these lists did not come in: {missing}; the account needs the right to list and watch them",
                    site.server
                );
                return Err(Failure::Cluster(said));
            }
            sleep(LOOK).await;
        }
        let begun = Instant::now();
        let unread = || {
            let world = context.view.read();
            let unread = |key| {
                context
                    .market
                    .classes
                    .slot(key)
                    .and_then(|slot| slot.read())
                    .is_none()
            };
            world.classes.iter().any(|class| unread(&class.key))
        };
        // A class that cannot be read is part of the answer, so it is not waited for without end.
        while unread() && begun.elapsed() < CATALOGUES {
            sleep(LOOK).await;
        }
        context.judge().await;
        Ok(Observer {
            context,
            server: site.server,
            _session: session,
        })
    }

    /// The address of its API server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Everything that was read and decided.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}
