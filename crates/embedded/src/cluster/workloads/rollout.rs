//! The numbers of a rollout: how many replicas each `ReplicaSet` of a deployment should have next.
//!
//! kubernetes: `pkg/controller/deployment/{rolling,recreate,sync}.go` and `util/deployment_util.go`.

use std::sync::Arc;

use serde_json::Value;

use super::deployment::{DESIRED, MOST};
use super::pods::portion;
use crate::cluster::fields::Fields as _;

/// What a deployment allows itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) wanted: i64,
    pub(crate) surge: i64,
    pub(crate) unavailable: i64,
    pub(crate) recreate: bool,
}

impl Limits {
    /// Reads them from a deployment.
    pub(crate) fn of(deployment: &Value) -> Self {
        let wanted = deployment.int(&["spec", "replicas"]).unwrap_or(1);
        if deployment.text(&["spec", "strategy", "type"]) == "Recreate" {
            return Self {
                wanted,
                surge: 0,
                unavailable: 0,
                recreate: true,
            };
        }
        let of = |field, up| {
            let value = deployment.at(&["spec", "strategy", "rollingUpdate", field]);
            portion(value, wanted, up).or_else(|| portion(&Value::from("25%"), wanted, up))
        };
        let surge = of("maxSurge", true).unwrap_or_default();
        let mut unavailable = of("maxUnavailable", false).unwrap_or_default();
        // Both zero would be a rollout that cannot begin.
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Self {
            wanted,
            surge,
            unavailable: unavailable.min(wanted),
            recreate: false,
        }
    }
}

/// A replica set and the number of replicas that it should have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale<'a> {
    pub(crate) set: &'a Arc<Value>,
    pub(crate) to: i64,
}

fn size(set: &Value) -> i64 {
    set.int(&["spec", "replicas"]).unwrap_or_default()
}

fn available(set: &Value) -> i64 {
    set.int(&["status", "availableReplicas"])
        .unwrap_or_default()
}

/// How many replicas the sets are told to have, all together.
pub(crate) fn scale_of(sets: &[Arc<Value>]) -> i64 {
    sets.iter().map(|set| size(set)).sum()
}

/// Whether the deployment was told another number of replicas than its sets know of.
pub(crate) fn is_scaling(deployment: &Value, sets: &[Arc<Value>]) -> bool {
    let wanted = deployment.int(&["spec", "replicas"]).unwrap_or(1);
    sets.iter().filter(|set| size(set) > 0).any(|set| {
        let known = set
            .annotation(DESIRED)
            .and_then(|text| text.parse::<i64>().ok());
        known.is_some_and(|known| known != wanted)
    })
}

/// Whether a rollout is done, by the deployment's status.
pub(crate) fn is_complete(deployment: &Value, limits: &Limits) -> bool {
    let number = |field| deployment.int(&["status", field]).unwrap_or_default();
    number("updatedReplicas") == limits.wanted
        && number("replicas") == limits.wanted
        && number("availableReplicas") == limits.wanted
        && number("observedGeneration") >= deployment.generation()
}

/// The size with which a new set begins.
pub(crate) fn first_scale(limits: &Limits, old: &[&Arc<Value>]) -> i64 {
    let present: i64 = old.iter().map(|set| size(set)).sum();
    let room = limits.wanted + limits.surge - present;
    room.clamp(0, limits.wanted)
}

/// All old sets go to zero.
pub(crate) fn give_up_all<'a>(old: &[&'a Arc<Value>]) -> Vec<Scale<'a>> {
    old.iter()
        .filter(|set| size(set) > 0)
        .map(|set| Scale { set, to: 0 })
        .collect()
}

/// Recreate: the old go first, then the new comes.
pub(crate) fn recreate<'a>(
    limits: &Limits,
    new: &'a Arc<Value>,
    old: &[&'a Arc<Value>],
    old_pods_left: bool,
) -> Vec<Scale<'a>> {
    let going = give_up_all(old);
    if !going.is_empty() || old_pods_left || size(new) == limits.wanted {
        return going;
    }
    vec![Scale {
        set: new,
        to: limits.wanted,
    }]
}

/// One step of a rolling update: grow the new set if there is room, else shrink old ones as far as availability allows.
pub(crate) fn roll<'a>(
    limits: &Limits,
    new: &'a Arc<Value>,
    old: &[&'a Arc<Value>],
) -> Vec<Scale<'a>> {
    let old_total: i64 = old.iter().map(|set| size(set)).sum();
    let total = old_total + size(new);
    if size(new) > limits.wanted {
        return vec![Scale {
            set: new,
            to: limits.wanted,
        }];
    }
    let room = limits.wanted + limits.surge - total;
    if size(new) < limits.wanted && room > 0 {
        return vec![Scale {
            set: new,
            to: size(new) + room.min(limits.wanted - size(new)),
        }];
    }
    shrink_old(limits, new, old, total)
}

fn shrink_old<'a>(
    limits: &Limits,
    new: &'a Arc<Value>,
    old: &[&'a Arc<Value>],
    total: i64,
) -> Vec<Scale<'a>> {
    let least_available = limits.wanted - limits.unavailable;
    let new_unavailable = size(new) - available(new);
    let mut most_given_up = total - least_available - new_unavailable;
    if most_given_up <= 0 {
        return Vec::new();
    }
    let mut sizes: Vec<(&'a Arc<Value>, i64)> = old.iter().map(|set| (*set, size(set))).collect();
    // Replicas that serve nobody go first.
    for (set, to) in &mut sizes {
        let unhealthy = (*to - available(set)).clamp(0, most_given_up.max(0));
        *to -= unhealthy;
        most_given_up -= unhealthy;
    }
    // Then as many that serve as availability can spare.
    let serving: i64 = available(new) + old.iter().map(|set| available(set)).sum::<i64>();
    let mut spare = serving - least_available;
    for (_, to) in &mut sizes {
        let less = (*to).clamp(0, spare.max(0));
        *to -= less;
        spare -= less;
    }
    sizes
        .into_iter()
        .filter(|(set, to)| *to != size(set))
        .map(|(set, to)| Scale { set, to })
        .collect()
}

/// The deployment was scaled while several sets have replicas: each gets its share of the difference.
pub(crate) fn scale_in_proportion<'a>(
    limits: &Limits,
    new: Option<&'a Arc<Value>>,
    old: &[&'a Arc<Value>],
) -> Vec<Scale<'a>> {
    let all: Vec<&'a Arc<Value>> = old.iter().copied().chain(new).collect();
    let mut alive: Vec<&'a Arc<Value>> = all.iter().copied().filter(|set| size(set) > 0).collect();
    if alive.len() <= 1 {
        let only = alive
            .first()
            .copied()
            .or(new)
            .or_else(|| old.last().copied());
        return only
            .filter(|set| size(set) != limits.wanted || knows_other(set, limits))
            .map(|set| Scale {
                set,
                to: limits.wanted,
            })
            .into_iter()
            .collect();
    }
    let total: i64 = alive.iter().map(|set| size(set)).sum();
    let most = if limits.wanted > 0 {
        limits.wanted + limits.surge
    } else {
        0
    };
    let mut difference = most - total;
    // The largest first, and among equals the newest when growing, the oldest when shrinking.
    alive.sort_by_key(|set| {
        let age = set.created().as_second() * if difference > 0 { -1 } else { 1 };
        (-size(set), age, set.name().to_owned())
    });
    let mut scales: Vec<Scale<'a>> = Vec::new();
    for set in &alive {
        let known = set
            .annotation(MOST)
            .and_then(|text| text.parse::<i64>().ok());
        let before = known.filter(|known| *known > 0).unwrap_or(total).max(1);
        let share = (size(set) * most + before / 2) / before - size(set);
        let share = if difference > 0 {
            share.clamp(0, difference)
        } else {
            share.clamp(difference.min(0), 0)
        };
        difference -= share;
        scales.push(Scale {
            set,
            to: size(set) + share,
        });
    }
    if let Some(first) = scales.first_mut() {
        first.to = (first.to + difference).max(0);
    }
    scales.retain(|scale| scale.to != size(scale.set) || knows_other(scale.set, limits));
    scales
}

fn knows_other(set: &Value, limits: &Limits) -> bool {
    let known = set
        .annotation(DESIRED)
        .and_then(|text| text.parse::<i64>().ok());
    known.is_some_and(|known| known != limits.wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(name: &str, replicas: i64, available: i64) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": name, "uid": name, "annotations": {DESIRED: "10", MOST: "13"}},
            "spec": {"replicas": replicas}, "status": {"availableReplicas": available},
        }))
    }

    fn limits(wanted: i64, surge: i64, unavailable: i64) -> Limits {
        Limits {
            wanted,
            surge,
            unavailable,
            recreate: false,
        }
    }

    fn sizes(scales: &[Scale<'_>]) -> Vec<(String, i64)> {
        scales
            .iter()
            .map(|scale| (scale.set.name().to_owned(), scale.to))
            .collect()
    }

    #[test]
    fn the_new_set_grows_into_the_surge_and_then_the_old_shrink() {
        let limits = limits(10, 3, 2);
        let (new, old) = (set("new", 0, 0), set("old", 10, 10));
        assert_eq!(first_scale(&limits, &[&old]), 3);
        assert_eq!(
            sizes(&roll(&limits, &new, &[&old])),
            [("new".to_owned(), 3)]
        );
        let new = set("new", 3, 0);
        // 13 replicas, 10 serve, 8 must: two of the old can go at once.
        assert_eq!(
            sizes(&roll(&limits, &new, &[&old])),
            [("old".to_owned(), 8)]
        );
        let (new, old) = (set("new", 5, 3), set("old", 8, 8));
        assert_eq!(
            sizes(&roll(&limits, &new, &[&old])),
            [("old".to_owned(), 5)]
        );
    }

    #[test]
    fn old_replicas_that_do_not_serve_go_first() {
        let limits = limits(4, 1, 1);
        let (new, broken, old) = (set("new", 1, 1), set("broken", 1, 0), set("old", 3, 3));
        assert_eq!(
            sizes(&roll(&limits, &new, &[&broken, &old])),
            [("broken".to_owned(), 0), ("old".to_owned(), 2)]
        );
    }

    #[test]
    fn recreate_waits_for_the_last_old_pod() {
        let limits = Limits {
            wanted: 2,
            surge: 0,
            unavailable: 0,
            recreate: true,
        };
        let (new, old) = (set("new", 0, 0), set("old", 2, 2));
        assert_eq!(
            sizes(&recreate(&limits, &new, &[&old], true)),
            [("old".to_owned(), 0)]
        );
        let old = set("old", 0, 0);
        assert!(recreate(&limits, &new, &[&old], true).is_empty());
        assert_eq!(
            sizes(&recreate(&limits, &new, &[&old], false)),
            [("new".to_owned(), 2)]
        );
    }

    #[test]
    fn scaling_in_the_middle_of_a_rollout_is_shared() {
        let limits = limits(20, 3, 2);
        let (new, old) = (set("new", 5, 5), set("old", 8, 8));
        let scales = scale_in_proportion(&limits, Some(&new), &[&old]);
        let total: i64 = scales.iter().map(|scale| scale.to).sum();
        assert_eq!(total, 23);
        assert_eq!(
            sizes(&scales),
            [("old".to_owned(), 14), ("new".to_owned(), 9)]
        );
    }

    #[test]
    fn neither_surge_nor_unavailability_means_one_at_a_time() {
        let deployment = json!({"spec": {"replicas": 3, "strategy": {"rollingUpdate": {
            "maxSurge": 0, "maxUnavailable": "10%"}}}});
        let limits = Limits::of(&deployment);
        assert_eq!((limits.surge, limits.unavailable), (0, 1));
        let limits = Limits::of(&json!({"spec": {"replicas": 10}}));
        assert_eq!((limits.surge, limits.unavailable), (3, 2));
    }
}
