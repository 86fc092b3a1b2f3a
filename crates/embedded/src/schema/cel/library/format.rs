//! Named formats: `format.dns1123Label().validate(x)`, and `format.named(…)`.

use cel::common::types::{CelOptional, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env};

use super::{Answer, Args, globals, members, opaque, own, text, texts_answer};
use crate::schema::formats;
use crate::schema::pattern;

/// A format as a CEL value, by its name.
#[derive(Clone, Debug)]
pub(super) struct Format(&'static str);

opaque!(Format, FORMAT, "kubernetes.NamedFormat");

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "qualifiedName",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

macro_rules! constructors {
    ($($function:ident => $name:literal),* $(,)?) => {
        $(
            fn $function<'b, 'v>(_: Args<'b, 'v>) -> Answer<'b, 'v> {
                Ok(CowVal::owned(Format($name)))
            }
        )*

        pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
            globals(env, &[$((concat!("format.", $name), $name, &[], $function)),*])?;
            globals(env, &[("format.named", "format_named", &[STRING_TYPE], named)])?;
            members(
                env,
                &[("validate", "format_validate", &FORMAT, &[STRING_TYPE], validate)],
            )
        }
    };
}

constructors! {
    dns1123_label => "dns1123Label",
    dns1123_subdomain => "dns1123Subdomain",
    dns1035_label => "dns1035Label",
    dns1123_label_prefix => "dns1123LabelPrefix",
    dns1123_subdomain_prefix => "dns1123SubdomainPrefix",
    dns1035_label_prefix => "dns1035LabelPrefix",
    qualified_name => "qualifiedName",
    label_value => "labelValue",
    uri => "uri",
    uuid => "uuid",
    byte => "byte",
    date => "date",
    datetime => "datetime",
}

fn named<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let wanted = text(&args, 0)?;
    Ok(CowVal::owned(
        match NAMES.into_iter().find(|name| *name == wanted) {
            Some(name) => CelOptional::of(Box::new(Format(name)) as Box<dyn Val + 'v>),
            None => CelOptional::none(),
        },
    ))
}

/// `optional.none()` if the text is valid, else a list of what is wrong.
fn validate<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let problems = problems(own::<Format>(&args, 0)?.0, text(&args, 1)?);
    if problems.is_empty() {
        return Ok(CowVal::owned(CelOptional::none()));
    }
    let list = texts_answer(problems)?.into_owned();
    Ok(CowVal::owned(CelOptional::of(list)))
}

fn matches(expression: &str, text: &str) -> bool {
    pattern::compile(&format!("^(?:{expression})$")).is_ok_and(|regex| regex.is_match(text))
}

fn problems(format: &str, text: &str) -> Vec<String> {
    const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
    let too_long = |most: usize| format!("must be no more than {most} bytes");
    let mut found = Vec::new();
    let (checked, format) = match format.strip_suffix("Prefix") {
        // A prefix may end in a dash: something is going to follow it.
        Some(format) => (text.trim_end_matches('-'), format),
        None => (text, format),
    };
    match format {
        "dns1123Label" => {
            if text.len() > 63 {
                found.push(too_long(63));
            }
            if !matches(LABEL, checked) {
                found.push("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')".to_owned());
            }
        }
        "dns1123Subdomain" => {
            if text.len() > 253 {
                found.push(too_long(253));
            }
            if !matches(&format!(r"{LABEL}(\.{LABEL})*"), checked) {
                found.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned());
            }
        }
        "dns1035Label" => {
            if text.len() > 63 {
                found.push(too_long(63));
            }
            if !matches("[a-z]([-a-z0-9]*[a-z0-9])?", checked) {
                found.push("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')".to_owned());
            }
        }
        "qualifiedName" => {
            let name = text.rsplit_once('/').map_or(text, |(_, name)| name);
            if text.matches('/').count() > 1 {
                found.push("a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')".to_owned());
                return found;
            }
            if name.is_empty() {
                found.push("name part must be non-empty".to_owned());
            } else if name.len() > 63 {
                found.push(format!("name part {}", too_long(63)));
            }
            if !matches("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", name) {
                found.push("name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')".to_owned());
            }
        }
        "labelValue" => {
            if text.len() > 63 {
                found.push(too_long(63));
            }
            if !matches("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", text) {
                found.push("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')".to_owned());
            }
        }
        other => {
            if formats::conforms(other, text) == Some(false) {
                found.push(format!("invalid {other}"));
            }
        }
    }
    found
}
