//! The result, side by side.

use std::io::Write as _;

use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

use crate::contestant::Who;
use crate::round::Outcome;

/// Prints one column for each contestant.
pub(crate) fn print(
    results: &[(Who, Outcome)],
    bounds: [f64; 2],
    first: usize,
    then: usize,
) -> Result<()> {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let mut heading = vec![String::new()];
    heading.extend(results.iter().map(|(who, _)| who.to_string()));
    table.set_header(heading);
    let mut row = |what: String, cell: &dyn Fn(&Outcome) -> String| {
        let mut cells = vec![what];
        cells.extend(results.iter().map(|(_, outcome)| cell(outcome)));
        table.add_row(cells);
    };
    let seconds = |duration: std::time::Duration| format!("{:.1} s", duration.as_secs_f64());
    let price = |price: f64, bound: f64| {
        let above = (price / bound - 1.0) * 100.0;
        format!("${price:.4} ({above:+.1} %)")
    };
    row(format!("all {first} pods run after"), &|one| {
        seconds(one.grown.after)
    });
    row("nodes".to_owned(), &|one| one.grown.nodes.to_string());
    row(format!("an hour (bound ${:.4})", bounds[0]), &|one| {
        price(one.grown.price, bounds[0])
    });
    row(format!("{then} pods: final shape after"), &|one| {
        seconds(one.shrunk.after)
    });
    row("nodes".to_owned(), &|one| one.shrunk.nodes.to_string());
    row(format!("an hour (bound ${:.4})", bounds[1]), &|one| {
        price(one.shrunk.price, bounds[1])
    });
    row("CPU of the controller".to_owned(), &|one| {
        format!("{:.1} s", one.cpu_seconds)
    });
    row("peak memory".to_owned(), &|one| {
        format!("{:.0} MiB", one.peak_mib)
    });
    writeln!(std::io::stdout(), "{table}")?;
    Ok(())
}
