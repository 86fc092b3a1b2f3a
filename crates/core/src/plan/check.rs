//! Judges a plan by the rules alone.
//!
//! Nothing here is shared with the packer: what it says is worth something because the two were written apart. The
//! rules are those that Kubernetes and Karpenter apply when machines are launched, pods bound and nodes drained.
//!
//! ```text
//! Problem + Plan ─► sites (every node that stays, every launch) ─► rules ─► violations, as sentences
//! ```

mod affinity;
mod fit;
mod groups;
mod order;
mod pools;
mod purchase;
mod removals;
mod sales;
mod savings;
mod site;

use std::fmt;

use self::site::World;
use super::Plan;
use crate::problem::Problem;

/// Which rule was broken.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Rule {
    /// Everything that the plan names exists, and each pod has one place or one reason.
    Bookkeeping,
    /// Requests fit what is there.
    Capacity,
    /// Node selectors and required node affinity hold.
    Labels,
    /// Taints are tolerated.
    Taints,
    /// Host ports do not collide.
    Ports,
    /// Volumes can be reached and attached.
    Volumes,
    /// Pods that must not meet do not.
    AntiAffinity,
    /// Some order of binding satisfies spread and affinity.
    Spread,
    /// What is bought is for sale, at that price, on the pool's terms.
    Purchase,
    /// Limits of pools and settings hold.
    Limits,
    /// Nodes that go may go.
    Disruption,
    /// Budgets of pools and pods hold over the whole batch.
    Budgets,
    /// What is taken away to save money saves money.
    Savings,
    /// Costs add up.
    Cost,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// How, as a sentence.
    pub sentence: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.sentence)
    }
}

/// What has been found so far.
#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, rule: Rule, sentence: impl Into<String>) {
        let sentence = sentence.into();
        self.0.push(Violation { rule, sentence });
    }
}

/// Everything that is wrong with a plan; empty if it is valid.
pub fn check(problem: &Problem, plan: &Plan) -> Vec<Violation> {
    let mut findings = Findings::default();
    let world = World::build(problem, plan, &mut findings);
    fit::check(&world, &mut findings);
    affinity::check(&world, &mut findings);
    order::check(&world, &mut findings);
    purchase::check(&world, &mut findings);
    pools::check(&world, &mut findings);
    removals::check(&world, &mut findings);
    savings::check(&world, &mut findings);
    cost(problem, plan, &mut findings);
    findings.0
}

fn cost(problem: &Problem, plan: &Plan, findings: &mut Findings) {
    let surcharge = problem.settings.node_surcharge;
    let sum = plan
        .launches
        .iter()
        .map(|launch| launch.purchase.price + surcharge)
        .sum();
    if plan.cost != sum {
        let text = format!(
            "the plan says it costs {} an hour, its machines cost {sum}",
            plan.cost
        );
        findings.add(Rule::Cost, text);
    }
    // What cannot be placed costs nothing, and the bound may count it.
    if plan.unplaced.is_empty() && plan.lower_bound > plan.cost {
        let text = format!(
            "the plan costs {} an hour, less than its lower bound {}",
            plan.cost, plan.lower_bound
        );
        findings.add(Rule::Cost, text);
    }
}

#[cfg(test)]
mod tests;
