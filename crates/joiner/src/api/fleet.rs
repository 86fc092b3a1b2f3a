//! Nodes and machines as they are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use joiner_controllers::context::{Context, Costs};
use joiner_controllers::decisions::{Kind, Outcome, Subject};
use joiner_controllers::record::MachineRecord;
use joiner_controllers::view::World;
use joiner_controllers::view::nodes::NodeRecord;
use joiner_controllers::view::pods::{Owner, PodRecord};
use joiner_core::labels;
use joiner_core::name::{Labels, Name};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};

use super::bought::bought;
use super::model::{Figure, NodeCounts, NodeView, PodView, State, Usage, Usages};

/// All nodes and machines at a moment.
pub(crate) struct Fleet {
    /// When.
    pub(crate) at: Timestamp,
    /// All of them, by name.
    pub(crate) nodes: Vec<NodeView>,
    /// Pods on nodes.
    pub(crate) pods_bound: usize,
    /// What everything costs and which pools are closed.
    pub(crate) costs: Costs,
}

impl Fleet {
    /// As it stands now.
    pub(crate) fn look(context: &Context) -> Self {
        let costs = context.costs();
        let world = context.view.read();
        let joining = Joining::of(&world);
        let mut joined = BTreeSet::new();
        let mut nodes = Vec::new();
        for node in world.nodes.iter() {
            let machine = world
                .machine_of(&node.name)
                .or_else(|| joining.of_node(node));
            joined.extend(machine.map(|machine| &machine.key));
            nodes.push(standing(&world, node, machine, &costs));
        }
        let coming = world
            .machines
            .iter()
            .filter(|one| !joined.contains(&one.key));
        nodes.extend(coming.map(|machine| on_its_way(&world, machine, &costs)));
        let bound = world
            .pods
            .iter()
            .filter(|pod| pod.node.is_some() && !pod.terminal);
        let pods_bound = bound.count();
        drop(world);
        explain(context, &mut nodes);
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Fleet {
            at: context.now(),
            nodes,
            pods_bound,
            costs,
        }
    }

    /// How many there are of each kind.
    pub(crate) fn counts(&self) -> NodeCounts {
        let mut counts = NodeCounts::default();
        for node in &self.nodes {
            match node.state {
                State::Ready => counts.ready += 1,
                State::Starting => counts.starting += 1,
                State::Coming => counts.coming += 1,
                State::Leaving => counts.leaving += 1,
                State::NotReady => counts.not_ready += 1,
            }
            counts.foreign += usize::from(node.machine.is_none());
        }
        counts
    }

    /// What our nodes cost; at least that, where a price is not known.
    pub(crate) fn cost<'f>(nodes: impl Iterator<Item = &'f NodeView> + Clone) -> Figure {
        let ours = nodes.filter(|node| node.machine.is_some());
        let missing = ours
            .clone()
            .any(|node| node.price.bound != super::model::Bound::Exact);
        Figure::sum(ours.map(|node| node.price.value).sum(), missing)
    }
}

/// Machines that are not registered yet: a node that has joined in the meantime is one of them, and counts once.
pub(crate) struct Joining<'w>(BTreeMap<&'w Name, &'w Arc<MachineRecord>>);

impl<'w> Joining<'w> {
    /// By what their nodes are called, and what the cloud calls them.
    pub(crate) fn of(world: &'w World) -> Self {
        let waiting = world.machines.iter().filter(|one| !one.registered());
        let names = waiting.flat_map(|one| {
            let id = one.status.provider_id.iter().filter(|id| !id.is_empty());
            id.chain([&one.key.name]).map(move |name| (name, one))
        });
        Joining(names.collect())
    }

    /// The machine that a node is about to be registered as.
    pub(crate) fn of_node(&self, node: &NodeRecord) -> Option<&'w Arc<MachineRecord>> {
        let by_id = self.0.get(&node.provider_id);
        by_id.or_else(|| self.0.get(&node.name)).copied()
    }
}

/// What pods of a node request.
pub(crate) fn requests<'p>(pods: impl Iterator<Item = &'p PodRecord>) -> (Resources, i64) {
    let mut sum = Resources::new();
    let mut count = 0;
    for pod in pods {
        sum.add(&pod.spec.requests);
        count += 1;
    }
    (sum, count)
}

/// Graphics processors of any vendor.
pub(crate) fn gpus(resources: &Resources) -> i64 {
    let gpu = resources.iter().filter(|(name, _)| name.ends_with("/gpu"));
    gpu.map(|(_, amount)| amount).sum()
}

fn usages(requested: &Resources, pods: i64, allocatable: &Resources, coming: bool) -> Usages {
    let usage = |requested, there| Usage {
        requested,
        allocatable: if coming { 0 } else { there },
        coming: if coming { there } else { 0 },
    };
    Usages {
        cpu: usage(requested.get(CPU), allocatable.get(CPU)),
        memory: usage(requested.get(MEMORY), allocatable.get(MEMORY)),
        gpu: usage(gpus(requested), gpus(allocatable)),
        pods: usage(pods, allocatable.get(PODS)),
    }
}

fn label<'l>(all: &'l Labels, key: &str) -> &'l str {
    all.get(key).map(AsRef::as_ref).unwrap_or_default()
}

fn of_machine(world: &World, view: &mut NodeView, machine: &MachineRecord, costs: &Costs) {
    view.machine = Some(machine.key.name.to_string());
    let owned = machine.pool.is_some();
    view.pool = owned.then(|| world.title_of(machine).to_string());
    view.class = Some(machine.class.to_string());
    let price = costs.prices.get(&machine.key);
    view.price = Figure::maybe(price.map(|price| price.dollars()));
}

fn standing(
    world: &World,
    node: &NodeRecord,
    machine: Option<&Arc<MachineRecord>>,
    costs: &Costs,
) -> NodeView {
    let pods = world.pods_on(&node.name).filter(|pod| !pod.terminal);
    let (requested, pods) = requests(pods.map(AsRef::as_ref));
    let leaves = |machine: &MachineRecord| machine.deleting.is_some() || machine.intent().is_some();
    let state = match machine {
        _ if node.deleting => State::Leaving,
        Some(machine) if leaves(machine) => State::Leaving,
        Some(machine) if !machine.initialized() => State::Starting,
        _ if !node.ready() => State::NotReady,
        _ => State::Ready,
    };
    let mut view = NodeView {
        name: node.name.to_string(),
        instance_type: label(&node.labels, labels::INSTANCE_TYPE).to_owned(),
        zone: label(&node.labels, labels::ZONE).to_owned(),
        capacity_type: label(&node.labels, labels::CAPACITY_TYPE).to_owned(),
        price: Figure::maybe(None),
        usage: usages(
            &requested,
            pods,
            &node.allocatable,
            state == State::Starting,
        ),
        state,
        created: node.created,
        ..NodeView::default()
    };
    if let Some(machine) = machine {
        of_machine(world, &mut view, machine, costs);
    }
    view
}

fn on_its_way(world: &World, machine: &MachineRecord, costs: &Costs) -> NodeView {
    let leaving = machine.deleting.is_some();
    let mut view = NodeView {
        name: machine.key.name.to_string(),
        instance_type: label(&machine.labels, labels::INSTANCE_TYPE).to_owned(),
        zone: label(&machine.labels, labels::ZONE).to_owned(),
        capacity_type: label(&machine.labels, labels::CAPACITY_TYPE).to_owned(),
        usage: usages(&Resources::new(), 0, machine.allocatable(), true),
        state: if leaving {
            State::Leaving
        } else {
            State::Coming
        },
        created: machine.created,
        ..NodeView::default()
    };
    if let (true, Some(offer)) = (view.instance_type.is_empty(), machine.offer()) {
        view.instance_type = offer.purchase.instance_type.to_string();
        view.zone = offer.purchase.zone.to_string();
        view.capacity_type = offer.purchase.capacity_type.to_string();
    }
    of_machine(world, &mut view, machine, costs);
    view
}

/// Adds why nodes are here and why they stay.
fn explain(context: &Context, nodes: &mut [NodeView]) {
    let names = nodes
        .iter()
        .map(|node| Subject::new(Kind::Node, &*node.name));
    let names: Vec<Subject> = names.collect();
    let stays = context.decisions.latest(names.iter());
    for (node, said) in nodes.iter_mut().zip(stays) {
        node.stays = said;
        if node.stays.is_none()
            && let Some(machine) = &node.machine
        {
            let all = context
                .decisions
                .verdicts(&Subject::new(Kind::Machine, &**machine));
            let judged = |outcome| matches!(outcome, Outcome::Stays | Outcome::Goes);
            node.stays = all.into_iter().find(|one| judged(one.verdict.outcome));
        }
    }
}

/// Adds why these nodes are here, and the pods on them: only for the few that are shown.
pub(crate) fn detail<'n>(context: &Context, nodes: impl Iterator<Item = &'n mut NodeView>) {
    let world = context.view.read();
    for node in nodes {
        let pods = world.pods_on(&node.name).filter(|pod| !pod.terminal);
        let mut shown: Vec<PodView> = pods.map(|pod| pod_view(pod)).collect();
        shown.sort_by(|a, b| (a.daemon, -a.cpu, &a.name).cmp(&(b.daemon, -b.cpu, &b.name)));
        node.on_it = shown;
        let Some(name) = &node.machine else { continue };
        let named = |one: &&Arc<MachineRecord>| *one.key.name == **name;
        let own = world.machine_of(&node.name).filter(named);
        // Only few have not joined yet, or have lost their node.
        let machine = own.or_else(|| world.machines.iter().find(named));
        node.here = machine.map(|machine| bought(context, machine));
    }
}

fn pod_view(pod: &PodRecord) -> PodView {
    PodView {
        name: pod.key.to_string(),
        cpu: pod.spec.requests.get(CPU),
        memory: pod.spec.requests.get(MEMORY),
        daemon: pod.owner == Owner::DaemonSet,
    }
}
