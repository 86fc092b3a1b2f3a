//! Finds the line and column of a field in a JSON text that is already known to be well-formed.

/// One step down into a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a field of an object.
    Field(&'static str),
    /// Into an element of a list.
    Element(usize),
}

/// Line and column, from one, of the value at the end of `steps`, or of the deepest one on the way that is there.
pub(super) fn locate(text: &str, steps: &[Step]) -> (usize, usize) {
    let mut scan = Scan {
        bytes: text.as_bytes(),
        at: 0,
    };
    scan.blank();
    let mut found = scan.at;
    for step in steps {
        if scan.enter(*step).is_none() {
            break;
        }
        found = scan.at;
    }
    let before = text.get(..found).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before.len() - start + 1)
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blank(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Moves from the start of a value to the start of one of its parts.
    fn enter(&mut self, step: Step) -> Option<()> {
        let opened = self.peek()?;
        self.at += 1;
        let mut index = 0;
        loop {
            self.blank();
            match (step, opened) {
                (Step::Field(wanted), b'{') => {
                    let start = self.at;
                    self.value()?;
                    let key = self.bytes.get(start + 1..self.at - 1)?;
                    self.blank();
                    self.at += 1;
                    self.blank();
                    if key == wanted.as_bytes() {
                        return Some(());
                    }
                }
                (Step::Element(wanted), b'[') => {
                    if index == wanted {
                        return Some(());
                    }
                    index += 1;
                }
                _ => return None,
            }
            self.value()?;
            self.blank();
            if self.peek()? != b',' {
                return None;
            }
            self.at += 1;
        }
    }

    /// Moves past a value.
    fn value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => self.string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                _ if depth > 0 => self.at += 1,
                _ => {
                    while self
                        .peek()
                        .is_some_and(|byte| !matches!(byte, b',' | b'}' | b']'))
                    {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        self.at += 1;
        while self.peek()? != b'"' {
            self.at += if self.peek()? == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_on_its_line() {
        let text = "{\n \"a\": {\"x\": \"}\\\"\", \"y\": [1, [2, 3]]},\n \"b\": [ {\"n\": 1},\n  {\"n\": -2} ]\n}";
        let b1 = [Step::Field("b"), Step::Element(1), Step::Field("n")];
        assert_eq!(locate(text, &b1), (4, 9));
        let inner = [Step::Field("a"), Step::Field("y"), Step::Element(1)];
        assert_eq!(locate(text, &inner), (2, 29));
    }

    #[test]
    fn what_is_not_there_is_reported_at_what_should_hold_it() {
        let text = "{\"a\": {\"x\": 1}}";
        assert_eq!(
            locate(text, &[Step::Field("a"), Step::Field("nope")]),
            (1, 7)
        );
        assert_eq!(locate(text, &[Step::Element(3)]), (1, 1));
    }
}
