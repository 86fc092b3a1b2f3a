//! Everything that works on the cluster, started and ended together. Nothing in it is worth keeping: a new session
//! finds all of it again by asking.

use std::sync::Arc;

use jiff::Timestamp;
use joiner_controllers::classes::nodesmith::NodeSmithClasses;
use joiner_controllers::classes::ovhcloud::{OnNodes, OvhClasses};
use joiner_controllers::classes::proxmox::ProxmoxClasses;
use joiner_controllers::classes::rackspace::RackspaceClasses;
use joiner_controllers::classes::redfish::RedfishClasses;
use joiner_controllers::dialect::{ClassFactory, Secrets, Window};
use joiner_controllers::edge::clients::{Clients, Fence};
use joiner_controllers::edge::clock::{SystemClock, since_boot};
use joiner_controllers::edge::lease::LeaseOptions;
use joiner_controllers::edge::ledger::ConfigMapLedgers;
use joiner_controllers::edge::tasks::Tasks;
use joiner_controllers::market::slots::ClusterSecrets;
use joiner_controllers::operators::leftover::LeftoverOptions;
use joiner_controllers::{Engine, Mode, Settings};
use joiner_embedded::clock::Clock;
use joiner_sim::clouds::sim::Rack;
use prometheus_client::registry::Registry;
use tracing::warn;

use super::site::Site;
use crate::args::{BehaviourArgs, RunArgs};
use crate::aws;
use crate::board::Board;
use crate::classes::ovhcloud::MockOvh;
use crate::classes::proxmox;
use crate::classes::rackspace::{MOCK_CLOUDSPACE, MockRackspace};
use crate::classes::redfish::MockBmcs;
use crate::classes::sim::SimClasses;
use crate::failure::Failure;
use crate::kubelets::Kubelets;
use crate::wiring::{LeftoverParts, Served, Wiring};

/// A running engine and the simulated world beside it.
pub(super) struct Session {
    engine: Engine,
    simulated: Tasks,
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Will {
    /// Looking after the cluster, as soon as it leads.
    Act,
    /// Reading it: it never leads, and nothing is written.
    Observe,
}

fn leftover(args: &RunArgs) -> Result<LeftoverParts, Failure> {
    let mock = args.behaviour.mock_mode;
    Ok(LeftoverParts {
        aws: aws::open(&args.aws, mock)?,
        options: LeftoverOptions {
            defaults: aws::defaults(&args.aws, mock),
            ..LeftoverOptions::default()
        },
    })
}

impl Session {
    /// Starts everything.
    pub(super) fn start(
        site: &Site,
        families: &[&'static Served],
        args: &RunArgs,
        board: &Board,
        will: Will,
    ) -> Result<Self, Failure> {
        let election = &args.election;
        let alone = !election.leader_elect || election.disable_leader_election;
        let fence = if will == Will::Observe {
            Fence::closed()
        } else if alone {
            Fence::open()
        } else {
            Fence::closed().minding_suspension(Arc::new(since_boot))
        };
        let clients = Clients::from_config(&site.config, fence).map_err(|error| {
            Failure::Cluster(format!("cannot speak to {}: {error}", site.server))
        })?;
        let lease = LeaseOptions::new(&site.namespace, &election.leader_election_name, &identity());
        let simulated = Tasks::new();
        let clock = Clock::wall();
        let rack = Arc::new(Kubelets::start(&clients, clock.clone(), &simulated));
        let sim = SimClasses::new(
            clients.reads.clone(),
            clock,
            rack.clone(),
            simulated.clone(),
        );
        let mut classes: Vec<Arc<dyn ClassFactory>> = vec![Arc::new(sim)];
        let mut rackspace = args.rackspace.defaults(&site.namespace)?;
        let mut cloudspace = args.rackspace.cloudspace().unwrap_or_default();
        let mut ovhcloud = args.ovhcloud.defaults()?;
        let secrets: Arc<dyn Secrets> = Arc::new(ClusterSecrets(clients.clone()));
        let mut proxmox = ProxmoxClasses::new(
            Arc::clone(&secrets),
            &site.namespace,
            Arc::new(Timestamp::now),
        );
        let mut bmcs = None;
        // A family that only renders needs no clouds that sell machines, and no rights to play them.
        if args.behaviour.mock_mode && families.iter().any(|one| one.has_machines()) {
            let machines = rack.clone() as Arc<dyn Rack>;
            let http = proxmox::mock(&clients, &site.namespace, machines, &simulated);
            proxmox = proxmox.simulated(http);
            bmcs = Some(MockBmcs::start(
                &clients,
                &site.namespace,
                rack.clone(),
                &simulated,
            ));
            rackspace = MockRackspace::start(&clients, &site.namespace, rack.clone(), &simulated)
                .behind(rackspace);
            cloudspace = MOCK_CLOUDSPACE;
            ovhcloud = MockOvh::start(&clients, &site.namespace, rack, &simulated).behind(ovhcloud);
        }
        classes.extend(RackspaceClasses::both(&rackspace, &secrets));
        let nodes = Arc::new(OnNodes(clients.reads.clone()));
        classes.push(Arc::new(OvhClasses::new(
            ovhcloud,
            Arc::clone(&secrets),
            nodes,
        )));
        let mut metal = RedfishClasses::new(secrets, &site.namespace, Arc::new(Timestamp::now));
        if let Some(bmcs) = bmcs {
            metal = metal.simulated(Arc::new(bmcs));
        }
        let smith = NodeSmithClasses::new(proxmox.clone(), metal.clone());
        classes.push(Arc::new(proxmox));
        classes.push(Arc::new(metal));
        classes.push(Arc::new(smith));
        let wiring = Wiring {
            leftover: Some(leftover(args)?),
            karpetrack: args.rackspace.karpetrack(cloudspace),
            classes,
            clock: Arc::new(SystemClock),
            families: families.to_vec(),
            cluster: site.cluster.clone(),
            ledgers: Arc::new(ConfigMapLedgers::new(clients.clone(), &site.namespace)),
            settings: settings(args),
            lease: (!alone && will == Will::Act).then_some(lease),
            decide: None,
            clients,
        };
        let mut registry = Registry::default();
        let engine = wiring.start(&mut registry);
        board.show(engine.context().clone(), registry);
        Ok(Session { engine, simulated })
    }

    /// Waits until it cannot go on, and says why.
    pub(super) async fn failed(&self) -> String {
        self.engine.failed().await
    }

    /// Ends everything and gives the lease back.
    pub(super) async fn stop(self) {
        self.engine.stop().await;
        self.simulated.stop().await;
    }
}

fn settings(args: &RunArgs) -> Settings {
    let behaviour = &args.behaviour;
    let mut settings = Settings {
        mode: if behaviour.observe_only {
            Mode::ObserveOnly
        } else {
            Mode::Act
        },
        paused: behaviour.paused,
        window: window(behaviour),
        disruption_period: behaviour.disruption_period,
        catalog_period: behaviour.catalog_period,
        garbage_period: behaviour.garbage_period,
        drift_period: behaviour.drift_period,
        own_node: args.cluster.node_name.as_deref().map(Into::into),
        // Names of machines must not repeat those of the process before.
        seed: u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or_default(),
        ..Settings::default()
    };
    settings.core = behaviour.settings.over(&settings.core);
    for (gate, on) in &behaviour.feature_gates {
        match gate.as_str() {
            "NodeRepair" => settings.repair = *on,
            "SpotToSpotConsolidation" => settings.spot_to_spot = *on,
            other => warn!(gate = other, "a feature gate without a meaning here"),
        }
    }
    settings
}

/// Where only one of the two is given, the other is as usual.
fn window(behaviour: &BehaviourArgs) -> Option<Window> {
    let usual = Window::default();
    let given = behaviour
        .batch_idle_duration
        .or(behaviour.batch_max_duration);
    given.map(|_| Window {
        idle: behaviour.batch_idle_duration.unwrap_or(usual.idle),
        max: behaviour.batch_max_duration.unwrap_or(usual.max),
    })
}

/// Who we are among the replicas; no other process has been or will be the same.
fn identity() -> String {
    let host = std::env::var("POD_NAME")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "joiner".to_owned());
    let (process, now) = (std::process::id(), Timestamp::now().as_nanosecond());
    format!("{host}_{process}_{now:x}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn feature_gates_are_heard() {
        let with = |gates: &str| {
            let line = Line::try_parse_from(["run", "--feature-gates", gates]).unwrap();
            settings(&line.run)
        };
        let usual = Settings::default();
        assert!(!usual.spot_to_spot && usual.repair);
        let changed = with("SpotToSpotConsolidation=true,NodeRepair=false");
        assert!(changed.spot_to_spot && !changed.repair);
        let changed = with("SpotToSpotConsolidation=false");
        assert!(!changed.spot_to_spot && changed.repair);
    }
}
