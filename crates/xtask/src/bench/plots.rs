//! Figures as pictures: pods against seconds, memory and price, Joiner beside Karpenter, both axes logarithmic.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use plotters::prelude::*;

use super::row::{Outcome, Row};
use super::summary;

/// Figures of all runs so far, beside the pictures.
const FIGURES: &str = "benchmarks.csv";
const HEADER: &str = "kind,solver,pods,seconds,mebibytes,price over bound";
/// Of a picture, in pixels.
const SIZE: (u32, u32) = (760, 480);
/// One for each kind, in the order of their names: told apart by people who see few colours, too.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
    RGBColor(90, 90, 90),
];
/// A line of dashes: how long they are, and how far apart.
const DASHES: (u32, u32) = (6, 4);

const JOINER: &str = "Joiner";
const KARPENTER: &str = "Karpenter";

/// Kind of problem, solver and number of pods.
type Key = (String, String, u32);

/// Means of problems of one kind and size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    seconds: f64,
    mebibytes: f64,
    /// Price over the best bound.
    over_bound: f64,
}

/// A picture: where it goes, what it says, and which figure it shows.
type Picture = (&'static str, &'static str, fn(&Figures) -> f64);

const PICTURES: [Picture; 3] = [
    ("seconds.svg", "Processor time to plan, in seconds", |one| {
        one.seconds
    }),
    ("memory.svg", "Peak memory, in MiB", |one| one.mebibytes),
    ("price.svg", "Price over the best bound", |one| {
        one.over_bound
    }),
];

/// Adds what was measured to the figures in a folder, and draws all of them.
pub(super) fn update(folder: &Path, rows: &[Row]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(FIGURES);
    let mut all = if path.exists() {
        read(&path)?
    } else {
        BTreeMap::new()
    };
    all.extend(measured(rows));
    let mut text = format!("{HEADER}\n");
    for ((kind, solver, pods), one) in &all {
        let Figures {
            seconds,
            mebibytes,
            over_bound,
        } = one;
        writeln!(
            text,
            "{kind},{solver},{pods},{seconds:.3},{mebibytes:.0},{over_bound:.4}"
        )?;
    }
    fs::write(&path, text)?;
    draw(folder)
}

/// Draws the figures in a folder.
pub(crate) fn draw(folder: &Path) -> Result<()> {
    let all = read(&folder.join(FIGURES))?;
    ensure!(!all.is_empty(), "there is no figure to draw");
    for (name, title, value) in PICTURES {
        let path = folder.join(name);
        picture(&path, title, value, &all)
            .map_err(|error| anyhow!("drawing {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Means of what was measured on generated problems.
fn measured(rows: &[Row]) -> BTreeMap<Key, Figures> {
    let mut all = BTreeMap::new();
    for group in summary::groups(rows) {
        let first = group[0];
        if first.group.types.is_none() {
            continue;
        }
        for solver in [JOINER, KARPENTER] {
            let outcomes: Vec<(&Outcome, f64)> = group
                .iter()
                .filter_map(|row| {
                    let outcome = if solver == JOINER {
                        Some(&row.joiner)
                    } else {
                        row.karpenter.as_ref()
                    };
                    Some((outcome?, row.joiner.bound.max(row.joiner.proven)))
                })
                .collect();
            let count: f64 = outcomes.iter().map(|_| 1.0).sum();
            if count == 0.0 {
                continue;
            }
            let mean = |value: fn(&(&Outcome, f64)) -> f64| {
                outcomes.iter().map(value).sum::<f64>() / count
            };
            let pods = format!("{:.0}", first.joiner.pods);
            let key = (
                first.group.name.clone(),
                solver.to_owned(),
                pods.parse().unwrap_or_default(),
            );
            let figures = Figures {
                seconds: mean(|(outcome, _)| outcome.milliseconds / 1000.0),
                mebibytes: mean(|(outcome, _)| outcome.mebibytes),
                over_bound: mean(|(outcome, bound)| outcome.price / bound),
            };
            all.insert(key, figures);
        }
    }
    all
}

fn read(path: &Path) -> Result<BTreeMap<Key, Figures>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines = text.lines().enumerate().skip(1);
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| {
            parsed(line).with_context(|| format!("{}, line {}", path.display(), number + 1))
        })
        .collect()
}

fn parsed(line: &str) -> Result<(Key, Figures)> {
    let cells: Vec<&str> = line.split(',').collect();
    let [kind, solver, pods, seconds, mebibytes, over_bound] = cells[..] else {
        return Err(anyhow!("not as many cells as in {HEADER:?}"));
    };
    let key = (kind.to_owned(), solver.to_owned(), pods.parse()?);
    let figures = Figures {
        seconds: seconds.parse()?,
        mebibytes: mebibytes.parse()?,
        over_bound: over_bound.parse()?,
    };
    Ok((key, figures))
}

/// From a little below the least to a little above the most.
fn span(values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    least / 1.1..most * 1.1
}

fn picture(
    path: &Path,
    title: &str,
    value: fn(&Figures) -> f64,
    all: &BTreeMap<Key, Figures>,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let pods = span(all.keys().map(|(.., pods)| f64::from(*pods)));
    let values = span(all.values().map(value));
    let mut chart = ChartBuilder::on(&area)
        .caption(
            format!("{title} (solid: {JOINER}, dashed: {KARPENTER})"),
            ("sans-serif", 17),
        )
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(56)
        .build_cartesian_2d(pods.log_scale(), values.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("pods")
        .x_label_formatter(&|pods| format!("{pods:.0}"))
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(WHITE)
        .draw()?;
    let mut lines: BTreeMap<(&str, &str), Vec<(f64, f64)>> = BTreeMap::new();
    for ((kind, solver, pods), one) in all {
        let line = lines.entry((kind, solver)).or_default();
        line.push((f64::from(*pods), value(one)));
    }
    let mut kinds: Vec<&str> = lines.keys().map(|(kind, _)| *kind).collect();
    kinds.dedup();
    for ((kind, solver), points) in lines {
        let position = kinds.iter().position(|known| *known == kind);
        let colour = COLOURS[position.unwrap_or_default() % COLOURS.len()];
        let dots = points.iter().map(|at| Circle::new(*at, 3, colour.filled()));
        chart.draw_series(dots)?;
        if solver == JOINER {
            let line = chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
            line.label(kind).legend(move |(x, y)| {
                PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2))
            });
        } else {
            let (long, apart) = DASHES;
            chart.draw_series(DashedLineSeries::new(
                points,
                long,
                apart,
                colour.stroke_width(2),
            ))?;
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::row::Group;
    use super::*;

    #[test]
    fn figures_of_earlier_runs_stay_and_those_of_the_same_problems_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let earlier =
            format!("{HEADER}\nplain,Joiner,10,9.0,9,9.0\nplain,Karpenter,10,2.0,60,1.3\n");
        fs::write(folder.path().join(FIGURES), earlier).unwrap();
        let outcome = |milliseconds: f64| Outcome {
            valid: true,
            pods: 10.0,
            price: 3.0,
            bound: 1.5,
            proven: 2.0,
            mebibytes: 12.0,
            milliseconds,
            ..Outcome::default()
        };
        let row = |milliseconds: f64| Row {
            group: Group::new("plain", Some(400)),
            joiner: outcome(milliseconds),
            first: None,
            without: Vec::new(),
            karpenter: None,
        };
        update(folder.path(), &[row(100.0), row(300.0)]).unwrap();
        let text = fs::read_to_string(folder.path().join(FIGURES)).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            "plain,Joiner,10,0.200,12,1.5000",
            "plain,Karpenter,10,2.000,60,1.3000",
        ];
        assert_eq!(lines, expected);
        for (name, title, _) in PICTURES {
            let picture = fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(
                picture.contains(title) && picture.contains("plain"),
                "{name}"
            );
        }
    }

    #[test]
    fn a_line_with_a_cell_too_few_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join(FIGURES),
            format!("{HEADER}\nplain,Joiner\n"),
        )
        .unwrap();
        let error = draw(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("benchmarks.csv, line 2"), "{error}");
    }
}
