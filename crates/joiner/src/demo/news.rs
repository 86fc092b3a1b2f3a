//! Lines of the story that say the same about several machines, told once.

use std::fmt;

use jiff::Timestamp;
use joiner_core::money::Money;

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

/// Stands where a sum was taken out of a sentence.
const SUM: &str = "\u{1}";

/// A sentence about a node, such as `Empty: saves $0.0161 an hour (no pod needs it)`, with its sums taken out: of several
/// nodes of which the same is said they are added up.
struct Sentence {
    words: String,
    sums: Vec<Money>,
    /// What stands in brackets, but for the pods that move.
    because: Vec<String>,
    pods: u32,
    /// Where the pods go, if that is said.
    whereto: String,
}

impl Sentence {
    fn of(said: &str) -> Self {
        // What takes a node's place has a price of its own, which is no part of the sum.
        let successors = said
            .rfind("): ")
            .filter(|_| said.starts_with("Replaced by"));
        let (head, tail) = said.split_at(successors.map_or(0, |at| at + 1));
        let (tail, brackets) = tail
            .strip_suffix(')')
            .and_then(|tail| tail.rsplit_once(" ("))
            .unwrap_or((tail, ""));
        let mut sentence = Sentence {
            words: String::new(),
            sums: Vec::new(),
            because: Vec::new(),
            pods: 0,
            whereto: String::new(),
        };
        let words = tail.split(' ').map(|word| {
            let dollars = word.strip_prefix('$').and_then(|text| text.parse().ok());
            dollars.map_or(word, |dollars| {
                sentence.sums.push(Money::from_dollars(dollars));
                SUM
            })
        });
        let words: Vec<&str> = words.collect();
        sentence.words = head.to_owned() + &words.join(" ");
        for part in brackets.split("; ").filter(|part| !part.is_empty()) {
            match moved(part) {
                Some((pods, whereto)) => {
                    sentence.pods += pods;
                    whereto.clone_into(&mut sentence.whereto);
                }
                None => sentence.because.push(part.to_owned()),
            }
        }
        sentence
    }

    /// Whether the same is said of another node, whatever it costs.
    fn same(&self, other: &Self) -> bool {
        self.words == other.words
            && self.sums.len() == other.sums.len()
            && self.whereto == other.whereto
    }

    fn add(&mut self, other: Self) {
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum += more;
        }
        self.pods += other.pods;
        // A reason that is not everybody's is not told of all.
        self.because.retain(|one| other.because.contains(one));
    }

    /// The sentence about so many nodes.
    fn told(&self, nodes: usize) -> String {
        let mut told = self.words.clone();
        for sum in &self.sums {
            told = told.replacen(SUM, &sum.to_string(), 1);
        }
        let (whose, them) = if nodes > 1 {
            ("their", "them")
        } else {
            ("its", "it")
        };
        let mut brackets: Vec<String> = self
            .because
            .iter()
            .map(|one| one.replace("pod needs it", &format!("pod needs {them}")))
            .collect();
        match self.pods {
            0 => {}
            1 => brackets.push(format!("{whose} pod moves{}", self.whereto)),
            many => brackets.push(format!("{whose} {many} pods move{}", self.whereto)),
        }
        if !brackets.is_empty() {
            told = format!("{told} ({})", brackets.join("; "));
        }
        told
    }
}

/// How many pods move, of `its 3 pods move to nodes that stay`, and where to.
fn moved(part: &str) -> Option<(u32, &str)> {
    let part = part.strip_prefix("its ")?;
    if let Some(whereto) = part.strip_prefix("pod moves") {
        return Some((1, whereto));
    }
    let (count, whereto) = part.split_once(" pods move")?;
    Some((count.parse().ok()?, whereto))
}

/// Something that happened, to whom it happened, and when first.
struct One {
    at: Timestamp,
    verb: Verb,
    names: Vec<String>,
    said: Sentence,
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
        let said = Sentence::of(said);
        let same = self
            .0
            .iter_mut()
            .find(|one| one.verb == verb && one.said.same(&said) && name.is_some());
        match same {
            Some(one) => {
                one.names.extend(name);
                one.said.add(said);
            }
            None => self.0.push(One {
                at,
                verb,
                names: name.into_iter().collect(),
                said,
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
        let said = self.said.told(self.names.len());
        let said = match (self.names.len(), said.strip_prefix("Replaced by ")) {
            (0, _) => said,
            (1, Some(by)) => format!("{names} by {by}"),
            (many, Some(by)) => format!("{} ({names}) by {by}", counted(many, "node")),
            (1, None) if said.is_empty() => names,
            (1, None) => format!("{names}: {said}"),
            (many, None) if said.is_empty() => format!("{}: {names}", counted(many, "node")),
            (many, None) => format!("{} ({names}): {said}", counted(many, "node")),
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
                "00:00:00 remove   2 nodes (a, b): Empty: saves $2.00 an hour",
                "00:00:00 gone     e",
                "00:00:00 buy      2 × c4",
            ]
        );
        assert!(news.is_empty());
    }

    #[test]
    fn nodes_of_which_the_same_is_said_are_told_once_with_their_sums() {
        let at = Timestamp::UNIX_EPOCH;
        let mut news = News::default();
        let by = "Replaced by x (m-1x as spot in zone a at $0.0064 an hour), y (m-2x as spot in zone a at $0.0120 an hour)";
        let said =
            format!("{by}: Underutilized: $0.0128 an hour instead of $0.0148 (its 7 pods move)");
        news.add(at, Verb::Replace, "a", &said);
        let said = format!(
            "{by}: Underutilized: $0.0056 an hour instead of $0.0068 (zone a is cheaper than zone b; its pod moves)"
        );
        news.add(at, Verb::Replace, "b", &said);
        for (name, dollars) in [("a", "0.0161"), ("b", "0.0068")] {
            let said = format!("Empty: saves ${dollars} an hour (no pod needs it)");
            news.add(at, Verb::Remove, name, &said);
        }
        let alone = "Underutilized: saves $0.0063 an hour (its 3 pods move to nodes that stay)";
        news.add(at, Verb::Remove, "c", alone);
        let by = by.trim_start_matches("Replaced ");
        assert_eq!(
            news.take(),
            [
                format!(
                    "00:00:00 replace  2 nodes (a, b) {by}: Underutilized: $0.0184 an hour instead of $0.0216 (their 8 pods \
                     move)"
                ),
                "00:00:00 remove   2 nodes (a, b): Empty: saves $0.0229 an hour (no pod needs them)".to_owned(),
                format!("00:00:00 remove   c: {alone}"),
            ]
        );
    }
}
