//! How many nodes a disruption budget lets go: `3` or `10%`.

use thiserror::Error;

use super::written;

/// Why a text is not a number of nodes.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a number of nodes: write a count such as 3, or a percentage from 0% to 100%")]
pub struct BudgetNodesError(String);

/// A number of nodes, absolute or in proportion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCount {
    /// So many.
    Nodes(u32),
    /// So many in a hundred, rounded up.
    Percent(u8),
}

written! {
    /// A count (`3`) or a percentage (`10%`) of nodes.
    BudgetNodes
}

impl BudgetNodes {
    /// What it means.
    pub fn get(&self) -> Result<NodeCount, BudgetNodesError> {
        let error = || BudgetNodesError(self.0.clone());
        // `parse` would take a plus sign, which the API does not.
        if !self.0.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(error());
        }
        match self.0.strip_suffix('%') {
            Some(percent) => percent
                .parse()
                .ok()
                .filter(|percent| *percent <= 100 && self.0.len() <= 4)
                .map(NodeCount::Percent),
            None => self.0.parse().ok().map(NodeCount::Nodes),
        }
        .ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_percentages_are_told_apart() {
        assert_eq!(BudgetNodes::from("3").get(), Ok(NodeCount::Nodes(3)));
        assert_eq!(BudgetNodes::from("0").get(), Ok(NodeCount::Nodes(0)));
        assert_eq!(BudgetNodes::from("10%").get(), Ok(NodeCount::Percent(10)));
        assert_eq!(BudgetNodes::from("100%").get(), Ok(NodeCount::Percent(100)));
    }

    #[test]
    fn what_the_api_refuses_is_refused() {
        for text in [
            "",
            "%",
            "101%",
            "150%",
            "0010%",
            "-1",
            "+3",
            "1.5",
            "1.5%",
            "ten",
            "99999999999",
        ] {
            let error = BudgetNodes::from(text).get().unwrap_err();
            assert!(error.to_string().contains(text), "{text}");
        }
    }
}
