//! Completion indexes of indexed jobs, and how a list of them is written ("1,3-5,7").

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::INDEX;
use crate::cluster::fields::Fields as _;
use crate::cluster::workloads::pods;

/// Which indexes are done and which are being worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Indexes {
    wanted: i64,
    done: BTreeSet<i64>,
    taken: BTreeSet<i64>,
}

impl Indexes {
    /// The indexes of a job; nothing where it is not an indexed one.
    pub(super) fn of(job: &Value, pods: &[Arc<Value>]) -> Option<Self> {
        if job.text(&["spec", "completionMode"]) != "Indexed" {
            return None;
        }
        let mut done = parse(job.text(&["status", "completedIndexes"]));
        let mut taken = BTreeSet::new();
        for pod in pods {
            let Some(index) = pod.annotation(INDEX).and_then(|text| text.parse().ok()) else {
                continue;
            };
            if pod.text(&["status", "phase"]) == "Succeeded" {
                done.insert(index);
            } else if !pods::finished(pod) {
                taken.insert(index);
            }
        }
        let wanted = job.int(&["spec", "completions"]).unwrap_or_default();
        done.retain(|index| *index < wanted);
        Some(Self {
            wanted,
            done,
            taken,
        })
    }

    /// How many are done.
    pub(super) fn completed(&self) -> i64 {
        i64::try_from(self.done.len()).unwrap_or(i64::MAX)
    }

    /// Those that nobody works on, lowest first.
    pub(super) fn free(&self) -> impl Iterator<Item = i64> {
        (0..self.wanted).filter(|index| !self.done.contains(index) && !self.taken.contains(index))
    }

    /// The list of those that are done.
    pub(super) fn written(&self) -> String {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for &index in &self.done {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == index => *last = index,
                _ => runs.push((index, index)),
            }
        }
        let parts: Vec<String> = runs
            .into_iter()
            .map(|(first, last)| match last - first {
                0 => first.to_string(),
                1 => format!("{first},{last}"),
                _ => format!("{first}-{last}"),
            })
            .collect();
        parts.join(",")
    }
}

fn parse(text: &str) -> BTreeSet<i64> {
    text.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse::<i64>().ok()?..=last.parse::<i64>().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_upstream_does() {
        for text in ["", "0", "0,1", "1,3-5,7", "0-9"] {
            let indexes = Indexes {
                wanted: 10,
                done: parse(text),
                taken: BTreeSet::new(),
            };
            assert_eq!(indexes.written(), text);
        }
    }

    #[test]
    fn free_indexes_are_neither_done_nor_taken() {
        let indexes = Indexes {
            wanted: 5,
            done: BTreeSet::from([0, 2]),
            taken: BTreeSet::from([3]),
        };
        assert_eq!(indexes.free().collect::<Vec<_>>(), [1, 4]);
    }
}
