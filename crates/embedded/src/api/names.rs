//! The rules for names, labels and the like, with the sentences that the real server says.
//!
//! Each function returns what is wrong; nothing means all is well
//! (`k8s.io/apimachinery/pkg/util/validation`).

const LABEL_1123: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// `<what> (e.g. 'x', regex used for validation is 'y')`.
fn regex_error(what: &str, regex: &str, examples: &[&str]) -> String {
    let shown: Vec<String> = examples
        .iter()
        .map(|example| format!("'{example}'"))
        .collect();
    format!(
        "{what} (e.g. {}, regex used for validation is '{regex}')",
        shown.join(",  or ")
    )
}

fn lower_alphanumeric(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn ends(text: &str, ok: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(&ok) && bytes.last().copied().is_some_and(&ok)
}

fn is_label_1123(text: &str) -> bool {
    ends(text, lower_alphanumeric) && text.bytes().all(|c| lower_alphanumeric(c) || c == b'-')
}

/// A DNS label: namespaces, containers, most parts of names.
pub(crate) fn dns1123_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label_1123(text) {
        problems.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            regex_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_1123,
                &["my-name", "123-abc"],
            )
        });
    }
    problems
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label_1123)
}

/// A DNS subdomain: the names of most objects.
pub(crate) fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !is_subdomain(text) {
        problems.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            &format!("{LABEL_1123}(\\.{LABEL_1123})*"),
            &["example.com"],
        ));
    }
    problems
}

/// The older DNS label that may not begin with a digit: services.
pub(crate) fn dns1035_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    let begins = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !(begins && is_label_1123(text)) {
        problems.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    problems
}

/// A name that is a segment of a path: RBAC objects.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|bad| text.contains(**bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

fn is_qualified_part(text: &str) -> bool {
    ends(text, |c| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
}

const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// `name` or `prefix/name`: keys of labels, annotations, taints, resources, finalizers.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(
                    dns1123_subdomain(prefix)
                        .into_iter()
                        .map(|problem| format!("prefix part {problem}")),
                );
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                regex_error(
                    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                    QUALIFIED,
                    &["MyName", "my.name", "123-abc"],
                )
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63)));
    }
    if !is_qualified_part(name) {
        problems.push(format!(
            "name part {}",
            regex_error(
                "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                QUALIFIED,
                &["MyName", "my.name", "123-abc"],
            )
        ));
    }
    problems
}

/// The value of a label.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !text.is_empty() && !is_qualified_part(text) {
        problems.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    problems
}

/// A key of a `ConfigMap` or Secret.
pub(crate) fn config_map_key(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if text.is_empty()
        || !text
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
    {
        problems.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    if text == "." {
        problems.push("must not be '.'".to_owned());
    } else if text == ".." {
        problems.push("must not be '..'".to_owned());
    } else if text.starts_with("..") {
        problems.push("must not start with '..'".to_owned());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass_and_bad_ones_do_not() {
        assert!(dns1123_label("my-name").is_empty());
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert!(dns1123_subdomain("a.b-c.d").is_empty());
        for bad in ["", "A", "-a", "a-", "a..b", "a_b"] {
            assert!(!dns1123_subdomain(bad).is_empty(), "{bad}");
        }
        assert!(dns1035_label("a1").is_empty());
        assert!(!dns1035_label("1a").is_empty());
        assert!(qualified_name("example.com/My.Name_1").is_empty());
        assert!(!qualified_name("a/b/c").is_empty());
        assert!(!qualified_name("/b").is_empty());
        assert!(label_value("").is_empty());
        assert!(!label_value("a b").is_empty());
        assert!(config_map_key("..x").len() == 1);
    }

    #[test]
    fn the_subdomain_sentence_is_the_real_one() {
        assert_eq!(
            dns1123_subdomain("A")[0],
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        );
    }
}
