//! What happened, what belongs together in one episode.

use joiner_controllers::context::Context;
use joiner_controllers::decisions::Happened;

use super::model::{Activity, Episode, SCHEMA};

/// How far apart entries of one episode may be, in seconds.
const APART: i64 = 60;

/// What happened after `since`; with `query`, to what has it in its name, code or sentence.
pub(crate) fn activity(context: &Context, since: u64, query: &str) -> Activity {
    let all = context.decisions.activity(since, usize::MAX);
    let query = query.to_lowercase();
    let matches = |one: &Happened| {
        let has = |text: &str| text.to_lowercase().contains(&query);
        query.is_empty() || has(&one.subject.name) || has(&one.code) || has(&one.sentence)
    };
    Activity {
        schema_version: SCHEMA,
        at: context.now(),
        episodes: episodes(all.into_iter().filter(matches).collect()),
    }
}

/// Entries of one decision, or of one code, that are not far apart. The newest comes first.
fn episodes(all: Vec<Happened>) -> Vec<Episode> {
    let mut episodes: Vec<Episode> = Vec::new();
    for one in all {
        let belongs = |episode: &&mut Episode| {
            // From its newest entry on: an episode that went on and on would stand above newer ones.
            let first = episode.entries.first();
            first.is_some_and(|first| {
                let near = first.at.duration_since(one.at).as_secs().abs() <= APART;
                near && first.decision == one.decision && first.code == one.code
            })
        };
        match episodes.iter_mut().rev().take(8).find(belongs) {
            Some(episode) => {
                episode.at = one.at;
                episode.warning |= one.warning;
                episode.entries.push(one);
            }
            None => episodes.push(Episode {
                at: one.at,
                title: String::new(),
                warning: one.warning,
                before: None,
                after: None,
                entries: vec![one],
            }),
        }
    }
    for episode in &mut episodes {
        let known = |of: fn(&Happened) -> Option<f64>| {
            let all = episode.entries.iter().filter_map(of);
            let sums: Vec<f64> = all.collect();
            (!sums.is_empty()).then(|| sums.iter().sum())
        };
        let (before, after) = (known(|one| one.before), known(|one| one.after));
        (episode.before, episode.after) = (before, after);
        episode.title = title(&episode.entries);
    }
    episodes
}

fn title(entries: &[Happened]) -> String {
    let Some(first) = entries.first() else {
        return String::new();
    };
    let count = entries.len();
    let (machines, nodes) = if count == 1 {
        ("machine", "node")
    } else {
        ("machines", "nodes")
    };
    let goes = if count == 1 { "goes" } else { "go" };
    match &*first.code {
        "Launch" => format!("{count} {machines} asked for"),
        "Empty" => format!("{count} {nodes} {goes}: empty"),
        "Drifted" => format!("{count} {nodes} {goes}: drifted"),
        "Underutilized" => format!("{count} {nodes} {goes}: the same pods run cheaper elsewhere"),
        "Expired" => format!("{count} {nodes} {goes}: expired"),
        "DisruptionTerminating" => format!("{count} {nodes} drained"),
        "DisruptionLaunching" => format!("{count} {nodes} replaced: the successors come first"),
        "DisruptionBlocked" => format!("{count} {nodes} held back"),
        code => {
            let mut words = String::new();
            for (position, letter) in code.chars().enumerate() {
                if position > 0 && letter.is_uppercase() {
                    words.push(' ');
                    words.extend(letter.to_lowercase());
                } else {
                    words.push(letter);
                }
            }
            if count == 1 {
                words
            } else {
                format!("{words} · {count}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use joiner_controllers::decisions::{Kind, Subject};

    use super::*;

    fn happened(second: i64, code: &str, decision: Option<u64>, before: f64) -> Happened {
        Happened {
            number: 0,
            at: Timestamp::from_second(second).unwrap(),
            subject: Subject::new(Kind::Node, format!("n-{second}")),
            decision,
            warning: false,
            code: code.into(),
            sentence: "because".to_owned(),
            before: Some(before),
            after: None,
        }
    }

    #[test]
    fn entries_of_one_decision_are_one_episode_with_their_prices_summed() {
        let all = vec![
            happened(200, "Launch", Some(2), 1.0),
            happened(12, "Empty", Some(1), 1.0),
            happened(11, "DisruptionBlocked", None, 0.0),
            happened(10, "Empty", Some(1), 2.5),
        ];
        let told = episodes(all);
        let titles: Vec<&str> = told.iter().map(|one| &*one.title).collect();
        assert_eq!(
            titles,
            [
                "1 machine asked for",
                "2 nodes go: empty",
                "1 node held back"
            ]
        );
        assert_eq!((told[1].before, told[1].after), (Some(3.5), None));
        assert_eq!(told[1].at, Timestamp::from_second(10).unwrap());
    }

    #[test]
    fn a_code_without_a_sentence_of_its_own_is_told_as_words() {
        let told = episodes(vec![happened(1, "InsufficientCapacity", None, 0.0)]);
        assert_eq!(told[0].title, "Insufficient capacity");
    }
}
