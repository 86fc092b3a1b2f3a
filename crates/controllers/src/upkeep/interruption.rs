//! What clouds announce: a machine that will be taken away is drained while it still runs.

use std::sync::Arc;

use joiner_providers::{Notice, NoticeKind};
use tracing::{info, warn};

use super::visits::Visits;
use crate::context::{Context, Mode};
use crate::edge::clients::while_leading;
use crate::edge::events::Severity;
use crate::lifecycle::{RemovalReason, delete, of_another};
use crate::market::slots::Slot;
use crate::record::{MachineRecord, MetadataChange, annotations, kinds};

/// Listens for ever.
pub(crate) async fn run(context: Arc<Context>) {
    let visits = Visits::new("notices");
    loop {
        tokio::time::sleep(context.settings.notice_period).await;
        if context.may_act() && context.settings.mode == Mode::Act {
            visits.start(&context, listen);
        }
    }
}

async fn listen(context: Arc<Context>, slot: Arc<Slot>) {
    // Some providers defend what they hold when they look at it, with higher bids: only the leader may.
    let notices = while_leading(&context.edge.clients.fence, slot.provider.notices());
    match slot.call(notices).await {
        Ok(notices) => heed(&context, notices).await,
        Err(error) => warn!(class = %slot.key, %error, "interruption notices could not be read"),
    }
}

async fn heed(context: &Context, notices: Vec<Notice>) {
    for notice in notices {
        let machine: Option<Arc<MachineRecord>> = {
            let world = context.view.read();
            let named =
                |one: &&Arc<MachineRecord>| one.status.machine_id.as_ref() == Some(&notice.id);
            world.machines.iter().find(named).cloned()
        };
        // Notices come late, twice, and about machines of others.
        let news =
            |one: &Arc<MachineRecord>| is_news(one, notice.kind) && !of_another(context, one);
        let Some(machine) = machine.filter(news) else {
            continue;
        };
        let word: &'static str = notice.kind.into();
        let when = notice
            .at
            .map_or_else(|| "any moment".to_owned(), |at| at.to_string());
        let message = if notice.kind == NoticeKind::Rebalance {
            format!("the cloud recommends moving away ({word}) at {when}")
        } else {
            format!("the cloud announces {word} at {when}; the node is drained before that")
        };
        info!(machine = %machine.key, kind = word, %when, "initiating delete from interruption message");
        context.tell_machine(&machine, Severity::Warning, "Interrupted", &message);
        if notice.kind == NoticeKind::Rebalance {
            continue;
        }
        let machine = note(context, machine).await;
        if machine.deleting.is_none() {
            delete(context, &machine, RemovalReason::Interrupted).await;
        }
    }
}

/// Whether a notice is to be acted on. A machine that is on its way out already may wait for pods that nothing may evict:
/// they need room elsewhere from now on.
fn is_news(machine: &MachineRecord, kind: NoticeKind) -> bool {
    let stopping = machine
        .status
        .conditions
        .is_true(kinds::INSTANCE_TERMINATING);
    let waits = kind != NoticeKind::Rebalance && !stopping && !machine.interrupted();
    machine.deleting.is_none() || waits
}

/// Writes on the machine object that the cloud takes it away, before anything else is done: whoever takes over buys room
/// for its pods as well, whatever holds them. What could not be written is tried again at the next look at the notices.
async fn note(context: &Context, machine: Arc<MachineRecord>) -> Arc<MachineRecord> {
    let Some(dialect) = context.dialect(&machine.key) else {
        return machine;
    };
    if machine.interrupted() {
        return machine;
    }
    let at = context.now().to_string();
    let change = MetadataChange::annotation(annotations::INTERRUPTED_AT, Some(at.into()));
    match dialect.patch_machine(&machine, &change).await {
        Ok(written) => {
            context.view.note_machine(written.clone());
            Arc::new(written)
        }
        Err(error) => {
            warn!(machine = %machine.key, %error, "interruption could not be written on the machine object yet");
            machine
        }
    }
}
