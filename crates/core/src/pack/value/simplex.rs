//! A small linear program: the most of `objective · x` over `rows · x <= limits`, `x >= 0`, with `limits >= 0`.
//!
//! Dense and simple, because programs here have some dozens of variables. Only `+ - * /` on floats, so that every
//! machine gets the same bits. A program that is stopped early has found a feasible point all the same.

// Half or twice of these, and a precision of 1e-9 or 1e-12, change no plan and no bound.

/// Pivots after which the point found so far will do.
const MAX_PIVOTS: usize = 4000;
/// Pivots without progress after which the first column is taken instead of the steepest, which cannot cycle.
const PATIENCE: u32 = 50;
const EPSILON: f64 = 1e-11;

/// The point found, and how much one more unit of each limit would be worth.
pub(crate) struct LpSolution {
    pub(crate) point: Vec<f64>,
    pub(crate) worth: Vec<f64>,
}

/// A program with the point reached so far; rows can be added as they are found.
pub(crate) struct Tableau {
    width: usize,
    /// Rows of `width + 1`, the last entry being the right side.
    cells: Vec<f64>,
    objective: Vec<f64>,
    basis: Vec<usize>,
    outside: Vec<usize>,
    effort: u64,
}

/// Solves the program; rows are stored one after the other.
pub(crate) fn maximise(rows: &[f64], limits: &[f64], objective: &[f64]) -> LpSolution {
    let mut tableau = Tableau::new(objective);
    for (row, limit) in rows.chunks(objective.len().max(1)).zip(limits) {
        tableau.add(row, *limit);
    }
    tableau.ascend();
    tableau.solution()
}

impl Tableau {
    /// No row yet, all variables at zero.
    pub(crate) fn new(objective: &[f64]) -> Self {
        let mut last = objective.to_vec();
        last.push(0.0);
        Tableau {
            width: objective.len(),
            cells: Vec::new(),
            objective: last,
            basis: Vec::new(),
            outside: (0..objective.len()).collect(),
            effort: 0,
        }
    }

    /// How many variables there are.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// How many numbers were changed so far.
    pub(crate) fn effort(&self) -> u64 {
        self.effort
    }

    /// Adds a row, in terms of the variables that are outside the basis now. A row that the point reached does not
    /// meet is met again by [`Tableau::descend`].
    pub(crate) fn add(&mut self, row: &[f64], limit: f64) {
        let size = self.width + 1;
        let mut new = vec![0.0; size];
        new[self.width] = limit;
        for (cell, variable) in new.iter_mut().zip(&self.outside) {
            if *variable < self.width {
                *cell = row[*variable];
            }
        }
        for (own, variable) in self.cells.chunks(size).zip(&self.basis) {
            if *variable < self.width && row[*variable] != 0.0 {
                let factor = row[*variable];
                for (cell, other) in new.iter_mut().zip(own) {
                    *cell -= factor * other;
                }
            }
        }
        self.basis.push(self.width + self.basis.len());
        self.cells.extend(new);
    }

    /// From a point that meets all rows to the best one.
    pub(crate) fn ascend(&mut self) {
        let mut stalled = 0;
        for _ in 0..MAX_PIVOTS {
            let Some(entering) = self.entering(stalled >= PATIENCE) else {
                break;
            };
            // Unbounded: something that no row limits. Its value stays what it is.
            let Some((leaving, step)) = self.leaving(entering) else {
                self.objective[entering] = 0.0;
                continue;
            };
            stalled = if step > 1e-14 { 0 } else { stalled + 1 };
            self.pivot(leaving, entering);
        }
    }

    /// From a point that was best before rows were added to the best one that meets them too.
    pub(crate) fn descend(&mut self) {
        for _ in 0..MAX_PIVOTS {
            let size = self.width + 1;
            let mut worst: Option<(usize, f64)> = None;
            for (index, row) in self.cells.chunks(size).enumerate() {
                let side = row[self.width];
                if side < -1e-10 && worst.is_none_or(|(_, least)| side < least) {
                    worst = Some((index, side));
                }
            }
            let Some((leaving, _)) = worst else {
                return;
            };
            let row = &self.cells[leaving * size..(leaving + 1) * size];
            let mut best: Option<(usize, f64)> = None;
            for (index, cell) in row.iter().enumerate().take(self.width) {
                if *cell >= -EPSILON {
                    continue;
                }
                let loss = self.objective[index] / cell;
                let better = best.is_none_or(|(other, least)| {
                    loss < least - 1e-15
                        || (loss <= least + 1e-15 && self.outside[index] < self.outside[other])
                });
                if better {
                    best = Some((index, loss));
                }
            }
            let Some((entering, _)) = best else {
                return;
            };
            self.pivot(leaving, entering);
        }
    }

    fn entering(&self, cautious: bool) -> Option<usize> {
        let mut best: Option<usize> = None;
        for index in 0..self.width {
            if self.objective[index] <= EPSILON {
                continue;
            }
            let better = best.is_none_or(|best| {
                if cautious {
                    self.outside[index] < self.outside[best]
                } else {
                    self.objective[index] > self.objective[best]
                }
            });
            if better {
                best = Some(index);
            }
        }
        best
    }

    fn leaving(&self, entering: usize) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        for (index, row) in self.cells.chunks(self.width + 1).enumerate() {
            if row[entering] <= EPSILON {
                continue;
            }
            let step = row[self.width] / row[entering];
            let better = best.is_none_or(|(other, least)| {
                step < least - 1e-15
                    || (step <= least + 1e-15 && self.basis[index] < self.basis[other])
            });
            if better {
                best = Some((index, step));
            }
        }
        best
    }

    fn pivot(&mut self, leaving: usize, entering: usize) {
        let size = self.width + 1;
        self.effort += self.cells.len() as u64;
        let pivot = self.cells[leaving * size + entering];
        let (before, rest) = self.cells.split_at_mut(leaving * size);
        let (lead, after) = rest.split_at_mut(size);
        for (index, cell) in lead.iter_mut().enumerate() {
            if index != entering {
                *cell /= pivot;
            }
        }
        lead[entering] = 1.0 / pivot;
        let others = before.chunks_mut(size).chain(after.chunks_mut(size));
        for row in others.chain(std::iter::once(self.objective.as_mut_slice())) {
            let factor = row[entering];
            if factor == 0.0 {
                continue;
            }
            for (cell, lead) in row.iter_mut().zip(lead.iter()) {
                *cell -= factor * lead;
            }
            row[entering] = -factor / pivot;
        }
        std::mem::swap(&mut self.basis[leaving], &mut self.outside[entering]);
    }

    /// The point reached.
    pub(crate) fn solution(&self) -> LpSolution {
        let mut point = vec![0.0; self.width];
        for (row, variable) in self.cells.chunks(self.width + 1).zip(&self.basis) {
            if *variable < self.width {
                point[*variable] = row[self.width];
            }
        }
        let mut worth = vec![0.0; self.basis.len()];
        for (variable, reduced) in self.outside.iter().zip(&self.objective) {
            if *variable >= self.width {
                worth[variable - self.width] = -reduced;
            }
        }
        LpSolution { point, worth }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all limits are worth together: as much as the best point, by strong duality.
    fn worth(limits: &[f64], solution: &LpSolution) -> f64 {
        let pairs = limits.iter().zip(&solution.worth);
        pairs.map(|(limit, worth)| limit * worth).sum()
    }

    #[test]
    fn a_program_done_by_hand() {
        // 3x + 5y, x <= 4, 2y <= 12, 3x + 2y <= 18: best at (2, 6).
        let rows = [1.0, 0.0, 0.0, 2.0, 3.0, 2.0];
        let solution = maximise(&rows, &[4.0, 12.0, 18.0], &[3.0, 5.0]);
        assert!((solution.point[0] - 2.0).abs() < 1e-9);
        assert!((solution.point[1] - 6.0).abs() < 1e-9);
        assert!((worth(&[4.0, 12.0, 18.0], &solution) - 36.0).abs() < 1e-9);
    }

    #[test]
    fn rows_that_come_later_give_the_same_point() {
        let rows = [[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]];
        let limits = [4.0, 12.0, 18.0];
        let mut tableau = Tableau::new(&[3.0, 5.0]);
        tableau.add(&rows[0], limits[0]);
        tableau.add(&rows[1], limits[1]);
        tableau.ascend();
        let before = tableau.solution();
        assert!((before.point[0] - 4.0).abs() < 1e-9 && (before.point[1] - 6.0).abs() < 1e-9);
        tableau.add(&rows[2], limits[2]);
        tableau.descend();
        let late = tableau.solution();
        let early = maximise(&rows.concat(), &limits, &[3.0, 5.0]);
        for (a, b) in late.point.iter().zip(&early.point) {
            assert!((a - b).abs() < 1e-9);
        }
        for (a, b) in late.worth.iter().zip(&early.worth) {
            assert!((a - b).abs() < 1e-9);
        }
    }

    #[test]
    fn what_nothing_limits_is_left_alone() {
        let solution = maximise(&[1.0, 0.0], &[2.0], &[1.0, 1.0]);
        assert!((solution.point[0] - 2.0).abs() < 1e-9);
        assert!(solution.point[1].abs() < 1e-9);
    }
}
