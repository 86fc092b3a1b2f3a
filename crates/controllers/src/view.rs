//! One view of the cluster, fed by watches and by our own writes.
//!
//! It is read as a whole: a decision never sees half an update. It never goes back in time (see [`store`]), it knows
//! what we wrote before the watch tells it, and until every list has come in it says that it is not ready.

mod departing;
pub mod nodes;
mod overlooked;
pub mod pods;
pub mod problem;
#[cfg(test)]
pub(crate) mod samples;
pub mod sources;
pub mod store;
pub mod volumes;
mod waits;
pub mod watch;
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::PodSpec;
use tokio::sync::mpsc;

pub use waits::Wait;
pub use world::World;

use crate::dialect::{Event, Malformed, Sighting};
use crate::edge::clock::SharedClock;
use crate::record::{ClassKey, Key, MachineRecord, PoolRecord};
use nodes::NodeRecord;
use pods::PodKey;

/// What is heard of a pod that waits for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// It has come, and the scheduler has yet to come to it.
    Untried,
    /// It has come, and the scheduler has found no place for it.
    Tried,
    /// It came before, and the scheduler has found no place for it.
    Known,
}

/// Something that changed, for those who wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// A machine object, or its node.
    Machine(Key),
    /// A pod on the node of a machine.
    Guest(Key),
    /// A node that may belong to a machine that waits for it.
    Node(Name),
    /// A pod that waits for a node.
    Pending(Pending),
    /// A plan was made for a pod for the first time, so long after the pod was.
    Considered(Duration),
    /// A pod was bound.
    Bound(Wait),
    /// A pod is ready for the first time.
    Started(Wait),
    /// What pods take of a node that is no machine of ours.
    Room,
    /// A pool.
    Pool(Name),
    /// Which machines a pool has.
    Members(Name),
    /// A node class.
    Class(ClassKey),
    /// Buffers.
    Buffers,
    /// Overlays, daemon sets: whatever changes what a plan looks like.
    Terms,
    /// An object that cannot be read.
    Malformed(Name),
}

/// The view. Cheap to share.
pub struct View {
    world: RwLock<World>,
    touched: mpsc::UnboundedSender<Touched>,
    clock: SharedClock,
}

impl View {
    /// Knows nothing yet; says what changes on the channel.
    pub fn new(clock: SharedClock) -> (Arc<Self>, mpsc::UnboundedReceiver<Touched>) {
        let (touched, receiver) = mpsc::unbounded_channel();
        let view = View {
            world: RwLock::default(),
            touched,
            clock,
        };
        (Arc::new(view), receiver)
    }

    /// Everything, as it is now. Not to be held across an await.
    pub fn read(&self) -> RwLockReadGuard<'_, World> {
        self.world.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and tells who waits for it.
    fn write(&self, change: impl FnOnce(&mut World, Timestamp) -> Vec<Touched>) {
        let touched = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            change(&mut world, self.clock.now())
        };
        for one in touched {
            // Nobody listens any more: the engine is shutting down.
            let _ = self.touched.send(one);
        }
    }

    /// A source whose list must come in before anything is decided.
    pub fn expect(&self, source: &str) {
        self.write(|world, _| {
            world.sources.entry(source.to_owned()).or_insert(false);
            Vec::new()
        });
    }

    /// Whether every list has come in.
    pub fn synced(&self) -> bool {
        self.read().synced()
    }

    /// Takes in what a dialect saw.
    pub fn sight(&self, source: &str, sighting: Sighting) {
        self.write(|world, now| world.sight(source, sighting, now));
    }

    /// Takes in what a watch of the cluster's own kinds saw.
    pub fn observe(&self, source: &str, event: Observation) {
        self.write(|world, now| world.observe(source, event, now));
    }

    /// Takes in a machine object that we wrote, or read where it cannot be stale.
    pub fn note_machine(&self, machine: MachineRecord) {
        self.write(|world, now| world.take_machine(Event::Changed(machine), "", now));
    }

    /// A machine object is known to be gone.
    pub fn forget_machine(&self, machine: &MachineRecord) {
        let machine = machine.clone();
        self.write(|world, now| world.take_machine(Event::Gone(machine), "", now));
    }

    /// A read did not find a machine object.
    pub fn doubt_machine(&self, machine: &MachineRecord) {
        self.write(|world, _| {
            world.machines.doubt(&machine.key);
            Vec::new()
        });
    }

    /// Takes in a pool object that we wrote.
    pub fn note_pool(&self, pool: PoolRecord) {
        self.write(|world, now| world.take_pool(Event::Changed(pool), "", now));
    }

    /// Takes in a node that we wrote.
    pub fn note_node(&self, node: NodeRecord) {
        self.write(|world, now| world.take_node(Event::Changed(node), "", now));
    }

    /// Takes in what a buffer keeps room for. One that went while that was looked up keeps none.
    pub fn note_room(&self, buffer: &Key, room: Option<(Arc<PodSpec>, u32)>) {
        self.write(|world, _| {
            let before = match room {
                Some(room) if world.buffers.get(buffer).is_some() => {
                    world.rooms.insert(buffer.clone(), room.clone()).as_ref() == Some(&room)
                }
                _ => world.rooms.remove(buffer).is_none(),
            };
            if before {
                Vec::new()
            } else {
                vec![Touched::Terms]
            }
        });
    }

    /// A node is known to be gone.
    pub fn forget_node(&self, node: &NodeRecord) {
        let node = node.clone();
        self.write(|world, now| world.take_node(Event::Gone(node), "", now));
    }

    /// What a pool can buy has changed.
    pub fn touch_pool(&self, pool: &Name) {
        self.write(|_, _| vec![Touched::Members(pool.clone())]);
    }

    /// What can be bought has changed.
    pub fn touch_terms(&self) {
        self.write(|_, _| vec![Touched::Terms]);
    }

    /// A plan has a place for these pods, or has none.
    pub fn consider(&self, pods: impl IntoIterator<Item = (PodKey, bool)>) {
        self.write(|world, now| world.consider(pods, now));
    }

    /// Pods were promised this node.
    pub fn nominate(&self, nodes: impl IntoIterator<Item = Name>, until: Timestamp) {
        self.write(|world, now| {
            world.nominations.retain(|_, end| *end > now);
            for node in nodes {
                world.nominations.insert(node, until);
            }
            Vec::new()
        });
    }
}

/// Something that a watch of the cluster's own kinds saw.
pub enum Observation {
    /// A pod, in full: it is trimmed where specs are shared.
    Pod(Event<Box<k8s_openapi::api::core::v1::Pod>>),
    /// A node.
    Node(Event<NodeRecord>),
    /// A daemon set.
    DaemonSet(Event<volumes::Named<Option<joiner_core::problem::DaemonSet>>>),
    /// A disruption budget.
    Budget(Event<volumes::Named<joiner_core::problem::PodDisruptionBudget>>),
    /// Labels of a namespace.
    Namespace(Event<volumes::Named<Labels>>),
    /// A volume claim.
    Claim(Event<volumes::Named<volumes::Claim>>),
    /// A volume.
    Volume(Event<volumes::Named<volumes::Persistent>>),
    /// A storage class.
    StorageClass(Event<volumes::Named<volumes::Class>>),
    /// What a node's drivers can attach.
    CsiNode(Event<volumes::Named<BTreeMap<Name, u32>>>),
    /// What is attached.
    Attachment(Event<volumes::Named<volumes::Attachment>>),
}

/// The version of an object. Kubernetes promises that later ones are greater; what is no number is always news.
pub fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
}

/// Labels and names as shared strings.
pub fn labels(given: Option<BTreeMap<String, String>>) -> Labels {
    pods::labels(given)
}

/// Objects that cannot be read, by identity.
pub type Unreadable = BTreeMap<Name, Malformed>;
