//! Nodes that stay say why: once for every reason. What cannot be said yet, because the node said something else a
//! moment ago, is said later, unless it is not true any more by then.

use std::collections::BTreeMap;
use std::time::Duration;

use joiner_core::name::Name;
use joiner_core::plan::Plan;

use crate::context::Context;
use crate::edge::clock;
use crate::edge::events::Severity;
use crate::record::Key;

/// What is held back for longer than this is told; the rest only waits for its time and is no news.
const FAR: Duration = Duration::from_mins(5);

/// Why nodes stay, by node.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    told: BTreeMap<Name, String>,
    untold: BTreeMap<Name, (Key, String)>,
}

impl Reasons {
    /// Takes the reasons of the last decision for those of all before.
    pub(super) fn learn(&mut self, context: &Context, plan: &Plan, machines: &BTreeMap<Name, Key>) {
        self.told.retain(|node, _| machines.contains_key(node));
        self.untold.clear();
        let far = clock::after(context.now(), FAR);
        for kept in &plan.kept {
            if kept.until.is_some_and(|until| until < far) {
                continue;
            }
            let why = kept.reason.to_string();
            if self.told.get(&kept.node) == Some(&why) {
                continue;
            }
            if let Some(key) = machines.get(&kept.node) {
                self.untold.insert(kept.node.clone(), (key.clone(), why));
            }
        }
    }

    /// Says what has not been heard yet.
    pub(super) fn speak(&mut self, context: &Context) {
        for (node, (key, why)) in std::mem::take(&mut self.untold) {
            let machine = context.view.read().machines.get(&key).cloned();
            let Some(machine) = machine.filter(|one| one.initialized() && one.deleting.is_none())
            else {
                continue;
            };
            if context.tell_machine(&machine, Severity::Normal, "Unconsolidatable", &why) {
                self.told.insert(node, why);
            } else {
                self.untold.insert(node, (key, why));
            }
        }
    }
}
