//! Regular expressions: `find` and `findAll`.

use cel::common::types::{INT_TYPE, STRING_TYPE};
use cel::{DeclarationError, Env, ExecutionError};
use regex::Regex;

use super::{Answer, Args, failure, int, members, text, text_answer, texts_answer};
use crate::schema::pattern;

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    let string = &STRING_TYPE;
    members(
        env,
        &[
            ("find", "string_find_string", string, &[STRING_TYPE], find),
            (
                "findAll",
                "string_find_all_string",
                string,
                &[STRING_TYPE],
                find_all,
            ),
            (
                "findAll",
                "string_find_all_string_int",
                string,
                &[STRING_TYPE, INT_TYPE],
                find_some,
            ),
        ],
    )
}

fn compile(source: &str) -> Result<Regex, ExecutionError> {
    pattern::compiled(source).map_err(|problem| failure(format!("Illegal regex: {problem}")))
}

fn find<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let regex = compile(text(&args, 1)?)?;
    let found = regex.find(text(&args, 0)?);
    text_answer(found.map_or_else(String::new, |found| found.as_str().to_owned()))
}

fn matches(args: &Args<'_, '_>, most: usize) -> Result<Vec<String>, ExecutionError> {
    let regex = compile(text(args, 1)?)?;
    let found = regex.find_iter(text(args, 0)?).take(most);
    Ok(found.map(|found| found.as_str().to_owned()).collect())
}

fn find_all<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    texts_answer(matches(&args, usize::MAX)?)
}

fn find_some<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let most = usize::try_from(int(&args, 2)?).unwrap_or(usize::MAX);
    texts_answer(matches(&args, most)?)
}
