//! Lists: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`.

use std::cmp::Ordering;

use cel::common::types::{CelInt, DYN_TYPE, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::{Answer, Args, bool_answer, failure, int_answer, members, mismatch};

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    let list = &LIST_TYPE;
    members(
        env,
        &[
            ("isSorted", "list_is_sorted", list, &[], is_sorted),
            ("sum", "list_sum", list, &[], sum),
            ("min", "list_min", list, &[], min),
            ("max", "list_max", list, &[], max),
            ("indexOf", "list_index_of", list, &[DYN_TYPE], index_of),
            (
                "lastIndexOf",
                "list_last_index_of",
                list,
                &[DYN_TYPE],
                last_index_of,
            ),
        ],
    )
}

pub(super) fn items<'x, 'v>(
    args: &'x Args<'_, 'v>,
    index: usize,
) -> Result<Vec<&'x (dyn Val + 'v)>, ExecutionError> {
    let list = args.get(index).ok_or_else(mismatch)?;
    let iterable = list.as_ref().as_iterable().ok_or_else(mismatch)?;
    let mut iterator = iterable.iter();
    let mut items = Vec::new();
    while let Some(item) = iterator.next() {
        items.push(item);
    }
    Ok(items)
}

fn compare(a: &dyn Val, b: &dyn Val) -> Result<Ordering, ExecutionError> {
    a.as_comparer().ok_or_else(mismatch)?.compare(b)
}

fn is_sorted<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let items = items(&args, 0)?;
    for pair in items.windows(2) {
        if let [a, b] = pair
            && compare(*a, *b)?.is_gt()
        {
            return bool_answer(false);
        }
    }
    bool_answer(true)
}

fn sum<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let items = items(&args, 0)?;
    let mut items = items.into_iter();
    let Some(first) = items.next() else {
        return Ok(CowVal::owned(CelInt::from(0)));
    };
    let mut total = first.clone_as_boxed();
    for item in items {
        total = total
            .as_adder()
            .ok_or_else(mismatch)?
            .add(item)?
            .into_owned();
    }
    Ok(CowVal::Owned(total))
}

fn extreme<'b, 'v>(args: &Args<'b, 'v>, wanted: Ordering, name: &str) -> Answer<'b, 'v> {
    let mut best: Option<&(dyn Val + 'v)> = None;
    for item in items(args, 0)? {
        let better = match best {
            Some(best) => compare(item, best)? == wanted,
            None => true,
        };
        if better {
            best = Some(item);
        }
    }
    let best = best.ok_or_else(|| failure(format!("{name} called on empty list")))?;
    Ok(CowVal::Owned(best.clone_as_boxed()))
}

fn min<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    extreme(&args, Ordering::Less, "min")
}

fn max<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    extreme(&args, Ordering::Greater, "max")
}

fn place(found: Option<usize>) -> i64 {
    found
        .and_then(|index| i64::try_from(index).ok())
        .unwrap_or(-1)
}

fn index_of<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let wanted = args.get(1).ok_or_else(mismatch)?.as_ref();
    let items = items(&args, 0)?;
    int_answer(place(items.iter().position(|item| item.equals(wanted))))
}

fn last_index_of<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let wanted = args.get(1).ok_or_else(mismatch)?.as_ref();
    let items = items(&args, 0)?;
    int_answer(place(items.iter().rposition(|item| item.equals(wanted))))
}
