//! What pods are worth when their shape counts: values so chosen that no machine, filled with pods that are divisible
//! but keep their shape, holds more than its price.
//!
//! Values of resources alone let the processors of a pod go to one machine and its memory to another. Here every
//! column `k` has prices `u[k]` of its own, at which its whole room costs what it costs, and a pod is worth what it is
//! charged where it is charged least:
//!
//! ```text
//! worth[pod] = least over columns k that can hold it of  sum over r of  u[k][r] * requests[pod][r]
//! ```
//!
//! Pods on a machine are worth at most what its prices charge them, which is at most its price: the values bound the
//! cost of every plan. The prices come from a program over fillings with pods of some classes of like shape.

use crate::pack::assign::LotId;
use crate::pack::compile::ids::ColumnId;
use crate::pack::dense::typed::IdVec;
use crate::pack::packing::Context;
use crate::pack::value::appraisal::Appraisal;
use crate::pack::value::shapes::{self, Shaped};
use crate::pack::value::simplex::{self, Tableau};

/// How closely values are looked for.
struct Precision {
    /// Into about how many classes of like shape pods are sorted.
    classes: f64,
    /// Columns that fillings are made for, the best bargains.
    bargains: usize,
    /// Rounds of making fillings.
    rounds: usize,
    /// Fillings worth more than their machines by less than this part will do.
    tolerance: f64,
}

// What half and twice of these is worth: docs/benchmarks.md, "Tuning constants".

/// Where there are few pods, a little more or less decides about a whole machine, and time is no matter: with half of the
/// classes, plain costs 0.12% more; with twice as many, plans take a quarter longer for nothing.
const FINE: Precision = Precision {
    classes: 45.0,
    bargains: 96,
    rounds: 100,
    tolerance: 5e-5,
};
const COARSE: Precision = Precision {
    classes: 34.0,
    bargains: 48,
    rounds: 40,
    tolerance: 2e-4,
};
/// As a share of what all pods are worth: a pod worth less is not told from others by what it asks for its worth.
const LEAST_WORTH: f64 = 1e-12;
/// As many pods are few.
const FEW_PODS: u32 = 2_000;

/// Whether there are so few pods that each of them matters.
pub(crate) fn are_few(left: &IdVec<LotId, u32>) -> bool {
    left.iter().sum::<u32>() <= FEW_PODS
}

/// Prices of the resources of each column, at which its whole room costs what it costs.
#[derive(Clone, Debug)]
pub(crate) struct Prices {
    resources: Vec<usize>,
    /// Column, and its prices by position among the resources.
    of: Vec<(ColumnId, Vec<f64>)>,
}

impl Prices {
    /// Looks for prices that make pods worth most, if shape is all that matters.
    pub(crate) fn find(
        context: &Context<'_, '_>,
        left: &IdVec<LotId, u32>,
        appraisal: &Appraisal,
    ) -> Option<Self> {
        if context.compiled.supply.limited() || appraisal.grouped() {
            return None;
        }
        let program = ShapeProgram::new(context, left, appraisal)?;
        let values = program.values();
        let machines = program.machines.iter();
        Some(Prices {
            resources: appraisal.resources.clone(),
            of: machines
                .map(|machine| (machine.column, program.prices(machine, &values)))
                .collect(),
        })
    }

    /// Puts closer values in the place of those of an appraisal that they cover.
    pub(crate) fn refine(
        &self,
        context: &Context<'_, '_>,
        left: &IdVec<LotId, u32>,
        appraisal: &mut Appraisal,
    ) {
        for lot in left.ids().filter(|lot| left[*lot] > 0) {
            if let Some(worth) = self.least(context, lot) {
                appraisal.worth[lot] = worth;
            }
        }
    }

    /// What a pod of a lot is charged where it is charged least.
    fn least(&self, context: &Context<'_, '_>, lot: LotId) -> Option<f64> {
        let requests = context.requests(lot);
        let columns = &context.compiled.columns;
        let mut least: Option<f64> = None;
        for (column, prices) in &self.of {
            let fits = requests.fits(&columns[*column].room);
            if !fits || !context.may_use(lot, *column) {
                continue;
            }
            let mut charge = 0.0;
            for (price, resource) in prices.iter().zip(&self.resources) {
                charge += price * requests.0[*resource] as f64;
            }
            if least.is_none_or(|least| charge < least) {
                least = Some(charge);
            }
        }
        least
    }
}

/// A machine as the program sees it.
struct ShapedMachine {
    column: ColumnId,
    /// As a share of what all pods are worth by resources alone.
    price: f64,
    /// By resource, as a share of what all pods ask for.
    room: Vec<f64>,
    /// By class: whether it can hold pods of it.
    admits: Vec<bool>,
}

/// Pods of some classes, and machines for them.
struct ShapeProgram {
    precision: &'static Precision,
    /// By class and resource: what its pods ask for, as a share of what all ask for.
    needs: Vec<Vec<f64>>,
    machines: Vec<ShapedMachine>,
    /// By resource, what all pods ask for.
    whole: Vec<f64>,
    /// What all pods are worth by resources alone.
    total: f64,
}

impl ShapeProgram {
    fn new(
        context: &Context<'_, '_>,
        left: &IdVec<LotId, u32>,
        appraisal: &Appraisal,
    ) -> Option<Self> {
        let mut whole = vec![0.0; appraisal.resources.len()];
        let mut total = 0.0;
        for (lot, count) in left.pairs() {
            total += appraisal.worth[lot] * f64::from(*count);
            for (sum, resource) in whole.iter_mut().zip(&appraisal.resources) {
                *sum += context.requests(lot).0[*resource] as f64 * f64::from(*count);
            }
        }
        let columns = &context.compiled.columns;
        let mut bargains = appraisal.bargains.iter();
        if total <= 0.0 || bargains.any(|(_, column)| columns[*column].cost <= 0) {
            return None;
        }
        let mut program = ShapeProgram {
            precision: if are_few(left) { &FINE } else { &COARSE },
            needs: Vec::new(),
            machines: Vec::new(),
            whole,
            total,
        };
        let classes = program.classes(context, left, appraisal);
        program.needs = classes
            .iter()
            .map(|lots| program.need(context, left, appraisal, lots))
            .collect();
        for (_, column) in &appraisal.bargains {
            let bought = &columns[*column];
            let resources = appraisal.resources.iter().zip(&program.whole);
            let room = resources.map(|(resource, whole)| bought.room.0[*resource] as f64 / whole);
            let admits = classes.iter().map(|lots| {
                // What holds most of a class holds the class.
                let typical = lots[lots.len() / 2];
                context.may_use(typical, *column) && context.requests(typical).fits(&bought.room)
            });
            program.machines.push(ShapedMachine {
                column: *column,
                price: bought.cost as f64 / total,
                room: room.collect(),
                admits: admits.collect(),
            });
        }
        Some(program)
    }

    /// Lots of one kind and like shape, the least valuable first.
    fn classes(
        &self,
        context: &Context<'_, '_>,
        left: &IdVec<LotId, u32>,
        appraisal: &Appraisal,
    ) -> Vec<Vec<LotId>> {
        let mut shaped: Vec<Shaped> = left
            .ids()
            .filter(|lot| left[*lot] > 0)
            .map(|lot| self.shaped(context, left, appraisal, lot))
            .collect();
        let kind = |one: &Shaped| appraisal.kinds[one.lot];
        shaped.sort_by_key(kind);
        let mut classes = Vec::new();
        for alike in shaped.chunk_by_mut(|a, b| kind(a) == kind(b)) {
            shapes::part(alike, self.total / self.precision.classes, &mut classes);
        }
        let worth = |lot: LotId| appraisal.worth[lot];
        for class in &mut classes {
            class.sort_by(|a, b| worth(*a).total_cmp(&worth(*b)).then(a.cmp(b)));
        }
        classes
    }

    fn shaped(
        &self,
        context: &Context<'_, '_>,
        left: &IdVec<LotId, u32>,
        appraisal: &Appraisal,
        lot: LotId,
    ) -> Shaped {
        let requests = context.requests(lot);
        let resources = appraisal.resources.iter().zip(&self.whole);
        let each = (appraisal.worth[lot] / self.total).max(LEAST_WORTH);
        let asks = resources.map(|(resource, whole)| requests.0[*resource] as f64 / whole / each);
        Shaped {
            lot,
            worth: appraisal.worth[lot] * f64::from(left[lot]),
            asks: asks.collect(),
        }
    }

    fn need(
        &self,
        context: &Context<'_, '_>,
        left: &IdVec<LotId, u32>,
        appraisal: &Appraisal,
        lots: &[LotId],
    ) -> Vec<f64> {
        let mut need = vec![0.0; self.whole.len()];
        for lot in lots {
            let requests = context.requests(*lot);
            let count = f64::from(left[*lot]);
            let resources = appraisal.resources.iter().zip(&self.whole);
            for (need, (resource, whole)) in need.iter_mut().zip(resources) {
                *need += requests.0[*resource] as f64 * count / whole;
            }
        }
        need
    }

    /// What the pods of each class are worth together.
    fn values(&self) -> Vec<f64> {
        let mut tableau = Tableau::new(&vec![1.0; self.needs.len()]);
        for class in 0..self.needs.len() {
            if let Some((filling, price)) = self.alone(class) {
                tableau.add(&filling, price);
            }
        }
        tableau.ascend();
        let mut values = tableau.solution().point;
        for _ in 0..self.precision.rounds {
            let mut found = false;
            for machine in self.machines.iter().take(self.precision.bargains) {
                let (filling, _) = self.best_filling(machine, &values);
                let mut worth = 0.0;
                for (amount, value) in filling.iter().zip(&values) {
                    worth += amount * value;
                }
                if worth > machine.price * (1.0 + self.precision.tolerance) {
                    tableau.add(&filling, machine.price);
                    found = true;
                }
            }
            if !found {
                break;
            }
            tableau.descend();
            values = tableau.solution().point;
        }
        values
    }

    /// The machine that is cheapest for pods of one class alone, as a filling and its price.
    fn alone(&self, class: usize) -> Option<(Vec<f64>, f64)> {
        let mut best: Option<(f64, f64)> = None;
        for machine in self.machines.iter().filter(|machine| machine.admits[class]) {
            let mut amount = f64::INFINITY;
            for (need, room) in self.needs[class].iter().zip(&machine.room) {
                if *need > 0.0 && room / need < amount {
                    amount = room / need;
                }
            }
            if best.is_none_or(|(other, price)| machine.price * other < price * amount) {
                best = Some((amount, machine.price));
            }
        }
        let (amount, price) = best?;
        let mut filling = vec![0.0; self.needs.len()];
        filling[class] = amount;
        Some((filling, price))
    }

    /// The filling of a ware that is worth most, by class, and what one more unit of each resource would be worth.
    fn best_filling(&self, machine: &ShapedMachine, values: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let classes = (0..self.needs.len()).filter(|class| machine.admits[*class]);
        let classes: Vec<usize> = classes.collect();
        let mut rows = Vec::with_capacity(classes.len() * machine.room.len());
        for resource in 0..machine.room.len() {
            rows.extend(classes.iter().map(|class| self.needs[*class][resource]));
        }
        let objective: Vec<f64> = classes.iter().map(|class| values[*class]).collect();
        let found = simplex::maximise(&rows, &machine.room, &objective);
        let mut filling = vec![0.0; self.needs.len()];
        for (class, amount) in classes.iter().zip(found.point) {
            filling[*class] = amount;
        }
        (filling, found.worth)
    }

    /// Prices of the resources of a ware, at which its whole room costs what it costs.
    fn prices(&self, machine: &ShapedMachine, values: &[f64]) -> Vec<f64> {
        let (_, mut prices) = self.best_filling(machine, values);
        // What holds nothing leaves no resource scarce.
        prices.resize(machine.room.len(), 0.0);
        let mut charged = 0.0;
        for (price, room) in prices.iter().zip(&machine.room) {
            charged += price * room;
        }
        if charged <= 0.0 {
            // Nothing that it holds is worth anything: any prices will do.
            prices[0] = 1.0;
            charged = machine.room[0];
        }
        for (price, whole) in prices.iter_mut().zip(&self.whole) {
            *price *= machine.price / charged * self.total / whole;
        }
        prices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(price: f64, room: [f64; 2]) -> ShapedMachine {
        ShapedMachine {
            column: ColumnId(0),
            price,
            room: room.to_vec(),
            admits: vec![true, true],
        }
    }

    /// Pods that ask for processors only, and pods that ask for memory only.
    fn program(machines: Vec<ShapedMachine>) -> ShapeProgram {
        ShapeProgram {
            precision: &COARSE,
            needs: vec![vec![1.0, 0.0], vec![0.0, 1.0]],
            machines,
            whole: vec![1.0, 1.0],
            total: 1.0,
        }
    }

    #[test]
    fn pods_of_opposite_shape_are_worth_what_a_machine_for_both_costs() {
        let separate = || vec![machine(0.2, [0.5, 0.0]), machine(0.1, [0.0, 0.5])];
        let values = program(separate()).values();
        assert!((values[0] - 0.4).abs() < 1e-6 && (values[1] - 0.2).abs() < 1e-6);
        let mut machines = separate();
        machines.push(machine(0.25, [0.5, 0.5]));
        let values = program(machines).values();
        assert!((values[0] + values[1] - 0.5).abs() < 1e-6, "{values:?}");
    }

    #[test]
    fn at_its_own_prices_the_whole_room_of_a_machine_costs_what_it_costs() {
        let program = program(vec![machine(0.2, [0.5, 0.1]), machine(0.1, [0.1, 0.5])]);
        let values = program.values();
        for machine in &program.machines {
            let prices = program.prices(machine, &values);
            let charged: f64 = prices.iter().zip(&machine.room).map(|(a, b)| a * b).sum();
            assert!((charged - machine.price).abs() < 1e-9, "{prices:?}");
        }
    }
}
