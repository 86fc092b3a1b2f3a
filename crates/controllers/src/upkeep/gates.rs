//! What objects that open pools say about the pools that they name.

use std::sync::Arc;

use joiner_core::name::Name;
use tracing::warn;

use crate::context::{Context, Mode};
use crate::record::{Behind, GateRecord};
use crate::view::World;

/// A gate, and what stands behind each name that it has.
type Told = (Arc<GateRecord>, Vec<(Name, Behind)>);

/// Tells every gate what stands behind the names that it has.
pub(super) async fn report(context: &Context) {
    if context.settings.mode == Mode::ObserveOnly {
        return;
    }
    let gates: Vec<Told> = {
        let world = context.view.read();
        let gates = world.gates.iter().filter(|gate| !gate.deleting);
        let behind =
            |gate: &GateRecord, name: &Name| (name.clone(), behind(context, &world, gate, name));
        gates
            .map(|gate| {
                let pools = gate.pools.iter().map(|name| behind(gate, name));
                (gate.clone(), pools.collect())
            })
            .collect()
    };
    for (gate, pools) in gates {
        let Some(dialect) = context.dialect(&gate.key) else {
            continue;
        };
        if let Err(error) = dialect.write_gate(&gate, &pools, context.now()).await {
            warn!(gate = %gate.key, %error, "status could not be written");
        }
    }
}

fn behind(context: &Context, world: &World, gate: &GateRecord, name: &Name) -> Behind {
    let key = crate::record::Key {
        name: name.clone(),
        ..gate.key.clone()
    };
    let Some(pool) = world.pools.get(&key) else {
        return Behind::NoPool;
    };
    let class = pool.class.name.clone();
    if let Some(message) = pool.invalid.clone() {
        return Behind::Unusable {
            class,
            reason: "PoolInvalid",
            message,
        };
    }
    let record = world.classes.get(&pool.class).map(AsRef::as_ref);
    match context.market.classes.unusable(&pool.class, record) {
        Some((reason, message)) => Behind::Unusable {
            class,
            reason,
            message,
        },
        None => Behind::Usable { class },
    }
}
