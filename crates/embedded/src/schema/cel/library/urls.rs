//! URLs: `url('https://host:1/path?q=1')` and its parts.

use std::collections::{BTreeMap, HashMap};

use cel::common::types::{CelList, CelMap, CelMapKey, CelString, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env};

use super::{Answer, Args, bool_answer, failure, globals, members, opaque, own, text, text_answer};

/// The parts of an absolute URL or an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

/// A URL as a CEL value.
#[derive(Clone, Debug)]
pub(super) struct Url(Parts);

opaque!(Url, URL, "kubernetes.URL");

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    globals(
        env,
        &[
            ("url", "string_to_url", &[STRING_TYPE], new_url),
            ("isURL", "is_url_string", &[STRING_TYPE], is_url),
        ],
    )?;
    members(
        env,
        &[
            ("getScheme", "url_get_scheme", &URL, &[], scheme),
            ("getHost", "url_get_host", &URL, &[], host),
            ("getHostname", "url_get_hostname", &URL, &[], hostname),
            ("getPort", "url_get_port", &URL, &[], port),
            ("getEscapedPath", "url_get_escaped_path", &URL, &[], path),
            ("getQuery", "url_get_query", &URL, &[], query),
        ],
    )
}

/// Absolute URIs and absolute paths only, as Go's `url.ParseRequestURI` has it.
fn parse(text: &str) -> Option<Parts> {
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return None;
    }
    let (text, query) = text.split_once('?').unwrap_or((text, ""));
    let parts = |scheme: &str, host: &str, path: &str| {
        Some(Parts {
            scheme: scheme.to_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        })
    };
    if text.starts_with('/') {
        return parts("", "", text);
    }
    let (scheme, rest) = text.split_once(':')?;
    let mut letters = scheme.bytes();
    let valid = letters.next().is_some_and(|b| b.is_ascii_alphabetic())
        && letters.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if !valid {
        return None;
    }
    let Some(rest) = rest.strip_prefix("//") else {
        return parts(scheme, "", if rest.starts_with('/') { rest } else { "" });
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let port = host.rsplit_once(':').filter(|_| !host.ends_with(']'));
    let numeric = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if port.is_some_and(|(_, port)| !numeric(port)) {
        return None;
    }
    parts(scheme, host, path)
}

fn new_url<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let text = text(&args, 0)?;
    let parts = parse(text).ok_or_else(|| {
        failure(format!(
            "URL parse error during conversion from string: parse {text:?}: invalid URI for request"
        ))
    })?;
    Ok(CowVal::owned(Url(parts)))
}

fn is_url<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    bool_answer(parse(text(&args, 0)?).is_some())
}

fn scheme<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    text_answer(own::<Url>(&args, 0)?.0.scheme.clone())
}

fn host<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    text_answer(own::<Url>(&args, 0)?.0.host.clone())
}

fn split_host(host: &str) -> (&str, &str) {
    if let Some(rest) = host.strip_prefix('[')
        && let Some((address, port)) = rest.split_once(']')
    {
        return (address, port.strip_prefix(':').unwrap_or_default());
    }
    host.rsplit_once(':').unwrap_or((host, ""))
}

fn hostname<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    text_answer(split_host(&own::<Url>(&args, 0)?.0.host).0.to_owned())
}

fn port<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    text_answer(split_host(&own::<Url>(&args, 0)?.0.host).1.to_owned())
}

fn path<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    text_answer(own::<Url>(&args, 0)?.0.path.clone())
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let value = std::str::from_utf8(&digits)
                    .ok()
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok());
                bytes.extend(value);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn query<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let mut values: BTreeMap<String, Vec<Box<dyn Val + 'v>>> = BTreeMap::new();
    let query = &own::<Url>(&args, 0)?.0.query;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = Box::new(CelString::from(decode(value)));
        values.entry(decode(name)).or_default().push(value);
    }
    let map: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> = values
        .into_iter()
        .map(|(name, values)| {
            let list: Box<dyn Val + 'v> = Box::new(CelList::from(values));
            (CelMapKey::from(name), list)
        })
        .collect();
    Ok(CowVal::owned(CelMap::from(map)))
}
