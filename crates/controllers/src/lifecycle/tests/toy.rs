//! A world small enough to reason about.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, PodSpec};
use joiner_core::resources::Resources;
use joiner_core::taints::{Effect, Taint};
use joiner_providers::{
    LaunchRequest, Machine, MachineId, MachineState, NodeLink, ProviderError, Timeouts, Uid,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::edge::clients::WriteError;
use crate::edge::clock;
use crate::lifecycle::{Cause, Memory, NodeChange, Observed, Step, Wake, step};
use crate::record::{
    ClassKey, Key, MACHINE_UID, MANAGED_BY, MachineRecord, MachineStatus, Mark, MetadataChange,
    Offer, manager,
};
use crate::view::nodes::{NodeCondition, NodeRecord, TaintTime};
use crate::view::pods::{DoNotDisrupt, Owner, PodKey, PodRecord};

const FINALIZER: &str = "karpenter.sh/termination";

/// What survives a crash, and what is there beside us.
#[expect(clippy::struct_excessive_bools, reason = "independent ways to behave")]
pub(super) struct Toy {
    pub(super) now: Timestamp,
    start: Timestamp,
    pub(super) machine: Option<MachineRecord>,
    pub(super) node: Option<NodeRecord>,
    pub(super) pods: Vec<PodRecord>,
    pub(super) attached: Vec<Name>,
    pub(super) pioneers: BTreeSet<Name>,
    pub(super) reserved: bool,
    pub(super) pods_to_bind: bool,
    pub(super) cloud: Vec<Machine>,
    pub(super) bought: u32,
    pub(super) terminations: u32,
    pub(super) log: Vec<String>,
    pub(super) given_up: Option<Cause>,
    pub(super) memory: Memory,
    /// Requests that went out.
    pub(super) requests: usize,
    // How the world behaves.
    pub(super) sold_out: Vec<Name>,
    pub(super) within_limits: bool,
    pub(super) shows_phases: bool,
    pub(super) owns_nodes: bool,
    pub(super) cordons: bool,
    pub(super) joins_after: Option<Duration>,
    pub(super) pending: Option<String>,
    pub(super) removes_startup_taints: bool,
    pub(super) held_back: Option<String>,
    pub(super) trouble: Option<ProviderError>,
    pub(super) loses_answers: bool,
    pub(super) hides: bool,
    pub(super) provider: bool,
    pub(super) class_missing: bool,
    pub(super) consolidate_after: Option<jiff::SignedDuration>,
    pub(super) last_pod_event: Option<Timestamp>,
    /// Writes to the object and its node.
    pub(super) writes: Vec<&'static str>,
}

/// Whether the process lives to hear the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hears {
    Yes,
    No,
}

fn offer(kind: &str, cpu: i64) -> Offer {
    let capacity = Resources::new().with("cpu", cpu).with("pods", 110);
    Offer {
        purchase: Purchase {
            catalog: "toy".into(),
            instance_type: kind.into(),
            zone: "a".into(),
            capacity_type: CapacityType::Spot,
            reservation: None,
            host: None,
            price: Money::from_dollars(0.1),
        },
        capacity: capacity.clone(),
        allocatable: capacity,
        labels: Labels::from([("node.kubernetes.io/instance-type".into(), kind.into())]),
    }
}

fn taint(key: &str) -> Taint {
    Taint {
        key: key.into(),
        value: "".into(),
        effect: Effect::NoSchedule,
    }
}

pub(super) fn pod(name: &str) -> PodRecord {
    PodRecord {
        key: PodKey {
            namespace: "default".into(),
            name: name.into(),
        },
        uid: name.into(),
        version: 1,
        created: Timestamp::UNIX_EPOCH,
        deleting: None,
        grace_seconds: 30,
        node: Some("node".into()),
        spec: Arc::new(PodSpec::default()),
        claims: Vec::new(),
        terminal: false,
        unschedulable: false,
        untried: false,
        tried: None,
        preempting: false,
        nominated: false,
        owner: Owner::Other,
        daemon_set: None,
        do_not_disrupt: DoNotDisrupt::No,
        unready: false,
        ready: None,
        deletion_cost: 0,
        critical: false,
        tolerates_disruption: false,
        resource_claims: false,
    }
}

impl Toy {
    pub(super) fn new() -> Self {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let machine = MachineRecord {
            key: Key {
                dialect: "toy",
                namespace: "".into(),
                name: "pool-1".into(),
            },
            uid: Uid("uid-1".into()),
            version: 1,
            generation: 1,
            created: now,
            deleting: None,
            finalizer: true,
            pool: Some("pool".into()),
            class: ClassKey::default(),
            labels: Labels::from([("karpenter.sh/nodepool".into(), "pool".into())]),
            annotations: Labels::from([(MANAGED_BY.into(), manager("cluster", "toy"))]),
            node_annotations: Labels::new(),
            requirements: Vec::new(),
            requests: Resources::new().with("cpu", 1000),
            taints: vec![taint("team")],
            startup_taints: vec![taint("cni")],
            expire_after: None,
            termination_grace: None,
            registration_timeout: None,
            max_price: None,
            offers: Arc::new(vec![offer("small", 2000), offer("large", 4000)]),
            status: MachineStatus::default(),
        };
        Toy {
            now,
            start: now,
            machine: Some(machine),
            node: None,
            pods: Vec::new(),
            attached: Vec::new(),
            pioneers: BTreeSet::new(),
            reserved: false,
            pods_to_bind: false,
            cloud: Vec::new(),
            bought: 0,
            terminations: 0,
            log: Vec::new(),
            given_up: None,
            memory: Memory::default(),
            requests: 0,
            sold_out: Vec::new(),
            within_limits: true,
            shows_phases: false,
            owns_nodes: true,
            cordons: false,
            joins_after: Some(Duration::from_secs(30)),
            pending: None,
            removes_startup_taints: true,
            held_back: None,
            trouble: None,
            loses_answers: false,
            hides: false,
            provider: true,
            class_missing: false,
            consolidate_after: None,
            last_pod_event: None,
            writes: Vec::new(),
        }
    }

    pub(super) fn machine(&self) -> &MachineRecord {
        self.machine.as_ref().unwrap()
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut MachineRecord)) {
        let machine = self.machine.as_mut().unwrap();
        change(machine);
        machine.version += 1;
    }

    pub(super) fn elapsed(&self) -> Duration {
        clock::since(self.now, self.start)
    }

    /// The user deletes the object.
    pub(super) fn delete(&mut self) {
        let now = self.now;
        self.start = now;
        self.change(|machine| machine.deleting = Some(now));
    }

    /// Pods that were asked to leave, in this order.
    pub(super) fn evicted(&self) -> Vec<&str> {
        let lines = self.log.iter().filter(|line| line.starts_with("evict"));
        let pods = lines.map(|line| line.strip_prefix("evict default/").unwrap_or(line));
        pods.collect()
    }

    fn observed(&mut self) -> Observed {
        let machine = self.machine.clone().unwrap();
        if machine.deleting.is_some() && self.memory.drain_began.is_none() {
            self.memory.drain_began = Some(self.now);
        }
        let mut links = self.memory.links.clone();
        if let Some(id) = &machine.status.provider_id {
            links.push(NodeLink::ProviderId(id.clone()));
        }
        let nodes = self.node.iter().filter(|node| {
            let free = node.unclaimed() || node.belongs_to(&machine.uid);
            machine.registered() || (free && links.iter().any(|link| node.is(link)))
        });
        let nodes: Vec<_> = nodes.cloned().map(Arc::new).collect();
        if !nodes.is_empty() {
            self.memory.joined.get_or_insert(self.now);
        }
        let mut timeouts = Timeouts::default();
        if let Some(own) = machine.registration_timeout {
            timeouts.registration = Duration::try_from(own).unwrap();
        }
        Observed {
            now: self.now,
            timeouts: self.provider.then_some(timeouts),
            catalog_read: self.provider,
            unmet: false,
            class_missing: !self.provider && self.class_missing,
            finalizer: FINALIZER,
            owner: self.owns_nodes.then(|| OwnerReference {
                uid: machine.uid.0.to_string(),
                ..OwnerReference::default()
            }),
            cordons: self.cordons,
            adoption: None,
            mark: Mark::new("cluster", "toy", &machine.uid),
            node_labels: Labels::new(),
            shows_phases: self.shows_phases,
            nodes,
            pods: self.pods.iter().cloned().map(Arc::new).collect(),
            pioneers: self.pioneers.clone(),
            reserved: self.reserved,
            pods_to_bind: self.pods_to_bind,
            attached: self.attached.clone(),
            consolidate_after: self.consolidate_after,
            last_pod_event: self.last_pod_event,
            within_limits: self.within_limits || machine.tried() == 0,
            memory: self.memory.clone(),
        }
    }

    fn evict(&mut self, pods: Vec<(PodKey, Name)>, heard: bool) {
        for (pod, uid) in pods {
            self.log.push(format!("evict {pod}"));
            let answer = if let Some(said) = &self.held_back {
                Err(WriteError::HeldBack {
                    message: said.clone(),
                    retry_after: None,
                })
            } else {
                self.pods.retain(|one| one.uid != uid);
                Ok(())
            };
            if heard {
                self.memory.evicted(&uid, answer, self.now);
            }
        }
    }

    pub(super) fn next(&mut self) -> Step {
        let observed = self.observed();
        step(self.machine(), &observed)
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now = clock::after(self.now, time);
        self.live();
    }

    /// Kubelets, and whoever takes startup taints off.
    fn live(&mut self) {
        if let (Some(after), Some(bought)) = (self.joins_after, self.cloud.first())
            && bought.state == MachineState::Running
            && self.node.is_none()
            && clock::since(self.now, bought.created.unwrap()) >= after
        {
            self.node = Some(joined(bought, self.now));
        }
        if self.removes_startup_taints
            && let Some(node) = self.node.as_mut()
            && node.labels.contains_key("karpenter.sh/registered")
        {
            node.taints.retain(|taint| &*taint.key != "cni");
        }
    }

    /// One step; `false` if there was nothing to do.
    pub(super) fn advance(&mut self, hears: Hears) -> bool {
        self.live();
        if self.machine.is_none() {
            return false;
        }
        match self.next() {
            Step::Wait(Wake::At(at)) => {
                let at = at.max(clock::after(self.now, Duration::from_millis(100)));
                self.now = at.min(clock::after(self.now, Duration::from_secs(10)));
                false
            }
            Step::Wait(Wake::OnChange) => {
                self.now = clock::after(self.now, Duration::from_secs(1));
                false
            }
            step => {
                self.requests += 1;
                self.perform(step, hears);
                if hears == Hears::No {
                    self.memory = Memory::default();
                }
                true
            }
        }
    }

    pub(super) fn run_until(&mut self, mut done: impl FnMut(&Toy) -> bool) {
        for _ in 0..100_000 {
            if done(self) {
                return;
            }
            self.advance(Hears::Yes);
        }
        panic!(
            "never came about; log: {:#?}, machine: {:#?}",
            self.log, self.machine
        );
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = clock::after(self.now, time);
        while self.now < end && self.machine.is_some() {
            self.advance(Hears::Yes);
        }
    }

    fn perform(&mut self, step: Step, hears: Hears) {
        let now = self.now;
        let heard = hears == Hears::Yes;
        self.writes.extend(match &step {
            Step::Metadata(_) => Some("metadata"),
            Step::Status(_) => Some("status"),
            Step::Node(_) => Some("node"),
            Step::DeleteNode { .. } => Some("delete node"),
            Step::Release => Some("release"),
            _ => None,
        });
        match step {
            Step::Wait(_) | Step::AskForOffers => unreachable!("handled before"),
            Step::Metadata(change) => self.change(|machine| patch(machine, &change)),
            Step::Status(status) => self.change(|machine| machine.status = *status),
            Step::Launch(request) => {
                let offer = self.machine().tried();
                let answer = self.launch(&request);
                if heard {
                    self.memory.launched(offer, answer, now);
                }
            }
            Step::Find => {
                let uid = self.machine().uid.clone();
                let answer = self.look(|one| one.uid.as_ref() == Some(&uid));
                if heard {
                    self.memory.seen(answer, now);
                }
            }
            Step::Get(id) => {
                let answer = self.look(|one| one.id == id);
                if heard {
                    self.memory.seen(answer, now);
                }
            }
            Step::Terminate(id) => {
                let answer = self.terminate(&id);
                if heard {
                    self.memory.terminated(answer, now);
                }
            }
            Step::Node(change) => self.patch_node(&change),
            Step::DeleteNode { .. } => {
                self.log.push("delete node".into());
                self.node.as_mut().unwrap().deleting = true;
                self.settle_node();
            }
            Step::Evict { pods, size } => {
                self.memory.left = Some((size, now));
                self.evict(pods, heard);
            }
            Step::DeletePod {
                pod,
                uid,
                grace_seconds,
            } => {
                self.log
                    .push(format!("delete pod {pod} within {grace_seconds}s"));
                self.pods.retain(|one| one.uid != uid);
            }
            Step::Delete(cause) => {
                self.given_up = Some(cause);
                self.change(|machine| machine.deleting = machine.deleting.or(Some(now)));
            }
            Step::Release => {
                self.log.push("release".into());
                self.machine = None;
            }
        }
    }

    fn launch(&mut self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        let known = self
            .cloud
            .iter()
            .find(|one| one.uid.as_ref() == Some(&request.uid))
            .cloned();
        if let Some(known) = known {
            return if self.loses_answers {
                Err(ProviderError::Transient("timeout".into()))
            } else {
                Ok(known)
            };
        }
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        if self.sold_out.contains(&request.purchase.instance_type) {
            return Err(ProviderError::OutOfCapacity("sold out".into()));
        }
        self.bought += 1;
        self.log
            .push(format!("launch {}", request.purchase.instance_type));
        let machine = Machine {
            id: MachineId(format!("i-{}", self.bought).into()),
            uid: Some(request.uid.clone()),
            state: self
                .pending
                .clone()
                .map_or(MachineState::Running, MachineState::Pending),
            links: vec![NodeLink::ProviderId(
                format!("toy://i-{}", self.bought).into(),
            )],
            instance_type: request.purchase.instance_type.clone(),
            zone: "a".into(),
            region: "".into(),
            capacity_type: request.purchase.capacity_type,
            price: Some(request.purchase.price),
            capacity: request.capacity.clone(),
            allocatable: request.capacity.clone(),
            labels: Labels::new(),
            created: Some(self.now),
        };
        self.cloud.push(machine.clone());
        if self.loses_answers {
            Err(ProviderError::Transient("timeout".into()))
        } else {
            Ok(machine)
        }
    }

    fn look(&self, is: impl Fn(&Machine) -> bool) -> Result<Machine, ProviderError> {
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        let found = self
            .cloud
            .iter()
            .find(|one| !self.hides && is(one))
            .cloned();
        found.ok_or_else(|| ProviderError::NotFound("no such machine".into()))
    }

    fn terminate(&mut self, id: &MachineId) -> Result<(), ProviderError> {
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        self.terminations += 1;
        self.log.push("terminate".into());
        let Some(machine) = self.cloud.iter_mut().find(|one| one.id == *id) else {
            return Err(ProviderError::NotFound("no such machine".into()));
        };
        if machine.state == MachineState::Stopping {
            self.cloud.retain(|one| one.id != *id);
            return Err(ProviderError::NotFound("no such machine".into()));
        }
        machine.state = MachineState::Stopping;
        Ok(())
    }

    fn patch_node(&mut self, change: &NodeChange) {
        let node = self.node.as_mut().unwrap();
        node.version += 1;
        node.labels.extend(change.labels.clone());
        if let Some(taints) = &change.taints {
            if taints.len() > node.taints.len() {
                self.log.push("taint".into());
            }
            let new = taints.iter().filter(|one| !node.taints.contains(one));
            let times = new.filter_map(|one| {
                Some(TaintTime {
                    key: one.key.clone(),
                    effect: one.effect,
                    time: change.taint_time?,
                })
            });
            node.taint_times.extend(times);
            node.taints.clone_from(taints);
        }
        if let Some(finalizers) = &change.finalizers {
            node.finalizers.clone_from(finalizers);
        }
        let annotation = |key: &str| change.annotations.get(key).map(AsRef::as_ref);
        if let Some(mark) = Mark::read(annotation) {
            node.mark = Some(mark);
        }
        if let Some(owner) = &change.owner {
            node.owners.push(owner.uid.as_str().into());
        }
        node.owners
            .extend(change.annotations.get(MACHINE_UID).cloned());
        node.unschedulable |= change.cordon;
        self.settle_node();
    }

    fn settle_node(&mut self) {
        if self
            .node
            .as_ref()
            .is_some_and(|node| node.deleting && node.finalizers.is_empty())
        {
            self.node = None;
        }
    }
}

fn patch(machine: &mut MachineRecord, change: &MetadataChange) {
    let apply = |all: &mut Labels, changes: &std::collections::BTreeMap<Name, Option<Name>>| {
        for (key, value) in changes {
            match value {
                Some(value) => all.insert(key.clone(), value.clone()),
                None => all.remove(key),
            };
        }
    };
    apply(&mut machine.labels, &change.labels);
    apply(&mut machine.annotations, &change.annotations);
    machine.finalizer = change.finalizer.unwrap_or(machine.finalizer);
}

fn joined(machine: &Machine, now: Timestamp) -> NodeRecord {
    let NodeLink::ProviderId(id) = &machine.links[0] else {
        unreachable!("the toy cloud links by provider id")
    };
    NodeRecord {
        name: "node".into(),
        uid: "node-uid".into(),
        version: 1,
        created: now,
        deleting: false,
        labels: Labels::new(),
        do_not_disrupt: false,
        taints: vec![Taint {
            key: "karpenter.sh/unregistered".into(),
            value: "".into(),
            effect: Effect::NoExecute,
        }],
        taint_times: Vec::new(),
        strange_taints: Vec::new(),
        provider_id: id.clone(),
        system_uuid: "".into(),
        capacity: machine.capacity.clone(),
        allocatable: machine.allocatable.clone(),
        conditions: vec![NodeCondition {
            kind: "Ready".into(),
            status: "True".into(),
            since: now,
        }],
        unschedulable: false,
        owners: Vec::new(),
        finalizers: Vec::new(),
        mark: None,
    }
}
