//! Offers worth looking at: of those that no pod can tell apart, the ones that no other beats.

use crate::pack::compile::ids::{CellId, DemandId, GroupId, OfferId};
use crate::pack::dense::typed::{Id as _, IdVec};
use smallvec::SmallVec;

use crate::pack::compile::demand::Demand;
use crate::pack::compile::groups::Groups;
use crate::pack::compile::labels::Keys;
use crate::pack::compile::min_values::MinValues;
use crate::pack::compile::offers::{Item, Offer, Sold};
use crate::pack::compile::supply::Uses;
use crate::pack::dense::bits::Bits;
use crate::pack::dense::intern::{FixedMap, Interner};
use crate::pack::dense::vector::{Table, Vector};
use crate::problem::{PoolId, Problem};

/// Port groups that daemons of a node already use.
pub(crate) type Ports = SmallVec<[GroupId; 2]>;

/// An offer worth looking at. Columns are numbered from the cheapest up.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) offer: OfferId,
    pub(crate) pool: PoolId,
    pub(crate) cell: CellId,
    pub(crate) cost: i64,
    pub(crate) room: Vector,
    pub(crate) uses: Uses,
    pub(crate) ports: Ports,
}

/// Which offers meet which demand, taints of the pool included.
pub(crate) fn admit_offers(
    problem: &Problem,
    keys: &Keys,
    demands: &Interner<Demand, DemandId>,
    offers: &[Offer],
) -> IdVec<DemandId, Bits> {
    demands
        .iter()
        .map(|demand| admit(problem, keys, demand, offers))
        .collect()
}

fn admit(problem: &Problem, keys: &Keys, demand: &Demand, offers: &[Offer]) -> Bits {
    let refused: IdVec<PoolId, bool> = problem
        .pools
        .iter()
        .map(|pool| demand.tolerated.refuses(&pool.taints).is_some())
        .collect();
    let mut bits = demand.admits(keys, &offers.iter().map(|offer| &*offer.values));
    for (index, offer) in offers.iter().enumerate() {
        if refused[offer.pool] {
            bits.remove(index);
        }
    }
    bits
}

/// Takes the daemons off the room of every offer, and says which ports they use there.
pub(crate) fn take_daemons(
    problem: &Problem,
    keys: &Keys,
    table: &Table,
    groups: &mut Groups,
    offers: &mut [Offer],
) -> Vec<Ports> {
    let mut ports = vec![Ports::new(); offers.len()];
    for daemon in &problem.daemon_sets {
        // A daemon that cannot be understood runs nowhere.
        let Ok(demand) = Demand::daemon(daemon) else {
            continue;
        };
        let requests = table.vector(&daemon.spec.requests);
        let own = groups.ports(&daemon.spec);
        for index in admit(problem, keys, &demand, offers).iter() {
            offers[index].room.subtract(&requests);
            ports[index].extend(own.iter().copied());
        }
    }
    ports
}

/// Whether `a` leaves no reason to buy `b`: they look the same to every pod, and `a` costs and takes no more.
pub(crate) fn beats(a: (&i64, &Vector, &Uses), b: (&i64, &Vector, &Uses)) -> bool {
    a.0 <= b.0
        && b.1.fits(a.1)
        && a.2.iter().all(|(counter, amount)| {
            b.2.iter()
                .any(|(other, more)| other == counter && more >= amount)
        })
}

/// The offers that no other beats, cheapest first; ties by name. A pool with `minValues` keeps all it has.
pub(crate) fn choose(
    problem: &Problem,
    min_values: &MinValues,
    offers: &[Offer],
    demand_offers: &[Bits],
    ports: &[Ports],
    cell_of: &mut dyn FnMut(&Offer) -> CellId,
) -> Vec<Column> {
    let words = demand_offers.len().div_ceil(64);
    let mut admissions = vec![0_u64; offers.len() * words];
    for (demand, bits) in demand_offers.iter().enumerate() {
        for offer in bits.iter() {
            admissions[offer * words + demand / 64] |= 1 << (demand % 64);
        }
    }
    let mut order: Vec<usize> = (0..offers.len()).collect();
    order.sort_by_cached_key(|index| {
        let offer = &offers[*index];
        (offer.cost, rank(problem, offer), *index)
    });
    let mut fronts: FixedMap<(PoolId, CellId, &[u64], &Ports), Vec<usize>> = FixedMap::default();
    let mut chosen = Vec::new();
    for index in order {
        let offer = &offers[index];
        if !offer.room.0.iter().all(|amount| *amount >= 0) {
            continue;
        }
        let cell = cell_of(offer);
        let seen = &admissions[index * words..(index + 1) * words];
        let front = fronts
            .entry((offer.pool, cell, seen, &ports[index]))
            .or_default();
        let beaten = !min_values.asks(offer.pool)
            && front.iter().any(|other| {
                let other = &offers[*other];
                beats(
                    (&other.cost, &other.room, &other.uses),
                    (&offer.cost, &offer.room, &offer.uses),
                )
            });
        if !beaten {
            front.push(index);
            chosen.push(Column {
                offer: OfferId::at(index),
                pool: offer.pool,
                cell,
                cost: offer.cost,
                room: offer.room,
                uses: offer.uses.clone(),
                ports: ports[index].clone(),
            });
        }
    }
    chosen
}

/// Names that settle ties: pools by name descending as Karpenter does, then type, zone and capacity type.
fn rank<'p>(
    problem: &'p Problem,
    offer: &Offer,
) -> (std::cmp::Reverse<&'p str>, &'p str, &'p str, u32) {
    let pool = std::cmp::Reverse(&*problem.pool_at(offer.pool).name);
    let turn = match offer.item {
        Item::Fixed { offering, .. } => offering,
        Item::Custom { .. } => 0,
    };
    match offer.sold(problem) {
        Sold::Fixed(one, offering) => (pool, &one.name, &offering.zone, turn),
        Sold::Custom(range, host) => (pool, &range.name, &host.name, turn),
    }
}
