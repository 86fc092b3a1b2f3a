//! Sets: `sets.contains`, `sets.equivalent`, `sets.intersects`.

use cel::common::types::LIST_TYPE;
use cel::common::value::Val;
use cel::{DeclarationError, Env};

use super::lists::items;
use super::{Answer, Args, bool_answer, globals};

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    let two = &[LIST_TYPE, LIST_TYPE];
    globals(
        env,
        &[
            ("sets.contains", "sets_contains", two, contains),
            ("sets.equivalent", "sets_equivalent", two, equivalent),
            ("sets.intersects", "sets_intersects", two, intersects),
        ],
    )
}

fn holds(all: &[&dyn Val], some: &[&dyn Val]) -> bool {
    some.iter()
        .all(|wanted| all.iter().any(|item| item.equals(*wanted)))
}

fn contains<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(holds(&items(&args, 0)?, &items(&args, 1)?))
}

fn equivalent<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (a, b) = (items(&args, 0)?, items(&args, 1)?);
    bool_answer(holds(&a, &b) && holds(&b, &a))
}

fn intersects<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (a, b) = (items(&args, 0)?, items(&args, 1)?);
    bool_answer(
        a.iter()
            .any(|item| b.iter().any(|other| item.equals(*other))),
    )
}
