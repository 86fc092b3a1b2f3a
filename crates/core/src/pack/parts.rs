//! Parts of the packer that can be left out, to measure what each is worth (`cargo xtask bench --without`).
//!
//! Every part only looks for cheaper plans or closer bounds: without any of them plans stay valid.

/// A strategy, an improvement or a bound. Its name on a command line is in kebab case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::EnumIter, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Part {
    /// Nodes that are there, filled with pods that go well together.
    MixedNodes,
    /// First fit, opening the cheapest machine for each pod.
    Cheapest,
    /// Machines that grow with their pods.
    BestFit,
    /// Bargains filled with the most valuable pods first.
    LargeFirst,
    /// Bargains filled with large and small pods mixed.
    Mixed,
    /// Bargains filled with mixtures of pods of any size, small ones last.
    Even,
    /// A linear program over fillings of whole machines.
    ColumnGeneration,
    /// Fillings of other packings as the first of that program.
    Seeds,
    /// A beam of partial fillings where there are many lots.
    Beam,
    /// Further programs for what the first one leaves over.
    LaterPrograms,
    /// Values found anew when half of the pods are packed.
    NewValues,
    /// Exchanges of single pods in a greedy filling.
    Polish,
    /// Kinds of pods told apart by the bargains that hold them.
    Grades,
    /// Values of groups that keep apart on hosts.
    HostGroups,
    /// The whole local search.
    Improve,
    /// Pods of some machines redistributed over cheaper ones.
    Redistribute,
    /// Pods put into free room of machines that stay.
    Reinsert,
    /// Prices of each machine in the local search.
    MachinePrices,
    /// The bound from fillings of whole machines.
    FillingBound,
    /// The bound from prices of each machine.
    ShapeBound,
    /// The share of a spread that every domain has.
    SpreadBound,
}

impl Part {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Part> {
        <Part as strum::IntoEnumIterator>::iter()
    }
}

/// Parts that are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Without(u32);

impl Without {
    /// Whether a part takes its turn.
    pub(crate) fn keeps(self, part: Part) -> bool {
        self.0 >> part as u32 & 1 == 0
    }
}

impl FromIterator<Part> for Without {
    fn from_iter<I: IntoIterator<Item = Part>>(parts: I) -> Self {
        let mut left_out = 0;
        for part in parts {
            left_out |= 1 << part as u32;
        }
        Without(left_out)
    }
}
