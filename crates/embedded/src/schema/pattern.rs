//! Regular expressions with Go's syntax, run by the `regex` crate.
//!
//! Both descend from RE2; they differ in what is written here: `\d`, `\w` and `\s` are ASCII in Go, and brackets,
//! `&&`, `--`, `~~` inside a class are plain characters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, OnceLock, PoisonError};

use regex::{Regex, RegexBuilder};

/// A pattern, compiled when first used.
#[derive(Debug)]
pub(crate) struct Pattern {
    source: String,
    compiled: OnceLock<Result<Regex, String>>,
}

impl Pattern {
    pub(crate) fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            compiled: OnceLock::new(),
        }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The error text of Go's compiler, if the pattern is not valid.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.regex().as_ref().err().map(String::as_str)
    }

    pub(crate) fn matches(&self, text: &str) -> Result<bool, &str> {
        match self.regex() {
            Ok(regex) => Ok(regex.is_match(text)),
            Err(problem) => Err(problem),
        }
    }

    fn regex(&self) -> &Result<Regex, String> {
        self.compiled.get_or_init(|| compile(&self.source))
    }
}

/// How many patterns are remembered at most.
const REMEMBERED: usize = 1000;

/// The same as [`compile`], once for every pattern: rules have the same ones every time that they are checked.
pub(crate) fn compiled(source: &str) -> Result<Regex, String> {
    static KNOWN: Mutex<BTreeMap<String, Regex>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = known().get(source) {
        return Ok(regex.clone());
    }
    let regex = compile(source)?;
    let mut known = known();
    if known.len() >= REMEMBERED {
        known.clear();
    }
    known.insert(source.to_owned(), regex.clone());
    Ok(regex)
}

/// Compiles a pattern written for Go; the error is worded as Go words it where that is simple.
pub(crate) fn compile(source: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(source))
        .size_limit(64 << 20)
        .build()
        .map_err(|error| explain(source, &error))
}

fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 8);
    let mut characters = source.chars().peekable();
    let mut in_class = false;
    let mut class_start = false;
    while let Some(character) = characters.next() {
        let starting = std::mem::take(&mut class_start);
        match character {
            '\\' => {
                let Some(escaped) = characters.next() else {
                    out.push('\\');
                    break;
                };
                translate_escape(escaped, &mut out);
            }
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                out.push('[');
                if characters.peek() == Some(&'^') {
                    characters.next();
                    out.push('^');
                }
            }
            '[' if let Some(name) = posix_class(characters.clone()) => {
                // The end of a POSIX class such as [:alpha:] does not end the class around it.
                characters.by_ref().take(name.len() + 3).for_each(drop);
                let _ = write!(out, "[:{name}:]");
            }
            ']' if in_class && starting => out.push_str("\\]"),
            ']' => {
                in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(character);
            }
            '-' if in_class && characters.peek() == Some(&'-') => out.push_str("\\-"),
            '{' if !in_class && !begins_repetition(characters.clone()) => out.push_str("\\{"),
            other => out.push(other),
        }
    }
    out
}

fn translate_escape(escaped: char, out: &mut String) {
    match escaped {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\x0c\\r ]"),
        'S' => out.push_str("[^\\t\\n\\x0c\\r ]"),
        'b' => out.push_str("(?-u:\\b)"),
        '<' | '>' => out.push(escaped),
        other => {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\{other}");
        }
    }
}

/// The name of the POSIX class whose opening bracket was just read: `alpha` of `[:alpha:]`.
fn posix_class(mut rest: impl Iterator<Item = char>) -> Option<String> {
    if rest.next() != Some(':') {
        return None;
    }
    let mut name = String::new();
    for character in rest.by_ref() {
        match character {
            ':' => return (rest.next() == Some(']')).then_some(name),
            '^' | 'a'..='z' => name.push(character),
            _ => return None,
        }
    }
    None
}

fn begins_repetition(rest: impl Iterator<Item = char>) -> bool {
    let mut digits = false;
    for character in rest {
        match character {
            '0'..='9' => digits = true,
            ',' if digits => {}
            '}' => return digits,
            _ => return false,
        }
    }
    false
}

fn explain(source: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("error: "))
        .unwrap_or(&text);
    let go = match reason {
        "unclosed group" => "missing closing )".to_owned(),
        "unopened group" => "unexpected )".to_owned(),
        "unclosed character class" => "missing closing ]".to_owned(),
        "repetition operator missing expression" => {
            let operator = source.chars().find(|c| matches!(c, '*' | '+' | '?'));
            let operator = operator.map(String::from).unwrap_or_default();
            return format!(
                "error parsing regexp: missing argument to repetition operator: `{operator}`"
            );
        }
        other => other.to_owned(),
    };
    format!("error parsing regexp: {go}: `{source}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).matches(text).unwrap()
    }

    #[test]
    fn classes_are_ascii_as_in_go() {
        assert!(matches(r"^\d+$", "42"));
        assert!(!matches(r"^\d+$", "٤٢"));
        assert!(!matches(r"^\w+$", "é"));
        assert!(matches(r"^[\w.-]+$", "a_b.c-d"));
        assert!(matches(r"^[^\s]+$", "ab"));
    }

    #[test]
    fn brackets_and_operators_inside_a_class_are_plain_characters() {
        assert!(matches("^[[a]+$", "[a["));
        assert!(matches("^[a&&b]+$", "a&b"));
        assert!(matches("^[]a]+$", "]a"));
        assert!(matches("^[[:alpha:]_]+$", "ab_"));
        assert!(matches("^[[:^digit:]_]+$", "ab_"));
        assert!(matches("^[[:]+$", "[:"));
        assert!(matches("^([A-Za-z_,:]*[A-Za-z_])?$", "Ready"));
        assert!(matches("^a{,2}$", "a{,2}"));
    }

    #[test]
    fn a_broken_pattern_is_explained_as_go_explains_it() {
        assert_eq!(
            Pattern::new("(a").problem(),
            Some("error parsing regexp: missing closing ): `(a`")
        );
        assert_eq!(
            Pattern::new("*").problem(),
            Some("error parsing regexp: missing argument to repetition operator: `*`")
        );
    }
}
