//! One problem, all solvers.

use joiner_core::pack::Part;
use serde_json::Value;

/// Problems that are summed up in one line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: String,
    /// Instance types, where they are generated.
    pub(super) types: Option<u32>,
}

impl Group {
    pub(super) fn new(name: &str, types: Option<u32>) -> Self {
        Group {
            name: name.to_owned(),
            types,
        }
    }
}

/// How one solver did on one problem.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) problem: String,
    pub(super) valid: bool,
    pub(super) pods: f64,
    pub(super) scheduled: f64,
    pub(super) claims: f64,
    pub(super) price: f64,
    /// What the referee says that every solution costs at least.
    pub(super) bound: f64,
    /// What the solver itself proves.
    pub(super) proven: f64,
    /// Processor time where it was measured, so that what else runs on the machine does not count.
    pub(super) milliseconds: f64,
    pub(super) mebibytes: f64,
}

impl Outcome {
    /// From the referee's verdict and what the solver measured of itself.
    pub(super) fn new(verdict: &Value, measured: &Value) -> Self {
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        let solving = match number(&measured["solveCpuMs"]) {
            0.0 => number(&measured["solveMs"]),
            processor => processor,
        };
        Outcome {
            problem: verdict["problem"].as_str().unwrap_or_default().to_owned(),
            valid: verdict["valid"].as_bool().unwrap_or_default(),
            pods: number(&verdict["podsTotal"]),
            scheduled: number(&verdict["podsScheduled"]),
            claims: number(&verdict["claims"]),
            price: number(&verdict["totalPrice"]),
            bound: number(&verdict["lowerBound"]["total"]),
            proven: number(&measured["lowerBound"]),
            milliseconds: number(&measured["setupMs"]) + solving,
            mebibytes: number(&measured["peakRssMiB"]),
        }
    }

    pub(super) fn per_second(&self) -> f64 {
        self.pods * 1000.0 / self.milliseconds.max(0.001)
    }

    pub(super) fn times_faster(&self, than: &Outcome) -> f64 {
        than.milliseconds / self.milliseconds.max(0.001)
    }
}

/// Joiner with its default effort, its first plan, and Karpenter.
pub(super) struct Row {
    pub(super) group: Group,
    pub(super) joiner: Outcome,
    pub(super) first: Option<Outcome>,
    /// With its default effort and without one part of the packer.
    pub(super) without: Vec<(Part, Outcome)>,
    pub(super) karpenter: Option<Outcome>,
}

impl Row {
    /// Valid, no dearer and no fewer pods than Karpenter.
    pub(super) fn good(&self) -> bool {
        let first = self.first.as_ref().is_none_or(|first| first.valid);
        let beaten = self.karpenter.as_ref().is_none_or(|karpenter| {
            self.joiner.scheduled >= karpenter.scheduled
                && (self.joiner.scheduled > karpenter.scheduled
                    || self.joiner.price <= karpenter.price + 1e-6)
        });
        let without = self.without.iter().all(|(_, outcome)| outcome.valid);
        self.joiner.valid && first && without && beaten
    }

    /// Price over the higher of the two bounds: both are proven.
    pub(super) fn over_best_bound(&self) -> f64 {
        self.joiner.price / self.joiner.bound.max(self.joiner.proven)
    }

    /// The part of Karpenter's price that is saved, in percent, where both place the same pods.
    pub(super) fn cheaper(&self) -> Option<f64> {
        let karpenter = self.karpenter.as_ref()?;
        (karpenter.scheduled >= self.joiner.scheduled)
            .then(|| (1.0 - self.joiner.price / karpenter.price) * 100.0)
    }

    /// The row on one line, for people who watch.
    pub(super) fn line(&self) -> String {
        let joiner = &self.joiner;
        let beside = self
            .karpenter
            .as_ref()
            .map_or_else(String::new, |karpenter| {
                format!(
                    "; Karpenter {:.0} pods, {:.2} $/h, {:.0} ms",
                    karpenter.scheduled, karpenter.price, karpenter.milliseconds
                )
            });
        let first = self.first.as_ref().map_or_else(String::new, |first| {
            format!(" (first {:.0})", first.milliseconds)
        });
        format!(
            "{}{}: {:.0}/{:.0} pods, {:.2} $/h on {:.0} machines, {:.3} of the bound, {:.3} of the best bound, \
             {:.0} ms{first}{beside}",
            joiner.problem,
            if self.good() { "" } else { " NOT GOOD" },
            joiner.scheduled,
            joiner.pods,
            joiner.price,
            joiner.claims,
            joiner.price / joiner.bound,
            self.over_best_bound(),
            joiner.milliseconds,
        )
    }
}
