//! The machines that the cloud has sold, and what happens to each of them when.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::problem::{CapacityType, InstanceType, Offering};
use joiner_core::resources::{CPU, Resources};
use joiner_core::taints::{Effect, Taint};
use joiner_providers::{
    LaunchRequest, Machine, MachineId, MachineState, NodeLink, Notice, NoticeKind, Uid,
};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::market::Stream;
use super::{SimCloudOptions, signed};
use joiner_embedded::cluster::kubelet::NodeSpec;

/// Taint that nodes come with until whoever bought them knows them.
const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// Something to be done in the world of kubelets.
pub(super) enum Order {
    Boot(Box<NodeSpec>),
    Kill(String),
    /// It is gone for good; whether because the cloud took it back.
    Forget {
        id: MachineId,
        taken: bool,
    },
}

/// A machine that was sold, and what happens to it when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sold {
    machine: Machine,
    spec: NodeSpec,
    /// When it becomes a node; `None` if it never will.
    boots: Option<Timestamp>,
    /// Whether it is switched on, here and now.
    #[serde(skip)]
    booted: bool,
    /// Whether the ledger has it.
    #[serde(skip)]
    stored: bool,
    /// When it is taken back, and when that is announced.
    taken: Option<Timestamp>,
    announced: Option<Timestamp>,
    /// Whether anybody has heard of that.
    #[serde(skip)]
    heard: bool,
    /// When it is gone for good.
    ends: Option<Timestamp>,
}

/// All machines of the cloud, by their id, and how many a forgetful cloud has numbered.
#[derive(Default)]
pub(super) struct Machines(BTreeMap<MachineId, Sold>, u64);

impl Machines {
    pub(super) fn launch(
        &mut self,
        request: &LaunchRequest,
        kind: &InstanceType,
        offering: &Offering,
        options: &SimCloudOptions,
        now: Timestamp,
    ) -> Machine {
        let mut id = format!("sim:///{}/{}", offering.zone, request.uid.0);
        if options.forgets_orders {
            self.1 += 1;
            id = format!("{id}-{}", self.1);
        }
        let id = MachineId(id.into());
        let machine = machine(&id, request, kind, offering, now);
        let mut boot = options.market.random(Stream::Boot, &request.uid.0, 0);
        let span = options.boot_max.saturating_sub(options.boot_min).as_secs();
        let boot = options.boot_min + Duration::from_secs(boot.random_range(0..=span));
        let draw = options
            .market
            .random(Stream::Stillborn, &request.uid.0, 0)
            .random_range(0..100);
        let life = match offering.capacity_type {
            CapacityType::Spot => options.market.life(&request.uid.0),
            _ => None,
        };
        let taken = life.map(|life| now.saturating_add(signed(life)).unwrap_or(Timestamp::MAX));
        let sold = Sold {
            spec: node_spec(&machine, request, options),
            machine: machine.clone(),
            boots: (draw >= options.stillborn_percent).then(|| later(now, boot)),
            booted: false,
            stored: false,
            announced: taken.map(|at| earlier(at, options.market.notice)),
            heard: false,
            taken,
            ends: None,
        };
        self.0.insert(id, sold);
        machine
    }

    /// Puts a machine there that somebody else runs: it bears no mark of ours and becomes no node.
    pub(super) fn plant(&mut self, machine: Machine) {
        let sold = Sold {
            spec: NodeSpec::named(&*machine.id.0),
            boots: None,
            booted: false,
            stored: true,
            taken: None,
            announced: None,
            heard: false,
            ends: None,
            machine: machine.clone(),
        };
        self.0.insert(machine.id, sold);
    }

    pub(super) fn by_uid(&self, uid: &Uid, now: Timestamp) -> Option<Machine> {
        self.0
            .values()
            .find(|sold| sold.machine.uid.as_ref() == Some(uid))
            .map(|sold| sold.shown(now))
    }

    pub(super) fn get(&self, id: &MachineId, now: Timestamp) -> Option<Machine> {
        self.0.get(id).map(|sold| sold.shown(now))
    }

    pub(super) fn list(&self, now: Timestamp) -> Vec<Machine> {
        self.0.values().map(|sold| sold.shown(now)).collect()
    }

    /// Goes on with what the ledger knows.
    pub(super) fn resume(&mut self, known: Vec<Sold>) {
        let known = known.into_iter().map(|sold| {
            let stored = true;
            (sold.machine.id.clone(), Sold { stored, ..sold })
        });
        self.0 = known.collect();
    }

    /// Switches off everything that runs here; it runs elsewhere from now on.
    pub(super) fn hand_over(&mut self) -> Vec<Order> {
        let gone = std::mem::take(&mut self.0);
        let running = gone.into_values().filter(|sold| sold.booted);
        running.map(|sold| Order::Kill(sold.spec.name)).collect()
    }

    /// What is known of a machine, if the ledger does not have it yet.
    pub(super) fn unstored(&self, id: &MachineId) -> Option<Sold> {
        self.0.get(id).filter(|sold| !sold.stored).cloned()
    }

    /// The ledger has it now.
    pub(super) fn stored(&mut self, id: &MachineId) {
        if let Some(sold) = self.0.get_mut(id) {
            sold.stored = true;
        }
    }

    /// Begins to take a machine down; `None` if there is none, otherwise whether it was not going yet.
    pub(super) fn terminate(
        &mut self,
        id: &MachineId,
        now: Timestamp,
        after: Duration,
    ) -> Option<bool> {
        let sold = self.0.get_mut(id)?;
        let first = sold.ends.is_none();
        if first {
            sold.ends = Some(later(now, after));
            sold.stored = false;
        }
        Some(first)
    }

    pub(super) fn interrupt(&mut self, id: &MachineId, now: Timestamp, notice: Duration) {
        if let Some(sold) = self.0.get_mut(id) {
            sold.announced = Some(now);
            sold.taken = Some(later(now, notice));
        }
    }

    /// Nothing is taken back any more that has not been announced.
    pub(super) fn keep(&mut self, now: Timestamp) {
        let open = |sold: &&mut Sold| sold.announced.is_none_or(|at| at > now);
        for sold in self.0.values_mut().filter(open) {
            sold.announced = None;
            sold.taken = None;
        }
    }

    /// Machines whose owner hears just now that they will be taken back.
    pub(super) fn hear(&mut self, now: Timestamp) -> Vec<MachineId> {
        let mut news = Vec::new();
        for (id, sold) in &mut self.0 {
            if !sold.heard && sold.is_announced(now) {
                sold.heard = true;
                news.push(id.clone());
            }
        }
        news
    }

    /// What has been announced and not yet happened.
    pub(super) fn notices(&self, now: Timestamp) -> Vec<Notice> {
        self.0
            .values()
            .filter(|sold| sold.is_announced(now))
            .map(|sold| Notice {
                id: sold.machine.id.clone(),
                kind: NoticeKind::Interruption,
                at: sold.taken,
            })
            .collect()
    }

    /// What is to be done now, and when there is something to do again.
    pub(super) fn due(&mut self, now: Timestamp) -> (Vec<Order>, Option<Timestamp>) {
        let mut orders = Vec::new();
        let mut next = None;
        self.0.retain(|_, sold| {
            if sold.may_boot() && sold.boots.is_some_and(|at| at <= now) {
                sold.booted = true;
                orders.push(Order::Boot(Box::new(sold.spec.clone())));
            }
            let over = [sold.ends, sold.taken].into_iter().flatten().min();
            if over.is_some_and(|at| at <= now) {
                if sold.booted {
                    orders.push(Order::Kill(sold.spec.name.clone()));
                }
                orders.push(Order::Forget {
                    id: sold.machine.id.clone(),
                    taken: sold.ends.is_none_or(|at| at > now),
                });
                return false;
            }
            let boots = sold.boots.filter(|_| sold.may_boot());
            next = [next, boots, over].into_iter().flatten().min();
            true
        });
        (orders, next)
    }
}

impl Sold {
    /// Whether it is announced that it will be taken back, and it has not gone yet.
    fn is_announced(&self, now: Timestamp) -> bool {
        self.announced.is_some_and(|at| at <= now) && self.ends.is_none()
    }

    /// What the cloud calls it.
    pub fn id(&self) -> &MachineId {
        &self.machine.id
    }

    /// A machine that nobody remembers could not be found again, so it does not begin to run.
    fn may_boot(&self) -> bool {
        self.stored && !self.booted && self.ends.is_none()
    }

    fn shown(&self, now: Timestamp) -> Machine {
        let state = if self.ends.is_some() {
            MachineState::Stopping
        } else if self.booted || self.boots.is_some_and(|at| at <= now) {
            MachineState::Running
        } else {
            MachineState::Pending("booting".to_owned())
        };
        Machine {
            state,
            ..self.machine.clone()
        }
    }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(signed(by)).unwrap_or(Timestamp::MAX)
}

fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_sub(signed(by)).unwrap_or(Timestamp::MIN)
}

fn machine(
    id: &MachineId,
    request: &LaunchRequest,
    kind: &InstanceType,
    offering: &Offering,
    now: Timestamp,
) -> Machine {
    Machine {
        id: id.clone(),
        uid: Some(request.uid.clone()),
        state: MachineState::Pending("booting".to_owned()),
        links: vec![NodeLink::ProviderId(id.0.clone())],
        instance_type: kind.name.clone(),
        zone: offering.zone.clone(),
        region: offering.region.clone(),
        capacity_type: offering.capacity_type,
        price: Some(offering.price),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        labels: kind.labels.clone(),
        created: Some(now),
    }
}

fn node_spec(machine: &Machine, request: &LaunchRequest, options: &SimCloudOptions) -> NodeSpec {
    let mut spec = NodeSpec::named(&*request.name)
        .label(labels::INSTANCE_TYPE, &machine.instance_type)
        .label(labels::ZONE, &machine.zone)
        .label(labels::CAPACITY_TYPE, &machine.capacity_type.to_string());
    if !machine.region.is_empty() {
        spec = spec.label(labels::REGION, &machine.region);
    }
    for (key, value) in machine.labels.iter().chain(&request.labels) {
        spec = spec.label(key, value);
    }
    spec.architecture = machine.labels.get(labels::ARCH).map(ToString::to_string);
    spec.provider_id = machine.id.to_string();
    let taints = request.taints.iter().chain(&request.startup_taints);
    spec.taints = taints.map(taint).collect();
    // As the clouds that Karpenter knows: nobody comes before the node is known for what it is.
    let unregistered = Taint {
        key: UNREGISTERED.into(),
        value: "".into(),
        effect: Effect::NoExecute,
    };
    spec.taints.push(taint(&unregistered));
    spec.capacity = amounts(&machine.capacity);
    spec.allocatable = amounts(&machine.allocatable);
    spec.ready_after = signed(options.ready_after);
    spec.annotations.clone_from(&options.annotations);
    spec
}

fn taint(taint: &Taint) -> Value {
    let mut written = json!({"key": taint.key, "effect": taint.effect});
    if !taint.value.is_empty() {
        written["value"] = json!(taint.value);
    }
    written
}

fn amounts(resources: &Resources) -> BTreeMap<String, String> {
    resources
        .iter()
        .map(|(name, amount)| {
            let unit = if &**name == CPU { "m" } else { "" };
            (name.to_string(), format!("{amount}{unit}"))
        })
        .collect()
}
