//! What was decided last. Deciding is pure: the same question has the same answer, so a cluster in which nothing has
//! changed is not thought about again, and one at rest keeps no processor busy.

use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::plan::Plan;
use joiner_core::problem::Problem;

/// A question and its answer; the ledger of decisions has the same.
#[derive(Debug)]
struct Answered {
    problem: Arc<Problem>,
    plan: Arc<Plan>,
    until: Option<Timestamp>,
}

/// The last decision of a loop, if it is worth remembering.
#[derive(Debug, Default)]
pub(crate) struct LastDecision(Option<Answered>);

impl LastDecision {
    /// Remembers a decision, until then or for as long as the question stays the same.
    pub(crate) fn keep(
        &mut self,
        problem: Arc<Problem>,
        plan: Arc<Plan>,
        until: Option<Timestamp>,
    ) {
        self.0 = Some(Answered {
            problem,
            plan,
            until,
        });
    }

    /// The answer to a question that differs from the last one in nothing but the time. The question is as before
    /// afterwards.
    pub(crate) fn recall(&self, problem: &mut Problem) -> Option<Arc<Plan>> {
        let known = self.0.as_ref()?;
        let now = problem.now;
        if known
            .until
            .zip(now)
            .is_some_and(|(until, now)| until <= now)
        {
            return None;
        }
        problem.now = known.problem.now;
        let same = *known.problem == *problem;
        problem.now = now;
        same.then(|| known.plan.clone())
    }
}

#[cfg(test)]
mod tests {
    use joiner_core::problem::Node;

    use super::*;

    fn at(second: i64, nodes: usize) -> Problem {
        Problem {
            now: Timestamp::from_second(second).ok(),
            nodes: vec![Node::default(); nodes],
            ..Problem::default()
        }
    }

    #[test]
    fn the_same_question_is_answered_from_memory_at_any_time_until_its_time_is_up() {
        let mut thought = LastDecision::default();
        let keep = |thought: &mut LastDecision, until| {
            thought.keep(Arc::new(at(0, 1)), Arc::default(), until);
        };
        assert_eq!(thought.recall(&mut at(0, 1)), None);
        keep(&mut thought, Timestamp::from_second(10).ok());
        let mut question = at(9, 1);
        assert!(thought.recall(&mut question).is_some());
        assert_eq!(question, at(9, 1), "the question keeps its time");
        assert_eq!(thought.recall(&mut at(9, 2)), None);
        assert_eq!(thought.recall(&mut at(10, 1)), None);
        keep(&mut thought, None);
        assert!(thought.recall(&mut at(1_000_000, 1)).is_some());
    }
}
