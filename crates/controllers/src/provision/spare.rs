//! Room for a few more where many pods wait.
//!
//! The cheapest plan for a thousand pods has no room left, and holds only if every single one goes where it was planned.
//! To tell the scheduler of all of them takes longer than to place them, and one or another goes elsewhere all the same;
//! the last one then waits for a machine of its own. With some room to spare nobody need be told: among `n` machines
//! with room for `n - 1` more of the largest, every pod finds a place in whatever order they come, as far as one
//! resource is short. What turns out not to be needed is empty, and goes again.

use joiner_core::plan::{Plan, PodRef};
use joiner_core::problem::{Pod, PodSpec, Problem};
use joiner_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};

use crate::view::problem::Snapshot;

/// How many pods wait where room is left for more.
const MANY: usize = 500;
/// For how many.
pub(super) const COUNT: u32 = 3;
/// Each takes at most one part in so many of what they all ask for.
const PART: i64 = 300;
/// What they are called in a problem.
const NAME: &str = "room for more";

/// Adds it if many pods wait.
pub(super) fn add(snapshot: &mut Snapshot) {
    let pods = snapshot.problem.pods.iter().zip(&snapshot.pending);
    let waiting: Vec<&PodSpec> = pods
        .filter(|(_, key)| key.is_some())
        .map(|(pod, _)| &*pod.spec)
        .collect();
    if waiting.len() < MANY {
        return;
    }
    let sizes = waiting.iter().map(|spec| size(spec));
    let all = sizes.fold([0; 2], |all, one| each(all, one, i64::saturating_add));
    let usual = waiting.iter().filter(|spec| goes_anywhere(spec));
    let usual = usual.filter(|spec| fits(size(spec), all.map(|amount| amount / PART)));
    let Some(largest) = usual.clone().max_by_key(|spec| size(spec)) else {
        return;
    };
    let [cpu, memory] = usual.fold([0; 2], |most, spec| each(most, size(spec), i64::max));
    let mut spec = PodSpec {
        // Nobody waits for it.
        priority: i32::MIN,
        ..PodSpec::clone(largest)
    };
    spec.requests.set(CPU, cpu);
    spec.requests.set(MEMORY, memory);
    snapshot.problem.pods.push(Pod {
        count: COUNT,
        ..Pod::new(NAME, spec)
    });
    snapshot.pending.push(None);
}

fn size(spec: &PodSpec) -> [i64; 2] {
    [CPU, MEMORY].map(|name| spec.requests.get(name))
}

fn each([a, b]: [i64; 2], [c, d]: [i64; 2], with: fn(i64, i64) -> i64) -> [i64; 2] {
    [with(a, c), with(b, d)]
}

fn fits([cpu, memory]: [i64; 2], room: [i64; 2]) -> bool {
    cpu <= room[0] && memory <= room[1]
}

/// Whether room for a pod is nothing but room: no device, and no matter where others are.
fn goes_anywhere(spec: &PodSpec) -> bool {
    let plain = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE];
    let mut requests = spec.requests.iter();
    requests.all(|(name, _)| plain.contains(&&**name))
        && spec.spread.is_empty()
        && spec.affinity.is_empty()
        && spec.anti_affinity.is_empty()
        && spec.host_ports.is_empty()
        && spec.volumes.is_empty()
}

/// Whether a pod finds a place on one of several machines because there is room for more; `None` if there is not.
pub(super) fn room(problem: &Problem) -> Option<impl Fn(&Pod) -> bool> {
    let mut pods = problem.pods.iter();
    let room = size(&pods.find(|pod| &*pod.name == NAME)?.spec);
    Some(move |pod: &Pod| fits(size(&pod.spec), room) && goes_anywhere(&pod.spec))
}

/// If there is no room for more, nothing is missing.
pub(super) fn forget(problem: &Problem, plan: &mut Plan) {
    let real = |pod: &PodRef| problem.pod(*pod).is_none_or(|one| &*one.name != NAME);
    for one in &mut plan.unplaced {
        one.pods.retain(real);
    }
    plan.unplaced.retain(|one| !one.pods.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::pods::PodKey;
    use joiner_core::plan::{Home, Reason, Unplaced};

    const ALL: usize = 2 * MANY;

    /// So many pods that wait, every third one large.
    fn snapshot(pods: usize) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for index in 0..pods {
            let mut spec = PodSpec::default();
            let large = index % 3 == 0;
            let [cpu, memory] = if large {
                [2000, 1 << 30]
            } else {
                [500, 2 << 30]
            };
            spec.requests.set(CPU, cpu);
            spec.requests.set(MEMORY, memory);
            let name = format!("pod-{index}");
            snapshot.problem.pods.push(Pod::new(&name, spec));
            snapshot.pending.push(Some(PodKey {
                namespace: "default".into(),
                name: name.into(),
            }));
        }
        snapshot
    }

    #[test]
    fn where_many_pods_wait_there_is_room_for_more_of_the_largest() {
        let mut few = snapshot(MANY - 1);
        add(&mut few);
        assert_eq!(few.problem.pods.len(), MANY - 1);
        assert!(room(&few.problem).is_none());
        let mut many = snapshot(ALL);
        add(&mut many);
        let spare = &many.problem.pods[ALL];
        assert_eq!(size(&spare.spec), [2000, 2 << 30], "of the most of each");
        assert_eq!(many.pending[ALL], None);
    }

    #[test]
    fn what_is_large_beside_all_others_or_asks_for_a_device_is_not_bought_for_nobody() {
        let mut snapshot = snapshot(ALL);
        for (index, name) in [(0, CPU), (3, "nvidia.com/gpu")] {
            let mut spec = PodSpec::clone(&snapshot.problem.pods[index].spec);
            spec.requests.set(name, 64_000);
            snapshot.problem.pods[index] = Pod::new("special", spec);
        }
        add(&mut snapshot);
        let spare = &snapshot.problem.pods[ALL].spec;
        assert_eq!(size(spare), [2000, 2 << 30]);
        assert_eq!(spare.requests.get("nvidia.com/gpu"), 0);
        let room = room(&snapshot.problem).unwrap();
        let free = [0, 3, 6, 7].map(|index| room(&snapshot.problem.pods[index]));
        assert_eq!(free, [false, false, true, true]);
    }

    #[test]
    fn nobody_is_told_that_there_is_no_room_for_more() {
        let mut snapshot = snapshot(ALL);
        add(&mut snapshot);
        let unplaced = |groups: &[u32]| Unplaced {
            pods: groups
                .iter()
                .map(|group| PodRef {
                    home: Home::Pending,
                    group: *group,
                    position: 0,
                })
                .collect(),
            reason: Reason::NoMachine { pools: Vec::new() },
        };
        let spare = u32::try_from(ALL).unwrap();
        let mut plan = Plan {
            unplaced: vec![unplaced(&[spare]), unplaced(&[1, spare])],
            ..Plan::default()
        };
        forget(&snapshot.problem, &mut plan);
        assert_eq!(plan.unplaced.len(), 1);
        assert_eq!(plan.unplaced[0].pods.len(), 1);
    }
}
