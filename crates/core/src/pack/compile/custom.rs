//! Machines of custom size in dense form: where they can be had, and what one of an exact size costs and uses up.

use crate::pack::compile::Compiled;
use crate::pack::compile::columns::Column;
use crate::pack::compile::ids::{ColumnId, OfferId};
use crate::pack::compile::labels::Keys;
use crate::pack::compile::offers::{Item, Offer, Sold};
use crate::pack::compile::sizing;
use crate::pack::compile::supply::{CounterId, Scarce, Uses};
use crate::pack::dense::typed::Id as _;
use crate::pack::dense::vector::Vector;
use crate::problem::{Host, Range};
use crate::resources::Resources;

/// A range on a host, for a pool: all its sizes look the same to every pod.
#[derive(Clone, Debug)]
pub(crate) struct CustomType {
    /// One of its offers.
    pub(crate) offer: OfferId,
    /// Sizes worth looking at, cheapest first.
    pub(crate) columns: Vec<ColumnId>,
    /// What daemons take of each.
    pub(crate) daemons: Resources,
    /// What each costs beside its price, in billionths of a dollar.
    pub(crate) extra: i64,
}

/// A machine of an exact size.
#[derive(Clone, Debug)]
pub(crate) struct CustomMachine {
    pub(crate) cost: i64,
    pub(crate) uses: Uses,
}

/// All custom types.
#[derive(Clone, Debug, Default)]
pub(crate) struct CustomTypes {
    pub(crate) all: Vec<CustomType>,
    /// The custom type of each column; empty if there are none.
    of: Vec<Option<u32>>,
}

impl CustomTypes {
    pub(crate) fn collect(
        problem: &crate::problem::Problem,
        keys: &Keys,
        offers: &[Offer],
        columns: &[Column],
    ) -> Self {
        let mut all: Vec<CustomType> = Vec::new();
        let mut of_offer: Vec<Option<u32>> = vec![None; offers.len()];
        for (index, offer) in offers.iter().enumerate() {
            if !matches!(offer.item, Item::Custom { .. }) {
                continue;
            }
            let extra = offer.cost - offer.price.nanos();
            // Sizes of one custom type come one after the other.
            let last = all.last_mut();
            match last.filter(|custom_type| alike(&offers[custom_type.offer.index()], offer)) {
                Some(custom_type) => custom_type.extra = custom_type.extra.min(extra),
                None => all.push(CustomType {
                    offer: OfferId::at(index),
                    columns: Vec::new(),
                    daemons: sizing::daemons(problem, keys, offer.pool, &offer.values),
                    extra,
                }),
            }
            of_offer[index] = Some(all.len() as u32 - 1);
        }
        if all.is_empty() {
            return CustomTypes::default();
        }
        let of: Vec<Option<u32>> = columns
            .iter()
            .map(|column| of_offer[column.offer.index()])
            .collect();
        for (index, custom_type) in of.iter().enumerate() {
            if let Some(custom_type) = custom_type {
                all[*custom_type as usize].columns.push(ColumnId::at(index));
            }
        }
        CustomTypes { all, of }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The custom type that a column is a size of.
    pub(crate) fn of(&self, column: ColumnId) -> Option<u32> {
        self.of.get(column.index()).copied().flatten()
    }
}

/// Whether two offers are sizes of one custom type.
pub(crate) fn alike(a: &Offer, b: &Offer) -> bool {
    (a.pool, a.catalog, &a.item, &a.values) == (b.pool, b.catalog, &b.item, &b.values)
}

impl<'p> Compiled<'p> {
    /// The range and the host of a custom type.
    pub(crate) fn source(&self, custom_type: &CustomType) -> Option<(&'p Range, &'p Host)> {
        match self.offers[custom_type.offer].sold(self.problem) {
            Sold::Custom(range, host) => Some((range, host)),
            Sold::Fixed(..) => None,
        }
    }

    /// The smallest machine of a custom type that holds a load.
    pub(crate) fn fitted(&self, custom_type: u32, load: &Vector) -> Option<CustomMachine> {
        let known = &self.custom_types.all[custom_type as usize];
        let (range, host) = self.source(known)?;
        let mut need = known.daemons.clone();
        for index in (0..self.table.width()).filter(|index| load.0[*index] != 0) {
            let name = self.table.name(index);
            need.set(name, need.get(name) + load.0[index]);
        }
        let size = sizing::fit(range, host, &need)?;
        let price = sizing::price(range, &size).nanos();
        let uses = &self.offers[known.offer].uses;
        let exact = |(counter, amount): &(CounterId, i64)| {
            let amount = match self.supply.name(*counter) {
                Scarce::PoolResource(_, name) | Scarce::Host(_, _, name) => size.get(name),
                Scarce::PoolCost(_) => price,
                _ => *amount,
            };
            (*counter, amount)
        };
        Some(CustomMachine {
            cost: price + known.extra,
            uses: uses.iter().map(exact).collect(),
        })
    }
}
