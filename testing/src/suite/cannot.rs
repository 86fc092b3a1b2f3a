//! Specs that Joiner cannot pass, and why.

/// Names and reasons.
const SPECS: [(&str, &str); 2] = [
    (
        "NodeClaim StandaloneNodeClaim should delete a NodeClaim if it references a NodeClass that isn't Ready",
        "forges the `Ready` condition of the class and keeps the controller from writing it; Joiner buys by what it \
         knows of the class, not by the condition that it writes for others.",
    ),
    (
        "Drift should update the nodepool-hash annotation on the nodepool and nodeclaim when the nodepool's \
         nodepool-hash-version annotation does not match the controller hash version",
        "expects the hash of Karpenter's own code, version `v3`; Joiner writes its own hash with its own version \
         (`joiner-v1`), so that neither takes the other's for drift.",
    ),
];

/// Why Joiner cannot pass a spec, if it cannot.
#[must_use]
pub fn cannot_pass(spec: &str) -> Option<&'static str> {
    let known = SPECS.iter().find(|(name, _)| *name == spec);
    known.map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page with the results.
    const PAGE: &str = include_str!("../../../docs/conformance-karpenter.md");

    fn verdict(row: &str) -> Option<(&str, &str)> {
        let mut cells = row.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?, cells.next()?))
    }

    #[test]
    fn the_page_gives_the_reason_of_each_spec_that_cannot_pass() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let page = words(PAGE);
        for (name, reason) in SPECS {
            let said = words(&format!("- *{name}*: {reason}"));
            assert!(page.contains(&said), "the page does not say: {said}");
        }
    }

    #[test]
    fn the_page_holds_a_verdict_of_every_spec() {
        let rows: Vec<_> = PAGE.lines().filter_map(verdict).collect();
        let words = ["passed", "cannot pass", "FAILED", "not run yet"];
        let mut sum = 0;
        for word in words {
            let count = rows.iter().filter(|(_, said)| *said == word).count();
            let said = PAGE.contains(&format!("| {word} | {count} |"));
            assert!(said || count == 0, "{count} specs: {word}");
            sum += count;
        }
        assert_eq!(sum, 99);
        for (name, _) in SPECS {
            assert!(rows.contains(&(name, "cannot pass")), "{name}");
        }
    }
}
