//! The functions that Kubernetes adds to CEL, on top of those of the `cel` crate.
//!
//! Mirrors `apiserver/pkg/cel/library`.

#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "the function type of the cel crate takes arguments by value and gives a result"
)]

mod format;
mod lists;
mod net;
mod quantities;
mod regexes;
mod sets;
pub(crate) mod time;
mod urls;

use std::sync::{Arc, OnceLock};

use cel::common::types::{CelBool, CelInt, CelList, CelString, Type};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError, extensions};

/// The environment of all rules, built once.
pub(crate) fn environment() -> Result<&'static Arc<Env>, &'static str> {
    static ENVIRONMENT: OnceLock<Result<Arc<Env>, String>> = OnceLock::new();
    ENVIRONMENT
        .get_or_init(|| build().map(Arc::new).map_err(|error| error.to_string()))
        .as_ref()
        .map_err(String::as_str)
}

fn build() -> Result<Env, cel::DeclarationError> {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings)?;
    env.add_extension(extensions::lists)?;
    for library in [
        lists::add,
        sets::add,
        regexes::add,
        quantities::add,
        net::add,
        urls::add,
        format::add,
        time::add,
    ] {
        env.add_extension(library)?;
    }
    Ok(env)
}

type Args<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

fn text<'x>(args: &'x Args<'_, '_>, index: usize) -> Result<&'x str, ExecutionError> {
    let text = args
        .get(index)
        .and_then(|arg| arg.downcast_ref::<CelString<'_>>())
        .ok_or_else(mismatch)?;
    Ok(text.inner())
}

fn int(args: &Args<'_, '_>, index: usize) -> Result<i64, ExecutionError> {
    args.get(index)
        .and_then(|arg| arg.downcast_ref::<CelInt>())
        .map(|number| *number.inner())
        .ok_or_else(mismatch)
}

fn mismatch() -> ExecutionError {
    ExecutionError::InternalError("no such overload".to_owned())
}

fn failure(message: impl Into<String>) -> ExecutionError {
    ExecutionError::InternalError(message.into())
}

fn bool_answer<'b, 'v>(value: bool) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

fn int_answer<'b, 'v>(value: i64) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelInt::from(value)))
}

fn text_answer<'b, 'v>(value: String) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelString::from(value)))
}

fn texts_answer<'b, 'v>(values: Vec<String>) -> Answer<'b, 'v> {
    let values: Vec<Box<dyn Val + 'v>> = values
        .into_iter()
        .map(|value| Box::new(CelString::from(value)) as Box<dyn Val + 'v>)
        .collect();
    Ok(CowVal::owned(CelList::from(values)))
}

/// Declares a value type of ours: equality, downcasting and cloning.
macro_rules! opaque {
    ($name:ident, $type:ident, $text:literal) => {
        pub(super) static $type: ::cel::common::types::Type =
            ::cel::common::types::Type::simple_type(::cel::common::types::Kind::Opaque, $text);

        impl ::cel::common::value::Val for $name {
            fn get_type(&self) -> &::cel::common::types::Type {
                &$type
            }

            fn cel_type() -> &'static ::cel::common::types::Type {
                &$type
            }

            fn equals(&self, other: &dyn ::cel::common::value::Val) -> bool {
                other
                    .downcast_ref::<Self>()
                    .is_some_and(|other| other.0 == self.0)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn ::cel::common::value::Val + 'v> {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn ::std::any::Any> {
                Some(self)
            }
        }

        impl ::cel::common::value::StaticVal for $name {}
    };
}
use opaque;

fn own<'x, T: cel::common::value::StaticVal>(
    args: &'x Args<'_, '_>,
    index: usize,
) -> Result<&'x T, ExecutionError> {
    args.get(index)
        .and_then(|arg| arg.downcast_ref::<T>())
        .ok_or_else(mismatch)
}

/// Declares member functions: name, overload, receiver, further arguments, implementation.
fn members(
    env: &mut Env,
    functions: &[(&str, &str, &Type, &[Type], cel::common::functions::Function)],
) -> Result<(), cel::DeclarationError> {
    for (name, id, receiver, args, function) in functions {
        let args = args.iter().map(ToOwned::to_owned).collect();
        env.add_member_overload(name, id, (*receiver).to_owned(), args, *function)?;
    }
    Ok(())
}

/// Declares global functions.
fn globals(
    env: &mut Env,
    functions: &[(&str, &str, &[Type], cel::common::functions::Function)],
) -> Result<(), cel::DeclarationError> {
    for (name, id, args, function) in functions {
        let args = args.iter().map(ToOwned::to_owned).collect();
        env.add_overload(name, id, args, *function)?;
    }
    Ok(())
}

/// Standard base64 with padding.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        Some(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    };
    let body = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - body.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(body.len() * 3 / 4);
    let (mut buffer, mut bits) = (0_u32, 0_u32);
    for byte in body.bytes() {
        buffer = (buffer << 6) | u32::from(digit(byte)?);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from((buffer >> bits) & 0xff).ok()?);
        }
    }
    Some(out)
}
