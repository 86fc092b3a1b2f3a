//! `joiner top`: the nodes, live on a terminal, as a table elsewhere.
//!
//! ```text
//! page or cluster ──► Picture ─┐
//!                              ├─► Screen ──► draw ──► terminal
//! keys ────────────────────────┘
//! ```
//!
//! `state` and `draw` are functions of what they are given; clock, keys and everything that waits are in `terminal`.

mod bar;
mod draw;
#[cfg(test)]
mod samples;
mod state;
mod table;
mod terminal;

use std::io::{IsTerminal as _, Write as _, stdout};

use crate::args::{ReportFormat, TopArgs};
use crate::ask::{self, Source};
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let text = args.ask.output == ReportFormat::Text;
    if text && !args.once && stdout().is_terminal() && understands() {
        return ask::block_on(terminal::run(args));
    }
    ask::block_on(print(args))
}

/// Whether the terminal knows how to move its cursor.
fn understands() -> bool {
    std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Prints the nodes once.
async fn print(args: &TopArgs) -> Result<(), Failure> {
    let source = Source::open(&args.ask).await?;
    let nodes = source.nodes(&args.sort.to_string(), &args.filter).await?;
    let text = match args.ask.output {
        ReportFormat::Text => table::page(&source.overview().await?, &nodes),
        ReportFormat::Json => serde_json::to_string_pretty(&nodes).unwrap_or_default() + "\n",
    };
    let mut output = stdout().lock();
    output.write_all(text.as_bytes()).map_err(Failure::stdout)
}
