//! The cluster as a whole: bars on the left, money on the right.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::paint::Paint;
use crate::api::history::clock;
use crate::api::model::{Bound, Overview, Usage, Usages, dollars};
use crate::api::why::lasted;
use crate::page::{cores, gib};
use crate::top::bar::filled;
use crate::top::state::Screen;

/// From this width on there is room for what bars say in words.
const WIDE: usize = 76;
/// From this width on there is room for more.
const VERY_WIDE: usize = 110;
/// Blocks of the trend at most, and how many measurements make one.
const TREND: usize = 24;
const LEAST: usize = 4;
/// A picture of this age, in seconds, is not of now any more.
const OLD: i64 = 10;

/// Nodes and pods, who was asked, and when.
pub(super) fn title(screen: &Screen, old: i64, width: usize, paint: Paint) -> Line<'static> {
    let view = &screen.picture().overview;
    let mut pods = vec![
        Span::raw("  "),
        Span::styled(
            counted(view.pods_bound + view.pods_waiting, "pod"),
            Paint::strong(),
        ),
    ];
    if view.pods_waiting > 0 {
        let said = format!(", {} pending", view.pods_waiting);
        pods.push(Span::styled(said, paint.warning()));
    }
    if view.pods_unplaced > 0 {
        let said = format!(", {} without a place", view.pods_unplaced);
        pods.push(Span::styled(said, paint.alarm()));
    }
    let mut left = vec![
        Span::styled(" joiner top", paint.title()),
        Span::raw("  "),
        Span::styled(counted(view.nodes.all(), "node"), Paint::strong()),
    ];
    let rest = format!(", {}", view.nodes.rest());
    let used: usize = left.iter().chain(&pods).map(Span::width).sum();
    // Pods that wait matter more than nodes that come.
    if rest != ", all ready" && used + rest.len() <= width {
        left.push(Span::raw(rest));
    }
    left.extend(pods);
    let mut at = clock(view.at);
    if old >= OLD {
        at = format!("{at}, {} ago", lasted(old));
    }
    let name = screen.origin().name.clone();
    let used: usize = left.iter().map(Span::width).sum();
    let room = width.saturating_sub(used + 2);
    let right = [format!("{name}  {at} "), format!("{at} ")]
        .into_iter()
        .find(|one| one.chars().count() <= room);
    if let Some(right) = right {
        let gap = width - used - right.chars().count();
        left.push(Span::raw(" ".repeat(gap)));
        left.push(Span::styled(right, paint.faint()));
    }
    Line::from(left)
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// How many lines the totals take; the trend has one of its own only where there is room for it.
pub(super) fn height(view: &Overview, space: Space) -> usize {
    let trend = usize::from(space == Space::Much && trend(view, TREND).is_some());
    bars(view).len().max(3 + trend)
}

/// Whether there is room for what is only nice to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Little,
    Much,
}

/// What there is, what it costs.
pub(super) fn totals(
    screen: &Screen,
    height: usize,
    width: usize,
    paint: Paint,
) -> Vec<Line<'static>> {
    let view = &screen.picture().overview;
    let bars = bars(view);
    let cells = match width {
        ..WIDE => 6,
        WIDE..VERY_WIDE => 8,
        _ => 20,
    };
    let words = |bar: &Bar| match (width, bar.usage.coming) {
        (..WIDE, _) => String::new(),
        (VERY_WIDE.., 1..) => format!("  {}, {} coming", bar.words, bar.coming),
        _ => format!("  {}", bar.words),
    };
    let longest = bars.iter().map(|one| words(one).chars().count()).max();
    let longest = longest.unwrap_or_default();
    let longest = if width < VERY_WIDE {
        longest
    } else {
        // What is beside it stands still while figures change.
        longest.next_multiple_of(4)
    };
    let before = cells + 13 + longest;
    let mut money = money(view, width.saturating_sub(before), paint).into_iter();
    let line = |row: usize| {
        let Some(one) = bars.get(row) else {
            return vec![Span::raw(" ".repeat(before))];
        };
        let mut spans = vec![Span::styled(format!(" {:<4} ", one.name), Paint::strong())];
        let full = if one.name == "PODS" {
            paint.plain()
        } else {
            paint.full(one.usage.percent())
        };
        spans.extend(edge(&one.usage, cells, full, paint));
        spans.push(Span::raw(format!(" {:>3}%", one.usage.percent())));
        let said = words(one);
        spans.push(Span::raw(format!("{said:<longest$}  ")));
        spans
    };
    let lines = (0..height).map(|row| {
        let mut spans = line(row);
        spans.extend(money.next().unwrap_or_default());
        Line::from(spans)
    });
    lines.collect()
}

/// A resource of the whole cluster.
struct Bar {
    name: &'static str,
    usage: Usage,
    words: String,
    coming: String,
}

fn bars(view: &Overview) -> Vec<Bar> {
    let bar = |name, usage: Usage, words, coming| Bar {
        name,
        usage,
        words,
        coming,
    };
    let Usages {
        cpu,
        memory,
        gpu,
        pods,
    } = view.usage;
    let number = |usage: Usage| usage.coming.to_string();
    let mut all = vec![
        bar("CPU", cpu, cpu.as_cores() + " cores", cores(cpu.coming)),
        bar("MEM", memory, memory.as_gib(), gib(memory.coming)),
    ];
    if gpu.allocatable + gpu.coming > 0 {
        all.push(bar("GPU", gpu, gpu.as_number(), number(gpu)));
    }
    all.push(bar("PODS", pods, pods.as_number(), number(pods)));
    all
}

/// A bar whose end is what is on its way.
fn edge(usage: &Usage, cells: usize, full: Style, paint: Paint) -> [Span<'static>; 3] {
    let all = usage.allocatable.max(0) + usage.coming.max(0);
    let width = i64::try_from(cells).unwrap_or_default();
    // In floating point, for bytes times cells need not fit.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a few cells"
    )]
    let coming = if all > 0 {
        (usage.coming.max(0) as f64 / all as f64 * width as f64).round() as i64
    } else {
        0
    };
    let coming = usize::try_from(coming).unwrap_or_default().min(cells);
    let drawn = filled(usage.percent(), cells - coming);
    let free = cells - coming - drawn.chars().count();
    [
        Span::styled(drawn, full),
        Span::styled("░".repeat(free), paint.faint()),
        Span::styled("▒".repeat(coming), paint.coming()),
    ]
}

/// Cost, waste and the distance from the least possible, as lines.
fn money(view: &Overview, room: usize, paint: Paint) -> Vec<Vec<Span<'static>>> {
    let label = |text: &str| Span::styled(format!("{text:<6}"), paint.faint());
    let hourly = format!("{}/h", view.cost.dollars());
    let spot = view.spot_percent.percent();
    let monthly = view.cost.monthly();
    let left = room.saturating_sub(6 + hourly.chars().count());
    let rest = [
        format!("  {monthly}/month  spot {spot}"),
        format!("  {monthly}/mo  spot {spot}"),
        format!("  {monthly}/mo"),
    ];
    let rest = rest.into_iter().find(|one| one.chars().count() <= left);
    let cost = vec![
        label("cost"),
        Span::styled(hourly, paint.money()),
        Span::raw(rest.unwrap_or_default()),
    ];
    let line = |name: &str, figure: String, words: [String; 2], style: Style| {
        let left = room.saturating_sub(6 + figure.chars().count());
        let words = words.into_iter().find(|one| one.chars().count() <= left);
        vec![
            label(name),
            Span::raw(figure),
            Span::styled(words.unwrap_or_default(), style),
        ]
    };
    let share = if view.cost.value > 0.0 {
        let share = view.waste.value * 100.0 / view.cost.value;
        format!("  {share:.0}% of the cost")
    } else {
        String::new()
    };
    let waste = line(
        "waste",
        format!("{}/h", view.waste.dollars()),
        [share.clone() + " is not requested", share],
        Style::new(),
    );
    let (far, style) = distance(view, paint);
    let bound = line(
        "bound",
        format!("{}/h", view.bound.dollars()),
        [format!("  {}", view.gap()), format!("  {far}")],
        style,
    );
    let mut lines = vec![cost, waste, bound];
    if let Some((drawn, said)) = trend(view, room.saturating_sub(6).min(TREND)) {
        let left = room.saturating_sub(6 + drawn.chars().count());
        lines.push(vec![
            label("trend"),
            Span::styled(drawn, paint.plain()),
            Span::raw(if said.chars().count() <= left {
                said
            } else {
                String::new()
            }),
        ]);
    }
    lines
}

/// What the cluster has cost since it is measured, as blocks, and since when in words.
fn trend(view: &Overview, cells: usize) -> Option<(String, String)> {
    let (first, all) = (view.history.first()?, &view.history);
    let most = all.iter().map(|one| one.cost).fold(0.0, f64::max);
    if all.len() < LEAST || cells == 0 || most <= 0.0 {
        return None;
    }
    let cells = cells.min(all.len());
    let block = |cell: usize| {
        // The last measurement of each part, so that the end is what it costs now.
        let at = (cell + 1) * all.len() / cells - 1;
        let share = all[at].cost / most;
        let blocks = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let highest = (1..blocks.len()).rev();
        #[expect(clippy::cast_precision_loss, reason = "eight blocks")]
        let height = |block: &usize| share * blocks.len() as f64 > *block as f64;
        blocks[highest.into_iter().find(height).unwrap_or_default()]
    };
    let since = first.at.strftime("%H:%M");
    let said = format!("  since {since}, at most {}/h", dollars(most));
    Some(((0..cells).map(block).collect(), said))
}

/// How far the cost is above the least possible, in a few words.
fn distance(view: &Overview, paint: Paint) -> (String, Style) {
    if view.bound.bound == Bound::Unknown || view.bound.value <= 0.0 {
        return ("not known yet".to_owned(), paint.faint());
    }
    let above = (view.cost.value / view.bound.value - 1.0) * 100.0;
    let style = match above {
        ..10.0 => paint.full(100),
        10.0..40.0 => paint.warning(),
        _ => paint.alarm(),
    };
    (format!("≤ {:.0}% above", above.max(0.0)), style)
}
