//! Machine objects that go because Joiner decides so, whichever room decided it.

use tracing::{info, warn};

use super::RemovalReason;
use crate::context::{Context, Mode};
use crate::edge::clients::WriteError;
use crate::edge::events::Severity;
use crate::record::{MANAGED_BY, MachineRecord};

/// Whether another Joiner manages a machine object: nothing is written to it then.
pub(crate) fn of_another(context: &Context, machine: &MachineRecord) -> bool {
    let manager = machine.annotations.get(MANAGED_BY);
    manager.is_some_and(|name| *name != context.mark(machine).managed_by)
}

/// Asks for a machine object to be deleted; its lifecycle does the rest.
pub(crate) async fn delete(
    context: &Context,
    machine: &MachineRecord,
    reason: RemovalReason,
) -> bool {
    let word = reason.word();
    let Some(dialect) = context.dialect(&machine.key) else {
        return false;
    };
    if context.settings.mode == Mode::ObserveOnly {
        info!(machine = %machine.key, reason = word, "observe-only: would remove the node");
        return false;
    }
    if of_another(context, machine) {
        warn!(machine = %machine.key, reason = word, "managed by another Joiner: not deleted");
        return false;
    }
    match dialect.delete_machine(machine).await {
        Ok(()) | Err(WriteError::Gone(_)) => {}
        Err(error) => {
            warn!(machine = %machine.key, %error, "machine object could not be deleted");
            return false;
        }
    }
    let title = context.view.read().title_of(machine);
    context
        .edge
        .metrics
        .machine_disrupted(machine, &title, word);
    context.tell_machine(
        machine,
        Severity::Normal,
        "DisruptionTerminating",
        &format!("Node is being removed: {}", reason.sentence()),
    );
    if dialect.announces_scaling() {
        let pool = machine.pool.as_ref();
        let pool = pool.and_then(|pool| context.view.read().pool(pool).cloned());
        if let Some(pool) = pool {
            let said = format!("Removing {}: {}", machine.key.name, reason.sentence());
            context.tell_pool(&pool, Severity::Normal, "ScaledDown", &said);
        }
    }
    match dialect.get_machine(&machine.key).await {
        Ok(current) if current.uid == machine.uid => context.view.note_machine(current),
        Ok(_) => context.view.forget_machine(machine),
        Err(WriteError::Gone(_)) => context.view.doubt_machine(machine),
        Err(_) => {}
    }
    true
}
