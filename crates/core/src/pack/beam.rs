//! Fillings of a machine with a handful of pods: pod by pod, going on from the few dozen beginnings that lose least.
//!
//! At the prices of a machine's resources no pod is worth more than the room it takes. What it is worth less is lost,
//! and so is room that stays empty: a filling is the better the less it loses.

use super::vector::{LEAD, Lead, lead_fits};

/// Pods in one filling.
const MAX_PODS: usize = 32;
/// Pods are exchanged two by two in fillings of no more than this.
const MAX_EXCHANGED: u32 = 20;

/// A kind of pod on offer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Who it is, for the caller.
    pub(crate) name: u32,
    pub(crate) requests: Lead,
    pub(crate) value: f64,
    /// What it is worth less than the room it takes.
    pub(crate) loss: f64,
    /// How many there are.
    pub(crate) most: u32,
}

#[derive(Clone, Copy, Debug)]
struct Beginning {
    left: Lead,
    value: f64,
    loss: f64,
    /// The one it goes on from, and the pod that was added.
    parent: u32,
    offer: u32,
    /// How many pods of that kind there are at the end.
    run: u32,
}

/// The most valuable filling found, as kinds with counts and what one of them is worth; and how many beginnings and
/// exchanges were looked at. `width` beginnings are kept.
pub(crate) fn fill(
    mut offers: Vec<Offer>,
    room: Lead,
    prices: [f64; LEAD],
    width: usize,
) -> (Vec<(u32, u32, f64)>, u32) {
    offers.sort_by(|a, b| a.loss.total_cmp(&b.loss).then(a.name.cmp(&b.name)));
    let ceiling = worth(&prices, &room);
    let (mut counts, mut looked_at) = begin(&offers, room, ceiling, width);
    if counts.iter().sum::<u32>() <= MAX_EXCHANGED {
        let mut left = room;
        for (offer, count) in offers.iter().zip(&counts) {
            for (have, need) in left.iter_mut().zip(&offer.requests) {
                *have -= need * i64::from(*count);
            }
        }
        let mut exchange = Exchange::new(&offers, prices);
        exchange.improve(&mut counts, left);
        looked_at += exchange.looked_at;
    }
    let picked = offers.iter().zip(counts).filter(|(_, count)| *count > 0);
    let picks = picked.map(|(offer, count)| (offer.name, count, offer.value));
    (picks.collect(), looked_at)
}

/// What room is worth.
fn worth(prices: &[f64; LEAD], room: &Lead) -> f64 {
    let mut worth = 0.0;
    for (price, amount) in prices.iter().zip(room) {
        worth += price * *amount as f64;
    }
    worth
}

/// Pod by pod, those first that lose least; counts by offer.
fn begin(offers: &[Offer], room: Lead, ceiling: f64, width: usize) -> (Vec<u32>, u32) {
    let mut all = vec![Beginning {
        left: room,
        value: 0.0,
        loss: 0.0,
        parent: 0,
        offer: 0,
        run: 0,
    }];
    let mut best: (f64, usize) = (0.0, 0);
    let mut layer = 0..1;
    let mut looked_at = 0;
    let mut next: Vec<Beginning> = Vec::new();
    for _ in 0..MAX_PODS {
        next.clear();
        for parent in layer {
            let from = all[parent];
            for (index, offer) in offers.iter().enumerate().skip(from.offer as usize) {
                if ceiling - from.loss - offer.loss <= best.0 {
                    break;
                }
                looked_at += 1;
                let same = from.run > 0 && from.offer as usize == index;
                let run = if same { from.run + 1 } else { 1 };
                if run <= offer.most && lead_fits(&offer.requests, &from.left) {
                    next.push(from.with(parent, index, offer, run));
                }
            }
        }
        if next.len() > width {
            next.select_nth_unstable_by(width, Beginning::order);
            next.truncate(width);
        }
        let start = all.len();
        for one in &next {
            if one.value > best.0 {
                best = (one.value, all.len());
            }
            all.push(*one);
        }
        layer = start..all.len();
    }
    let mut counts = vec![0; offers.len()];
    let mut at = best.1;
    while at > 0 {
        counts[all[at].offer as usize] += 1;
        at = all[at].parent as usize;
    }
    (counts, looked_at)
}

impl Beginning {
    /// One pod more.
    fn with(&self, parent: usize, index: usize, offer: &Offer, run: u32) -> Self {
        Beginning {
            left: std::array::from_fn(|at| self.left[at] - offer.requests[at]),
            value: self.value + offer.value,
            loss: self.loss + offer.loss,
            parent: parent as u32,
            offer: index as u32,
            run,
        }
    }

    /// Who loses less comes first; names settle ties.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let names = (self.parent, self.offer).cmp(&(other.parent, other.offer));
        self.loss.total_cmp(&other.loss).then(names)
    }
}

/// Two pods that may take the place of two others; or one, if there is no second.
#[derive(Clone, Copy, Debug)]
struct Pair {
    requests: Lead,
    value: f64,
    first: u32,
    second: u32,
}

const NOBODY: u32 = u32::MAX;

impl Pair {
    /// How many of the two are of a kind.
    fn count(&self, name: u32) -> u32 {
        u32::from(self.first == name) + u32::from(self.second == name)
    }
}

/// A filling that gets better by exchanges of up to two pods for up to two others.
struct Exchange<'a> {
    offers: &'a [Offer],
    pairs: Vec<Pair>,
    prices: [f64; LEAD],
    looked_at: u32,
}

impl<'a> Exchange<'a> {
    fn new(offers: &'a [Offer], prices: [f64; LEAD]) -> Self {
        let mut pairs = Vec::with_capacity(offers.len() * (offers.len() + 3) / 2);
        for (first, offer) in offers.iter().enumerate() {
            pairs.push(Pair {
                requests: offer.requests,
                value: offer.value,
                first: first as u32,
                second: NOBODY,
            });
            for (second, other) in offers.iter().enumerate().skip(first) {
                pairs.push(Pair {
                    requests: std::array::from_fn(|at| offer.requests[at] + other.requests[at]),
                    value: offer.value + other.value,
                    first: first as u32,
                    second: second as u32,
                });
            }
        }
        pairs.sort_unstable_by(|a, b| {
            b.value
                .total_cmp(&a.value)
                .then((a.first, a.second).cmp(&(b.first, b.second)))
        });
        Exchange {
            offers,
            pairs,
            prices,
            looked_at: 0,
        }
    }

    /// Exchanges until nothing is gained; `counts` are pods by offer.
    fn improve(&mut self, counts: &mut [u32], mut left: Lead) {
        while let Some((_, out, into)) = self.best(counts, &left) {
            for name in [out.first, out.second] {
                if name != NOBODY {
                    counts[name as usize] -= 1;
                }
            }
            for name in [into.first, into.second] {
                if name != NOBODY {
                    counts[name as usize] += 1;
                }
            }
            for (at, have) in left.iter_mut().enumerate() {
                *have += out.requests[at] - into.requests[at];
            }
        }
    }

    /// The exchange that gains most.
    fn best(&mut self, counts: &[u32], left: &Lead) -> Option<(f64, Pair, Pair)> {
        let mut best: Option<(f64, Pair, Pair)> = None;
        let present: Vec<u32> = (0..counts.len() as u32)
            .filter(|name| counts[*name as usize] > 0)
            .collect();
        for (position, first) in present.iter().enumerate() {
            let one = &self.offers[*first as usize];
            let twice = counts[*first as usize] > 1;
            let others = present[position..]
                .iter()
                .copied()
                .skip(usize::from(!twice));
            for second in std::iter::once(NOBODY).chain(others) {
                let mut out = Pair {
                    requests: one.requests,
                    value: one.value,
                    first: *first,
                    second,
                };
                if let Some(other) = self.offers.get(second as usize) {
                    out.value += other.value;
                    for (sum, need) in out.requests.iter_mut().zip(&other.requests) {
                        *sum += need;
                    }
                }
                let room: Lead = std::array::from_fn(|at| left[at] + out.requests[at]);
                let most = worth(&self.prices, &room);
                let start = self.pairs.partition_point(|pair| pair.value > most);
                for into in &self.pairs[start..] {
                    let gain = into.value - out.value;
                    if gain <= best.map_or(1e-9 * out.value, |(most, ..)| most) {
                        break;
                    }
                    self.looked_at += 1;
                    if lead_fits(&into.requests, &room) && self.allowed(counts, &out, into) {
                        best = Some((gain, out, *into));
                        break;
                    }
                }
            }
        }
        best
    }

    /// Whether there are enough pods for an exchange.
    fn allowed(&self, counts: &[u32], out: &Pair, into: &Pair) -> bool {
        [into.first, into.second].iter().all(|name| {
            let Some(offer) = self.offers.get(*name as usize) else {
                return true;
            };
            counts[*name as usize] + into.count(*name) - out.count(*name) <= offer.most
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: [f64; LEAD] = [1.0, 0.0, 0.0, 0.0];

    fn offer(name: u32, cpu: i64, value: f64, most: u32) -> Offer {
        Offer {
            name,
            requests: [cpu, 0, 1, 0],
            value,
            loss: cpu as f64 - value,
            most,
        }
    }

    #[test]
    fn pods_that_fill_the_room_exactly_are_found() {
        // Sevens lose least, and leave room that nobody else can use; fives and threes fill it.
        let offers = vec![
            offer(0, 7, 6.9, 9),
            offer(1, 5, 4.8, 9),
            offer(2, 3, 2.8, 1),
        ];
        let (mut found, _) = fill(offers, [13, 0, 9, 0], PRICES, 8);
        found.sort_by_key(|one| one.0);
        assert_eq!(found, [(1, 2, 4.8), (2, 1, 2.8)]);
    }

    #[test]
    fn two_pods_make_way_for_two_others() {
        // One beginning alone goes on with what loses least, and ends with room for nobody.
        let offers = vec![
            offer(0, 6, 5.99, 1),
            offer(1, 5, 4.9, 2),
            offer(2, 2, 1.0, 1),
        ];
        let (mut found, _) = fill(offers, [10, 0, 9, 0], PRICES, 1);
        found.sort_by_key(|one| one.0);
        assert_eq!(found, [(1, 2, 4.9)]);
    }

    #[test]
    fn no_more_pods_are_taken_than_there_are() {
        let offers = vec![offer(0, 2, 2.0, 2), offer(1, 3, 2.5, 1)];
        let (mut found, _) = fill(offers, [20, 0, 9, 0], PRICES, 8);
        found.sort_by_key(|one| one.0);
        assert_eq!(found, [(0, 2, 2.0), (1, 1, 2.5)]);
    }
}
