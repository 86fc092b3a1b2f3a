//! Colour for lines of the story, on a terminal that wants it.

use std::io::{IsTerminal as _, stdout};

const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const RED: &str = "\u{1b}[31m";
const CYAN: &str = "\u{1b}[36m";
const PLAIN: &str = "\u{1b}[0m";

/// Whether standard output shows colours: a terminal, and nobody asked for none (<https://no-color.org>).
pub(crate) fn wanted() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stdout().is_terminal() && !refused
}

/// The line in colour: its time dim, what it is about in the colour of that.
pub(crate) fn painted(line: &str) -> String {
    let Some((time, rest)) = line.split_once(' ') else {
        return line.to_owned();
    };
    if !time.starts_with(|letter: char| letter.is_ascii_digit()) {
        return line.to_owned();
    }
    let verb = rest.split_whitespace().next().unwrap_or_default();
    let colour = match verb {
        "==" => return format!("\n{DIM}{time}{PLAIN} {BOLD}{rest}{PLAIN}"),
        "buy" | "ready" => GREEN,
        "remove" | "replace" => YELLOW,
        "notice" | "wait" => RED,
        "cost" | "pods" => CYAN,
        "gone" => DIM,
        _ => return format!("{DIM}{time}{PLAIN} {rest}"),
    };
    let said = &rest[verb.len()..];
    format!("{DIM}{time}{PLAIN} {colour}{verb}{PLAIN}{said}")
}

#[cfg(test)]
mod tests {
    use super::painted;

    #[test]
    fn colour_changes_no_word() {
        for line in [
            "00:00:00 == Morning.",
            "00:00:00 buy      2 × c4",
            "00:00:00 something else",
            "",
        ] {
            let bare: String = painted(line)
                .split('\u{1b}')
                .enumerate()
                .map(|(position, part)| match position {
                    0 => part,
                    _ => part.split_once('m').map_or("", |(_, rest)| rest),
                })
                .collect();
            assert_eq!(bare.trim_start(), line);
        }
    }
}
