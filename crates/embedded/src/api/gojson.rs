//! JSON as Go's decoder reads it, complaints included.
//!
//! Parsing is serde's. Only when it fails is the text scanned again, for the sentence that Go's
//! `encoding/json` says about the first bad byte.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses, or says in Go's words what is wrong.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice::<Merged>(bytes)
        .map(|Merged(value)| value)
        .map_err(|error| complaint(bytes).unwrap_or_else(|| error.to_string()))
}

/// A value in which an object that is given twice is one object: Go reads the second into the first.
struct Merged(Value);

impl<'de> Deserialize<'de> for Merged {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MergedVisitor).map(Merged)
    }
}

struct MergedVisitor;

/// Whole floats up to here are integers without loss.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;

impl<'de> Visitor<'de> for MergedVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // Go writes a whole float as an integer, so that is what it is from here on.
        if value.fract() == 0.0 && value.abs() < LARGEST_WHOLE {
            return Ok(crate::schema::number::truncate(value).into());
        }
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Merged(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Merged(value))) = entries.next_entry::<String, Merged>()? {
            match (map.get_mut(&key), value) {
                (Some(Value::Object(first)), Value::Object(second)) => first.extend(second),
                (_, value) => {
                    map.insert(key, value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

/// The name that Go's decoder has for the type of a value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

const END: &str = "unexpected end of JSON input";

fn complaint(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.document().err()
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

type Scan = Result<(), String>;

impl Scanner<'_> {
    fn skip_space(&mut self) {
        while self
            .bytes
            .get(self.at)
            .is_some_and(|byte| b" \t\r\n".contains(byte))
        {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The complaint about the byte here, or about the end.
    fn bad(&self, context: &str) -> Scan {
        match self.peek() {
            None => Err(END.to_owned()),
            Some(byte) => Err(format!("invalid character {} {context}", quote(byte))),
        }
    }

    fn document(&mut self) -> Scan {
        self.value()?;
        self.skip_space();
        if self.peek().is_some() {
            return self.bad("after top-level value");
        }
        Ok(())
    }

    fn value(&mut self) -> Scan {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.bad("looking for beginning of value"),
        }
    }

    fn object(&mut self) -> Scan {
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return self.bad("looking for beginning of object key string");
            }
            self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return self.bad("after object key");
            }
            self.at += 1;
            self.value()?;
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.bad("after object key:value pair"),
            }
        }
    }

    fn array(&mut self) -> Scan {
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value()?;
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.bad("after array element"),
            }
        }
    }

    fn string(&mut self) -> Scan {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    if !self
                        .peek()
                        .is_some_and(|byte| b"bfnrt\\/\"u".contains(&byte))
                    {
                        return self.bad("in string escape code");
                    }
                    self.at += 1;
                }
                Some(byte) if byte < 0x20 => return self.bad("in string literal"),
                Some(_) => self.at += 1,
                None => return Err(END.to_owned()),
            }
        }
    }

    fn literal(&mut self, word: &str) -> Scan {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let wanted = char::from(expected);
                return self.bad(&format!("in literal {word} (expecting '{wanted}')"));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn digits(&mut self) -> bool {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > from
    }

    fn number(&mut self) -> Scan {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else if !self.digits() {
            return self.bad("in numeric literal");
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.digits() {
                return self.bad("after decimal point in numeric literal");
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !self.digits() {
                return self.bad("in exponent of numeric literal");
            }
        }
        Ok(())
    }
}

/// A byte as Go quotes it in a complaint.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        0x20..=0x7e | 0xa1.. => format!("'{}'", char::from(byte)),
        _ => format!("'\\x{byte:02x}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_gos() {
        for (text, why) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\"", "unexpected end of JSON input"),
            (
                "not json",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
            (
                "{a:1}",
                "invalid character 'a' looking for beginning of object key string",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 \"b\":2}",
                "invalid character '\"' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
            (
                "{\"a\":x}",
                "invalid character 'x' looking for beginning of value",
            ),
            ("01", "invalid character '1' after top-level value"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), why, "{text}");
        }
        assert!(parse(b"{\"a\": [1, 2.5e3, null, true]}").is_ok());
    }
}
