//! How many pods of each lot can have a machine, as far as packing has shown.
//!
//! Pods are assigned before anything is packed, as if there were enough of everything. When something scarce runs out,
//! pods of some lots are left over. They are assigned again, no more to a lot than found a machine in it: the others
//! try lighter pools, other domains and fewer preferences.

use crate::pack::compile::Compiled;
use crate::pack::compile::column_sets::SetId;
use crate::pack::compile::groups::GroupKind;
use crate::pack::compile::ids::{ClassId, LevelId};
use crate::pack::compile::profile::{Level, Profile};
use crate::pack::dense::intern::FixedMap;
use crate::pack::dense::typed::{Id as _, IdVec};

use super::{Assignment, Lot, LotId};

/// What is known of how far machines go.
#[derive(Clone, Debug, Default)]
pub(crate) struct LotLimits {
    /// Most pods of a lot, by class, level and set.
    most: FixedMap<(ClassId, LevelId, SetId), u32>,
    /// Preferences are ignored.
    ignore_preferences: bool,
}

impl LotLimits {
    /// For when preferences of some pods leave no machine for others.
    pub(crate) fn without_preferences() -> Self {
        LotLimits {
            ignore_preferences: true,
            ..LotLimits::default()
        }
    }

    /// Whether this is the first time that pods are assigned.
    pub(crate) fn is_new(&self) -> bool {
        self.is_empty() && !self.ignore_preferences
    }

    pub(super) fn is_empty(&self) -> bool {
        self.most.is_empty()
    }

    pub(super) fn of(&self, class: ClassId, level: LevelId, set: SetId) -> u32 {
        let known = self.most.get(&(class, level, set));
        known.copied().unwrap_or(u32::MAX)
    }

    /// The first level that is respected.
    pub(super) fn first_level(&self, profile: &Profile<'_>) -> LevelId {
        let last = profile.levels.len().saturating_sub(1);
        LevelId::at(if self.ignore_preferences { last } else { 0 })
    }

    /// Learns from what packing left over; says whether to assign again may help.
    pub(crate) fn learn(
        &mut self,
        compiled: &Compiled<'_>,
        assignment: &Assignment,
        left: &IdVec<LotId, u32>,
    ) -> bool {
        let mut helpful = false;
        for ((id, lot), left) in assignment.lots.pairs().zip(left) {
            let expected = lot.count - assignment.surplus.find(id).copied().unwrap_or(0);
            let packed = lot.count - left;
            if packed >= expected {
                continue;
            }
            let level = &compiled.profile(lot.class).levels[lot.level];
            // Pods that have to be in one domain are better off together in another one.
            let most = if together(compiled, level) { 0 } else { packed };
            self.most.insert((lot.class, lot.level, lot.set), most);
            helpful |= has_alternative(compiled, lot);
        }
        helpful
    }
}

fn together(compiled: &Compiled<'_>, level: &Level) -> bool {
    level.rules.iter().any(|rule| {
        rule.own && !rule.soft && compiled.groups.all.get(rule.group).kind == GroupKind::Affinity
    })
}

/// Whether pods of a lot could be sent anywhere else.
fn has_alternative(compiled: &Compiled<'_>, lot: &Lot) -> bool {
    let profile = compiled.profile(lot.class);
    let preferences_left = lot.level.index() + 1 < profile.levels.len();
    profile.anchored || preferences_left || compiled.tiers.len() > 1
}
