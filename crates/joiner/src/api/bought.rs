//! Why a machine was bought: from the ledger of decisions, or, where another process bought it, from its object.

use std::sync::Arc;

use joiner_controllers::context::Context;
use joiner_controllers::decisions::{Evidence, Outcome, Said, Verdict};
use joiner_controllers::record::{MachineRecord, annotations};

/// Why this machine was bought. There is always an answer, however long ago that was.
pub(crate) fn bought(context: &Context, machine: &MachineRecord) -> Said {
    let known = context.decisions.purchase(&machine.key.name);
    known.unwrap_or_else(|| written(machine))
}

/// What stands on the object of a machine.
pub(crate) fn written(machine: &MachineRecord) -> Said {
    let name = &machine.key.name;
    let mut verdict = Verdict {
        outcome: Outcome::Bought,
        code: "Written".into(),
        ..Verdict::default()
    };
    let offer = machine.offer().or_else(|| machine.offers.last());
    if let Some(offer) = offer {
        verdict.evidence = Evidence {
            place: Some(name.clone()),
            pool: machine.pool.clone(),
            after: Some(offer.purchase.price.dollars()),
            ..Evidence::default()
        };
    }
    verdict.sentence = match (machine.annotations.get(annotations::WHY), offer) {
        (Some(why), _) => format!("machine {name} is bought: {why}"),
        (None, Some(offer)) => {
            let purchase = &offer.purchase;
            format!(
                "machine {name} is bought: {} as {} in zone {} at {} an hour; what for is not written on its object",
                purchase.instance_type, purchase.capacity_type, purchase.zone, purchase.price
            )
        }
        (None, None) => format!(
            "no plan asked for machine {name}: its object was written by another program or a person"
        ),
    };
    Said {
        first: machine.created,
        last: machine.created,
        times: 1,
        decision: 0,
        verdict: Arc::new(verdict),
    }
}
