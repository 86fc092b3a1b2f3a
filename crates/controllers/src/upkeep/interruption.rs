//! What clouds announce: a machine that will be taken away is drained while it still runs.

use std::sync::Arc;

use joiner_providers::NoticeKind;
use tracing::{info, warn};

use crate::context::{Context, Mode};
use crate::disrupt::delete;
use crate::edge::events::Severity;
use crate::record::MachineRecord;

/// Listens for ever.
pub(crate) async fn run(context: Arc<Context>) {
    loop {
        tokio::time::sleep(context.settings.notice_period).await;
        if context.may_act() && context.settings.mode == Mode::Act {
            listen(&context).await;
        }
    }
}

async fn listen(context: &Context) {
    for slot in context.classes.slots() {
        let notices = match slot.call(slot.provider.notices()).await {
            Ok(notices) => notices,
            Err(error) => {
                warn!(class = %slot.key, %error, "its announcements cannot be read");
                continue;
            }
        };
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
                .map_or_else(|| "soon".to_owned(), |at| at.to_string());
            let message = format!("the cloud announces: {word}, {when}");
            info!(machine = %machine.key, kind = word, %when, "announced by the cloud");
            context.tell_machine(&machine, Severity::Warning, "Interrupted", &message);
            if notice.kind != NoticeKind::Rebalance {
                delete(context, &machine, "interrupted").await;
            }
        }
    }
}
