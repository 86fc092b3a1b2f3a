//! What was decided last. Deciding is pure: the same question has the same answer, so a cluster in which nothing has
//! changed is not thought about again, and one at rest keeps no processor busy.

use jiff::Timestamp;
use joiner_core::plan::Plan;
use joiner_core::problem::Problem;

/// A question and its answer.
#[derive(Debug)]
struct Answered {
    problem: Problem,
    plan: Plan,
    until: Option<Timestamp>,
}

/// The last decision of a loop, if it is worth remembering.
#[derive(Debug, Default)]
pub(crate) struct LastDecision(Option<Box<Answered>>);

impl LastDecision {
    /// Remembers a decision, until then or for as long as the question stays the same.
    pub(crate) fn keep(&mut self, problem: Problem, plan: Plan, until: Option<Timestamp>) {
        self.0 = Some(Box::new(Answered {
            problem,
            plan,
            until,
        }));
    }

    /// The answer to a question that differs from the last one in nothing but the time.
    pub(crate) fn recall(&mut self, problem: &Problem) -> Option<&Plan> {
        let known = self.0.as_mut()?;
        let due = known.until.zip(problem.now);
        if due.is_some_and(|(until, now)| until <= now) {
            return None;
        }
        known.problem.now = problem.now;
        (known.problem == *problem).then_some(&known.plan)
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
        assert_eq!(thought.recall(&at(0, 1)), None);
        thought.keep(at(0, 1), Plan::default(), Timestamp::from_second(10).ok());
        assert!(thought.recall(&at(9, 1)).is_some());
        assert_eq!(thought.recall(&at(9, 2)), None);
        assert_eq!(thought.recall(&at(10, 1)), None);
        thought.keep(at(0, 1), Plan::default(), None);
        assert!(thought.recall(&at(1_000_000, 1)).is_some());
    }
}
