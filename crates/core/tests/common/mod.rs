//! What tests of whole plans share.

use joiner_core::pack::{Options, solve};
use joiner_core::plan::{Plan, check};
use joiner_core::problem::Problem;

/// The plan of some effort; it and the first plan keep every rule, and cost no less than their bound.
#[track_caller]
pub(crate) fn solved(problem: &Problem) -> Plan {
    let mut last = Plan::default();
    for steps in [0, 60] {
        let options = Options {
            steps,
            ..Options::default()
        };
        last = solve(problem, &options);
        assert_eq!(check(problem, &last), [], "{steps} steps");
        assert!(last.lower_bound <= last.cost, "{steps} steps");
    }
    last
}
