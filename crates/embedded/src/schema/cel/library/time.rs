//! Durations and points in time, on `jiff` rather than the `cel` crate's optional `chrono`.

use std::cmp::Ordering;

use cel::common::traits::{Adder, Comparer, Subtractor};
use cel::common::types::{DURATION_TYPE, INT_TYPE, STRING_TYPE, TIMESTAMP_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use jiff::tz::TimeZone;

use super::{
    Answer, Args, failure, globals, int, int_answer, members, mismatch, own, text, text_answer,
};
use crate::schema::formats::parse_go_duration;

/// Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Duration(pub(crate) i64);

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timestamp(pub(crate) jiff::Timestamp);

macro_rules! time_value {
    ($name:ident, $type:ident) => {
        impl Val for $name {
            fn get_type(&self) -> &Type {
                &$type
            }

            fn cel_type() -> &'static Type {
                &$type
            }

            fn as_adder<'b, 'v>(&'b self) -> Option<&'b (dyn Adder + 'v)>
            where
                Self: 'v,
            {
                Some(self)
            }

            fn as_subtractor<'b, 'v>(&'b self) -> Option<&'b (dyn Subtractor + 'v)>
            where
                Self: 'v,
            {
                Some(self)
            }

            fn as_comparer(&self) -> Option<&dyn Comparer> {
                Some(self)
            }

            fn equals(&self, other: &dyn Val) -> bool {
                other.downcast_ref::<Self>() == Some(self)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
                Box::new(*self)
            }

            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }

        impl StaticVal for $name {}

        impl Comparer for $name {
            fn compare(&self, other: &dyn Val) -> Result<Ordering, ExecutionError> {
                let other = other.downcast_ref::<Self>().ok_or_else(mismatch)?;
                Ok(self.0.cmp(&other.0))
            }
        }
    };
}

time_value!(Duration, DURATION_TYPE);
time_value!(Timestamp, TIMESTAMP_TYPE);

fn overflow() -> ExecutionError {
    failure("integer overflow")
}

impl Timestamp {
    fn plus(self, nanoseconds: i64) -> Result<Self, ExecutionError> {
        let span = jiff::SignedDuration::from_nanos(nanoseconds);
        self.0.checked_add(span).map(Self).map_err(|_| overflow())
    }
}

impl Adder for Duration {
    fn add<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Answer<'b, 'v>
    where
        Self: 'v,
    {
        if let Some(time) = other.downcast_ref::<Timestamp>() {
            return Ok(CowVal::owned(time.plus(self.0)?));
        }
        let other = other.downcast_ref::<Duration>().ok_or_else(mismatch)?;
        let sum = self.0.checked_add(other.0).ok_or_else(overflow)?;
        Ok(CowVal::owned(Duration(sum)))
    }
}

impl Subtractor for Duration {
    fn sub<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Answer<'b, 'v>
    where
        Self: 'v,
    {
        let other = other.downcast_ref::<Duration>().ok_or_else(mismatch)?;
        let rest = self.0.checked_sub(other.0).ok_or_else(overflow)?;
        Ok(CowVal::owned(Duration(rest)))
    }
}

impl Adder for Timestamp {
    fn add<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Answer<'b, 'v>
    where
        Self: 'v,
    {
        let other = other.downcast_ref::<Duration>().ok_or_else(mismatch)?;
        Ok(CowVal::owned(self.plus(other.0)?))
    }
}

impl Subtractor for Timestamp {
    fn sub<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Answer<'b, 'v>
    where
        Self: 'v,
    {
        if let Some(other) = other.downcast_ref::<Timestamp>() {
            let nanoseconds = self.0.as_nanosecond() - other.0.as_nanosecond();
            let nanoseconds = i64::try_from(nanoseconds).map_err(|_| overflow())?;
            return Ok(CowVal::owned(Duration(nanoseconds)));
        }
        let other = other.downcast_ref::<Duration>().ok_or_else(mismatch)?;
        let back = other.0.checked_neg().ok_or_else(overflow)?;
        Ok(CowVal::owned(self.plus(back)?))
    }
}

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(DURATION_TYPE.to_owned())?;
    env.add_type(TIMESTAMP_TYPE.to_owned())?;
    conversions(env)?;
    durations(env)?;
    timestamps(env)
}

fn conversions(env: &mut Env) -> Result<(), DeclarationError> {
    globals(
        env,
        &[
            (
                "duration",
                "string_to_duration",
                &[STRING_TYPE],
                new_duration,
            ),
            (
                "timestamp",
                "string_to_timestamp",
                &[STRING_TYPE],
                new_timestamp,
            ),
            ("timestamp", "int64_to_timestamp", &[INT_TYPE], from_seconds),
            ("int", "timestamp_to_int64", &[TIMESTAMP_TYPE], to_seconds),
            (
                "string",
                "timestamp_to_string",
                &[TIMESTAMP_TYPE],
                timestamp_text,
            ),
            (
                "string",
                "duration_to_string",
                &[DURATION_TYPE],
                duration_text,
            ),
        ],
    )
}

fn durations(env: &mut Env) -> Result<(), DeclarationError> {
    let span = &DURATION_TYPE;
    members(
        env,
        &[
            ("getHours", "duration_to_hours", span, &[], hours),
            ("getMinutes", "duration_to_minutes", span, &[], minutes),
            ("getSeconds", "duration_to_seconds", span, &[], seconds),
            (
                "getMilliseconds",
                "duration_to_milliseconds",
                span,
                &[],
                milliseconds,
            ),
        ],
    )
}

fn timestamps(env: &mut Env) -> Result<(), DeclarationError> {
    let time = &TIMESTAMP_TYPE;
    members(
        env,
        &[
            ("getFullYear", "timestamp_to_year", time, &[], |a| {
                part(&a, |z| i64::from(z.year()))
            }),
            ("getMonth", "timestamp_to_month", time, &[], |a| {
                part(&a, |z| i64::from(z.month()) - 1)
            }),
            ("getDate", "timestamp_to_date", time, &[], |a| {
                part(&a, |z| i64::from(z.day()))
            }),
            (
                "getDayOfMonth",
                "timestamp_to_day_of_month",
                time,
                &[],
                |a| part(&a, |z| i64::from(z.day()) - 1),
            ),
            ("getDayOfYear", "timestamp_to_day_of_year", time, &[], |a| {
                part(&a, |z| i64::from(z.day_of_year()) - 1)
            }),
            ("getDayOfWeek", "timestamp_to_day_of_week", time, &[], |a| {
                part(&a, |z| i64::from(z.weekday().to_sunday_zero_offset()))
            }),
            ("getHours", "timestamp_to_hours", time, &[], |a| {
                part(&a, |z| i64::from(z.hour()))
            }),
            ("getMinutes", "timestamp_to_minutes", time, &[], |a| {
                part(&a, |z| i64::from(z.minute()))
            }),
            ("getSeconds", "timestamp_to_seconds", time, &[], |a| {
                part(&a, |z| i64::from(z.second()))
            }),
            (
                "getMilliseconds",
                "timestamp_to_milliseconds",
                time,
                &[],
                |a| part(&a, |z| i64::from(z.millisecond())),
            ),
        ],
    )
}

fn not_convertible(to: &str) -> ExecutionError {
    failure(format!("type conversion error from 'string' to '{to}'"))
}

fn new_duration<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let nanoseconds = parse_go_duration(text(&args, 0)?)
        .ok_or_else(|| not_convertible("google.protobuf.Duration"))?;
    Ok(CowVal::owned(Duration(nanoseconds)))
}

fn new_timestamp<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let time = text(&args, 0)?
        .parse()
        .map_err(|_| not_convertible("google.protobuf.Timestamp"))?;
    Ok(CowVal::owned(Timestamp(time)))
}

fn from_seconds<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let time = jiff::Timestamp::from_second(int(&args, 0)?).map_err(|_| overflow())?;
    Ok(CowVal::owned(Timestamp(time)))
}

fn to_seconds<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    int_answer(own::<Timestamp>(&args, 0)?.0.as_second())
}

fn timestamp_text<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    text_answer(own::<Timestamp>(&args, 0)?.0.to_string())
}

fn duration_text<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let nanoseconds = own::<Duration>(&args, 0)?.0;
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (whole, fraction) = (
        nanoseconds.unsigned_abs() / 1_000_000_000,
        nanoseconds.unsigned_abs() % 1_000_000_000,
    );
    let fraction = format!("{fraction:09}");
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    text_answer(format!("{sign}{whole}{dot}{fraction}s"))
}

fn whole_units<'b, 'v>(args: &Args<'_, '_>, unit: i64) -> Answer<'b, 'v> {
    int_answer(own::<Duration>(args, 0)?.0 / unit)
}

fn hours<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    whole_units(&args, 3_600_000_000_000)
}

fn minutes<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    whole_units(&args, 60_000_000_000)
}

fn seconds<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    whole_units(&args, 1_000_000_000)
}

fn milliseconds<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    whole_units(&args, 1_000_000)
}

fn part<'b, 'v>(args: &Args<'_, '_>, read: fn(&jiff::Zoned) -> i64) -> Answer<'b, 'v> {
    let time = own::<Timestamp>(args, 0)?.0;
    int_answer(read(&time.to_zoned(TimeZone::UTC)))
}
