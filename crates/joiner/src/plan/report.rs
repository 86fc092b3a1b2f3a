//! A plan as a table for people.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{CellAlignment, Table, presets};
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::plan::{Launch, Plan};
use joiner_core::problem::wire::Measurements;
use joiner_core::problem::{CapacityType, Problem};
use joiner_core::resources::{CPU, MEMORY, Resources};

/// Machines to buy, what they cost against the least possible, and what has no place.
pub(super) struct Report<'a> {
    problem: &'a Problem,
    plan: &'a Plan,
    measurements: &'a Measurements,
}

/// Reasons after this many are counted, not shown.
const REASONS_SHOWN: usize = 10;

impl<'a> Report<'a> {
    pub(super) fn new(
        problem: &'a Problem,
        plan: &'a Plan,
        measurements: &'a Measurements,
    ) -> Self {
        Report {
            problem,
            plan,
            measurements,
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.plan.launches.is_empty() {
            writeln!(f, "Nothing to buy.")?;
        } else {
            writeln!(f, "{}", machines(self.plan))?;
        }
        self.nodes(f)?;
        self.total(f)?;
        self.unplaced(f)
    }
}

/// One row for machines that are alike.
#[derive(Default)]
struct Row {
    count: i64,
    pods: usize,
    price: Money,
    capacity: Resources,
    requests: Resources,
}

fn machines(plan: &Plan) -> Table {
    type Alike<'a> = (&'a Name, &'a Name, &'a Name, CapacityType);
    let mut rows: BTreeMap<Alike<'_>, Row> = BTreeMap::new();
    for launch in &plan.launches {
        let Launch { pool, purchase, .. } = launch;
        let alike = (
            pool,
            &purchase.instance_type,
            &purchase.zone,
            purchase.capacity_type,
        );
        let row = rows.entry(alike).or_default();
        row.count += 1;
        row.pods += launch.pods.len();
        row.price = purchase.price;
        row.capacity.add(&launch.capacity);
        row.requests.add(&launch.requests);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "count", "type", "zone", "capacity", "pool", "pods", "cpu", "memory", "each", "together",
    ]);
    for ((pool, kind, zone, paid), row) in rows {
        table.add_row([
            row.count.to_string(),
            kind.to_string(),
            zone.to_string(),
            paid.to_string(),
            pool.to_string(),
            row.pods.to_string(),
            bar(row.requests.get(CPU), row.capacity.get(CPU)),
            bar(row.requests.get(MEMORY), row.capacity.get(MEMORY)),
            row.price.to_string(),
            (row.price * row.count).to_string(),
        ]);
    }
    for index in [0, 5, 8, 9] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// So many of something: `1 node`, `2 nodes`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{s}")
}

/// How much of something is used, drawn.
fn bar(used: i64, of: i64) -> String {
    const CELLS: i64 = 8;
    if of <= 0 {
        return "-".to_owned();
    }
    let percent = (used.max(0) * 100 / of).min(999);
    let full = (percent.min(100) * CELLS + 50) / 100;
    let mut drawn = String::new();
    for cell in 0..CELLS {
        drawn.push(if cell < full { '█' } else { '░' });
    }
    format!("{drawn} {percent:>3}%")
}

impl Report<'_> {
    fn nodes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let placements = &self.plan.placements;
        let pods: usize = placements.iter().map(|one| one.pods.len()).sum();
        if pods > 0 {
            writeln!(
                f,
                "{} fit on {} of the cluster.",
                counted(pods, "pod"),
                counted(placements.len(), "node")
            )?;
        }
        Ok(())
    }

    fn total(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan {
            cost, lower_bound, ..
        } = self.plan;
        let machines = counted(self.plan.launches.len(), "machine");
        write!(f, "{machines}, {cost} an hour")?;
        if *lower_bound > Money::ZERO {
            let above = (cost.dollars() / lower_bound.dollars() - 1.0) * 100.0;
            write!(
                f,
                "; no plan costs less than {lower_bound} (this is {above:.1}% above)"
            )?;
        }
        writeln!(
            f,
            ". {}, {:.0} ms.",
            counted(self.problem.pending(), "pod"),
            self.measurements.solve_ms
        )
    }

    fn unplaced(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unplaced = &self.plan.unplaced;
        for one in unplaced.iter().take(REASONS_SHOWN) {
            let first = one
                .pods
                .first()
                .and_then(|pod| self.problem.pod_name(*pod))
                .unwrap_or_default();
            let others = match one.pods.len() {
                0 | 1 => String::new(),
                many => format!(" and {} like it", many - 1),
            };
            writeln!(f, "No place for {first}{others}: {}", one.reason)?;
        }
        let hidden = unplaced.len().saturating_sub(REASONS_SHOWN);
        if hidden > 0 {
            writeln!(f, "And {hidden} reasons more; -o json shows them all.")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars_show_how_full_a_machine_is() {
        assert_eq!(bar(0, 100), "░░░░░░░░   0%");
        assert_eq!(bar(50, 100), "████░░░░  50%");
        assert_eq!(bar(99, 100), "████████  99%");
        assert_eq!(bar(1, 0), "-");
    }
}
