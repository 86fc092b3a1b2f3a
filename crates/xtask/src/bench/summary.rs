//! Many problems of one kind and size in one line of the table.

use comfy_table::{CellAlignment, Table, presets};

use super::row::{Outcome, Row};

const HEADER: [&str; 17] = [
    "problem",
    "pods",
    "types",
    "seeds",
    "good",
    "price / bound",
    "price / best bound",
    "pods/s",
    "first pods/s",
    "beside",
    "% cheaper",
    "times faster",
    "first",
    "$/h",
    "Karpenter $/h",
    "MiB",
    "Karpenter MiB",
];

/// Least, mean and most of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    least: f64,
    mean: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        if values.is_empty() {
            return None;
        }
        Some(Spread {
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            mean: values.iter().sum::<f64>() / values.iter().map(|_| 1.0).sum::<f64>(),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    fn whole(self, digits: usize) -> String {
        let Spread { least, mean, most } = self;
        format!("{least:.digits$} / {mean:.digits$} / {most:.digits$}")
    }
}

/// One line for each group of problems with the same number of pods; of several figures the least, the mean and the
/// most.
pub(super) fn table(rows: &[Row]) -> Table {
    let groups = groups(rows);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(HEADER);
    for group in &groups {
        table.add_row(cells(group));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Rows of one group with the same number of pods.
pub(super) fn groups(rows: &[Row]) -> Vec<Vec<&Row>> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let same = |group: &&mut Vec<&Row>| {
            group[0].group == row.group && group[0].joiner.pods.total_cmp(&row.joiner.pods).is_eq()
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

fn cells(rows: &[&Row]) -> [String; 17] {
    let all = |value: &dyn Fn(&Row) -> f64| Spread::of(rows.iter().map(|row| value(row)));
    let some =
        |value: &dyn Fn(&Row) -> Option<f64>| Spread::of(rows.iter().filter_map(|row| value(row)));
    let whole = |spread: Option<Spread>, digits: usize| {
        spread.map_or_else(|| "-".to_owned(), |spread| spread.whole(digits))
    };
    let mean = |spread: Option<Spread>, digits: usize| {
        spread.map_or_else(
            || "-".to_owned(),
            |spread| format!("{:.digits$}", spread.mean),
        )
    };
    let least = |spread: Option<Spread>| {
        spread.map_or_else(|| "-".to_owned(), |spread| format!("{:.0}", spread.least))
    };
    let beside = || rows.iter().filter(|row| row.karpenter.is_some());
    let of_karpenter = |value: fn(&Outcome) -> f64| {
        Spread::of(beside().filter_map(|row| row.karpenter.as_ref()).map(value))
    };
    let faster = |row: &Row| Some(row.joiner.times_faster(row.karpenter.as_ref()?));
    let first_faster = |row: &Row| Some(row.first.as_ref()?.times_faster(row.karpenter.as_ref()?));
    let first_rate = |row: &Row| row.first.as_ref().map(Outcome::per_second);
    // Prices of both are of the same problems, where there are some.
    let priced = Spread::of(beside().map(|row| row.joiner.price));
    let group = &rows[0].group;
    [
        group.name.clone(),
        format!("{:.0}", rows[0].joiner.pods),
        group
            .types
            .map_or_else(|| "-".to_owned(), |types| types.to_string()),
        rows.len().to_string(),
        rows.iter().filter(|row| row.good()).count().to_string(),
        whole(all(&|row| row.joiner.price / row.joiner.bound), 3),
        whole(all(&Row::over_best_bound), 3),
        mean(all(&|row| row.joiner.per_second()), 0),
        mean(some(&first_rate), 0),
        beside().count().to_string(),
        whole(some(&Row::cheaper), 1),
        least(some(&faster)),
        least(some(&first_faster)),
        mean(priced.or_else(|| all(&|row| row.joiner.price)), 2),
        mean(of_karpenter(|one| one.price), 2),
        mean(all(&|row| row.joiner.mebibytes), 0),
        mean(of_karpenter(|one| one.mebibytes), 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::row::Group;
    use super::*;

    fn row(price: f64, karpenter: Option<f64>) -> Row {
        let outcome = |price: f64, milliseconds: f64| Outcome {
            valid: true,
            pods: 10.0,
            scheduled: 10.0,
            price,
            bound: 1.0,
            milliseconds,
            ..Outcome::default()
        };
        Row {
            group: Group::new("plain", Some(400)),
            joiner: outcome(price, 2.0),
            first: None,
            without: Vec::new(),
            karpenter: karpenter.map(|price| outcome(price, 100.0)),
        }
    }

    #[test]
    fn problems_of_one_kind_and_size_share_a_line() {
        let rows = [row(1.0, Some(2.0)), row(1.5, None), row(1.1, Some(2.0))];
        let table = table(&rows).to_string();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        let cells: Vec<&str> = lines[2].split('|').map(str::trim).collect();
        assert_eq!(cells[6], "1.000 / 1.200 / 1.500");
        assert_eq!((cells[5], cells[10]), ("3", "2"));
        assert_eq!((cells[11], cells[12]), ("45.0 / 47.5 / 50.0", "50"));
        assert_eq!((cells[14], cells[15]), ("1.05", "2.00"));
    }

    #[test]
    fn a_plan_dearer_than_karpenters_is_not_good() {
        assert!(row(1.0, Some(1.0)).good());
        assert!(!row(1.1, Some(1.0)).good());
    }
}
