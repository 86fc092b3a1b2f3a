//! String formats that CRD schemas may ask for; unknown ones are ignored, as the real server ignores them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// Whether `text` has the format, or `None` if the format is not one that the server checks.
pub(crate) fn conforms(format: &str, text: &str) -> Option<bool> {
    // go-openapi looks formats up without their dashes.
    let name = format.replace('-', "");
    let matched = |pattern: &LazyLock<Option<Regex>>| {
        pattern.as_ref().is_some_and(|regex| regex.is_match(text))
    };
    Some(match name.as_str() {
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => matched(&UUID),
        "uuid3" => matched(&UUID3),
        "uuid4" => matched(&UUID4),
        "uuid5" => matched(&UUID5),
        "byte" => is_base64(text),
        "password" => true,
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => matched(&SSN),
        "hexcolor" => matched(&HEX_COLOR),
        "rgbcolor" => matched(&RGB_COLOR),
        "k8sshortname" => is_label(text) && text.len() <= 63,
        "k8slongname" => !text.is_empty() && text.len() <= 253 && text.split('.').all(is_label),
        _ => return None,
    })
}

macro_rules! pattern {
    ($name:ident, $source:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($source).ok());
    };
}

pattern!(
    UUID,
    "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
);
pattern!(
    UUID3,
    "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
);
pattern!(
    UUID4,
    "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"
);
pattern!(
    UUID5,
    "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"
);
pattern!(SSN, "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$");
pattern!(HEX_COLOR, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
pattern!(
    RGB_COLOR,
    r"^rgb\(\s*([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])\s*(,\s*([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])\s*){2}\)$"
);
pattern!(
    HOSTNAME,
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
);
pattern!(
    DATE_TIME,
    "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
);
pattern!(
    CREDIT_CARD,
    "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
);
pattern!(
    BASE64,
    "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"
);
pattern!(SCALA_DURATION, r"([0-9]+)\s*([A-Za-zµ]+)");

fn is_request_uri(text: &str) -> bool {
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let mut letters = scheme.bytes();
    let valid_scheme = letters.next().is_some_and(|b| b.is_ascii_alphabetic())
        && letters.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let printable = !text.bytes().any(|b| b < 0x20 || b == 0x7f);
    let authority = rest
        .strip_prefix("//")
        .and_then(|rest| rest.split(['/', '?', '#']).next());
    valid_scheme && printable && authority.is_none_or(|authority| !authority.contains(' '))
}

fn is_email(text: &str) -> bool {
    // "Name <a@b>" is an address for Go's net/mail too.
    let address = match text.split_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atom = |part: &str| {
        !part.is_empty()
            && part.split('.').all(|atom| {
                !atom.is_empty()
                    && atom.chars().all(|c| {
                        c.is_ascii_alphanumeric()
                            || "!#$%&'*+-/=?^_`{|}~".contains(c)
                            || !c.is_ascii()
                    })
            })
    };
    let quoted = local.len() > 1 && local.starts_with('"') && local.ends_with('"');
    (atom(local) || quoted) && atom(domain)
}

fn is_hostname(text: &str) -> bool {
    HOSTNAME.as_ref().is_some_and(|regex| regex.is_match(text))
        && text.len() <= 255
        && text.split('.').all(|label| label.len() <= 63)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    digits && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let octets = |separator: char, width: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts
                .iter()
                .all(|part| part.len() == width && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    octets(':', 2, &[6, 8, 20]) || octets('-', 2, &[6, 8, 20]) || octets('.', 4, &[3, 4, 10])
}

fn is_base64(text: &str) -> bool {
    BASE64.as_ref().is_some_and(|regex| regex.is_match(text))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    if !is_date(date) {
        return false;
    }
    let Some(found) = DATE_TIME.as_ref().and_then(|regex| regex.captures(time)) else {
        return false;
    };
    let part = |index: usize| found.get(index).map_or("", |m| m.as_str());
    part(1) <= "23" && part(2) <= "59" && part(3) <= "59"
}

/// Go's `time.ParseDuration`, in nanoseconds.
pub(crate) fn parse_go_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(scaled(number, scale)?)?;
        rest = tail;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).ok()
}

fn scaled(number: &str, scale: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut total = whole.checked_mul(scale)?;
    let mut unit = scale;
    for digit in fraction.chars() {
        unit /= 10;
        total += i128::from(digit.to_digit(10)?) * unit;
    }
    Some(total)
}

fn is_duration(text: &str) -> bool {
    // The last name of each unit also matches as a prefix: "seconds" by "second".
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    if parse_go_duration(text).is_some() {
        return true;
    }
    let Some(regex) = SCALA_DURATION.as_ref() else {
        return false;
    };
    regex.captures_iter(text).any(|found| {
        let unit = found
            .get(2)
            .map_or_else(String::new, |unit| unit.as_str().to_lowercase());
        UNITS.iter().any(|names| {
            names.iter().any(|name| unit == *name)
                || names.last().is_some_and(|last| unit.starts_with(last))
        })
    })
}

fn digits_of(text: &str) -> Vec<char> {
    text.chars().filter(|c| !matches!(c, ' ' | '-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_of(text);
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (index, digit) in (1..).zip(&digits) {
        sum += match digit {
            'X' if index == 10 => 100,
            digit => match digit.to_digit(10) {
                Some(digit) => index * digit,
                None => return false,
            },
        };
    }
    sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_of(text);
    if digits.len() != 13 {
        return false;
    }
    let mut sum = 0;
    for (index, digit) in digits.iter().enumerate() {
        let Some(digit) = digit.to_digit(10) else {
            return false;
        };
        sum += if index % 2 == 0 { digit } else { 3 * digit };
    }
    sum % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD
        .as_ref()
        .is_some_and(|regex| regex.is_match(&digits))
    {
        return false;
    }
    let mut sum = 0;
    for (index, digit) in digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
    {
        let doubled = if index % 2 == 1 { digit * 2 } else { digit };
        sum += if doubled > 9 { doubled - 9 } else { doubled };
    }
    sum % 10 == 0
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| inner(*b))
        && bytes.last().is_some_and(|b| inner(*b))
        && bytes.iter().all(|b| inner(*b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse_what_go_openapi_does() {
        let cases = [
            ("date-time", "2024-05-01T10:00:00Z", true),
            ("date-time", "2024-05-01T10:00:00.123+02:00", true),
            ("date-time", "2024-05-01 10:00:00Z", false),
            ("date-time", "2024-13-01T10:00:00Z", false),
            ("date", "2024-02-29", true),
            ("date", "2023-02-29", false),
            ("duration", "1h30m", true),
            ("duration", "10 seconds", true),
            ("duration", "soon", false),
            ("ipv4", "10.0.0.1", true),
            ("ipv4", "10.0.0", false),
            ("ipv6", "fe80::1", true),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("mac", "00:11:22:33:44:55", true),
            ("mac", "00:11:22:33:44", false),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
            ("byte", "aGVsbG8=", true),
            ("byte", "a b", false),
            ("hostname", "example.com", true),
            ("hostname", "-bad", false),
            ("uri", "https://example.com/x", true),
            ("uri", "example", false),
            ("email", "a@example.com", true),
            ("email", "a.example.com", false),
            ("isbn", "978-0321751041", true),
            ("k8s-short-name", "abc-1", true),
            ("k8s-short-name", "Abc", false),
            ("k8s-long-name", "a.b-c.d", true),
        ];
        for (format, text, valid) in cases {
            assert_eq!(conforms(format, text), Some(valid), "{format} {text}");
        }
        assert_eq!(conforms("int32", "x"), None);
    }

    #[test]
    fn go_durations_parse_to_nanoseconds() {
        assert_eq!(parse_go_duration("1h30m"), Some(5_400_000_000_000));
        assert_eq!(parse_go_duration("-1.5s"), Some(-1_500_000_000));
        assert_eq!(parse_go_duration("0"), Some(0));
        assert_eq!(parse_go_duration("1"), None);
        assert_eq!(parse_go_duration(""), None);
        assert_eq!(parse_go_duration("1d"), None);
    }
}
