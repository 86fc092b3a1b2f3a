//! Exact fill: the most valuable filling of one machine, by branch and bound, or by a beam where that would take long.

use crate::pack::assign::LotId;
use crate::pack::compile::caps::{self, HeldCaps};
use crate::pack::compile::ids::ColumnId;
use crate::pack::dense::vector::{LEAD, Vector, WIDTH};
use crate::pack::fill::beam::{self, PodKind};
use crate::pack::packing::Context;
use crate::pack::value::fractional_knapsack;

/// A lot that may go into one machine: lot, position, value, and the most that may be taken.
type FillItem = (LotId, usize, f64, u32);

/// Looks at beginnings that take as long as one filling looked at. Half or twice moves no mean price by more than 0.01%.
const BEGINNINGS: u32 = 12;

/// A machine to be filled, again and again as values change.
pub(crate) struct EmptyMachine {
    column: ColumnId,
    /// Positions of lots whose pods it can hold.
    fitting: Vec<usize>,
    /// What units of its room were worth when it was last looked at.
    prices: Option<[f64; WIDTH]>,
}

impl EmptyMachine {
    pub(crate) fn new(context: &Context<'_, '_>, lots: &[LotId], column: ColumnId) -> Self {
        let room = &context.compiled.column(column).room;
        let fits = |lot: LotId| context.requests(lot).fits(room) && context.may_use(lot, column);
        EmptyMachine {
            column,
            fitting: (0..lots.len()).filter(|at| fits(lots[*at])).collect(),
            prices: None,
        }
    }

    /// Whether no filling is worth more than `least`, as far as can be told without looking for prices: those of the
    /// last time are nearly right.
    fn is_hopeless(&self, context: &Context<'_, '_>, items: &[FillItem], least: f64) -> bool {
        let room = &context.compiled.column(self.column).room;
        let ceiling = match &self.prices {
            Some(prices) => takes(prices, room) * overcharge(context, items, prices),
            None => crude_ceiling(context, items, room),
        };
        ceiling <= least
    }
}

/// Looks for the most valuable filling of one machine, most valuable pods for their size first.
pub(crate) struct ExactFill<'a, 'p> {
    context: &'a Context<'a, 'p>,
    items: Vec<FillItem>,
    /// How many of each the machine would take if pods were divisible.
    parts: Vec<f64>,
    /// What a unit of each resource can be worth at most, from each item on, if it were the only scarce one.
    rates: Vec<[f64; 4]>,
    /// What units are worth together, so that no item is worth more than what it takes.
    prices: [f64; WIDTH],
    room: Vector,
    counts: Vec<u32>,
    chosen: Option<Vec<u32>>,
    best: f64,
    nodes: u32,
    budget: u32,
}

impl<'a, 'p> ExactFill<'a, 'p> {
    /// A search for fillings of a machine that are worth more than `least`; `None` if there is certainly none.
    pub(crate) fn new(
        context: &'a Context<'a, 'p>,
        machine: &mut EmptyMachine,
        lots: &[LotId],
        left: &[u32],
        values: &[f64],
        least: f64,
    ) -> Option<Self> {
        let room = context.compiled.column(machine.column).room;
        let items: Vec<FillItem> = machine
            .fitting
            .iter()
            .filter(|at| left[**at] > 0 && values[**at] > 0.0)
            .map(|at| (lots[*at], *at, values[*at], left[*at]))
            .collect();
        if machine.is_hopeless(context, &items, least) {
            return None;
        }
        let (prices, parts) = prices(context, &items, &room);
        machine.prices = Some(prices);
        let density = |item: &FillItem| {
            let takes = takes(&prices, context.requests(item.0));
            if takes > 0.0 { item.2 / takes } else { 0.0 }
        };
        let mut keyed: Vec<(f64, f64, FillItem)> = items
            .into_iter()
            .zip(parts)
            .map(|(item, part)| (density(&item), part, item))
            .collect();
        keyed.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.1.cmp(&b.2.1)));
        let parts: Vec<f64> = keyed.iter().map(|(_, part, _)| *part).collect();
        let items: Vec<FillItem> = keyed.into_iter().map(|(_, _, item)| item).collect();
        let mut rates = vec![[0.0; 4]; items.len() + 1];
        for index in (0..items.len()).rev() {
            rates[index] = rates[index + 1];
            let requests = context.requests(items[index].0);
            for (rate, amount) in rates[index].iter_mut().zip(&requests.0) {
                let own = if *amount > 0 {
                    items[index].2 / *amount as f64
                } else {
                    f64::INFINITY
                };
                if own > *rate {
                    *rate = own;
                }
            }
        }
        let exact_fill = ExactFill {
            context,
            items,
            parts,
            rates,
            prices,
            room,
            counts: vec![0; lots.len()],
            chosen: None,
            best: least,
            nodes: 0,
            budget: 0,
        };
        (exact_fill.ceiling() > least).then_some(exact_fill)
    }

    /// What no filling exceeds.
    pub(crate) fn ceiling(&self) -> f64 {
        self.most(0, &self.room)
    }

    /// The most valuable filling, as pods by position, if one is worth more than what was asked for; and how many
    /// were looked at. If those are more than the budget, there may be a better one.
    ///
    /// With a `width` that many beginnings are kept instead of looking at all of them, where that can be done: there is
    /// no saying then whether there is a better one, but it is found more often.
    pub(crate) fn search(mut self, budget: u32, width: usize) -> (Option<Vec<u32>>, u32) {
        self.budget = budget;
        if width == 0 || !self.narrow(width) {
            self.round_down(self.room);
            self.descend(0, self.room, &HeldCaps::new(), 0.0);
        }
        (self.chosen, self.nodes)
    }

    /// The whole parts of the fractional filling, and what else fits, best value for room first.
    fn round_down(&mut self, room: Vector) {
        let mut left = room;
        let mut held = HeldCaps::new();
        let mut value = 0.0;
        for whole in [true, false] {
            for index in 0..self.items.len() {
                let (lot, position, worth, most) = self.items[index];
                let requests = self.context.requests(lot);
                let caps = &self.context.level(lot).caps;
                let wanted = if whole {
                    self.parts[index].max(0.0) as u32
                } else {
                    u32::MAX
                };
                let most = most - self.counts[position];
                let fits = requests.copies_in(&left).clamp(0, i64::from(most)) as u32;
                let take = fits.min(caps::room(&held, caps)).min(wanted);
                if take > 0 {
                    left.subtract(&requests.times(i64::from(take)));
                    for cap in caps {
                        caps::hold(&mut held, *cap, take);
                    }
                    self.counts[position] += take;
                    value += worth * f64::from(take);
                }
            }
        }
        self.consider(value);
        self.counts.fill(0);
    }

    /// Goes on from the beginnings that can become worth most. False if that cannot be done.
    fn narrow(&mut self, width: usize) -> bool {
        let wide = self.context.compiled.table.width() > LEAD;
        let alone = |item: &FillItem| self.context.level(item.0).caps.is_empty();
        if wide || !self.items.iter().all(alone) {
            return false;
        }
        // A pod that loses more than there is to lose is out.
        let ceiling = takes(&self.prices, &self.room);
        let promising = |item: &&FillItem| {
            let loss = takes(&self.prices, self.context.requests(item.0)) - item.2;
            ceiling - loss > self.best
        };
        let kinds: Vec<PodKind> = self
            .items
            .iter()
            .filter(promising)
            .map(|(lot, position, value, most)| {
                let requests = self.context.requests(*lot);
                PodKind {
                    name: *position as u32,
                    requests: std::array::from_fn(|resource| requests.0[resource]),
                    value: *value,
                    most: *most,
                }
            })
            .collect();
        let room = std::array::from_fn(|resource| self.room.0[resource]);
        let filling = beam::search(kinds, room, self.best, width);
        self.nodes += filling.looked_at / BEGINNINGS;
        for (position, count) in &filling.picks {
            self.counts[*position as usize] = *count;
        }
        self.consider(filling.value);
        self.counts.fill(0);
        true
    }

    fn consider(&mut self, value: f64) {
        if value > self.best {
            self.best = value;
            self.chosen = Some(self.counts.clone());
        }
    }

    /// What the items from one on can be worth at most in the room that is left.
    fn most(&self, index: usize, left: &Vector) -> f64 {
        let mut ceiling = f64::INFINITY;
        for (rate, amount) in self.rates[index].iter().zip(&left.0) {
            if *rate < f64::INFINITY {
                let most = rate * *amount as f64;
                if most < ceiling {
                    ceiling = most;
                }
            }
        }
        let mut together = 0.0;
        for (price, amount) in self.prices.iter().zip(&left.0) {
            together += price * *amount as f64;
        }
        if together < ceiling {
            together
        } else {
            ceiling
        }
    }

    fn descend(&mut self, start: usize, left: Vector, held: &HeldCaps, value: f64) {
        self.nodes += 1;
        self.consider(value);
        for index in start..self.items.len() {
            if self.nodes > self.budget || value + self.most(index, &left) <= self.best {
                return;
            }
            let (lot, position, worth, most) = self.items[index];
            let requests = *self.context.requests(lot);
            if !requests.fits(&left) {
                continue;
            }
            let caps = &self.context.level(lot).caps;
            let fits = requests.copies_in(&left).clamp(0, i64::from(most)) as u32;
            let take = fits.min(caps::room(held, caps));
            // None of this item: on to the next one.
            for count in (1..=take).rev() {
                let rest = left.minus(&requests.times(i64::from(count)));
                let mut here = held.clone();
                for cap in caps {
                    caps::hold(&mut here, *cap, count);
                }
                self.counts[position] = count;
                self.descend(index + 1, rest, &here, value + worth * f64::from(count));
                if self.nodes > self.budget {
                    break;
                }
            }
            self.counts[position] = 0;
        }
    }
}

/// What items can be worth at most if one resource were the only scarce one.
fn crude_ceiling(context: &Context<'_, '_>, items: &[FillItem], room: &Vector) -> f64 {
    let mut ceiling = f64::INFINITY;
    for (resource, amount) in room.0.iter().enumerate().take(LEAD) {
        let mut rate = 0.0;
        for item in items {
            let need = context.requests(item.0).0[resource];
            let own = if need > 0 {
                item.2 / need as f64
            } else {
                f64::INFINITY
            };
            if own > rate {
                rate = own;
            }
        }
        if rate < f64::INFINITY && rate * (*amount as f64) < ceiling {
            ceiling = rate * *amount as f64;
        }
    }
    ceiling
}

/// How many of each item fit if pods were divisible, and the prices of resources at which the room of a machine is worth
/// least while no item is worth more than it takes.
fn prices(
    context: &Context<'_, '_>,
    items: &[FillItem],
    room: &Vector,
) -> ([f64; WIDTH], Vec<f64>) {
    let pods: Vec<(&[i64], f64)> = items
        .iter()
        .map(|item| (context.requests(item.0).0.as_slice(), item.2))
        .collect();
    let fractional = fractional_knapsack::solve(&pods, &room.0);
    let mut prices = [0.0; WIDTH];
    prices.copy_from_slice(&fractional.prices);
    // Whatever the program says, no item may be worth more than what it takes.
    let worst = overcharge(context, items, &prices).max(1.0);
    for price in &mut prices {
        *price *= worst;
    }
    (prices, fractional.parts)
}

/// How many times what it takes the item is worth that is worth most for it.
fn overcharge(context: &Context<'_, '_>, items: &[FillItem], prices: &[f64; WIDTH]) -> f64 {
    let mut worst = 0.0;
    for item in items {
        let takes = takes(prices, context.requests(item.0));
        let ratio = if takes > 0.0 {
            item.2 / takes
        } else {
            f64::INFINITY
        };
        if ratio > worst {
            worst = ratio;
        }
    }
    worst
}

fn takes(prices: &[f64; WIDTH], requests: &Vector) -> f64 {
    let mut takes = 0.0;
    for (price, amount) in prices.iter().zip(&requests.0) {
        takes += price * *amount as f64;
    }
    takes
}
