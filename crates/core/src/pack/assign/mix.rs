//! Nodes that are there, filled with pods that go well together.
//!
//! Pod by pod, the largest first, a node runs out of memory while it has processors to spare, or the other way round;
//! what is left over has to be bought. Here every node takes, again and again, the pod that is most like the room it
//! has left, in size and shape.

use crate::pack::compile::Compiled;
use crate::pack::compile::ids::{ClassId, LevelId};
use crate::pack::dense::vector::Vector;
use crate::pack::scenario::Scenario;
use crate::problem::NodeId;

use super::{Assigner, Turn};

/// Nodes times kinds of pods up to which all of them are compared.
const MOST: usize = 1 << 14;
/// One part in so many of the pods that a node could take of a kind are taken before it is compared again.
const PART: u32 = 8;

/// Whether there is something to mix, and little enough to do so.
pub(crate) fn is_worthwhile(compiled: &Compiled<'_>, scenario: &Scenario) -> bool {
    let nodes = compiled.nodes.len() - scenario.removed.iter().count();
    let kinds = compiled.classes.len();
    scenario.buys && nodes > 0 && kinds > 1 && nodes * kinds <= MOST
}

impl Assigner<'_, '_> {
    /// Puts pods of like priority on nodes; leaves how many are left.
    pub(super) fn mix(&mut self, turns: &mut [Turn]) {
        let priority = |turn: &Turn| self.compiled.profile(turn.class).spec.priority;
        let priorities: Vec<i32> = turns.iter().map(priority).collect();
        let mut from = 0;
        while from < turns.len() {
            let alike = priorities[from..].iter();
            let alike = alike.take_while(|one| **one == priorities[from]).count();
            let (_, rest) = turns.split_at_mut(from);
            let mut own: Vec<&mut Turn> = rest.iter_mut().take(alike).collect();
            own.retain(|turn| self.goes_anywhere(turn.class));
            for at in 0..self.order.len() {
                self.fill_node(self.order[at], &mut own);
            }
            from += alike;
        }
    }

    /// Whether a pod has nothing to do with others.
    fn goes_anywhere(&self, class: ClassId) -> bool {
        let profile = self.compiled.profile(class);
        let first = profile.levels.first();
        !profile.anchored
            && profile.invalid.is_none()
            && self.compiled.class(class).uncounted.is_none()
            && profile.spec.volumes.is_empty()
            && first.is_some_and(|level| level.host_affinity.is_empty() && level.caps.is_empty())
    }

    fn fill_node(&mut self, node: NodeId, turns: &mut [&mut Turn]) {
        let compiled = self.compiled;
        let first = LevelId::default();
        let whole = self.nodes[node].room;
        loop {
            let room = self.nodes[node].room;
            let mut best: Option<(f64, usize, u32)> = None;
            for (at, turn) in turns.iter().enumerate() {
                self.running = turn.running;
                let level = &compiled.profile(turn.class).levels[first];
                let most = self.space_on(turn.class, level, node).min(turn.count);
                let requests = &compiled.class(turn.class).requests;
                let likeness = likeness(requests, &room, &whole);
                if most > 0 && best.is_none_or(|(known, _, _)| likeness > known) {
                    best = Some((likeness, at, most));
                }
            }
            let Some((_, at, most)) = best else { return };
            let take = (most / PART).max(1);
            self.put(turns[at].class, first, node, take);
            turns[at].count -= take;
        }
    }
}

/// How much a pod is like what is left of a node: the larger and the more of the same shape, the more.
fn likeness(requests: &Vector, room: &Vector, whole: &Vector) -> f64 {
    let amounts = requests.0.iter().zip(&room.0).zip(&whole.0);
    let parts = amounts.map(|((amount, left), all)| {
        let all = (*all).max(1) as f64;
        *amount as f64 / all * (*left as f64 / all)
    });
    parts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::dense::vector::vector;

    #[test]
    fn large_pods_of_the_shape_of_what_is_left_come_first() {
        let whole = vector(16, 32);
        let order = |room: Vector| {
            let pods = [vector(2, 2), vector(1, 4), vector(1, 2)];
            let mut order = [0, 1, 2];
            order.sort_by(|a, b| {
                let [a, b] = [*a, *b].map(|at: usize| likeness(&pods[at], &room, &whole));
                b.total_cmp(&a)
            });
            order
        };
        assert_eq!(order(vector(16, 4)), [0, 1, 2], "processors are left");
        assert_eq!(order(vector(2, 32)), [1, 0, 2], "memory is left");
    }
}
