//! Reading a request: its path, its query, and what it is about.

use http::Method;

/// A decoded query string. Keys may repeat; the first one counts, as in Go.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(raw: Option<&str>) -> Self {
        let pairs = raw
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key), decode(value))
                })
                .collect(),
        )
    }

    /// The first value of a key, or empty.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map_or("", |(_, value)| value)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// All values of a key.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// Go's idea of a set flag: present, and not `0` or `false`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.has(key) && !matches!(self.get(key).to_lowercase().as_str(), "0" | "false")
    }
}

/// Undoes percent-encoding; malformed escapes stay as they are.
fn decode(text: &str) -> String {
    decode_bytes(&text.replace('+', " "))
}

fn decode_bytes(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = escaped {
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(String),
    /// `/api/v1`, `/apis/<group>/<version>`
    Resources { group: String, version: String },
    /// Objects.
    Objects(Target),
    /// Everything else, as its segments.
    Other(Vec<String>),
}

/// The objects that a path names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    /// Empty for all namespaces and for cluster-scoped resources.
    pub(crate) namespace: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The old `/watch/` prefix.
    pub(crate) watch: bool,
}

impl Route {
    pub(crate) fn parse(path: &str) -> Self {
        let segments: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(decode_bytes)
            .collect();
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["api", version] => Self::Resources {
                group: String::new(),
                version: (*version).to_owned(),
            },
            ["apis", group] => Self::Group((*group).to_owned()),
            ["apis", group, version] => Self::Resources {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
            },
            ["api", version, rest @ ..] => Target::parse("", version, rest)
                .map_or_else(|| Self::Other(segments.clone()), Self::Objects),
            ["apis", group, version, rest @ ..] => Target::parse(group, version, rest)
                .map_or_else(|| Self::Other(segments.clone()), Self::Objects),
            _ => Self::Other(segments),
        }
    }
}

impl Target {
    fn parse(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let mut target = Self {
            group: group.to_owned(),
            version: version.to_owned(),
            watch,
            ..Self::default()
        };
        let rest = match rest {
            // `namespaces/<name>` and its own subresources are about the namespace itself.
            ["namespaces", name, rest @ ..] if !matches!(rest, [] | ["status" | "finalize"]) => {
                (*name).clone_into(&mut target.namespace);
                rest
            }
            rest => rest,
        };
        match rest {
            [plural] => (*plural).clone_into(&mut target.plural),
            [plural, name] => {
                (*plural).clone_into(&mut target.plural);
                target.name = Some((*name).to_owned());
            }
            [plural, name, sub @ ..] => {
                (*plural).clone_into(&mut target.plural);
                target.name = Some((*name).to_owned());
                target.subresource = Some(sub.join("/"));
            }
            [] => return None,
        }
        Some(target)
    }
}

/// What a request does, in the words of RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Follow changes.
    Watch,
    /// Make a new one.
    Create,
    /// Replace one.
    Update,
    /// Change one.
    Patch,
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
}

impl Verb {
    /// The verb of a request for objects; `None` for methods that no resource has.
    pub(crate) fn of(method: &Method, target: &Target, query: &Query) -> Option<Self> {
        let named = target.name.is_some();
        Some(match *method {
            Method::GET if target.watch || query.flag("watch") => Self::Watch,
            Method::GET if named => Self::Get,
            Method::GET => Self::List,
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE if named => Self::Delete,
            Method::DELETE => Self::DeleteCollection,
            _ => return None,
        })
    }

    /// The verb as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether the verb can change anything.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Target {
        match Route::parse(path) {
            Route::Objects(target) => target,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_name_resources_namespaces_and_subresources() {
        let one = target("/api/v1/namespaces/a/pods/x/status");
        assert_eq!((one.namespace.as_str(), one.plural.as_str()), ("a", "pods"));
        assert_eq!(one.subresource.as_deref(), Some("status"));
        let two = target("/api/v1/namespaces/a/finalize");
        assert_eq!(
            (two.plural.as_str(), two.name.as_deref()),
            ("namespaces", Some("a"))
        );
        let three = target("/apis/apps/v1/watch/namespaces/a/deployments");
        assert!(three.watch);
        assert_eq!(three.plural, "deployments");
        assert_eq!(Route::parse("/apis/apps"), Route::Group("apps".into()));
        assert_eq!(
            Route::parse("/version/"),
            Route::Other(vec!["version".into()])
        );
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse(Some("labelSelector=a%3Db%2Cc+in+(d)&watch=1&limit="));
        assert_eq!(query.get("labelSelector"), "a=b,c in (d)");
        assert!(query.flag("watch"));
        assert_eq!(query.get("limit"), "");
        assert_eq!(Query::parse(Some("x=%zz")).get("x"), "%zz");
    }
}
