//! What a decision says in figures: how many nodes may go, and for what.

use joiner_core::disrupt::allowed;
use joiner_core::plan::Plan;
use joiner_core::problem::Problem;

use super::begin::word;
use super::command::IN_TURN;
use crate::context::Context;
use crate::edge::metrics::{PoolReason, Reason};

pub(super) fn measure(context: &Context, problem: &Problem, plan: &Plan) {
    for (pool, reason, most) in allowed(problem) {
        let labels = PoolReason {
            nodepool: problem.title_of(&pool).to_string(),
            reason: word(reason).to_owned(),
        };
        let gauge = context.edge.metrics.allowed.get_or_create(&labels);
        gauge.set(i64::from(most));
    }
    for reason in IN_TURN {
        let going = plan.removals.iter().filter(|one| one.cause == reason);
        let staying = plan.kept.iter();
        let staying = staying.filter(|one| one.eligible == Some(reason));
        let eligible = going.count() + staying.count();
        let labels = Reason {
            reason: word(reason).to_owned(),
        };
        let gauge = context.edge.metrics.eligible.get_or_create(&labels);
        gauge.set(i64::try_from(eligible).unwrap_or(i64::MAX));
    }
}
