//! Cron schedules in UTC, as disruption budgets use them.
//!
//! Five fields (minute, hour, day of month, month, day of week) or `@daily` and its kin, as robfig/cron's standard
//! parser reads them: Sunday is 0 and 7 is refused; when both days are restricted, either will do.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use thiserror::Error;

/// Why a text is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// Not five fields and not a known name.
    #[error(
        "{0:?} is not a schedule: write five fields (minute hour day month weekday) or @hourly, @daily, @weekly, @monthly, @yearly"
    )]
    Shape(String),
    /// A field that cannot be read.
    #[error(
        "{text:?} is not a {field}: write numbers from {least} to {most}, lists, ranges or steps"
    )]
    Field {
        /// Which field.
        field: &'static str,
        /// What stood there.
        text: String,
        /// Smallest value.
        least: u32,
        /// Largest value.
        most: u32,
    },
}

/// When a budget begins to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
}

/// A field: its name and the values that it may have.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    words: &'static [&'static str],
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        least: 0,
        most: 59,
        words: &[],
    },
    Field {
        name: "hour",
        least: 0,
        most: 23,
        words: &[],
    },
    Field {
        name: "day of the month",
        least: 1,
        most: 31,
        words: &[],
    },
    Field {
        name: "month",
        least: 1,
        most: 12,
        words: &MONTHS,
    },
    Field {
        name: "day of the week",
        least: 0,
        most: 6,
        words: &WEEKDAYS,
    },
];

impl Schedule {
    /// Reads a schedule.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let spelled = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let parts: Vec<&str> = spelled.split_whitespace().collect();
        let &[minute, hour, day, month, weekday] = parts.as_slice() else {
            return Err(ScheduleError::Shape(text.to_owned()));
        };
        let open = |part: &str| part.starts_with(['*', '?']);
        Ok(Schedule {
            minutes: FIELDS[0].parse(minute)?,
            hours: FIELDS[1].parse(hour)?,
            days: FIELDS[2].parse(day)?,
            months: FIELDS[3].parse(month)?,
            weekdays: FIELDS[4].parse(weekday)?,
            any_day: open(day),
            any_weekday: open(weekday),
        })
    }

    /// The last moment of the schedule up to `now` and after `earliest`.
    pub fn last_hit(&self, now: Timestamp, earliest: Timestamp) -> Option<Timestamp> {
        let moment = now.to_zoned(TimeZone::UTC).datetime();
        let first = earliest.to_zoned(TimeZone::UTC).date();
        let (mut date, mut latest) = (moment.date(), moment.time());
        loop {
            if let Some(time) = self.last_time(date, latest) {
                let hit = date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?;
                return Some(hit.timestamp()).filter(|hit| *hit > earliest);
            }
            if date <= first {
                return None;
            }
            date = date.checked_sub(1.day()).ok()?;
            latest = Time::MAX;
        }
    }

    fn last_time(&self, date: Date, latest: Time) -> Option<Time> {
        if !self.holds_on(date) {
            return None;
        }
        let allowed =
            |mask: u64, up_to: i8| (0..=up_to).rev().find(move |value| mask >> value & 1 == 1);
        let mut hour = allowed(self.hours, latest.hour())?;
        let minute = if hour == latest.hour() {
            allowed(self.minutes, latest.minute())
        } else {
            allowed(self.minutes, 59)
        };
        if let Some(minute) = minute {
            return Time::new(hour, minute, 0, 0).ok();
        }
        hour = allowed(self.hours, hour - 1)?;
        Time::new(hour, allowed(self.minutes, 59)?, 0, 0).ok()
    }

    fn holds_on(&self, date: Date) -> bool {
        let day = self.days >> date.day() & 1 == 1;
        let weekday = self.weekdays >> date.weekday().to_sunday_zero_offset() & 1 == 1;
        let days = if self.any_day || self.any_weekday {
            day && weekday
        } else {
            day || weekday
        };
        days && self.months >> date.month() & 1 == 1
    }

    /// Whether a window of this length, opened at each hit, is open now; and if so, when it closes.
    pub fn open_until(&self, now: Timestamp, length: SignedDuration) -> Option<Timestamp> {
        let earliest = now.checked_sub(length).unwrap_or(Timestamp::MIN);
        let hit = self.last_hit(now, earliest)?;
        Some(hit.checked_add(length).unwrap_or(Timestamp::MAX))
    }
}

impl Field {
    fn parse(&self, text: &str) -> Result<u64, ScheduleError> {
        text.split(',')
            .try_fold(0, |all, part| self.parse_part(part).map(|mask| all | mask))
            .ok_or_else(|| ScheduleError::Field {
                field: self.name,
                text: text.to_owned(),
                least: self.least,
                most: self.most,
            })
    }

    fn parse_part(&self, part: &str) -> Option<u64> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|s| *s > 0)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (self.least, self.most),
            Some((from, to)) => (self.value(from)?, self.value(to)?),
            None => {
                let only = self.value(range)?;
                // `5/15` runs on to the end of the field.
                (only, if step.is_some() { self.most } else { only })
            }
        };
        if from > to {
            return None;
        }
        let every = usize::try_from(step.unwrap_or(1)).ok()?;
        Some(
            (from..=to)
                .step_by(every)
                .fold(0, |mask, value| mask | 1 << value),
        )
    }

    fn value(&self, text: &str) -> Option<u32> {
        let word = self
            .words
            .iter()
            .position(|word| word.eq_ignore_ascii_case(text));
        let value = match word {
            Some(position) => u32::try_from(position).ok()? + self.least,
            None => text.parse().ok()?,
        };
        (self.least..=self.most).contains(&value).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_window_is_open_from_its_hit_for_its_length() {
        let work = Schedule::parse("0 9 * * mon-fri").unwrap();
        let eight = SignedDuration::from_hours(8);
        // 2026-11-13 is a Friday.
        for (now, until) in [
            ("2026-11-13T08:59:59Z", None),
            ("2026-11-13T09:00:00Z", Some("2026-11-13T17:00:00Z")),
            ("2026-11-13T16:59:59Z", Some("2026-11-13T17:00:00Z")),
            ("2026-11-13T17:00:00Z", None),
            ("2026-11-14T10:00:00Z", None),
        ] {
            assert_eq!(work.open_until(at(now), eight), until.map(at), "{now}");
        }
    }

    #[test]
    fn lists_steps_names_and_shorthands_are_read() {
        let day = SignedDuration::from_hours(24 * 366);
        for (text, now, hit) in [
            (
                "*/15 * * * *",
                "2026-11-13T08:44:00Z",
                "2026-11-13T08:30:00Z",
            ),
            (
                "5/20 1,3 * * *",
                "2026-11-13T02:00:00Z",
                "2026-11-13T01:45:00Z",
            ),
            (
                "30 6 1 JAN *",
                "2026-11-13T02:00:00Z",
                "2026-01-01T06:30:00Z",
            ),
            ("@weekly", "2026-11-13T02:00:00Z", "2026-11-08T00:00:00Z"),
            ("@hourly", "2026-11-13T02:10:00Z", "2026-11-13T02:00:00Z"),
            (
                "59 23 * * *",
                "2026-11-13T02:10:00Z",
                "2026-11-12T23:59:00Z",
            ),
            ("50 * * * *", "2026-11-13T02:10:00Z", "2026-11-13T01:50:00Z"),
        ] {
            let schedule = Schedule::parse(text).unwrap();
            let now = at(now);
            assert_eq!(schedule.last_hit(now, now - day), Some(at(hit)), "{text}");
        }
    }

    #[test]
    fn two_restricted_days_are_alternatives() {
        let either = Schedule::parse("0 0 13 * sun").unwrap();
        let last = |now| either.last_hit(at(now), Timestamp::MIN);
        assert_eq!(
            last("2026-11-13T12:00:00Z"),
            Some(at("2026-11-13T00:00:00Z"))
        );
        assert_eq!(
            last("2026-11-12T12:00:00Z"),
            Some(at("2026-11-08T00:00:00Z"))
        );
        let both = Schedule::parse("0 0 */2 * sun").unwrap();
        assert_eq!(
            both.last_hit(at("2026-11-12T12:00:00Z"), Timestamp::MIN),
            Some(at("2026-11-01T00:00:00Z")),
            "an open day, even in steps, must hold beside the weekday"
        );
    }

    #[test]
    fn nonsense_is_refused_with_the_way_out() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * * * 7",
            "5-1 * * * *",
            "a * * * *",
            "*/0 * * * *",
        ] {
            let error = Schedule::parse(text).unwrap_err().to_string();
            assert!(error.contains("write"), "{text}: {error}");
        }
    }

    #[test]
    fn a_day_that_never_comes_has_no_hit() {
        let never = Schedule::parse("0 0 30 2 *").unwrap();
        let now = at("2026-11-13T12:00:00Z");
        assert_eq!(
            never.last_hit(now, now - SignedDuration::from_hours(24 * 800)),
            None
        );
    }
}
