//! Lines of the story that say the same about several machines, told once.

use std::fmt;

use jiff::Timestamp;

use crate::plan::report::counted;

/// How many names a line lists.
const NAMES: usize = 3;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Machines are bought.
    Buy,
    /// Pods wait, and why.
    Wait,
    /// Nodes are in use.
    Ready,
    /// Something takes a node's place.
    Replace,
    /// The cloud announces something.
    Notice,
    /// A node is drained.
    Remove,
    /// A node is gone.
    Gone,
    /// How many pods run.
    Pods,
    /// What it costs.
    Cost,
    /// Anything else.
    Say,
}

const TOLD: [(&str, Verb); 9] = [
    ("buy", Verb::Buy),
    ("wait", Verb::Wait),
    ("ready", Verb::Ready),
    ("replace", Verb::Replace),
    ("notice", Verb::Notice),
    ("remove", Verb::Remove),
    ("gone", Verb::Gone),
    ("pods", Verb::Pods),
    ("cost", Verb::Cost),
];

impl Verb {
    /// The verb with which a line begins, and the rest of it.
    pub(super) fn of(line: &str) -> (Verb, String) {
        let line = line.trim_start();
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let told = TOLD.iter().find(|(word, _)| *word == first);
        told.map_or_else(
            || (Verb::Say, line.to_owned()),
            |(_, verb)| (*verb, rest.trim_start().to_owned()),
        )
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = TOLD.iter().find(|(_, verb)| verb == self);
        write!(f, "{:<8}", word.map_or("", |(word, _)| word))
    }
}

/// Something that happened, to whom it happened, and when first.
struct One {
    at: Timestamp,
    verb: Verb,
    names: Vec<String>,
    said: String,
}

/// What has not been told yet.
#[derive(Default)]
pub(super) struct News(Vec<One>);

impl News {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Something happened to a machine, or to none in particular.
    pub(super) fn add(&mut self, at: Timestamp, verb: Verb, name: &str, said: &str) {
        let name = (!name.is_empty()).then(|| name.to_owned());
        let same = self
            .0
            .iter_mut()
            .find(|one| one.verb == verb && one.said == said && name.is_some());
        match same {
            Some(one) => one.names.extend(name),
            None => self.0.push(One {
                at,
                verb,
                names: name.into_iter().collect(),
                said: said.to_owned(),
            }),
        }
    }

    /// The lines of everything that happened.
    pub(super) fn take(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.0);
        all.into_iter().map(One::line).collect()
    }
}

impl One {
    fn line(self) -> String {
        let mut names = self
            .names
            .iter()
            .take(NAMES)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        let more = self.names.len().saturating_sub(NAMES);
        if more > 0 {
            names = format!("{names} and {more} more");
        }
        let said = match (self.names.len(), self.said.is_empty()) {
            (0, _) => self.said,
            (1, true) => names,
            (1, false) => format!("{names}: {}", self.said),
            (many, true) => format!("{}: {names}", counted(many, "node")),
            (many, false) => format!("{} ({names}): {}", counted(many, "node"), self.said),
        };
        format!("{} {} {said}", self.at.strftime("%H:%M:%S"), self.verb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_to_several_machines_is_told_once() {
        let at = Timestamp::UNIX_EPOCH;
        let mut news = News::default();
        for name in ["a", "b", "c", "d"] {
            news.add(at, Verb::Ready, name, "");
        }
        news.add(at, Verb::Remove, "a", "Empty: saves $1.00 an hour");
        news.add(at, Verb::Remove, "b", "Empty: saves $1.00 an hour");
        news.add(at, Verb::Gone, "e", "");
        let (verb, said) = Verb::of("buy 2 × c4");
        news.add(at, verb, "", &said);
        assert_eq!(
            news.take(),
            [
                "00:00:00 ready    4 nodes: a, b, c and 1 more",
                "00:00:00 remove   2 nodes (a, b): Empty: saves $1.00 an hour",
                "00:00:00 gone     e",
                "00:00:00 buy      2 × c4",
            ]
        );
        assert!(news.is_empty());
    }
}
