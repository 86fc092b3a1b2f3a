//! What the checker knows of operators and functions: which exist, and what they give.
//!
//! Each answer has two layers: `None` if there is no such function, `Some(None)` if it does not take these arguments.

#![expect(clippy::match_same_arms, reason = "the arms are a table")]

use cel::common::ast::operators as op;

use super::types::Ty;

type Known<'a> = Option<Option<Ty<'a>>>;

const QUANTITY: Ty<'static> = Ty::Opaque("kubernetes.Quantity");
const URL: Ty<'static> = Ty::Opaque("kubernetes.URL");
const IP: Ty<'static> = Ty::Opaque("net.IP");
const CIDR: Ty<'static> = Ty::Opaque("net.CIDR");
const FORMAT: Ty<'static> = Ty::Opaque("kubernetes.NamedFormat");

/// Whether a name is that of a type.
pub(super) fn is_type(name: &str) -> bool {
    matches!(
        name,
        "bool"
            | "bytes"
            | "double"
            | "int"
            | "list"
            | "map"
            | "null_type"
            | "string"
            | "type"
            | "uint"
            | "optional_type"
    )
}

/// Whether there is a function of this name that is not called on a value.
pub(super) fn is_global(name: &str) -> bool {
    global(name, &[]).is_some()
}

fn numeric(ty: &Ty<'_>) -> bool {
    matches!(ty, Ty::Int | Ty::Uint | Ty::Double)
}

fn dynamic(types: &[Ty<'_>]) -> bool {
    types.iter().any(|ty| matches!(ty, Ty::Dyn))
}

/// The more telling of two types that agree.
fn better<'a>(a: &Ty<'a>, b: &Ty<'a>) -> Ty<'a> {
    match (a, b) {
        (Ty::Dyn, other) => other.clone(),
        (Ty::List(inner), other @ Ty::List(_)) if matches!(**inner, Ty::Dyn) => other.clone(),
        (other, _) => other.clone(),
    }
}

/// The result of an operator.
pub(super) fn operator<'a>(name: &str, args: &[Ty<'a>]) -> Known<'a> {
    Some(match (name, args) {
        (op::LOGICAL_NOT | op::NOT_STRICTLY_FALSE, args) => args
            .iter()
            .all(|ty| matches!(ty, Ty::Bool | Ty::Dyn))
            .then_some(Ty::Bool),
        (op::EQUALS | op::NOT_EQUALS, [a, b]) => a.agrees(b).then_some(Ty::Bool),
        (op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS, [a, b]) => {
            let ordered = match (a, b) {
                (Ty::Dyn, _) | (_, Ty::Dyn) => true,
                (a, b) if numeric(a) && numeric(b) => true,
                (Ty::Bool | Ty::String | Ty::Bytes | Ty::Timestamp | Ty::Duration, b) => {
                    a.agrees(b)
                }
                _ => false,
            };
            ordered.then_some(Ty::Bool)
        }
        (op::CONDITIONAL, [condition, a, b]) => {
            let valid = matches!(condition, Ty::Bool | Ty::Dyn) && a.agrees(b);
            valid.then(|| better(a, b))
        }
        (op::NEGATE, [a]) => matches!(a, Ty::Int | Ty::Double | Ty::Dyn).then(|| a.clone()),
        (op::ADD, [a, b]) => sum(a, b),
        (op::SUBSTRACT, [a, b]) => match (a, b) {
            (Ty::Dyn, _) | (_, Ty::Dyn) => Some(Ty::Dyn),
            (Ty::Timestamp, Ty::Timestamp) | (Ty::Duration, Ty::Duration) => Some(Ty::Duration),
            (Ty::Timestamp, Ty::Duration) => Some(Ty::Timestamp),
            (a, b) => (numeric(a) && a.agrees(b)).then(|| a.clone()),
        },
        (op::MULTIPLY | op::DIVIDE | op::MODULO, [a, b]) => match (a, b) {
            (Ty::Dyn, _) | (_, Ty::Dyn) => Some(Ty::Dyn),
            (Ty::Double, _) if name == op::MODULO => None,
            (a, b) => (numeric(a) && a.agrees(b)).then(|| a.clone()),
        },
        (op::INDEX, [container, key]) => index(container, key),
        (op::OPT_INDEX, [container, key]) => index(container, key).map(|ty| match ty {
            optional @ Ty::Optional(_) => optional,
            other => Ty::Optional(Box::new(other)),
        }),
        (op::IN, [item, container]) => match container {
            Ty::List(of) | Ty::Map(of, _) => item.agrees(of).then_some(Ty::Bool),
            Ty::Dyn => Some(Ty::Bool),
            _ => None,
        },
        _ => return None,
    })
}

fn sum<'a>(a: &Ty<'a>, b: &Ty<'a>) -> Option<Ty<'a>> {
    match (a, b) {
        (Ty::Dyn, _) | (_, Ty::Dyn) => Some(Ty::Dyn),
        (Ty::Timestamp, Ty::Duration) | (Ty::Duration, Ty::Timestamp) => Some(Ty::Timestamp),
        (Ty::String | Ty::Bytes | Ty::Duration | Ty::List(_), b) if a.agrees(b) => {
            Some(better(a, b))
        }
        (a, b) => (numeric(a) && a.agrees(b)).then(|| a.clone()),
    }
}

fn index<'a>(container: &Ty<'a>, key: &Ty<'a>) -> Option<Ty<'a>> {
    match container {
        Ty::Dyn => Some(Ty::Dyn),
        Ty::List(item) => matches!(key, Ty::Int | Ty::Dyn).then(|| (**item).clone()),
        Ty::Map(of, value) => key.agrees(of).then(|| (**value).clone()),
        Ty::Optional(inner) => Some(Ty::Optional(Box::new(index(inner, key)?))),
        _ => None,
    }
}

/// The result of a function that is not called on a value.
pub(super) fn global<'a>(name: &str, args: &[Ty<'a>]) -> Known<'a> {
    let texts = args.iter().all(|ty| matches!(ty, Ty::String | Ty::Dyn));
    let takes = |count: usize| args.len() == count && texts;
    Some(match name {
        "size" => match args {
            [Ty::String | Ty::Bytes | Ty::List(_) | Ty::Map(..) | Ty::Dyn] => Some(Ty::Int),
            _ => None,
        },
        "int" => conversion(args, Ty::Int),
        "uint" => conversion(args, Ty::Uint),
        "double" => conversion(args, Ty::Double),
        "string" => conversion(args, Ty::String),
        "bool" => conversion(args, Ty::Bool),
        "bytes" => conversion(args, Ty::Bytes),
        "type" => Some(Ty::Type),
        "dyn" => Some(Ty::Dyn),
        "duration" => conversion(args, Ty::Duration),
        "timestamp" => conversion(args, Ty::Timestamp),
        "matches" => takes(2).then_some(Ty::Bool),
        "sign" => match args {
            [Ty::Dyn | Ty::Opaque("kubernetes.Quantity")] => Some(Ty::Int),
            _ => None,
        },
        "quantity" => takes(1).then_some(QUANTITY),
        "isQuantity" | "isURL" | "isIP" | "isCIDR" | "ip.isCanonical" => {
            takes(1).then_some(Ty::Bool)
        }
        "url" => takes(1).then_some(URL),
        "ip" => takes(1).then_some(IP),
        "cidr" => takes(1).then_some(CIDR),
        "optional.none" => Some(Ty::Optional(Box::new(Ty::Dyn))),
        "optional.of" | "optional.ofNonZeroValue" => {
            args.first().map(|ty| Ty::Optional(Box::new(ty.clone())))
        }
        "lists.range" => Some(Ty::List(Box::new(Ty::Int))),
        "strings.quote" => takes(1).then_some(Ty::String),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => Some(Ty::Bool),
        "format.named" => takes(1).then(|| Ty::Optional(Box::new(FORMAT))),
        name if name.starts_with("format.") => Some(FORMAT),
        _ => return None,
    })
}

fn conversion<'a>(args: &[Ty<'a>], to: Ty<'a>) -> Option<Ty<'a>> {
    let [from] = args else { return None };
    let valid = match (from, &to) {
        (Ty::Dyn | Ty::String, _) => true,
        (Ty::Int, Ty::Timestamp) | (Ty::Timestamp, Ty::Int) => true,
        (
            Ty::Int | Ty::Uint | Ty::Double | Ty::Bool | Ty::Bytes | Ty::Timestamp | Ty::Duration,
            Ty::String,
        ) => true,
        (Ty::Opaque(_), Ty::String) => true,
        (from, to) if numeric(from) && numeric(to) => true,
        (from, to) => from.agrees(to),
    };
    valid.then_some(to)
}

/// The result of a function that is called on a value.
pub(super) fn member<'a>(name: &str, target: &Ty<'a>, args: &[Ty<'a>]) -> Known<'a> {
    if !MEMBERS.contains(&name) {
        return None;
    }
    if matches!(target, Ty::Dyn) {
        return Some(Some(match name {
            "startsWith" | "endsWith" | "contains" | "matches" | "hasValue" | "isSorted" => {
                Ty::Bool
            }
            "size" => Ty::Int,
            _ => Ty::Dyn,
        }));
    }
    let texts = |count: usize| {
        args.len() == count && args.iter().all(|ty| matches!(ty, Ty::String | Ty::Dyn))
    };
    let strings = || Ty::List(Box::new(Ty::String));
    Some(match (target, name) {
        (Ty::String | Ty::Bytes | Ty::List(_) | Ty::Map(..), "size") => {
            args.is_empty().then_some(Ty::Int)
        }
        (Ty::String, "startsWith" | "endsWith" | "contains" | "matches") => {
            texts(1).then_some(Ty::Bool)
        }
        (Ty::String, "find") => texts(1).then_some(Ty::String),
        (Ty::String, "findAll" | "split") => (!args.is_empty()).then(strings),
        (Ty::String, "indexOf" | "lastIndexOf") => (!args.is_empty()).then_some(Ty::Int),
        (Ty::String, "lowerAscii" | "upperAscii" | "trim" | "reverse") => {
            args.is_empty().then_some(Ty::String)
        }
        (Ty::String, "charAt" | "replace" | "substring" | "format") => {
            (!args.is_empty()).then_some(Ty::String)
        }
        (Ty::List(_), "join") => Some(Ty::String),
        (Ty::List(_), "isSorted") => Some(Ty::Bool),
        (Ty::List(_), "indexOf" | "lastIndexOf") => Some(Ty::Int),
        (Ty::List(item), "sum") => {
            let adds = numeric(item) || matches!(**item, Ty::Duration | Ty::Dyn);
            adds.then(|| (**item).clone())
        }
        (Ty::List(item), "min" | "max") => {
            let ordered = !matches!(**item, Ty::Object(..) | Ty::List(_) | Ty::Map(..));
            ordered.then(|| (**item).clone())
        }
        (Ty::List(_), "distinct" | "reverse" | "sort" | "slice" | "sortBy") => Some(target.clone()),
        (Ty::List(_), "flatten") => Some(Ty::List(Box::new(Ty::Dyn))),
        (Ty::Optional(_), "hasValue") => Some(Ty::Bool),
        (Ty::Optional(inner), "value") => Some((**inner).clone()),
        (Ty::Optional(inner), "orValue") => args
            .first()
            .filter(|ty| ty.agrees(inner))
            .map(|ty| better(inner, ty)),
        (Ty::Optional(_), "or") => Some(target.clone()),
        (Ty::Optional(_), "optMap" | "optFlatMap") => Some(Ty::Optional(Box::new(Ty::Dyn))),
        (Ty::Timestamp | Ty::Duration, name) if name.starts_with("get") => Some(Ty::Int),
        (Ty::Opaque(of), name) => opaque(of, name, args),
        _ => None,
    })
}

fn opaque<'a>(of: &str, name: &str, args: &[Ty<'a>]) -> Option<Ty<'a>> {
    let takes = |wanted: &[Ty<'_>]| {
        let fits = |arg: &Ty<'_>| wanted.iter().any(|ty| ty.agrees(arg));
        args.iter().all(fits)
    };
    let fits = match (of, name) {
        ("kubernetes.Quantity", "add" | "sub") => takes(&[QUANTITY, Ty::Int]),
        ("kubernetes.Quantity", _) => takes(&[QUANTITY]),
        ("net.CIDR", "containsIP") => takes(&[IP, Ty::String]),
        ("net.CIDR", "containsCIDR") => takes(&[CIDR, Ty::String]),
        _ => true,
    };
    if !fits {
        return None;
    }
    Some(match (of, name) {
        ("kubernetes.Quantity", "asInteger" | "compareTo") => Ty::Int,
        ("kubernetes.Quantity", "isInteger" | "isGreaterThan" | "isLessThan") => Ty::Bool,
        ("kubernetes.Quantity", "asApproximateFloat") => Ty::Double,
        ("kubernetes.Quantity", "add" | "sub") => QUANTITY,
        ("kubernetes.URL", "getQuery") => Ty::Map(
            Box::new(Ty::String),
            Box::new(Ty::List(Box::new(Ty::String))),
        ),
        ("kubernetes.URL", name) if name.starts_with("get") => Ty::String,
        ("net.IP", "family") => Ty::Int,
        ("net.IP", name) if name.starts_with("is") => Ty::Bool,
        ("net.CIDR", "containsIP" | "containsCIDR") => Ty::Bool,
        ("net.CIDR", "ip") => IP,
        ("net.CIDR", "masked") => CIDR,
        ("net.CIDR", "prefixLength") => Ty::Int,
        ("kubernetes.NamedFormat", "validate") => {
            Ty::Optional(Box::new(Ty::List(Box::new(Ty::String))))
        }
        _ if dynamic(args) => Ty::Dyn,
        _ => return None,
    })
}

const MEMBERS: [&str; 69] = [
    "add",
    "asApproximateFloat",
    "asInteger",
    "charAt",
    "compareTo",
    "contains",
    "containsCIDR",
    "containsIP",
    "distinct",
    "endsWith",
    "family",
    "find",
    "findAll",
    "flatten",
    "format",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getEscapedPath",
    "getFullYear",
    "getHost",
    "getHostname",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getPort",
    "getQuery",
    "getScheme",
    "getSeconds",
    "hasValue",
    "indexOf",
    "ip",
    "isGlobalUnicast",
    "isGreaterThan",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isSorted",
    "isUnspecified",
    "join",
    "lastIndexOf",
    "lowerAscii",
    "masked",
    "matches",
    "max",
    "min",
    "optFlatMap",
    "optMap",
    "or",
    "orValue",
    "prefixLength",
    "replace",
    "reverse",
    "size",
    "slice",
    "sort",
    "split",
    "startsWith",
    "sub",
    "substring",
    "sum",
    "trim",
    "upperAscii",
    "validate",
    "value",
];
