//! Texts that must fit.

use crate::api::why::lasted;

/// The beginning of a text, marked where it is cut.
pub(super) fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + "…" }
}

/// Both ends of a name: names of one pool differ at the end.
pub(super) fn squeeze(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width || width < 4 {
        return clip(name, width);
    }
    let end = (width - 1) / 2;
    let begin = width - 1 - end;
    let head: String = name.chars().take(begin).collect();
    let tail: String = name.chars().skip(count - end).collect();
    format!("{head}…{tail}")
}

/// Lines of at most this width, broken between words. What is indented stays so.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    text.lines().flat_map(|line| broken(line, width)).collect()
}

fn broken(line: &str, width: usize) -> Vec<String> {
    if line.chars().count() <= width {
        return vec![line.to_owned()];
    }
    let spaces = line.chars().take_while(|letter| *letter == ' ').count();
    let indent = " ".repeat(spaces.min(width / 2));
    let mut lines = Vec::new();
    let mut now = indent.clone();
    let mut blank = true;
    // Columns of a table stay apart: only a single space is where a line may be broken for nothing.
    for word in line.trim_start().split(' ') {
        let longer = now.chars().count() + usize::from(!blank) + word.chars().count();
        if longer > width && !blank {
            lines.push(std::mem::replace(&mut now, format!("{indent}  ")));
            blank = true;
        }
        if !blank {
            now.push(' ');
        }
        if blank && word.is_empty() {
            continue;
        }
        now.push_str(word);
        blank = false;
    }
    lines.push(now);
    // A word may be longer than any line.
    let cut = |line: String| {
        let letters: Vec<char> = line.chars().collect();
        let parts = letters.chunks(width).map(|part| part.iter().collect());
        parts.collect::<Vec<String>>()
    };
    lines.into_iter().flat_map(cut).collect()
}

/// How long something has lasted, in as few letters as will do, such as `4m` or `2d`.
pub(super) fn short(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => lasted(seconds),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_marked_and_names_keep_both_ends() {
        assert_eq!(clip("on-demand", 9), "on-demand");
        assert_eq!(clip("on-demand", 6), "on-de…");
        assert_eq!(clip("on-demand", 0), "");
        assert_eq!(squeeze("general-purpose-x7k2p", 12), "genera…x7k2p");
        assert_eq!(squeeze("short", 12), "short");
    }

    #[test]
    fn long_lines_are_broken_between_words_and_stay_indented() {
        assert_eq!(
            wrap("one\n  two three four\nfive", 12),
            ["one", "  two three", "    four", "five"]
        );
        assert_eq!(wrap("abcdefghijkl", 8), ["abcdefgh", "ijkl"]);
        assert_eq!(wrap("", 20), Vec::<String>::new());
        assert_eq!(wrap("a\n\nb", 20), ["a", "", "b"]);
    }

    #[test]
    fn ages_are_told_in_one_unit() {
        for (seconds, said) in [
            (-1, "0s"),
            (59, "59s"),
            (61, "1m"),
            (7300, "2h"),
            (200_000, "2d"),
        ] {
            assert_eq!(short(seconds), said);
        }
    }
}
