//! Joiner on a real control plane: the real binary (`joiner run`) beside a real API server, scheduler and controller
//! manager, buying from simulated clouds.
//!
//! Tests share a cluster where they can; each has a namespace, a node class and pools of its own, with a taint and a
//! label that keep the others away. What kills a process or stops a server has a cluster of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    reason = "all of it is tests, helpers too"
)]

mod harness;

mod admission;
mod budgets;
mod consolidation;
mod constraints;
mod deploy;
mod drain;
mod kt;
mod kt_install;
mod kt_market;
mod kt_mock;
mod launch;
mod leader;
mod lo;
mod neighbours;
mod ns;
mod outage;
mod ov;
mod proxmox;
mod readme;
mod redfish;
mod replacement;
mod scale;
mod why;

use libtest_mimic::Arguments;

fn main() {
    let mut arguments = Arguments::from_args();
    // Tests wait most of the time: more of them than there are cores can do so at once.
    arguments.test_threads.get_or_insert(16);
    // The longest first.
    let tests = [
        outage::tests(),
        ov::tests(),
        neighbours::tests(),
        kt::tests(),
        kt_install::tests(),
        kt_market::tests(),
        kt_mock::tests(),
        readme::tests(),
        proxmox::tests(),
        ns::tests(),
        redfish::tests(),
        lo::tests(),
        leader::tests(),
        launch::tests(),
        deploy::tests(),
        replacement::tests(),
        budgets::tests(),
        consolidation::tests(),
        drain::tests(),
        scale::tests(),
        why::tests(),
        constraints::tests(),
        admission::tests(),
    ];
    let trials = tests.into_iter().flatten().collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    harness::end(&conclusion);
    conclusion.exit();
}
