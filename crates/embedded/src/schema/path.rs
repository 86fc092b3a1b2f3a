//! Where in an object we are, without allocating until an error needs the text.

use std::fmt;

/// A link in a chain of path segments that lives on the stack of the walk.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Segment<'a> {
    Root(&'a str),
    Child(&'a str),
    Key(&'a str),
    Index(usize),
}

impl Path<'static> {
    /// The object itself.
    pub const ROOT: Self = Path {
        parent: None,
        segment: Segment::Root(""),
    };
}

impl<'a> Path<'a> {
    /// A path that starts with some text, e.g. `spec.versions[0].schema.openAPIV3Schema`.
    pub fn starting(text: &'a str) -> Self {
        Path {
            parent: None,
            segment: Segment::Root(text),
        }
    }

    /// A field: `.name`.
    #[must_use]
    pub fn child(&'a self, name: &'a str) -> Self {
        self.then(Segment::Child(name))
    }

    /// A key of a map: `[name]`.
    #[must_use]
    pub fn key(&'a self, name: &'a str) -> Self {
        self.then(Segment::Key(name))
    }

    /// An item: `[3]`.
    #[must_use]
    pub fn index(&'a self, index: usize) -> Self {
        self.then(Segment::Index(index))
    }

    fn then(&'a self, segment: Segment<'a>) -> Self {
        Path {
            parent: Some(self),
            segment,
        }
    }

    /// Whether this is the object itself.
    pub fn is_root(&self) -> bool {
        matches!(self.segment, Segment::Root(""))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.segment {
            Segment::Root(text) => f.write_str(text),
            Segment::Child(name) => {
                if self.parent.is_some_and(|parent| !parent.is_root()) {
                    f.write_str(".")?;
                }
                f.write_str(name)
            }
            Segment::Key(name) => write!(f, "[{name}]"),
            Segment::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_prints_as_field_path_does() {
        let root = Path::ROOT;
        let spec = root.child("spec");
        let list = spec.child("list");
        let item = list.index(2);
        assert_eq!(item.child("name").to_string(), "spec.list[2].name");
        assert_eq!(spec.key("a/b").to_string(), "spec[a/b]");
        assert_eq!(root.to_string(), "");
        assert_eq!(Path::starting("spec.x").child("y").to_string(), "spec.x.y");
    }
}
