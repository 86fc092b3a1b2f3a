//! The first open machine with enough room, without asking all of them.

use crate::pack::dense::vector::{LEAD, Lead, Vector, lead_fits};

/// A tree over machines in order of opening: each inner place knows the most that any machine below it has free of
/// each resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoomTree {
    /// Places for machines, a power of two.
    size: usize,
    count: usize,
    /// The root at one, the children of `n` at `2n` and `2n + 1`.
    most: Vec<Lead>,
}

const NONE: Lead = [-1; LEAD];

impl RoomTree {
    /// Adds a machine after those that are there.
    pub(crate) fn push(&mut self, free: &Vector) {
        if self.count == self.size {
            self.grow();
        }
        self.count += 1;
        self.set(self.count - 1, free);
    }

    fn grow(&mut self) {
        let size = (self.size * 2).max(16);
        let mut most = vec![NONE; size * 2];
        let old = &self.most[self.most.len().min(self.size)..];
        most[size..size + old.len()].copy_from_slice(old);
        for index in (1..size).rev() {
            most[index] = larger(&most[2 * index], &most[2 * index + 1]);
        }
        (self.size, self.most) = (size, most);
    }

    /// Says what a machine has free now.
    pub(crate) fn set(&mut self, index: usize, free: &Vector) {
        let mut at = self.size + index;
        self.most[at] = free.lead();
        while at > 1 {
            at /= 2;
            self.most[at] = larger(&self.most[2 * at], &self.most[2 * at + 1]);
        }
    }

    /// The first machine from `start` on that may have room.
    pub(crate) fn next(&self, start: usize, need: &Vector) -> Option<usize> {
        if start >= self.count {
            return None;
        }
        let need_of = need.lead();
        let mut at = self.size + start;
        loop {
            if lead_fits(&need_of, &self.most[at]) {
                if at >= self.size {
                    return Some(at - self.size);
                }
                at *= 2;
                continue;
            }
            // On to the next subtree to the right.
            while at & 1 == 1 {
                at /= 2;
                if at <= 1 {
                    return None;
                }
            }
            at += 1;
        }
    }
}

fn larger(a: &Lead, b: &Lead) -> Lead {
    let mut larger = *a;
    for (mine, other) in larger.iter_mut().zip(b) {
        *mine = (*mine).max(*other);
    }
    larger
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::dense::vector::vector;

    #[test]
    fn machines_with_room_come_in_order_and_none_is_passed_over() {
        let mut room_tree = RoomTree::default();
        assert_eq!(room_tree.next(0, &vector(0, 0)), None);
        let free: Vec<Vector> = (0..37).map(|at| vector(at * 7 % 11, at * 5 % 13)).collect();
        for one in &free {
            room_tree.push(one);
        }
        for need in [
            vector(0, 0),
            vector(5, 5),
            vector(10, 1),
            vector(3, 12),
            vector(11, 0),
        ] {
            let mut found = Vec::new();
            let mut start = 0;
            while let Some(index) = room_tree.next(start, &need) {
                found.push(index);
                start = index + 1;
            }
            let asked: Vec<usize> = (0..free.len()).filter(|at| need.fits(&free[*at])).collect();
            assert_eq!(found, asked);
        }
    }

    #[test]
    fn a_machine_that_is_filled_is_passed_over() {
        let mut room_tree = RoomTree::default();
        room_tree.push(&vector(4, 4));
        room_tree.push(&vector(4, 4));
        room_tree.set(0, &vector(1, 4));
        assert_eq!(room_tree.next(0, &vector(2, 2)), Some(1));
        assert_eq!(room_tree.next(0, &vector(1, 1)), Some(0));
    }
}
