//! Nodes: registered, ready, and heard of from time to time.

use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use joiner_controllers::dialect::Event;
use joiner_controllers::edge::clients::WriteError;
use joiner_controllers::view::watch::{Need, trusted};
use joiner_embedded::cluster::kubelet::{
    LEASES, NodeSpec, lease_object, node_object, write_conditions,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{KWOK, Kubelets, STOPPED, Work};

/// A machine that is on.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    spec: NodeSpec,
    /// Its address, and that of its pods' network, follow from its name: they are the same after a restart.
    pub(super) address: String,
    network: (usize, usize),
    pods: usize,
    /// Identity of its Node, once it is registered.
    uid: Option<String>,
    ready: bool,
    ready_at: Timestamp,
    /// Its Node says that its kubelet does nothing any more.
    pub(super) stopped: bool,
    /// Its own conditions, as last reported and when.
    node: Value,
    reported: Timestamp,
}

impl Machine {
    pub(super) fn new(spec: NodeSpec, now: Timestamp) -> Self {
        // FNV: any spread will do, as long as it is the same in every process.
        let number = spec.name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let byte = |shift: u32, mask: u32| (number >> shift & mask) as usize;
        let address = format!("10.{}.{}.{}", byte(16, 63), byte(8, 255), byte(0, 255));
        let mut node = node_object(&spec, &address, now);
        // kwok goes by the phase: without it, it makes a node ready again of which somebody says that it is not.
        if spec.annotations.contains_key(KWOK) && spec.ready_after.is_zero() {
            node["status"]["phase"] = json!("Running");
        }
        Machine {
            address,
            network: (64 + byte(8, 127), byte(0, 255)),
            pods: 0,
            uid: None,
            ready: spec.ready_after.is_zero(),
            ready_at: now.checked_add(spec.ready_after).unwrap_or(Timestamp::MAX),
            stopped: false,
            node,
            reported: now,
            spec,
        }
    }

    /// Whether its pods are ours to run.
    pub(super) fn own(&self) -> bool {
        !self.spec.annotations.contains_key(KWOK)
    }

    /// Takes in what is said of its Node, and how to answer.
    fn hear(&mut self, said: &Said) -> Answer {
        let resumed = self.stopped && !said.stopped;
        self.stopped = said.stopped;
        if !self.own() || self.uid.is_none() || self.stopped {
            Answer::Silence
        } else if resumed {
            Answer::Resume
        } else if self.ready && !said.ready {
            Answer::Contradict
        } else {
            Answer::Silence
        }
    }

    /// An address for one more pod.
    pub(super) fn pod_address(&mut self) -> String {
        self.pods += 1;
        let (high, low) = self.network;
        format!("10.{high}.{low}.{}", self.pods % 254 + 1)
    }
}

/// What a Node says of its machine.
struct Said {
    name: String,
    ready: bool,
    stopped: bool,
}

impl Said {
    fn read(node: Node) -> Self {
        let annotations = node.metadata.annotations.as_ref();
        let stopped = annotations.and_then(|all| all.get(STOPPED));
        Said {
            ready: condition(node.status.as_ref(), "Ready") == Some("True"),
            stopped: stopped.is_some_and(|value| value == "true"),
            name: node.metadata.name.unwrap_or_default(),
        }
    }
}

/// What a kubelet does about what is said of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Silence,
    /// It is well, whoever says otherwise.
    Contradict,
    /// It takes up its work again.
    Resume,
}

impl Kubelets {
    /// Registers a machine, or reports that it is ready.
    pub(super) async fn sync_node(&self, name: &str) {
        let Some(machine) = self.state().machines.get(name).cloned() else {
            return;
        };
        if machine.uid.is_none() {
            match self.register(&machine).await {
                Ok(_) if !machine.own() => {
                    info!(node = name, "registered, and left to kwok");
                    return;
                }
                Ok(registered) => {
                    info!(node = name, "registered");
                    self.queue.add(Work::Beat(name.to_owned()));
                    if !registered {
                        self.take_over(name).await;
                    }
                }
                Err(error) => {
                    warn!(node = name, %error, "the node is not registered yet");
                    return self.again(Work::Node(name.to_owned()));
                }
            }
        }
        let now = self.clock.now();
        let wait = {
            let mut state = self.state();
            let Some(machine) = state.machines.get_mut(name) else {
                return;
            };
            if machine.ready {
                return;
            }
            machine.ready = machine.ready_at <= now;
            (!machine.ready).then_some(machine.ready_at)
        };
        match wait {
            Some(then) => self.at(Work::Node(name.to_owned()), now, then),
            None => self.report_node(name).await,
        }
    }

    /// Creates the Node; `false` if it is there already, as after a restart.
    async fn register(&self, machine: &Machine) -> Result<bool, WriteError> {
        let name = &machine.spec.name;
        let api: Api<Node> = Api::all(self.clients.writes.clone());
        let wanted: Node = read(machine.node.clone())?;
        let (node, created) = match api.create(&PostParams::default(), &wanted).await {
            Ok(node) => (node, true),
            Err(error) => match WriteError::from(error) {
                WriteError::Exists(_) => (api.get(name).await?, false),
                other => return Err(other),
            },
        };
        let mut state = self.state();
        if let Some(machine) = state.machines.get_mut(name) {
            machine.uid = node.metadata.uid;
            if !created {
                // It was ready before this process began to speak for it.
                machine.ready = condition(node.status.as_ref(), "Ready") != Some("False");
            }
        }
        Ok(created)
    }

    /// Goes on where another process stopped: the node is alive, and its pods are found again.
    async fn take_over(&self, name: &str) {
        self.report_node(name).await;
        if let Err(error) = self.find_pods(name).await {
            warn!(node = name, %error, "its pods are not found yet");
            if let Some(machine) = self.state().machines.get_mut(name) {
                machine.uid = None;
            }
            self.again(Work::Node(name.to_owned()));
        }
    }

    /// Renews the lease of a node, and reports the node now and then.
    pub(super) async fn beat(&self, name: &str) {
        let Some(machine) = self.state().machines.get(name).cloned() else {
            return;
        };
        let next = Instant::now() + self.options.lease_every;
        if machine.stopped {
            return self.queue.add_at(Work::Beat(name.to_owned()), next);
        }
        if let Err(error) = self.renew(&machine).await {
            debug!(node = name, %error, "lease not renewed");
        }
        let silent = self.clock.now().duration_since(machine.reported);
        if Duration::try_from(silent).unwrap_or_default() >= self.options.status_every {
            self.report_node(name).await;
        }
        self.queue.add_at(Work::Beat(name.to_owned()), next);
    }

    async fn renew(&self, machine: &Machine) -> Result<(), WriteError> {
        let name = &machine.spec.name;
        let api: Api<Lease> = Api::namespaced(self.clients.writes.clone(), LEASES);
        let now = self.clock.rfc3339_micros();
        let renewed = Patch::Merge(json!({"spec": {"renewTime": now}}));
        let renewed = api.patch(name, &PatchParams::default(), &renewed).await;
        match renewed.map_err(WriteError::from) {
            Err(WriteError::Gone(_)) => {
                let node = json!({"metadata": {"name": name, "uid": machine.uid}});
                let lease: Lease = read(lease_object(&node, &now))?;
                api.create(&PostParams::default(), &lease).await?;
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Reports the conditions of a node.
    async fn report_node(&self, name: &str) {
        let patch = {
            let now = self.clock.now();
            let mut state = self.state();
            let Some(machine) = state.machines.get_mut(name) else {
                return;
            };
            if machine.stopped {
                return;
            }
            machine.reported = now;
            write_conditions(&mut machine.node, machine.ready, now);
            json!({"status": {"conditions": machine.node["status"]["conditions"]}})
        };
        let api: Api<Node> = Api::all(self.clients.writes.clone());
        let parameters = PatchParams::default();
        // Strategic: conditions of others stay as they are.
        let reported = api
            .patch_status(name, &parameters, &Patch::Strategic(patch))
            .await
            .map_err(WriteError::from);
        match reported {
            Ok(_) | Err(WriteError::Gone(_) | WriteError::NotLeader) => {}
            Err(error) => {
                debug!(node = name, %error, "node status not written");
                if let Some(machine) = self.state().machines.get_mut(name) {
                    machine.reported = Timestamp::UNIX_EPOCH;
                }
            }
        }
    }

    /// Contradicts whoever says that a machine of ours is not well, unless its kubelet is said to have stopped.
    pub(super) async fn watch_nodes(&self) {
        let api: Api<Node> = Api::all(self.clients.reads.clone());
        let mut seen = trusted(api, Need::Required, Said::read);
        while let Some(event) = seen.next().await {
            let (Event::Listed(said) | Event::Changed(said)) = event else {
                continue;
            };
            let answer = {
                let mut state = self.state();
                let machine = state.machines.get_mut(&said.name);
                machine.map_or(Answer::Silence, |machine| machine.hear(&said))
            };
            match answer {
                Answer::Silence => {}
                Answer::Contradict => self.report_node(&said.name).await,
                Answer::Resume => self.take_over(&said.name).await,
            }
        }
    }
}

fn condition<'a>(
    status: Option<&'a k8s_openapi::api::core::v1::NodeStatus>,
    kind: &str,
) -> Option<&'a str> {
    let all = status?.conditions.as_ref()?;
    let one = all.iter().find(|one| one.type_ == kind)?;
    Some(&one.status)
}

fn read<T: DeserializeOwned>(object: Value) -> Result<T, WriteError> {
    serde_json::from_value(object).map_err(|error| WriteError::Refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_keeps_its_address_across_restarts() {
        let machine = || Machine::new(NodeSpec::named("pool-x1"), Timestamp::UNIX_EPOCH);
        let (first, mut second) = (machine(), machine());
        assert_eq!(first.address, second.address);
        let other = Machine::new(NodeSpec::named("pool-x2"), Timestamp::UNIX_EPOCH);
        assert_ne!(first.address, other.address);
        assert_ne!(second.pod_address(), second.pod_address());
    }
    #[test]
    fn a_node_that_is_left_to_kwok_has_been_ready_and_need_not_be_made_so() {
        let mut spec = NodeSpec::named("pool-x1");
        spec.ready_after = jiff::SignedDuration::ZERO;
        let phase = |spec: &NodeSpec| {
            let machine = Machine::new(spec.clone(), Timestamp::UNIX_EPOCH);
            machine.node["status"]["phase"].clone()
        };
        assert_eq!(phase(&spec), Value::Null);
        spec.annotations.insert(KWOK.to_owned(), "fake".to_owned());
        assert_eq!(phase(&spec), "Running");
    }

    #[test]
    fn what_is_said_of_a_node_stays_once_its_kubelet_has_stopped() {
        let mut machine = Machine::new(NodeSpec::named("pool-x1"), Timestamp::UNIX_EPOCH);
        machine.uid = Some("u".to_owned());
        machine.ready = true;
        let said = |ready, stopped| Said {
            name: "pool-x1".to_owned(),
            ready,
            stopped,
        };
        assert_eq!(machine.hear(&said(true, false)), Answer::Silence);
        assert_eq!(machine.hear(&said(false, false)), Answer::Contradict);
        assert_eq!(machine.hear(&said(false, true)), Answer::Silence);
        assert!(machine.stopped);
        assert_eq!(machine.hear(&said(false, false)), Answer::Resume);
        assert_eq!(machine.hear(&said(true, false)), Answer::Silence);
    }
}
