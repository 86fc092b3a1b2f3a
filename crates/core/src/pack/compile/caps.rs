//! What a host already carries of each group, and how many more pods its groups allow.

use crate::pack::compile::ids::GroupId;
use smallvec::SmallVec;

use crate::pack::compile::profile::{Cap, NO_CAP};

/// Group, pods it counts here, and the least cap that an owner here puts on that count.
pub(crate) type HeldCaps = SmallVec<[(GroupId, u16, u16); 4]>;

/// Adds pods to what a host carries.
pub(crate) fn hold(caps: &mut HeldCaps, cap: Cap, count: u32) {
    let counted = if cap.matched {
        u16::try_from(count).unwrap_or(u16::MAX)
    } else {
        0
    };
    let own = if cap.soft { NO_CAP } else { cap.most };
    if let Some(entry) = caps.iter_mut().find(|entry| entry.0 == cap.group) {
        entry.1 = entry.1.saturating_add(counted);
        entry.2 = entry.2.min(own);
    } else {
        caps.push((cap.group, counted, own));
    }
}

/// How many pods with these caps may come.
pub(crate) fn room(held: &HeldCaps, wanted: &[Cap]) -> u32 {
    let mut most = u32::MAX;
    for cap in wanted {
        let (count, bound) = held
            .iter()
            .find(|entry| entry.0 == cap.group)
            .map_or((0, NO_CAP), |entry| (entry.1, entry.2));
        let bound = bound.min(cap.most);
        if bound == NO_CAP {
            continue;
        }
        if cap.matched {
            most = most.min(u32::from(bound.saturating_sub(count)));
        } else if count > bound {
            return 0;
        }
    }
    most
}

/// Whether a pod that the group counts is here.
pub(crate) fn carries(held: &HeldCaps, group: GroupId) -> bool {
    held.iter().any(|entry| entry.0 == group && entry.1 > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cap(matched: bool, most: u16) -> Cap {
        Cap {
            group: GroupId(7),
            matched,
            most,
            soft: false,
        }
    }

    #[test]
    fn pods_that_avoid_their_own_kind_come_one_to_a_host() {
        let mut held = HeldCaps::new();
        let own = cap(true, 1);
        assert_eq!(room(&held, &[own]), 1);
        hold(&mut held, own, 1);
        assert_eq!(room(&held, &[own]), 0);
    }

    #[test]
    fn one_that_avoids_others_keeps_them_away_whichever_comes_first() {
        let (owner, other) = (cap(false, 0), cap(true, NO_CAP));
        let mut held = HeldCaps::new();
        hold(&mut held, owner, 1);
        assert_eq!(room(&held, &[other]), 0);
        let mut held = HeldCaps::new();
        hold(&mut held, other, 1);
        assert_eq!(room(&held, &[owner]), 0);
    }

    #[test]
    fn a_preference_is_asked_on_arrival_and_not_held_against_later_pods() {
        let preference = Cap {
            soft: true,
            ..cap(false, 0)
        };
        let other = cap(true, NO_CAP);
        let mut held = HeldCaps::new();
        hold(&mut held, preference, 1);
        assert_eq!(room(&held, &[other]), u32::MAX);
        hold(&mut held, other, 1);
        assert_eq!(room(&held, &[preference]), 0);
    }
}
