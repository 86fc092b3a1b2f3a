//! What clouds announce: a machine that will be taken away is drained while it still runs.

use std::sync::Arc;

use joiner_providers::{Notice, NoticeKind};
use tracing::{info, warn};

use super::visits::Visits;
use crate::context::{Context, Mode};
use crate::disrupt::delete;
use crate::edge::clients::while_leading;
use crate::edge::events::Severity;
use crate::market::slots::Slot;
use crate::record::MachineRecord;

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
    let notices = while_leading(&context.clients.fence, slot.provider.notices());
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
        let Some(machine) = machine.filter(|one| one.deleting.is_none()) else {
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
        if notice.kind != NoticeKind::Rebalance {
            delete(context, &machine, "interrupted").await;
        }
    }
}
