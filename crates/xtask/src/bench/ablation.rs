//! What parts of the packer are worth: plans and times without one of them.

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use joiner_core::pack::Part;

use super::row::{Outcome, Row};
use super::summary;

/// Every part, instead of a list of names.
const ALL: &str = "all";

/// Parts by name.
pub(super) fn parts(names: &[String]) -> Result<Vec<Part>> {
    if names.iter().any(|name| name == ALL) {
        return Ok(Part::all().collect());
    }
    names
        .iter()
        .map(|name| {
            let part = name.parse();
            part.with_context(|| {
                let known: Vec<String> = Part::all().map(|part| part.to_string()).collect();
                format!(
                    "{name:?} is no part of the packer: write {ALL}, or some of {}",
                    known.join(", ")
                )
            })
        })
        .collect()
}

/// One line for each part, one column for each group of problems: by how much plans are dearer without it in the mean, and
/// how much of the time they take; and how much lower the bound is, if it is.
pub(super) fn table(rows: &[Row]) -> Table {
    let groups = summary::groups(rows);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let name = |group: &Vec<&Row>| format!("{} {:.0}", group[0].group.name, group[0].joiner.pods);
    let mut header = vec!["without".to_owned()];
    header.extend(groups.iter().map(name));
    table.set_header(header);
    let parts = rows.first().map_or(&[][..], |row| &row.without);
    for (position, (part, _)) in parts.iter().enumerate() {
        let mut cells = vec![part.to_string()];
        cells.extend(groups.iter().map(|group| cell(group, position)));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn cell(rows: &[&Row], position: usize) -> String {
    let pairs = || {
        rows.iter()
            .filter_map(|row| Some((&row.joiner, &row.without.get(position)?.1)))
    };
    let count: f64 = pairs().map(|_| 1.0).sum();
    let more = |value: fn(&Outcome) -> f64| -> f64 {
        let more = pairs().map(|(with, without)| (value(without) / value(with) - 1.0) * 100.0);
        more.filter(|more| more.is_finite()).sum::<f64>() / count
    };
    let with: f64 = pairs().map(|(with, _)| with.milliseconds).sum();
    let without: f64 = pairs().map(|(_, without)| without.milliseconds).sum();
    let bound = more(|outcome| outcome.proven);
    let bound = if bound < -0.005 {
        format!(", bound {bound:.2}%")
    } else {
        String::new()
    };
    format!(
        "{:+.2}% ×{:.2}{bound}",
        more(|outcome| outcome.price),
        without / with
    )
}

#[cfg(test)]
mod tests {
    use super::super::row::Group;
    use super::*;

    fn outcome(price: f64, milliseconds: f64, proven: f64) -> Outcome {
        Outcome {
            valid: true,
            pods: 10.0,
            price,
            proven,
            milliseconds,
            ..Outcome::default()
        }
    }

    #[test]
    fn a_part_is_worth_what_plans_cost_more_without_it() {
        let row = |price: f64, without: f64| Row {
            group: Group::new("plain", Some(400)),
            joiner: outcome(price, 10.0, 1.0),
            first: None,
            without: vec![(Part::Even, outcome(without, 5.0, 0.99))],
            karpenter: None,
        };
        let table = table(&[row(2.0, 2.02), row(1.0, 1.03)]).to_string();
        let last = table.lines().last().unwrap_or_default();
        assert!(last.contains("even"), "{table}");
        assert!(last.contains("+2.00% ×0.50, bound -1.00%"), "{table}");
    }

    #[test]
    fn a_name_that_is_no_part_is_refused_with_those_that_are() {
        assert_eq!(
            parts(&["all".to_owned()]).unwrap().len(),
            Part::all().count()
        );
        let error = parts(&["evn".to_owned()]).unwrap_err().to_string();
        assert!(
            error.starts_with("\"evn\" is no part of the packer"),
            "{error}"
        );
        assert!(error.contains("even"), "{error}");
    }
}
