//! Charts, drawn here: numbers in, SVG out. Text from the cluster is escaped.

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::api::model::{NodeView, PricePoint, Sample, Usage, dollars};

/// Text that may stand anywhere in markup.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Size of the chart of the cost, in its own units.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 24.0;

/// A step below `most` / 3 that people count in.
fn step(most: f64) -> f64 {
    let rough = (most / 3.0).max(1e-6);
    let power = 10f64.powf(rough.log10().floor());
    let ratio = rough / power;
    let nice = match ratio {
        ratio if ratio < 1.5 => 1.0,
        ratio if ratio < 3.5 => 2.0,
        ratio if ratio < 7.5 => 5.0,
        _ => 10.0,
    };
    nice * power
}

/// Cost over time, with the bound below it and "never removing anything" above it.
pub(crate) fn cost(samples: &[Sample]) -> String {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return String::new();
    };
    let highest = samples
        .iter()
        .map(|one| one.kept.max(one.cost))
        .fold(0.0, f64::max);
    let step = step(highest);
    let top = ((highest / step).ceil() * step).max(step);
    let begin = first.at.as_millisecond();
    let span = (last.at.as_millisecond() - begin).max(1);
    let x = |at: Timestamp| {
        #[expect(clippy::cast_precision_loss, reason = "pixels")]
        let part = (at.as_millisecond() - begin) as f64 / span as f64;
        LEFT + part * (WIDTH - LEFT - 8.0)
    };
    let y = |value: f64| 8.0 + (1.0 - value / top) * (HEIGHT - BOTTOM - 8.0);
    let base = y(0.0);
    let stairs = |of: &dyn Fn(&Sample) -> Option<f64>| {
        let mut path = String::new();
        let mut before: Option<f64> = None;
        for sample in samples {
            let Some(value) = of(sample) else { continue };
            let (at, level) = (x(sample.at), y(value));
            let _ = match before {
                None => write!(path, "M{at:.1} {level:.1}"),
                Some(_) => write!(path, "H{at:.1}V{level:.1}"),
            };
            before = Some(value);
        }
        path
    };
    let cost = stairs(&|one| Some(one.cost));
    let area = format!("{cost}V{base:.1}H{:.1}Z", x(first.at));
    let bound = stairs(&|one| one.bound);
    let kept = stairs(&|one| Some(one.kept));
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Cost an hour from {} to {}: now \
         {}, at most {}\">",
        first.at.strftime("%H:%M:%S"),
        last.at.strftime("%H:%M:%S"),
        dollars(last.cost),
        dollars(highest)
    );
    let near = levels(&mut svg, top, step, y);
    for (part, anchor) in (0_i64..).zip(["start", "middle", "middle", "middle", "end"]) {
        let at = first.at.as_millisecond() + span * part / 4;
        let Ok(at) = Timestamp::from_millisecond(at) else {
            continue;
        };
        let _ = write!(
            svg,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            x(at),
            HEIGHT - 6.0,
            at.strftime("%H:%M:%S")
        );
    }
    let _ = write!(
        svg,
        "<path class=\"area\" d=\"{area}\"/><path class=\"kept\" d=\"{kept}\"/><path class=\"bound\" d=\"{bound}\"/>\
         <path class=\"cost\" d=\"{cost}\"/>{near}</svg>"
    );
    svg
}

/// Lines at round figures. A phone sees only the end of the chart: returns the figures to stand above the lines there.
fn levels(svg: &mut String, top: f64, step: f64, y: impl Fn(f64) -> f64) -> String {
    let mut near = String::new();
    let mut level = 0.0;
    while level <= top + step / 2.0 {
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/><text class=\"axis\" \
             x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>",
            y(level),
            LEFT - 8.0,
            y(level) + 4.0,
            dollars(level)
        );
        let _ = write!(
            near,
            "<text class=\"axis near\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" aria-hidden=\"true\">{}</text>",
            WIDTH - 4.0,
            y(level) - 4.0,
            dollars(level)
        );
        level += step;
    }
    near
}

/// What is requested, what there is, and beyond its edge what is on its way.
pub(crate) fn capacity(usage: &Usage) -> String {
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    let share = |value: i64| {
        let whole = (usage.allocatable + usage.coming)
            .max(usage.requested)
            .max(1);
        value.max(0) as f64 * 100.0 / whole as f64
    };
    let (there, coming) = (share(usage.allocatable), share(usage.coming));
    let used = share(usage.requested);
    let mut svg = "<svg class=\"bar\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\">".to_owned();
    let _ = write!(
        svg,
        "<rect class=\"there\" width=\"{there:.2}\" height=\"6\"/><rect class=\"coming\" x=\"{there:.2}\" \
         width=\"{coming:.2}\" height=\"6\"/><rect class=\"used\" width=\"{used:.2}\" height=\"6\"/></svg>"
    );
    svg
}

/// How many pods of a node are drawn.
const DRAWN: usize = 160;

/// A node as a box, filled by its pods in proportion to what they request most of.
pub(crate) fn node(view: &NodeView) -> String {
    let usage = &view.usage;
    let room = |usage: &Usage| (usage.allocatable + usage.coming).max(1);
    let (cpu, memory) = (room(&usage.cpu), room(&usage.memory));
    let by_cpu =
        usage.cpu.requested.saturating_mul(memory) >= usage.memory.requested.saturating_mul(cpu);
    let mut svg = "<svg class=\"box\" viewBox=\"0 0 100 14\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect \
                   class=\"room\" width=\"100\" height=\"14\"/>"
        .to_owned();
    let mut at = 0.0;
    for pod in view.on_it.iter().take(DRAWN) {
        let (asked, room) = if by_cpu {
            (pod.cpu, cpu)
        } else {
            (pod.memory, memory)
        };
        #[expect(clippy::cast_precision_loss, reason = "pixels")]
        let width = (asked.max(0) as f64 * 100.0 / room as f64)
            .max(0.4)
            .min(100.0 - at);
        let class = if pod.daemon { "daemon" } else { "pod" };
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{at:.2}\" width=\"{:.2}\" height=\"14\"><title>{}</title></rect>",
            (width - 0.35).max(0.3),
            escape(&pod.name)
        );
        at += width;
        if at >= 99.9 {
            break;
        }
    }
    svg.push_str("</svg>");
    svg
}

/// A price over time, small; moments at which nodes were removed for their price are marked.
pub(crate) fn spark(points: &[PricePoint], until: Timestamp, switches: &[Timestamp]) -> String {
    let Some(first) = points.first() else {
        return String::new();
    };
    let low = points.iter().map(|one| one.price).fold(f64::MAX, f64::min);
    let high = points.iter().map(|one| one.price).fold(0.0, f64::max);
    let begin = first.at.as_millisecond();
    let span = (until.as_millisecond() - begin).max(1);
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    let x = |at: Timestamp| (at.as_millisecond() - begin) as f64 * 120.0 / span as f64;
    let y = |price: f64| {
        if high > low {
            4.0 + (high - price) / (high - low) * 20.0
        } else {
            14.0
        }
    };
    let mut path = String::new();
    for (position, point) in points.iter().enumerate() {
        let _ = if position == 0 {
            write!(path, "M{:.1} {:.1}", x(point.at), y(point.price))
        } else {
            write!(path, "H{:.1}V{:.1}", x(point.at), y(point.price))
        };
    }
    path.push_str("H120");
    let mut svg = format!(
        "<svg class=\"spark\" viewBox=\"0 0 120 28\" role=\"img\" aria-label=\"between {} and {} since {}\">",
        dollars(low),
        dollars(high),
        first.at.strftime("%H:%M:%S")
    );
    for at in switches
        .iter()
        .filter(|at| **at >= first.at && **at <= until)
    {
        let _ = write!(
            svg,
            "<line class=\"switch\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"28\"/>",
            x(*at)
        );
    }
    let _ = write!(svg, "<path class=\"price\" d=\"{path}\"/></svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::model::{PodView, Usages};

    #[test]
    fn names_from_the_cluster_cannot_leave_their_place() {
        let mut view = NodeView {
            usage: Usages {
                cpu: Usage {
                    requested: 500,
                    allocatable: 1000,
                    coming: 0,
                },
                ..Usages::default()
            },
            ..NodeView::default()
        };
        view.on_it.push(PodView {
            name: "a/</title><script>alert(1)</script>".to_owned(),
            cpu: 500,
            memory: 0,
            daemon: false,
        });
        let svg = node(&view);
        assert!(!svg.contains("<script"), "{svg}");
        assert!(svg.contains("&lt;script&gt;"), "{svg}");
    }

    #[test]
    fn what_is_on_its_way_is_drawn_beyond_what_is_there() {
        let svg = capacity(&Usage {
            requested: 30,
            allocatable: 60,
            coming: 40,
        });
        assert!(
            svg.contains("class=\"coming\" x=\"60.00\" width=\"40.00\""),
            "{svg}"
        );
        assert!(svg.contains("class=\"used\" width=\"30.00\""), "{svg}");
    }

    #[test]
    fn a_chart_counts_in_round_steps() {
        for (most, expected) in [(1.0, 0.2), (10.0, 2.0), (0.07, 0.02), (900.0, 200.0)] {
            assert!(
                (step(most) - expected).abs() < expected * 1e-6,
                "{most}: {}",
                step(most)
            );
        }
        assert_eq!(cost(&[]), "");
    }
}
