//! Which pods machines were bought for. Until they have had time to get there, their room is taken and nothing else is
//! bought for them; if a pod still waits although its machine is in use, buying the same again will not help it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::problem::PodSpec;

use crate::edge::clock;
use crate::record::{Key, MachineRecord};
use crate::view::pods::{PodKey, PodRecord};

/// How long after its machine came into use, or another pod of the same machine was bound, a pod must have been bound.
const GRACE: Duration = Duration::from_secs(15);
/// How many machines may turn out to be of no use to a pod before its pool waits.
pub(super) const PATIENCE: usize = 2;

#[derive(Clone, Debug)]
struct Sale {
    pool: Name,
    /// By identity.
    pods: BTreeSet<Name>,
    /// The purchase that it was part of.
    purchase: u64,
    /// What the scheduler is yet to be told.
    untold: Option<BTreeMap<Name, PodKey>>,
    in_use: Option<Timestamp>,
    /// Version of its node when it opened.
    opened: Option<u64>,
    /// Pods that the scheduler tried in vain since then.
    refused: BTreeSet<Name>,
}

impl Sale {
    /// Whether its pods have had their time.
    fn late(&self, now: Timestamp) -> bool {
        self.in_use
            .is_some_and(|since| clock::since(now, since) >= GRACE)
    }
}

/// A machine that was bought.
#[derive(Debug)]
pub(super) struct Sold {
    pub(super) machine: Key,
    pub(super) pool: Name,
    /// The pods that it is for, by identity.
    pub(super) pods: BTreeSet<Name>,
    /// Those that the scheduler should be told of.
    pub(super) told: BTreeMap<Name, PodKey>,
}

/// What is on its way.
#[derive(Debug, Default)]
struct State {
    purchases: u64,
    /// Machines that were bought for pods that still wait.
    sales: BTreeMap<Key, Sale>,
    /// Where pods of leaving nodes were given room, by the pods' identity.
    moves: BTreeMap<Name, Move>,
    /// Machines that are kept for pods that have yet to leave, by the disruption that they are part of.
    reserved: BTreeMap<Name, Vec<Reservation>>,
}

impl State {
    fn sell(&mut self, machines: Vec<Sold>) {
        self.purchases += 1;
        let several = machines.len() > 1;
        for one in machines {
            let sale = Sale {
                pool: one.pool,
                pods: one.pods,
                purchase: self.purchases,
                untold: several.then_some(one.told),
                in_use: None,
                opened: None,
                refused: BTreeSet::new(),
            };
            self.sales.insert(one.machine, sale);
        }
    }
}

/// Room for a pod that has to leave its node.
#[derive(Clone, Debug)]
struct Move {
    machine: Key,
    ground: Ground,
}

/// What a pod that leaves finds where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// A machine that was there before.
    Old,
    /// A machine that was bought for it.
    New,
}

/// What a pod has in common with the one that comes in its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    namespace: Name,
    spec: Arc<PodSpec>,
}

impl Kind {
    pub(crate) fn of(pod: &PodRecord) -> Self {
        Kind {
            namespace: pod.key.namespace.clone(),
            spec: pod.spec.clone(),
        }
    }
}

/// A machine that is kept for pods that have yet to leave.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    pub(crate) machine: Key,
    pub(crate) pool: Name,
    pub(crate) pods: Vec<Kind>,
}

/// Pods that are on their way to a machine.
#[derive(Debug, Default)]
pub struct Served(Mutex<State>);

/// Pods that machines of a pool did not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Miss {
    pub(super) pool: Name,
    /// How many machines were of no use to one of its pods.
    pub(super) machines: usize,
    /// Identity of that pod.
    pub(super) pod: Name,
}

impl Served {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Machines were bought for pods. If there are several, which pod goes where matters.
    pub(super) fn sold(&self, machines: Vec<Sold>) {
        self.state().sell(machines);
    }

    /// Whether others of the same purchase are yet to be told to the scheduler.
    pub(crate) fn others_untold(&self, machine: &Key) -> bool {
        let state = self.state();
        let Some(own) = state.sales.get(machine) else {
            return false;
        };
        let mut others = state.sales.values();
        others.any(|one| one.purchase == own.purchase && one.untold.is_some())
    }

    /// Pods of nodes that leave have room on a machine.
    pub(crate) fn moved(
        &self,
        machine: &Key,
        ground: Ground,
        pods: impl IntoIterator<Item = Name>,
    ) {
        let machine = machine.clone();
        let place = Move { machine, ground };
        let moves = pods.into_iter().map(|pod| (pod, place.clone()));
        self.state().moves.extend(moves);
    }

    /// A machine is kept for pods of a disruption.
    pub(crate) fn reserve(&self, disruption: &Name, reservation: Reservation) {
        let mut state = self.state();
        let reserved = state.reserved.entry(disruption.clone()).or_default();
        reserved.push(reservation);
    }

    /// Forgets what is kept for disruptions that are over.
    pub(crate) fn keep_reservations(&self, under_way: impl Fn(&Name) -> bool) {
        self.state().reserved.retain(|id, _| under_way(id));
    }

    /// Those that wait and are like pods that left in a disruption are sold the machines that were kept for these.
    pub(crate) fn fill<'a>(
        &self,
        disruption: &Name,
        waiting: impl Iterator<Item = &'a Arc<PodRecord>>,
    ) {
        let mut state = self.state();
        let Some(reserved) = state.reserved.remove(disruption) else {
            return;
        };
        let mut by_kind: HashMap<Kind, Vec<&PodRecord>> = HashMap::new();
        for pod in waiting.filter(|pod| !pod.nominated) {
            by_kind.entry(Kind::of(pod)).or_default().push(pod);
        }
        let mut next = |kind: &Kind| {
            let pod = by_kind.get_mut(kind)?.pop()?;
            Some((pod.uid.clone(), pod.key.clone()))
        };
        let sold = reserved.into_iter().map(|one| {
            let told: BTreeMap<Name, PodKey> = one.pods.iter().filter_map(&mut next).collect();
            Sold {
                machine: one.machine,
                pool: one.pool,
                pods: told.keys().cloned().collect(),
                told,
            }
        });
        state.sell(sold.collect());
    }

    /// Those of these pods that leave for machines that were bought for them.
    pub(crate) fn pioneers<'a>(&self, pods: impl Iterator<Item = &'a Name>) -> BTreeSet<Name> {
        let state = self.state();
        let new = |pod: &&Name| {
            let place = state.moves.get(*pod);
            place.is_some_and(|place| place.ground == Ground::New)
        };
        pods.filter(new).cloned().collect()
    }

    /// A machine has changed, and this is the version of its node. Whether its pods can go there from now on.
    pub(crate) fn saw(&self, machine: &MachineRecord, node: Option<u64>, now: Timestamp) -> bool {
        match self.state().sales.get_mut(&machine.key) {
            Some(sale) if machine.initialized() && sale.in_use.is_none() => {
                sale.in_use = Some(now);
                sale.opened = node;
                true
            }
            _ => false,
        }
    }

    /// How long until the next pods have had their time.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Duration> {
        let state = self.state();
        let ends = state.sales.values().filter(|sale| !sale.late(now));
        ends.filter_map(|sale| Some(clock::until(now, clock::after(sale.in_use?, GRACE))))
            .min()
    }

    /// The machine that each pod is about to go to, by the pod's identity.
    pub(crate) fn promises(&self, now: Timestamp) -> BTreeMap<Name, Key> {
        let state = self.state();
        let moves = state.moves.iter();
        let mut promises: BTreeMap<Name, Key> = moves
            .map(|(pod, place)| (pod.clone(), place.machine.clone()))
            .collect();
        for (machine, sale) in state.sales.iter().filter(|(_, sale)| !sale.late(now)) {
            let pods = sale.pods.difference(&sale.refused);
            promises.extend(pods.map(|pod| (pod.clone(), machine.clone())));
        }
        promises
    }

    /// The pods that the scheduler should be told to put on this machine, once.
    pub(crate) fn tell(&self, machine: &Key) -> Option<BTreeMap<Name, PodKey>> {
        self.state().sales.get_mut(machine)?.untold.take()
    }

    /// Forgets pods that neither wait nor have yet to leave; tells which pools do not help theirs. Of pods that wait it is
    /// told as of which version the scheduler has tried every open node in vain, if it has.
    pub(super) fn misses(
        &self,
        waiting: &BTreeMap<Name, Option<u64>>,
        leaving: &BTreeSet<Name>,
        now: Timestamp,
    ) -> Vec<Miss> {
        let mut state = self.state();
        state.moves.retain(|pod, _| leaving.contains(pod));
        let all = &mut state.sales;
        all.retain(|_, sale| {
            let before = sale.pods.len();
            sale.pods.retain(|pod| waiting.contains_key(pod));
            if let Some(opened) = sale.opened {
                let tried = |pod: &&Name| waiting.get(*pod).copied().flatten() > Some(opened);
                sale.refused = sale.pods.iter().filter(tried).cloned().collect();
            }
            // The scheduler is at it: whoever is next in its queue gets as long as the first.
            if sale.pods.len() < before && !sale.late(now) {
                sale.in_use = sale.in_use.map(|_| now);
            }
            !sale.pods.is_empty()
        });
        let mut counts: BTreeMap<(Name, Name), usize> = BTreeMap::new();
        for sale in all.values() {
            let missed = |pod: &&Name| sale.late(now) || sale.refused.contains(*pod);
            for pod in sale.pods.iter().filter(missed) {
                *counts.entry((sale.pool.clone(), pod.clone())).or_default() += 1;
            }
        }
        let mut worst: BTreeMap<Name, Miss> = BTreeMap::new();
        for ((pool, pod), machines) in counts {
            let known = worst.get(&pool).map_or(0, |miss| miss.machines);
            if machines > known {
                let miss = Miss {
                    pool: pool.clone(),
                    machines,
                    pod,
                };
                worst.insert(pool, miss);
            }
        }
        worst.into_values().collect()
    }

    /// How many machines are remembered.
    pub fn len(&self) -> usize {
        self.state().sales.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::pods::{LeanPod, Specs, lower_pod};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap_or_default()
    }

    fn key(name: &str) -> Key {
        Key {
            dialect: "karpenter",
            namespace: "".into(),
            name: name.into(),
        }
    }

    fn sold(machine: &str, pods: &[&str]) -> Sold {
        let told = pods.iter().map(|name| {
            let (namespace, name) = ("default".into(), Name::from(*name));
            (name.clone(), PodKey { namespace, name })
        });
        Sold {
            machine: key(machine),
            pool: "pool".into(),
            pods: pods.iter().map(|name| Name::from(*name)).collect(),
            told: told.collect(),
        }
    }

    /// A machine that was bought for pods, in use since the epoch.
    fn served(pods: &[&str]) -> Served {
        let served = Served::default();
        served.sold(vec![sold("m", pods), sold("other", &[])]);
        served
    }

    fn in_use(served: &Served, since: i64) {
        if let Some(sale) = served.state().sales.get_mut(&key("m")) {
            sale.in_use = Some(at(since));
        }
    }

    fn misses(served: &Served, waiting: &[&str], leaving: &[&str], now: i64) -> usize {
        let waiting = waiting.iter().map(|name| (Name::from(*name), None));
        let leaving = leaving.iter().map(|name| Name::from(*name)).collect();
        served.misses(&waiting.collect(), &leaving, at(now)).len()
    }

    #[test]
    fn a_pod_that_the_scheduler_has_tried_in_vain_since_its_node_opened_need_not_wait_longer() {
        let served = served(&["a", "b"]);
        in_use(&served, 1000);
        if let Some(sale) = served.state().sales.get_mut(&key("m")) {
            sale.opened = Some(70);
        }
        let tried = |version| BTreeMap::from([("a".into(), None), ("b".into(), Some(version))]);
        assert_eq!(served.misses(&tried(69), &BTreeSet::new(), at(1001)), []);
        assert_eq!(served.promises(at(1001)).len(), 2);
        let missed = served.misses(&tried(71), &BTreeSet::new(), at(1001));
        assert_eq!(&*missed[0].pod, "b");
        let promised: Vec<Name> = served.promises(at(1001)).into_keys().collect();
        assert_eq!(promised, ["a".into()]);
    }

    #[test]
    fn a_place_is_promised_from_the_purchase_until_the_pods_have_had_their_time() {
        let served = served(&["a", "b"]);
        assert_eq!(served.promises(at(900)).len(), 2);
        assert_eq!(served.due(at(900)), None);
        in_use(&served, 1000);
        assert_eq!(served.due(at(1005)), Some(Duration::from_secs(10)));
        assert_eq!(served.promises(at(1014)).len(), 2);
        assert!(served.promises(at(1015)).is_empty());
    }

    #[test]
    fn a_pod_that_is_bound_gives_the_others_more_time() {
        let served = served(&["a", "b"]);
        in_use(&served, 1000);
        assert_eq!(misses(&served, &["b"], &[], 1010), 0);
        assert_eq!(served.promises(at(1020)).len(), 1);
        assert_eq!(misses(&served, &["b"], &[], 1025), 1);
        assert!(served.promises(at(1025)).is_empty());
    }

    #[test]
    fn a_pod_that_has_yet_to_leave_keeps_its_room_as_long_as_that_takes() {
        let served = Served::default();
        served.moved(&key("m"), Ground::Old, ["a".into(), "b".into()]);
        assert_eq!(misses(&served, &[], &["a"], 100_000), 0);
        assert_eq!(served.promises(at(100_000)).len(), 1);
    }

    #[test]
    fn machines_that_were_kept_go_to_pods_that_are_like_those_that_left() {
        let mut specs = Specs::default();
        let mut pod = |name: &str, cpu: i64| {
            let pod: LeanPod = serde_json::from_value(serde_json::json!({
                "metadata": {"namespace": "default", "name": name, "uid": name},
                "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]},
            }))
            .unwrap();
            Arc::new(lower_pod(pod.0, &mut specs))
        };
        let served = Served::default();
        let id: Name = "disruption".into();
        for (machine, cpu) in [("m", 100), ("other", 200)] {
            let reservation = Reservation {
                machine: key(machine),
                pool: "pool".into(),
                pods: vec![Kind::of(&pod("left", cpu)); 2],
            };
            served.reserve(&id, reservation);
        }
        let waiting = [pod("a", 200), pod("b", 100), pod("c", 300)];
        served.fill(&id, waiting.iter());
        let told = |machine| served.tell(&key(machine)).map(BTreeMap::into_keys);
        let told = |machine| told(machine).map(Iterator::collect::<Vec<Name>>);
        assert_eq!(told("m"), Some(vec!["b".into()]));
        assert_eq!(told("other"), Some(vec!["a".into()]));
        served.fill(&id, waiting.iter());
        assert_eq!(told("m"), None, "once");
    }

    #[test]
    fn what_is_kept_for_a_disruption_that_is_over_is_forgotten() {
        let served = Served::default();
        let id: Name = "disruption".into();
        let reservation = Reservation {
            machine: key("m"),
            pool: "pool".into(),
            pods: Vec::new(),
        };
        served.reserve(&id, reservation);
        served.keep_reservations(|_| false);
        served.fill(&id, std::iter::empty());
        assert!(served.is_empty());
    }

    #[test]
    fn the_scheduler_is_told_once_and_of_all_machines_of_a_purchase() {
        let served = served(&["a"]);
        let told: Vec<Name> = served.tell(&key("m")).unwrap().into_keys().collect();
        assert_eq!(told, ["a".into()]);
        assert_eq!(served.tell(&key("m")), None);
        assert!(served.others_untold(&key("m")));
        assert_eq!(served.tell(&key("other")), Some(BTreeMap::new()));
        assert!(!served.others_untold(&key("m")));
        served.sold(vec![sold("single", &["b"])]);
        assert_eq!(served.tell(&key("single")), None, "nowhere else to go");
    }
}
