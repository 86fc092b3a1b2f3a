//! One problem, all solvers.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

/// How one solver did on one problem.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    problem: String,
    valid: bool,
    pods: f64,
    scheduled: f64,
    claims: f64,
    price: f64,
    bound: f64,
    milliseconds: f64,
    mebibytes: f64,
}

impl Outcome {
    /// From the referee's verdict and what the solver measured of itself.
    pub(super) fn new(verdict: &Value, measured: &Value) -> Self {
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        Outcome {
            problem: verdict["problem"].as_str().unwrap_or_default().to_owned(),
            valid: verdict["valid"].as_bool().unwrap_or_default(),
            pods: number(&verdict["podsTotal"]),
            scheduled: number(&verdict["podsScheduled"]),
            claims: number(&verdict["claims"]),
            price: number(&verdict["totalPrice"]),
            bound: number(&verdict["lowerBound"]["total"]),
            milliseconds: number(&measured["setupMs"]) + number(&measured["solveMs"]),
            mebibytes: number(&measured["peakRssMiB"]),
        }
    }

    fn per_second(&self) -> f64 {
        self.pods * 1000.0 / self.milliseconds.max(0.001)
    }

    fn ratio(&self) -> f64 {
        self.price / self.bound
    }
}

/// Joiner with its default effort, its first plan, and Karpenter.
pub(super) struct Row {
    pub(super) joiner: Outcome,
    pub(super) first: Option<Outcome>,
    pub(super) karpenter: Option<Outcome>,
}

const HEADER: [&str; 15] = [
    "problem",
    "pods",
    "valid",
    "pods/s",
    "first/s",
    "Karpenter/s",
    "times",
    "first times",
    "$/h",
    "Karpenter $/h",
    "bound",
    "ratio",
    "Karpenter",
    "MiB",
    "Karpenter MiB",
];

impl Row {
    /// Valid, no dearer and no fewer pods than Karpenter.
    pub(super) fn good(&self) -> bool {
        let first = self.first.as_ref().is_none_or(|first| first.valid);
        let beaten = self.karpenter.as_ref().is_none_or(|karpenter| {
            self.joiner.scheduled >= karpenter.scheduled
                && (self.joiner.scheduled > karpenter.scheduled
                    || self.joiner.price <= karpenter.price + 1e-6)
        });
        self.joiner.valid && first && beaten
    }

    fn cells(&self) -> [String; 15] {
        let joiner = &self.joiner;
        let shown = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let first = self.first.as_ref();
        let karpenter = self.karpenter.as_ref();
        let times = |outcome: &Outcome| {
            karpenter.map(|karpenter| karpenter.milliseconds / outcome.milliseconds.max(0.001))
        };
        [
            joiner.problem.clone(),
            format!("{:.0}/{:.0}", joiner.scheduled, joiner.pods),
            if self.good() { "yes" } else { "NO" }.to_owned(),
            shown(Some(joiner.per_second()), 0),
            shown(first.map(Outcome::per_second), 0),
            shown(karpenter.map(Outcome::per_second), 0),
            shown(times(joiner), 0),
            shown(first.and_then(times), 0),
            shown(Some(joiner.price), 2),
            shown(karpenter.map(|one| one.price), 2),
            shown(Some(joiner.bound), 2),
            shown(Some(joiner.ratio()), 3),
            shown(karpenter.map(Outcome::ratio), 3),
            shown(Some(joiner.mebibytes), 0),
            shown(karpenter.map(|one| one.mebibytes), 0),
        ]
    }

    /// The row on one line, for people who watch.
    pub(super) fn line(&self) -> String {
        let cells = self.cells();
        let named: Vec<String> = HEADER
            .iter()
            .zip(&cells)
            .map(|(name, cell)| format!("{name} {cell}"))
            .collect();
        format!("{} ({} machines)", named.join(", "), self.joiner.claims)
    }
}

pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(HEADER);
    for row in rows {
        table.add_row(row.cells());
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
