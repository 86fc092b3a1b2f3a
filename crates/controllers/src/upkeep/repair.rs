//! Sick nodes are replaced, unless so many are sick that the sickness is elsewhere.
//!
//! karpenter: pkg/controllers/node/health

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use tracing::{info, warn};

use crate::context::{Context, Mode};
use crate::edge::clock;
use crate::edge::events::Severity;
use crate::lifecycle::{RemovalReason, delete};
use crate::record::{MachineRecord, MetadataChange, annotations};

/// How often nodes are looked at.
const PERIOD: Duration = Duration::from_secs(30);
/// What share of a pool may be sick, in percent, rounded up.
const PLAUSIBLE: usize = 20;
/// Within this time no more nodes of a pool are replaced than may be sick at once: what does not help is not done all
/// over the pool.
const WINDOW: Duration = Duration::from_mins(10);

/// When nodes were replaced lately, by pool.
type Lately = BTreeMap<Option<Name>, Vec<Timestamp>>;

/// Looks after sick nodes for ever.
pub(crate) async fn run(context: Arc<Context>) {
    let mut lately = Lately::new();
    loop {
        tokio::time::sleep(PERIOD).await;
        let active = context.settings.repair
            && context.settings.mode == Mode::Act
            && !context.settings.paused;
        if active && context.may_act() {
            look(&context, &mut lately).await;
        }
    }
}

/// Machines by pool: all of them, those whose node shows a bad sign, and those that have for too long.
#[derive(Default)]
struct Ward {
    all: usize,
    sick: usize,
    overdue: Vec<(Arc<MachineRecord>, String)>,
}

fn wards(context: &Context) -> BTreeMap<Option<Name>, Ward> {
    let now = context.now();
    let world = context.view.read();
    let mut wards: BTreeMap<Option<Name>, Ward> = BTreeMap::new();
    for machine in world.machines.iter() {
        let Some(node) = machine
            .status
            .node
            .as_ref()
            .and_then(|name| world.nodes.get(name))
        else {
            continue;
        };
        let Some(slot) = context.market.classes.slot(&machine.class) else {
            continue;
        };
        let ward = wards.entry(machine.pool.clone()).or_default();
        ward.all += 1;
        let signs: Vec<_> = slot
            .provider
            .repair_policies()
            .iter()
            .flat_map(|policy| node.conditions.iter().map(move |one| (policy, one)))
            .filter(|(policy, one)| *one.kind == *policy.condition && *one.status == *policy.status)
            .collect();
        ward.sick += usize::from(!signs.is_empty());
        let late = signs
            .iter()
            .find(|(policy, one)| clock::since(now, one.since) >= policy.tolerated);
        // One that joined and never came into use is sick as well: nobody else would ever replace it.
        if let Some((_, sign)) = late
            && machine.deleting.is_none()
            && machine.registered()
        {
            let why = format!(
                "{} has been {} since {}",
                sign.kind, sign.status, sign.since
            );
            ward.overdue.push((machine.clone(), why));
        }
    }
    wards
}

/// Whether one more may be replaced now; if so it counts.
fn within_cap(recent: &mut Vec<Timestamp>, tolerated: usize, now: Timestamp) -> bool {
    recent.retain(|at| clock::since(now, *at) < WINDOW);
    let free = recent.len() < tolerated.max(1);
    if free {
        recent.push(now);
    }
    free
}

async fn look(context: &Context, lately: &mut Lately) {
    let wards = wards(context);
    lately.retain(|pool, _| wards.contains_key(pool));
    for (pool, ward) in wards {
        let tolerated = (ward.all * PLAUSIBLE).div_ceil(100);
        if ward.sick > tolerated && !ward.overdue.is_empty() {
            let pool = pool.as_deref().unwrap_or_default();
            warn!(
                pool,
                sick = ward.sick,
                all = ward.all,
                "too many nodes are unhealthy at once: none is repaired"
            );
            for (machine, _) in &ward.overdue {
                let message = format!(
                    "{} of {} nodes are unhealthy, more than {PLAUSIBLE}%: none is repaired",
                    ward.sick, ward.all
                );
                context.tell_machine(machine, Severity::Warning, "NodeRepairBlocked", &message);
            }
            continue;
        }
        // One at a time: a replacement that gets well again shows that replacing helps.
        let recent = lately.entry(pool).or_default();
        if let Some((machine, why)) = ward.overdue.first() {
            if within_cap(recent, tolerated, context.now()) {
                replace(context, machine, why).await;
            } else {
                let message = format!(
                    "{} nodes were repaired within ten minutes: repair of this one waits",
                    recent.len()
                );
                context.tell_machine(machine, Severity::Warning, "NodeRepairBlocked", &message);
            }
        }
    }
}

/// The node does not answer: pods are not waited for.
async fn replace(context: &Context, machine: &MachineRecord, why: &str) {
    let Some(dialect) = context.dialect(&machine.key) else {
        return;
    };
    info!(machine = %machine.key, why, "unhealthy node is replaced");
    let at = context.now().to_string();
    let change = MetadataChange::annotation(annotations::TERMINATION_TIMESTAMP, Some(at.into()));
    match dialect.patch_machine(machine, &change).await {
        Ok(written) => {
            context.view.note_machine(written.clone());
            delete(context, &written, RemovalReason::Unhealthy).await;
        }
        Err(error) => {
            warn!(machine = %machine.key, %error, "unhealthy node could not be replaced yet");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_replaced_in_ten_minutes_than_may_be_sick_at_once() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let mut recent = Vec::new();
        assert!(within_cap(&mut recent, 2, at(0)));
        assert!(within_cap(&mut recent, 2, at(1)));
        assert!(!within_cap(&mut recent, 2, at(9)));
        assert!(within_cap(&mut recent, 2, at(10)));
        assert!(within_cap(&mut Vec::new(), 0, at(0)), "one may always go");
    }
}
