//! Which spec is next.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Spec;

/// Specs that are still to run.
pub(super) struct Queue(Mutex<State>);

struct State {
    specs: VecDeque<Spec>,
    /// A spec that must be the only one of its kind is under way.
    taken: bool,
}

/// What a bench does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Run this.
    Run(Spec),
    /// Ask again later: what is left cannot run beside what is under way.
    Later,
    /// Nothing is left.
    Done,
}

impl Queue {
    pub(super) fn new(specs: Vec<Spec>) -> Self {
        Queue(Mutex::new(State {
            specs: specs.into(),
            taken: false,
        }))
    }

    pub(super) fn next(&self) -> Next {
        let mut state = self.lock();
        let taken = state.taken;
        let mut waiting = state.specs.iter();
        let Some(at) = waiting.position(|spec| !(taken && spec.listens())) else {
            return if state.specs.is_empty() {
                Next::Done
            } else {
                Next::Later
            };
        };
        let Some(spec) = state.specs.remove(at) else {
            return Next::Done;
        };
        state.taken |= spec.listens();
        Next::Run(spec)
    }

    pub(super) fn done(&self, spec: &Spec) {
        if spec.listens() {
            self.lock().taken = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_that_listen_on_the_same_port_never_run_side_by_side() {
        let spec = |index, name: &str| Spec {
            index,
            name: name.to_owned(),
        };
        let (first, second) = (spec(0, "Chaos one"), spec(1, "Chaos two"));
        let other = spec(2, "Drift");
        let queue = Queue::new(vec![first.clone(), second.clone(), other.clone()]);
        assert_eq!(queue.next(), Next::Run(first.clone()));
        assert_eq!(queue.next(), Next::Run(other));
        assert_eq!(queue.next(), Next::Later);
        queue.done(&first);
        assert_eq!(queue.next(), Next::Run(second));
        assert_eq!(queue.next(), Next::Done);
    }
}
