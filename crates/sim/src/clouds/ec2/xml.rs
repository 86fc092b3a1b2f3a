//! EC2's XML, written.

use std::fmt::Write as _;

/// A document under construction.
#[derive(Default)]
pub(super) struct Xml(pub(super) String);

impl Xml {
    /// `<name>text</name>`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "texts and numbers, borrowed or not"
    )]
    pub(super) fn leaf(&mut self, name: &str, text: impl ToString) {
        let text = text.to_string();
        let text = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        // Writing to a string cannot fail.
        let _ = write!(self.0, "<{name}>{text}</{name}>");
    }

    /// `<name>…</name>`.
    pub(super) fn node(&mut self, name: &str, inside: impl FnOnce(&mut Xml)) {
        let _ = write!(self.0, "<{name}>");
        inside(self);
        let _ = write!(self.0, "</{name}>");
    }
}

/// An answer.
pub(super) fn answer(action: &str, inside: impl FnOnce(&mut Xml)) -> String {
    let mut xml = Xml::default();
    inside(&mut xml);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
         <requestId>00000000-0000-4000-8000-000000000000</requestId>{}</{action}Response>",
        xml.0
    )
}

/// A refusal.
pub(super) fn refusal(code: &str, message: &str) -> String {
    let mut xml = Xml::default();
    xml.node("Response", |xml| {
        xml.node("Errors", |xml| {
            xml.node("Error", |xml| {
                xml.leaf("Code", code);
                xml.leaf("Message", message);
            });
        });
        xml.leaf("RequestID", "00000000-0000-4000-8000-000000000000");
    });
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", xml.0)
}
