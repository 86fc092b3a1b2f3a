//! Emptying a node: pods leave in Karpenter's order, by eviction, until the deadline if there is one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Memory, Observed, Step, Wake};
use crate::edge::clock;
use crate::view::nodes::NodeRecord;
use crate::view::pods::{DISRUPTED, Owner, PodRecord};
use joiner_core::resources;
use joiner_core::taints::Effect;

/// How long a drain lasts at least: a pod may have been bound just before the taint was seen.
const SHORTEST: Duration = Duration::from_secs(3);
/// How many pods are asked to leave at a time. The API server takes a tenth of a second over each, however idle it is.
const AT_A_TIME: usize = 16;
/// How long after larger pods those leave that are half as large: when others have come in the place of the larger ones
/// and are bound, but not before the first and not after the second.
const SMALLER_LATER: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// What a core is worth in memory, and a device in cores, when pods are compared by size.
const MEMORY_PER_CORE: f64 = 2_147_483_648.0;
const CORES_PER_DEVICE: f64 = 16.0;
/// How often a drain that waits looks again.
const LOOK: Duration = Duration::from_secs(1);

/// How a drain stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Drain {
    /// No pod is left that has to go.
    Done,
    /// Do this.
    Do(Step),
    /// Wait; what for, if something stands in the way.
    Waiting {
        /// When to look again.
        wake: Wake,
        /// Pods that are held back and by what, in words.
        blocked: Option<String>,
    },
}

/// The next thing to do to empty the node. `deadline` is when every pod must be gone.
///
/// karpenter: pkg/controllers/node/termination/terminator/terminator.go
pub(super) fn next(observed: &Observed, node: &NodeRecord, deadline: Option<Timestamp>) -> Drain {
    let now = observed.now;
    if let Some(step) = deadline.and_then(|deadline| force(observed, deadline)) {
        return Drain::Do(step);
    }
    let mut groups: [Vec<&Arc<PodRecord>>; 4] = Default::default();
    for pod in observed.pods.iter().filter(|pod| pod.awaits_eviction(now)) {
        let daemon = usize::from(pod.owner == Owner::DaemonSet);
        let critical = usize::from(pod.critical) * 2;
        if let Some(group) = groups.get_mut(critical + daemon) {
            group.push(pod);
        }
    }
    let Some(group) = groups.iter().find(|group| !group.is_empty()) else {
        // The taint says when it was put there: whoever takes over counts from then. One without a time was put
        // there by somebody else, and counts from when we first saw it.
        let tainted = node.tainted_since(DISRUPTED, Effect::NoSchedule);
        let began = tainted.or(observed.memory.drain_began).unwrap_or(now);
        let soonest = clock::after(began, SHORTEST);
        return if now >= soonest {
            Drain::Done
        } else {
            Drain::Waiting {
                wake: Wake::At(soonest),
                blocked: None,
            }
        };
    };
    let due = |pod: &&Arc<PodRecord>| {
        pod.evictable(now)
            && observed
                .memory
                .evictions
                .get(&pod.uid)
                .is_none_or(|eviction| eviction.next <= now)
    };
    let mut due: Vec<&Arc<PodRecord>> = group.iter().copied().filter(due).collect();
    if !due.is_empty() {
        // The largest first: what has yet to find a place finds it while there is most room, and small ones fill the
        // gaps. Those that machines were bought for come last, when nobody else needs a place.
        due.sort_by(|one, other| {
            let rank = rank(other, observed).cmp(&rank(one, observed));
            rank.then(volume(other).total_cmp(&volume(one)))
        });
        let size = due.first().map_or(0, |pod| rank(pod, observed));
        if let Some(at) = turn_of(size, observed) {
            return Drain::Waiting {
                wake: Wake::At(at),
                blocked: blocked(observed, group),
            };
        }
        let like = due
            .into_iter()
            .take_while(|pod| rank(pod, observed) == size);
        let next = like.take(AT_A_TIME);
        let pods = next.map(|pod| (pod.key.clone(), pod.uid.clone())).collect();
        return Drain::Do(Step::Evict { pods, size });
    }
    let mut wake = clock::after(now, LOOK * 10);
    for pod in group {
        if let Some(eviction) = observed.memory.evictions.get(&pod.uid) {
            wake = wake.min(eviction.next);
        }
    }
    if let Some(deadline) = deadline {
        let soonest = group.iter().map(|pod| forced_at(pod, deadline)).min();
        wake = soonest.map_or(wake, |at| wake.min(at));
    }
    Drain::Waiting {
        wake: Wake::At(wake.max(clock::after(now, LOOK / 4))),
        blocked: blocked(observed, group),
    }
}

/// Whether pods were asked to leave so lately that smaller ones may have to wait for them.
pub(super) fn just_asked(memory: &Memory, now: Timestamp) -> bool {
    let (_, latest) = SMALLER_LATER;
    memory
        .left
        .is_some_and(|(_, at)| clock::since(now, at) < latest)
}

/// When to look again whether it is the turn of pods of this size; `None` if it is.
fn turn_of(size: i32, observed: &Observed) -> Option<Timestamp> {
    let (last, at) = observed.memory.left?;
    let (soonest, _) = SMALLER_LATER;
    if last <= size || !just_asked(&observed.memory, observed.now) {
        None
    } else if clock::since(observed.now, at) < soonest {
        Some(clock::after(at, soonest))
    } else {
        let again = clock::after(observed.now, LOOK / 20);
        observed.pods_to_bind.then_some(again)
    }
}

/// How large a pod is beside others, on whatever node: in cores, or what is as dear as one.
#[expect(clippy::cast_precision_loss, reason = "for comparison only")]
fn volume(pod: &PodRecord) -> f64 {
    let volumes = pod.spec.requests.iter().map(|(name, amount)| {
        let amount = amount as f64;
        match &**name {
            resources::CPU => amount / 1000.0,
            resources::MEMORY => amount / MEMORY_PER_CORE,
            resources::PODS | resources::EPHEMERAL_STORAGE => 0.0,
            _ => amount * CORES_PER_DEVICE,
        }
    });
    volumes.fold(0.0, f64::max)
}

/// The size by which pods leave: one less for every halving, and least for those that a machine was bought for.
#[expect(
    clippy::cast_possible_truncation,
    reason = "small, or as small as nothing is"
)]
fn rank(pod: &PodRecord, observed: &Observed) -> i32 {
    if observed.pioneers.contains(&pod.uid) {
        return i32::MIN;
    }
    (volume(pod).log2().floor() as i32).max(-1000)
}

/// When a pod is made to leave so that it is gone by the deadline.
fn forced_at(pod: &PodRecord, deadline: Timestamp) -> Timestamp {
    deadline
        .checked_sub(Duration::from_secs(u64::from(pod.grace_seconds)))
        .unwrap_or(deadline)
}

fn force(observed: &Observed, deadline: Timestamp) -> Option<Step> {
    let now = observed.now;
    let late = |pod: &&Arc<PodRecord>| {
        pod.awaits_eviction(now)
            && now >= forced_at(pod, deadline)
            && pod
                .deleting
                .is_none_or(|end| end > clock::after(deadline, LOOK))
            && observed
                .memory
                .evictions
                .get(&pod.uid)
                .is_none_or(|eviction| eviction.next <= now || eviction.blocked.is_some())
    };
    let pod = observed.pods.iter().find(late)?;
    let left = clock::until(now, deadline).as_secs().max(1);
    Some(Step::DeletePod {
        pod: pod.key.clone(),
        uid: pod.uid.clone(),
        grace_seconds: u32::try_from(left).unwrap_or(u32::MAX),
    })
}

/// What stands in the way, in words that do not change while it does.
fn blocked(observed: &Observed, group: &[&Arc<PodRecord>]) -> Option<String> {
    let forbidden = group
        .iter()
        .find(|pod| pod.active() && pod.do_not_disrupt.active(observed.now));
    if let Some(pod) = forbidden {
        return Some(format!(
            "pod {} has annotation karpenter.sh/do-not-disrupt",
            pod.key
        ));
    }
    group.iter().find_map(|pod| {
        let eviction = observed.memory.evictions.get(&pod.uid)?;
        let said = eviction.blocked.as_ref()?;
        Some(format!("pod {} cannot be evicted: {said}", pod.key))
    })
}
