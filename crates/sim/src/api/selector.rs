//! Label selectors, as strings of a query and as `metav1.LabelSelector`, and field selectors.

use std::fmt::Write as _;

use serde_json::Value;

/// One requirement of a label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

/// A conjunction of requirements on labels. The default matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
    matches_nothing: bool,
}

impl LabelSelector {
    /// Parses `a=b,c in (d,e),!f`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            tokens: tokenize(text),
            at: 0,
        };
        let requirements = parser.selector()?;
        Ok(Self {
            requirements,
            matches_nothing: false,
        })
    }

    /// Reads a `metav1.LabelSelector`; a missing one matches nothing, an empty one everything.
    pub(crate) fn from_object(selector: &Value) -> Self {
        if !selector.is_object() {
            return Self {
                requirements: Vec::new(),
                matches_nothing: true,
            };
        }
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let test = Test::In(vec![value.as_str().unwrap_or_default().to_owned()]);
            requirements.push(Requirement {
                key: key.clone(),
                test,
            });
        }
        let mut matches_nothing = false;
        for expression in selector["matchExpressions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let values = || {
                expression["values"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|value| value.as_str().map(str::to_owned))
                    .collect()
            };
            let test = match expression["operator"].as_str() {
                Some("In") => Test::In(values()),
                Some("NotIn") => Test::NotIn(values()),
                Some("Exists") => Test::Exists,
                Some("DoesNotExist") => Test::DoesNotExist,
                _ => {
                    matches_nothing = true;
                    continue;
                }
            };
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement { key, test });
        }
        Self {
            requirements,
            matches_nothing,
        }
    }

    /// Whether every object passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty() && !self.matches_nothing
    }

    /// Whether the labels (a JSON object, or nothing) pass.
    pub(crate) fn matches(&self, labels: &Value) -> bool {
        !self.matches_nothing
            && self.requirements.iter().all(|requirement| {
                requirement.matches(labels.get(&requirement.key).and_then(Value::as_str))
            })
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::GreaterThan(limit) => number().is_some_and(|number| number > *limit),
            Test::LessThan(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
}

fn tokenize(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", "<", ">"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let end = rest
                .find(|c: char| c.is_whitespace() || "=!(),<>".contains(c))
                .unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        while self.peek().is_some() {
            match self.peek() {
                Some(Token::Word(_) | Token::Symbol("!")) => {}
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.map(shown).unwrap_or_default()
                    ));
                }
            }
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next() {
                None => break,
                Some(Token::Symbol(",")) => {
                    if self.peek().is_none() {
                        return Err("found '', expected: identifier after ','".to_owned());
                    }
                }
                Some(other) => {
                    return Err(format!(
                        "found '{}', expected: ',' or 'end of string'",
                        shown(&other)
                    ));
                }
            }
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(requirements)
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Some(&Token::Symbol("!"));
        if negated {
            self.next();
        }
        let key = match self.next() {
            Some(Token::Word(word)) => word,
            Some(other) => {
                return Err(format!(
                    "found '{}', expected: !, identifier, or 'end of string'",
                    shown(&other)
                ));
            }
            None => return Err("found '', expected: identifier".to_owned()),
        };
        check_key(&key)?;
        let test = if negated {
            Test::DoesNotExist
        } else {
            self.test(&key)?
        };
        Ok(Requirement { key, test })
    }

    fn test(&mut self, key: &str) -> Result<Test, String> {
        match self.peek() {
            None | Some(Token::Symbol(",")) => return Ok(Test::Exists),
            _ => {}
        }
        match self.next() {
            Some(Token::Symbol("=" | "==")) => self.exact(key).map(|value| Test::In(vec![value])),
            Some(Token::Symbol("!=")) => self.exact(key).map(|value| Test::NotIn(vec![value])),
            Some(Token::Symbol(symbol @ ("<" | ">"))) => {
                let value = self.exact(key)?;
                let limit = value.parse().map_err(|_| {
                    format!(
                        "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                    )
                })?;
                Ok(if symbol == ">" {
                    Test::GreaterThan(limit)
                } else {
                    Test::LessThan(limit)
                })
            }
            Some(Token::Word(word)) if word == "in" => self.values(key).map(Test::In),
            Some(Token::Word(word)) if word == "notin" => self.values(key).map(Test::NotIn),
            Some(other) => Err(format!(
                "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                shown(&other)
            )),
            None => Ok(Test::Exists),
        }
    }

    fn exact(&mut self, key: &str) -> Result<String, String> {
        match self.peek() {
            Some(Token::Word(_)) => {
                let Some(Token::Word(value)) = self.next() else {
                    return Ok(String::new());
                };
                check_value(key, &value)?;
                Ok(value)
            }
            None | Some(Token::Symbol(",")) => Ok(String::new()),
            Some(other) => Err(format!("found '{}', expected: identifier", shown(other))),
        }
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.next() {
            Some(Token::Symbol("(")) => {}
            other => {
                return Err(format!(
                    "found '{}' expected: '('",
                    other.as_ref().map(shown).unwrap_or_default()
                ));
            }
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Some(Token::Word(value)) => {
                    check_value(key, &value)?;
                    values.push(value);
                    match self.next() {
                        Some(Token::Symbol(",")) => {}
                        Some(Token::Symbol(")")) => break,
                        other => {
                            return Err(format!(
                                "found '{}', expected: ',' or ')'",
                                other.as_ref().map(shown).unwrap_or_default()
                            ));
                        }
                    }
                }
                Some(Token::Symbol(",")) => values.push(String::new()),
                Some(Token::Symbol(")")) => {
                    values.push(String::new());
                    break;
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: ',', ')' or identifier",
                        other.as_ref().map(shown).unwrap_or_default()
                    ));
                }
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Word(word) => word.clone(),
        Token::Symbol(symbol) => (*symbol).to_owned(),
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let problems = super::names::qualified_name(key);
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!(
        "key: Invalid value: {key:?}: {}",
        problems.join("; ")
    ))
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    let problems = super::names::label_value(value);
    if problems.is_empty() {
        return Ok(());
    }
    let mut text = String::new();
    let _ = write!(
        text,
        "values[0][{key}]: Invalid value: {value:?}: {}",
        problems.join("; ")
    );
    Err(text)
}

/// A conjunction of `path=value` and `path!=value`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    requirements: Vec<(String, bool, String)>,
}

impl FieldSelector {
    /// Parses `metadata.name=x,spec.nodeName!=y`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let found = [("!=", false), ("==", true), ("=", true)]
                .iter()
                .filter_map(|(operator, equal)| {
                    part.find(operator).map(|at| (at, operator.len(), *equal))
                })
                .min_by_key(|(at, len, _)| (*at, std::cmp::Reverse(*len)));
            let Some((at, len, equal)) = found else {
                return Err(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                ));
            };
            requirements.push((part[..at].to_owned(), equal, part[at + len..].to_owned()));
        }
        Ok(Self { requirements })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The fields that are asked about.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|(field, ..)| field.as_str())
    }

    /// Demands one name.
    pub(crate) fn name(name: &str) -> Self {
        Self {
            requirements: vec![("metadata.name".to_owned(), true, name.to_owned())],
        }
    }

    /// Whether an object passes; `read` gives the text of a field.
    pub(crate) fn matches(&self, read: impl Fn(&str) -> String) -> bool {
        self.requirements
            .iter()
            .all(|(field, equal, value)| (read(field) == *value) == *equal)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(selector: &str, labels: &Value) -> bool {
        LabelSelector::parse(selector).unwrap().matches(labels)
    }

    #[test]
    fn set_based_and_equality_requirements_combine() {
        let labels = json!({"app": "web", "tier": "front", "n": "5"});
        for yes in [
            "",
            "app=web",
            "app==web,tier in (front, back)",
            "!x",
            "app,tier!=back",
            "x notin (a)",
            "n>4",
            "app in (web,)",
        ] {
            assert!(matches(yes, &labels), "{yes}");
        }
        for no in ["app=db", "x", "!app", "tier notin (front)", "n<5", "app="] {
            assert!(!matches(no, &labels), "{no}");
        }
    }

    #[test]
    fn malformed_selectors_are_refused() {
        for bad in [
            "app in web",
            "app in (web",
            "=x",
            "a=b=c",
            "a b",
            "-a=b",
            "n>x",
            "a=b,",
        ] {
            assert!(LabelSelector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn object_selector_distinguishes_missing_from_empty() {
        assert!(!LabelSelector::from_object(&Value::Null).matches(&json!({"a": "b"})));
        assert!(LabelSelector::from_object(&json!({})).matches(&json!({"a": "b"})));
        let selector =
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]});
        assert!(LabelSelector::from_object(&selector).matches(&Value::Null));
    }

    #[test]
    fn field_selectors_compare_text() {
        let selector = FieldSelector::parse("metadata.name=x,spec.nodeName!=").unwrap();
        let read = |field: &str| {
            if field == "metadata.name" {
                "x".to_owned()
            } else {
                "n1".to_owned()
            }
        };
        assert!(selector.matches(read));
        assert!(FieldSelector::parse("nonsense").is_err());
    }
}
