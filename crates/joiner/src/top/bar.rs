//! Bars: how much is requested of what there is.

use crate::api::model::Usage;

/// What is filled of so many cells, to an eighth of a cell.
pub(super) fn filled(percent: i64, cells: usize) -> String {
    let width = i64::try_from(cells).unwrap_or(i64::MAX / 1000);
    let eighths = percent.clamp(0, 100) * width * 8 / 100;
    let mut drawn = String::new();
    for cell in 0..width {
        let part = usize::try_from((eighths - cell * 8).clamp(0, 8)).unwrap_or_default();
        match part {
            0 => break,
            part => drawn.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'][part - 1]),
        }
    }
    drawn
}

/// A bar of so many cells, and the percentage.
pub(super) fn bar(usage: &Usage, cells: usize) -> String {
    if usage.allocatable <= 0 {
        return "-".to_owned();
    }
    let percent = usage.percent();
    format!("{:<cells$} {percent:>3}%", filled(percent, cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_what_is_requested() {
        let usage = |requested| Usage {
            requested,
            allocatable: 100,
            coming: 0,
        };
        assert_eq!(bar(&usage(50), 4), "██    50%");
        assert_eq!(bar(&usage(100), 4), "████ 100%");
        assert_eq!(bar(&usage(13), 4), "▌     13%");
        assert_eq!(bar(&Usage::default(), 4), "-");
    }
}
