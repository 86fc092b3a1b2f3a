//! Addresses: `ip('10.0.0.1')` and `cidr('10.0.0.0/8')`.

use std::net::IpAddr;

use cel::common::types::STRING_TYPE;
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};

use super::{
    Answer, Args, bool_answer, failure, globals, int_answer, members, opaque, own, text,
    text_answer,
};

/// An address as a CEL value.
#[derive(Clone, Debug)]
pub(super) struct Ip(IpAddr);

opaque!(Ip, IP, "net.IP");

/// A network as a CEL value: its address as written, and the length of the prefix.
#[derive(Clone, Debug)]
pub(super) struct Cidr((IpAddr, u8));

opaque!(Cidr, CIDR, "net.CIDR");

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    let text = &[STRING_TYPE];
    globals(
        env,
        &[
            ("ip", "string_to_ip", text, new_ip),
            ("isIP", "is_ip", text, is_ip),
            ("ip.isCanonical", "ip_is_canonical", text, is_canonical),
            ("cidr", "string_to_cidr", text, new_cidr),
            ("isCIDR", "is_cidr", text, is_cidr),
            ("string", "ip_to_string", &[IP.to_owned()], ip_text),
            ("string", "cidr_to_string", &[CIDR.to_owned()], cidr_text),
        ],
    )?;
    members(
        env,
        &[
            ("family", "ip_family", &IP, &[], family),
            (
                "isUnspecified",
                "ip_is_unspecified",
                &IP,
                &[],
                is_unspecified,
            ),
            ("isLoopback", "ip_is_loopback", &IP, &[], is_loopback),
            (
                "isLinkLocalMulticast",
                "ip_llm",
                &IP,
                &[],
                is_link_local_multicast,
            ),
            (
                "isLinkLocalUnicast",
                "ip_llu",
                &IP,
                &[],
                is_link_local_unicast,
            ),
            ("isGlobalUnicast", "ip_global", &IP, &[], is_global_unicast),
            (
                "containsIP",
                "cidr_contains_ip_string",
                &CIDR,
                text,
                contains_ip_text,
            ),
            (
                "containsIP",
                "cidr_contains_ip",
                &CIDR,
                &[IP.to_owned()],
                contains_ip,
            ),
            (
                "containsCIDR",
                "cidr_contains_cidr_string",
                &CIDR,
                text,
                contains_cidr_text,
            ),
            (
                "containsCIDR",
                "cidr_contains_cidr",
                &CIDR,
                &[CIDR.to_owned()],
                contains_cidr,
            ),
            ("ip", "cidr_ip", &CIDR, &[], cidr_ip),
            ("masked", "cidr_masked", &CIDR, &[], masked),
            (
                "prefixLength",
                "cidr_prefix_length",
                &CIDR,
                &[],
                prefix_length,
            ),
        ],
    )
}

fn parse_ip(text: &str) -> Result<IpAddr, ExecutionError> {
    let bad = |why: &str| {
        failure(format!(
            "IP Address {text:?} parse error during conversion from string: {why}"
        ))
    };
    let address: IpAddr = text
        .parse()
        .map_err(|_| bad(&format!("ParseAddr({text:?}): unable to parse IP")))?;
    if let IpAddr::V6(v6) = address
        && v6.to_ipv4_mapped().is_some()
    {
        return Err(bad("IPv4-mapped IPv6 address is not allowed"));
    }
    Ok(address)
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), ExecutionError> {
    let bad = || {
        failure(format!(
            "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix({text:?}): no '/'"
        ))
    };
    let (address, bits) = text.split_once('/').ok_or_else(bad)?;
    let address = parse_ip(address)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    match bits.parse::<u8>() {
        Ok(length) if length <= most => Ok((address, length)),
        _ => Err(failure(format!(
            "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix({text:?}): prefix length out of range"
        ))),
    }
}

fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

fn holds((network, length): (IpAddr, u8), address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && mask(network, length) == mask(address, length)
}

fn new_ip<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(Ip(parse_ip(text(&args, 0)?)?)))
}

fn is_ip<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(parse_ip(text(&args, 0)?).is_ok())
}

fn is_canonical<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let text = text(&args, 0)?;
    bool_answer(parse_ip(text)?.to_string() == text)
}

fn new_cidr<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(Cidr(parse_cidr(text(&args, 0)?)?)))
}

fn is_cidr<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(parse_cidr(text(&args, 0)?).is_ok())
}

fn ip_text<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    text_answer(own::<Ip>(&args, 0)?.0.to_string())
}

fn cidr_text<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (address, length) = own::<Cidr>(&args, 0)?.0;
    text_answer(format!("{address}/{length}"))
}

fn family<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    int_answer(if own::<Ip>(&args, 0)?.0.is_ipv4() {
        4
    } else {
        6
    })
}

fn is_unspecified<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(own::<Ip>(&args, 0)?.0.is_unspecified())
}

fn is_loopback<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(own::<Ip>(&args, 0)?.0.is_loopback())
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn is_link_local_unicast<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(link_local_unicast(own::<Ip>(&args, 0)?.0))
}

fn is_link_local_multicast<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(match own::<Ip>(&args, 0)?.0 {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => v6
            .segments()
            .first()
            .is_some_and(|first| first & 0xff0f == 0xff02),
    })
}

fn is_global_unicast<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let address = own::<Ip>(&args, 0)?.0;
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    bool_answer(
        !address.is_unspecified()
            && !address.is_loopback()
            && !address.is_multicast()
            && !broadcast
            && !link_local_unicast(address),
    )
}

fn contains_ip_text<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(holds(own::<Cidr>(&args, 0)?.0, parse_ip(text(&args, 1)?)?))
}

fn contains_ip<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(holds(own::<Cidr>(&args, 0)?.0, own::<Ip>(&args, 1)?.0))
}

fn contains(outer: (IpAddr, u8), inner: (IpAddr, u8)) -> bool {
    outer.1 <= inner.1 && holds(outer, inner.0)
}

fn contains_cidr_text<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(contains(
        own::<Cidr>(&args, 0)?.0,
        parse_cidr(text(&args, 1)?)?,
    ))
}

fn contains_cidr<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(contains(own::<Cidr>(&args, 0)?.0, own::<Cidr>(&args, 1)?.0))
}

fn cidr_ip<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(Ip(own::<Cidr>(&args, 0)?.0.0)))
}

fn masked<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (address, length) = own::<Cidr>(&args, 0)?.0;
    Ok(CowVal::owned(Cidr((mask(address, length), length))))
}

fn prefix_length<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    int_answer(i64::from(own::<Cidr>(&args, 0)?.0.1))
}
