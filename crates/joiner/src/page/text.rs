//! Numbers and states as they are read.

use jiff::Timestamp;
use joiner_controllers::decisions::Said;

use crate::api::history::{clock, moment};
use crate::api::model::{
    Bound, DemandGroup, Episode, Explanation, Figure, LimitView, NodeCounts, NodeView,
    OfferingView, Overview, PoolView, ProviderView, Step, Usage, dollars,
};
use crate::api::why::lasted;
use crate::what_if::{Bought, Outcome};

/// Thousandths of cores as cores.
pub(crate) fn cores(millis: i64) -> String {
    match millis {
        millis if millis % 1000 == 0 => (millis / 1000).to_string(),
        millis if millis % 100 == 0 || millis > 10_000 => format!("{:.1}", tenths(millis, 100)),
        millis => format!("{}.{:02}", millis / 1000, millis % 1000 / 10),
    }
}

/// Bytes as GiB.
pub(crate) fn gib(bytes: i64) -> String {
    let value = tenths(bytes, (1 << 30) / 10);
    if value >= 100.0 {
        format!("{value:.0} GiB")
    } else {
        format!("{value:.1} GiB")
    }
}

fn tenths(value: i64, unit: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let tenths = (value as f64 / unit as f64).round();
    tenths / 10.0
}

impl Usage {
    /// What is requested of what there is, in cores.
    pub(crate) fn as_cores(&self) -> String {
        format!("{} of {}", cores(self.requested), cores(self.allocatable))
    }

    /// The same in GiB.
    pub(crate) fn as_gib(&self) -> String {
        format!("{} of {}", gib(self.requested), gib(self.allocatable))
    }

    /// The same as a number.
    pub(crate) fn as_number(&self) -> String {
        format!("{} of {}", self.requested, self.allocatable)
    }
}

impl Figure {
    /// As percent.
    pub(crate) fn percent(&self) -> String {
        match self.bound {
            Bound::Unknown => "?".to_owned(),
            bound => format!("{}{:.0}%", bound.mark(), self.value),
        }
    }

    /// What its mark means, for those who do not see it.
    pub(crate) fn meaning(&self) -> &'static str {
        match self.bound {
            Bound::Exact => "exact",
            Bound::AtLeast => "at least",
            Bound::AtMost => "at most",
            Bound::Unknown => "not known",
        }
    }
}

impl NodeCounts {
    /// All of them.
    pub(crate) fn all(&self) -> usize {
        self.ready + self.starting + self.coming + self.leaving + self.not_ready
    }

    /// Those that are not simply ready, in words.
    pub(crate) fn rest(&self) -> String {
        let parts = [
            (self.starting, "starting"),
            (self.coming, "on the way"),
            (self.leaving, "leaving"),
            (self.not_ready, "not ready"),
            (self.foreign, "of others"),
        ];
        let some = parts.iter().filter(|(count, _)| *count > 0);
        let some: Vec<String> = some
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if some.is_empty() {
            "all ready".to_owned()
        } else {
            some.join(", ")
        }
    }
}

impl Overview {
    /// How far the cost is above the bound, in words.
    pub(crate) fn gap(&self) -> String {
        if self.bound.bound == Bound::Unknown || self.bound.value <= 0.0 {
            return "not worked out yet".to_owned();
        }
        let above = (self.cost.value / self.bound.value - 1.0) * 100.0;
        if above < 0.5 {
            "the cluster costs no more than that".to_owned()
        } else {
            format!("the cluster is at most {above:.0}% above it")
        }
    }

    /// What is saved beside never removing anything, in words.
    pub(crate) fn saved(&self) -> String {
        let saved = self.kept.value - self.cost.value;
        if saved <= 0.0 {
            return "nothing has been removed yet".to_owned();
        }
        format!("{} an hour less now", dollars(saved))
    }
}

impl ProviderView {
    /// When its prices were read.
    pub(crate) fn when(&self) -> String {
        self.read.map_or_else(|| "never".to_owned(), clock)
    }
}

impl LimitView {
    /// How much is used, in words.
    pub(crate) fn words(&self) -> String {
        let (used, limit) = match &*self.resource {
            "cpu" => (cores(self.used), cores(self.limit)),
            "memory" => (gib(self.used), gib(self.limit)),
            _ => (self.used.to_string(), self.limit.to_string()),
        };
        format!("{} {used} of {limit}", self.resource)
    }
}

impl PoolView {
    /// Its limits in words.
    pub(crate) fn limited(&self) -> String {
        let all: Vec<String> = self.limits.iter().map(LimitView::words).collect();
        if all.is_empty() {
            "no limit".to_owned()
        } else {
            all.join(", ")
        }
    }
}

impl DemandGroup {
    /// What one of them requests.
    pub(crate) fn each(&self) -> String {
        format!("{} cores, {}", cores(self.cpu), gib(self.memory))
    }

    /// For how long they have waited.
    pub(crate) fn since(&self) -> String {
        lasted(self.waited)
    }

    /// Names, and how many more there are.
    pub(crate) fn named(&self) -> String {
        let some = &self.names[..self.names.len().min(2)];
        let more = self.count - some.len();
        let names = some.join(", ");
        if more > 0 {
            format!("{names} and {more} more")
        } else {
            names
        }
    }

    /// The name of one, to ask why.
    pub(crate) fn first(&self) -> String {
        let name = self.names.first().map(String::as_str).unwrap_or_default();
        format!("{}/{name}", self.namespace)
    }

    /// The verdict in a sentence.
    pub(crate) fn verdict(&self) -> String {
        match &self.said {
            Some(said) => capital(&said.verdict.sentence),
            None => "Not looked at yet: pods are gathered for a moment before a plan is made."
                .to_owned(),
        }
    }
}

/// The first letter large, a full stop at the end.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    let end = if text.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{first}{}{end}", letters.as_str())
}

impl NodeView {
    /// Whether a filter in small letters leaves it.
    pub(crate) fn matches(&self, query: &str) -> bool {
        let of = |text: &Option<String>| text.clone().unwrap_or_default();
        let all = [
            self.name.clone(),
            of(&self.machine),
            of(&self.pool),
            of(&self.class),
            self.instance_type.clone(),
            self.zone.clone(),
            self.capacity_type.clone(),
            self.state.to_string(),
        ];
        query
            .split_whitespace()
            .all(|word| all.iter().any(|one| one.to_lowercase().contains(word)))
    }

    /// Pool, or whose it is.
    pub(crate) fn owner(&self) -> &str {
        self.pool.as_deref().unwrap_or("not ours")
    }

    /// A word for the colour.
    pub(crate) fn tone(&self) -> &'static str {
        match (&self.machine, &*self.capacity_type) {
            (None, _) => "foreign",
            (_, "spot") => "spot",
            (_, "reserved") => "reserved",
            _ => "on-demand",
        }
    }

    /// A word for the state.
    pub(crate) fn class_of_state(&self) -> String {
        self.state.to_string().to_lowercase().replace(' ', "-")
    }

    /// Why it is here, in a sentence.
    pub(crate) fn here_words(&self) -> String {
        match (&self.here, &self.machine) {
            (Some(said), _) => {
                // Which machine is plain from where this stands.
                let name = self.machine.as_deref().unwrap_or_default();
                let twice = format!("machine {name} is bought: ");
                let sentence = &said.verdict.sentence;
                capital(sentence.strip_prefix(&*twice).unwrap_or(sentence))
            }
            (None, None) => "Not ours: its room is used, and it is never removed.".to_owned(),
            // Of nodes that are shown in full this is always known.
            (None, Some(_)) => "Its machine object tells why it was bought.".to_owned(),
        }
    }

    /// Why it stays or goes, in a sentence.
    pub(crate) fn stays_words(&self) -> String {
        match (&self.stays, &self.machine) {
            (Some(said), _) => with_until(said),
            (None, None) => "Never touched.".to_owned(),
            (None, Some(_)) => "Not looked at yet.".to_owned(),
        }
    }

    /// How much of it is asked for, for those who do not see the box.
    pub(crate) fn spoken(&self) -> String {
        format!(
            "{} pods, cores {}, memory {}",
            self.on_it.len(),
            self.usage.cpu.as_cores(),
            self.usage.memory.as_gib()
        )
    }
}

/// A verdict, and when it is reached again.
pub(crate) fn with_until(said: &Said) -> String {
    let sentence = capital(&said.verdict.sentence);
    match said.verdict.evidence.until {
        Some(until) => format!("{sentence} Asked again at {}.", clock(until)),
        None => sentence,
    }
}

impl Episode {
    /// When something belonged to it last: newer ones stand above older ones.
    pub(crate) fn clock(&self) -> String {
        clock(self.entries.first().map_or(self.at, |one| one.at))
    }

    /// Before and after, if both are known.
    pub(crate) fn change(&self) -> Option<String> {
        match (self.before, self.after) {
            (Some(before), Some(after)) => {
                let saved = before - after;
                let word = if saved >= 0.0 { "saves" } else { "adds" };
                Some(format!(
                    "{} → {} an hour, {word} {}",
                    dollars(before),
                    dollars(after),
                    dollars(saved.abs())
                ))
            }
            (None, Some(after)) => Some(format!("+{} an hour", dollars(after))),
            _ => None,
        }
    }

    /// A word for the colour.
    pub(crate) fn tone(&self) -> &'static str {
        let code = self
            .entries
            .first()
            .map(|one| &*one.code)
            .unwrap_or_default();
        match code {
            _ if self.warning => "warning",
            "Launch" => "bought",
            "Empty" | "Underutilized" | "Drifted" | "Expired" => "goes",
            _ => "told",
        }
    }
}

impl OfferingView {
    /// Its price.
    pub(crate) fn costs(&self) -> String {
        dollars(self.price)
    }

    /// Its price by core.
    pub(crate) fn costs_per_core(&self) -> String {
        dollars(self.per_core)
    }
}

impl Explanation {
    /// The title.
    pub(crate) fn title(&self) -> String {
        capital(&self.kind).trim_end_matches('.').to_owned() + " " + &self.name
    }
}

impl Step {
    /// Since when.
    pub(crate) fn moment(&self, now: &Timestamp) -> String {
        moment(self.since, *now)
    }
}

impl Outcome {
    /// How many pods have no place.
    pub(crate) fn without_place(&self) -> usize {
        self.stranded.iter().map(|one| one.pods).sum()
    }
}

impl Bought {
    /// What one costs.
    pub(crate) fn each(&self) -> String {
        dollars(self.price)
    }
}
