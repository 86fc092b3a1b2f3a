//! Quantities: `quantity('1Gi')` and what can be done with it.

use cel::common::types::{CelDouble, DYN_TYPE, INT_TYPE, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};

use super::{
    Answer, Args, bool_answer, failure, globals, int, int_answer, members, opaque, own, text,
};
use crate::schema::quantity::{BAD_FORMAT, Quantity as Amount};

/// A quantity as a CEL value.
#[derive(Clone, Debug)]
pub(super) struct Quantity(pub(super) Amount);

opaque!(Quantity, QUANTITY, "kubernetes.Quantity");

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    globals(
        env,
        &[
            ("quantity", "string_to_quantity", &[STRING_TYPE], parse),
            (
                "isQuantity",
                "is_quantity_string",
                &[STRING_TYPE],
                is_quantity,
            ),
        ],
    )?;
    let own = &QUANTITY;
    let other = &[QUANTITY.to_owned()];
    members(
        env,
        &[
            ("isInteger", "quantity_is_integer", own, &[], is_integer),
            ("asInteger", "quantity_as_integer", own, &[], as_integer),
            (
                "asApproximateFloat",
                "quantity_as_float",
                own,
                &[],
                as_float,
            ),
            (
                "isGreaterThan",
                "quantity_is_greater_than",
                own,
                other,
                is_greater,
            ),
            ("isLessThan", "quantity_is_less_than", own, other, is_less),
            ("compareTo", "quantity_compare_to", own, other, compare),
            ("add", "quantity_add", own, other, plus),
            ("add", "quantity_add_int", own, &[INT_TYPE], plus_int),
            ("sub", "quantity_sub", own, other, minus),
            ("sub", "quantity_sub_int", own, &[INT_TYPE], minus_int),
        ],
    )?;
    globals(env, &[("sign", "quantity_sign", other, sign)])?;
    // Anything else that is asked about is not a quantity; the type checker lets dyn through.
    globals(
        env,
        &[("isQuantity", "is_quantity_dyn", &[DYN_TYPE], never)],
    )
}

fn parse<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let amount = Amount::parse(text(&args, 0)?).ok_or_else(|| failure(BAD_FORMAT))?;
    Ok(CowVal::owned(Quantity(amount)))
}

fn is_quantity<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(Amount::parse(text(&args, 0)?).is_some())
}

fn never<'b, 'v>(_: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(false)
}

fn amount(args: &Args<'_, '_>, index: usize) -> Result<Amount, ExecutionError> {
    own::<Quantity>(args, index).map(|quantity| quantity.0)
}

fn sign<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    int_answer(amount(&args, 0)?.sign())
}

fn is_integer<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(amount(&args, 0)?.as_integer().is_some())
}

fn as_integer<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let value = amount(&args, 0)?.as_integer();
    int_answer(value.ok_or_else(|| failure("cannot convert value to integer"))?)
}

fn as_float<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let value = amount(&args, 0)?.as_float();
    Ok(CowVal::owned(CelDouble::from(value)))
}

fn is_greater<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(amount(&args, 0)? > amount(&args, 1)?)
}

fn is_less<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(amount(&args, 0)? < amount(&args, 1)?)
}

fn compare<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let ordering = amount(&args, 0)?.cmp(&amount(&args, 1)?);
    int_answer(ordering as i64)
}

fn answer<'b, 'v>(value: Option<Amount>) -> Answer<'b, 'v> {
    let value = value.ok_or_else(|| failure("integer overflow"))?;
    Ok(CowVal::owned(Quantity(value)))
}

fn plus<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(amount(&args, 0)?.add(amount(&args, 1)?))
}

fn plus_int<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(amount(&args, 0)?.add(Amount::whole(int(&args, 1)?)))
}

fn minus<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(amount(&args, 0)?.sub(amount(&args, 1)?))
}

fn minus_int<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(amount(&args, 0)?.sub(Amount::whole(int(&args, 1)?)))
}
