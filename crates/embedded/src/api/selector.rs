//! Label selectors and field selectors as a query writes them.

use crate::selector::{Operator, Requirement, Selector};

/// Parses `a=b,c in (d,e),!f`; an empty text selects everything.
pub(crate) fn parse_labels(text: &str) -> Result<Selector, String> {
    let mut parser = Parser {
        tokens: tokenize(text),
        at: 0,
    };
    parser.selector().map(Selector::all)
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
        let (operator, values) = if negated {
            (Operator::DoesNotExist, Vec::new())
        } else {
            self.test(&key)?
        };
        Ok(Requirement {
            key,
            operator,
            values,
        })
    }

    fn test(&mut self, key: &str) -> Result<(Operator, Vec<String>), String> {
        let exists = || Ok((Operator::Exists, Vec::new()));
        match self.peek() {
            None | Some(Token::Symbol(",")) => return exists(),
            _ => {}
        }
        match self.next() {
            Some(Token::Symbol("=" | "==")) => Ok((Operator::In, vec![self.exact(key)?])),
            Some(Token::Symbol("!=")) => Ok((Operator::NotIn, vec![self.exact(key)?])),
            Some(Token::Symbol(symbol @ ("<" | ">"))) => {
                let value = self.exact(key)?;
                if value.parse::<i64>().is_err() {
                    return Err(format!(
                        "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                    ));
                }
                let operator = if symbol == ">" {
                    Operator::Gt
                } else {
                    Operator::Lt
                };
                Ok((operator, vec![value]))
            }
            Some(Token::Word(word)) if word == "in" => Ok((Operator::In, self.values(key)?)),
            Some(Token::Word(word)) if word == "notin" => Ok((Operator::NotIn, self.values(key)?)),
            Some(other) => Err(format!(
                "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                shown(&other)
            )),
            None => exists(),
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
    Err(format!(
        "values[0][{key}]: Invalid value: {value:?}: {}",
        problems.join("; ")
    ))
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
    use serde_json::{Value, json};

    use super::*;

    fn matches(selector: &str, labels: &Value) -> bool {
        parse_labels(selector).unwrap().matches(labels)
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
            assert!(parse_labels(bad).is_err(), "{bad}");
        }
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
