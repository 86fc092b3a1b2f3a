//! The nodes as rows: which columns there is room for, and what stands in them.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::paint::Paint;
use super::words::{clip, short, squeeze};
use crate::api::column::Column;
use crate::api::model::{Bound, NodeView, State, Usage, dollars};
use crate::top::bar::filled;
use crate::top::state::Screen;

/// Between two columns.
const GAP: usize = 2;
/// The mark of the chosen node.
const MARK: usize = 2;
/// The percentage behind a bar.
const PERCENT: usize = 5;
/// Cells of a bar, and of a name, at most.
const BAR: usize = 10;
const NAME: usize = 44;
/// Cells of the bar of pods, where there is room for one.
const PODS: usize = 4;
/// Of the reason, at least; before anything else grows; and from where on it is more than a code.
const WHY: (usize, usize) = (15, 30);
const SENTENCE: usize = 26;
/// Of other words, at most.
const WORDS: usize = 16;

/// What is given up last comes first.
pub(super) const WORTH: [Column; 15] = [
    Column::Name,
    Column::Cpu,
    Column::Memory,
    Column::Price,
    Column::State,
    Column::Gpu,
    Column::Pods,
    Column::Pool,
    Column::Why,
    Column::Paid,
    Column::Type,
    Column::Zone,
    Column::Provider,
    Column::Age,
    Column::Waste,
];

impl Column {
    /// What it says of a node; bars aside.
    fn words(self, screen: &Screen, node: &NodeView) -> String {
        match self {
            Column::Name => node.name.clone(),
            Column::Pool => node.owner().to_owned(),
            Column::Provider => screen.provider(node).to_owned(),
            Column::Type => node.instance_type.clone(),
            Column::Paid => node.capacity_type.clone(),
            Column::Zone => node.zone.clone(),
            Column::Cpu | Column::Memory | Column::Gpu => String::new(),
            Column::Pods => pods(&node.usage.pods),
            Column::Price => node.price.dollars(),
            Column::Waste => wasted(node),
            Column::Age => short(age(screen, node)),
            Column::State => node.state.to_string(),
            Column::Why => sentence(node),
        }
    }

    /// How wide that is.
    fn width(self, screen: &Screen, node: &NodeView) -> usize {
        // There are thousands of nodes: what needs no copy is only counted.
        let text: &str = match self {
            Column::Name => &node.name,
            Column::Pool => node.owner(),
            Column::Provider => screen.provider(node),
            Column::Type => &node.instance_type,
            Column::Paid => &node.capacity_type,
            Column::Zone => &node.zone,
            _ => return self.words(screen, node).chars().count(),
        };
        text.chars().count()
    }

    /// The width of its title and of what it says, bars and reasons aside.
    fn natural(self, screen: &Screen) -> usize {
        let title = self.title().len() + usize::from(self == screen.order().0);
        if matches!(
            self,
            Column::Cpu | Column::Memory | Column::Gpu | Column::Why
        ) {
            return title;
        }
        let words = screen.nodes().map(|node| self.width(screen, node));
        words.max().unwrap_or_default().max(title)
    }

    /// The least width that makes sense on a terminal so wide.
    fn least(self, natural: usize, wide: usize) -> usize {
        let (bar, name, pods) = match wide {
            ..70 => (4, 16, 0),
            70..100 => (5, 16, 0),
            100..130 => (6, 18, 0),
            130..160 => (6, 18, PODS + 1),
            _ => (8, 24, PODS + 1),
        };
        match self {
            Column::Name => natural.min(name),
            Column::Cpu | Column::Memory | Column::Gpu => bar + PERCENT,
            Column::Pods => natural + pods,
            Column::Why => WHY.0,
            Column::Price | Column::Waste | Column::State => natural,
            _ => natural.min(WORDS),
        }
    }

    /// How much more it can use.
    fn more(self, natural: usize, size: usize) -> usize {
        match self {
            Column::Name => natural.min(NAME).saturating_sub(size),
            Column::Cpu | Column::Memory | Column::Gpu => (BAR + PERCENT).saturating_sub(size),
            Column::Why => WHY.1 - WHY.0,
            _ => 0,
        }
    }
}

/// Columns and their widths.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// From left to right.
    all: Vec<(Column, usize)>,
    /// Of the widest number of pods.
    pods: usize,
}

impl Columns {
    /// As many as there is room for.
    pub(super) fn choose(screen: &Screen, width: usize) -> Self {
        let gpus = screen.picture().overview.usage.gpu;
        let wanted = |column: &&Column| {
            let shown = gpus.allocatable + gpus.coming > 0;
            shown || **column != Column::Gpu
        };
        let mut chosen: Vec<(Column, usize)> = Vec::new();
        let (mut name, mut pods) = (0, 0);
        let mut left = width.saturating_sub(MARK);
        for column in WORTH.iter().filter(wanted) {
            let natural = column.natural(screen);
            match column {
                Column::Name => name = natural,
                Column::Pods => pods = natural,
                _ => {}
            }
            let least = column.least(natural, width);
            let gap = if chosen.is_empty() { 0 } else { GAP };
            if least + gap > left {
                // The order of worth would be none if what is worth less took the room.
                break;
            }
            left -= least + gap;
            chosen.push((*column, least));
        }
        // The reason grows first, to the beginning of its sentence, then bars, all alike, then names.
        let bars = [Column::Cpu, Column::Memory, Column::Gpu];
        let has = |column: &&Column| chosen.iter().any(|(one, _)| one == *column);
        let share = bars.iter().filter(has).count().max(1);
        let mut grow = |column: Column, most: usize, left: &mut usize| {
            if let Some((_, size)) = chosen.iter_mut().find(|(one, _)| *one == column) {
                let more = column.more(name, *size).min(most).min(*left);
                *size += more;
                *left -= more;
            }
        };
        grow(Column::Why, usize::MAX, &mut left);
        let each = left / share;
        for bar in bars {
            grow(bar, each, &mut left);
        }
        grow(Column::Name, usize::MAX, &mut left);
        if let Some((_, size)) = chosen.iter_mut().find(|(one, _)| *one == Column::Why) {
            *size += left;
        }
        chosen.sort_unstable_by_key(|(column, _)| *column);
        Columns { all: chosen, pods }
    }

    /// The line of titles.
    pub(super) fn titles(&self, screen: &Screen, paint: Paint) -> Line<'static> {
        let (order, reversed) = screen.order();
        let mut spans = vec![Span::raw(" ".repeat(MARK))];
        for (position, (column, size)) in self.all.iter().enumerate() {
            if position > 0 {
                spans.push(Span::raw(" ".repeat(GAP)));
            }
            let sorted = *column == order;
            let mut title = column.title().to_owned();
            if sorted {
                title.push(arrow(order, reversed));
            }
            let style = if sorted {
                paint.title()
            } else {
                Paint::strong()
            };
            spans.push(Span::styled(padded(&title, *size, column.right()), style));
        }
        Line::from(spans)
    }

    /// The line of a node.
    pub(super) fn row(
        &self,
        screen: &Screen,
        node: &NodeView,
        chosen: bool,
        paint: Paint,
    ) -> Line<'static> {
        let mark = if chosen { "> " } else { "  " };
        let mut spans = vec![Span::styled(mark, Paint::strong())];
        for (position, (column, size)) in self.all.iter().enumerate() {
            if position > 0 {
                spans.push(Span::raw(" ".repeat(GAP)));
            }
            match column {
                Column::Cpu => spans.extend(meter(&node.usage.cpu, *size, paint)),
                Column::Memory => spans.extend(meter(&node.usage.memory, *size, paint)),
                Column::Gpu => spans.extend(meter(&node.usage.gpu, *size, paint)),
                Column::Pods => {
                    // Few pods on a large node are nothing bad.
                    let cells = size.saturating_sub(self.pods + 1);
                    spans.extend(track(&node.usage.pods, cells, paint.plain(), paint));
                    let digits = size - cells;
                    let words = column.words(screen, node);
                    spans.push(Span::raw(format!("{words:>digits$}")));
                }
                Column::Name => {
                    let name = format!("{:<size$}", squeeze(&node.name, *size));
                    let style = if chosen {
                        Paint::chosen()
                    } else {
                        Style::new()
                    };
                    spans.push(Span::styled(name, style));
                }
                Column::Why if *size < SENTENCE => {
                    let code = node
                        .stays
                        .as_ref()
                        .map(|said| said.verdict.code.to_string());
                    let words = code.unwrap_or_else(|| sentence(node));
                    spans.push(Span::styled(padded(&words, *size, false), paint.faint()));
                }
                column => {
                    let words = column.words(screen, node);
                    let style = style_of(*column, node, paint);
                    spans.push(Span::styled(padded(&words, *size, column.right()), style));
                }
            }
        }
        Line::from(spans)
    }
}

fn style_of(column: Column, node: &NodeView, paint: Paint) -> Style {
    match column {
        Column::State => paint.state(node.state),
        Column::Paid => paint.paid(&node.capacity_type),
        Column::Price => Paint::strong(),
        Column::Pool if node.machine.is_none() => paint.faint(),
        Column::Why | Column::Age => paint.faint(),
        _ => Style::new(),
    }
}

/// Which way the order goes.
pub(super) fn arrow(order: Column, reversed: bool) -> char {
    if order.descends() == reversed {
        '▲'
    } else {
        '▼'
    }
}

fn padded(words: &str, size: usize, right: bool) -> String {
    let words = clip(words, size);
    if right {
        format!("{words:>size$}")
    } else {
        format!("{words:<size$}")
    }
}

/// A bar of so many cells: what is requested, and the rest.
fn track(usage: &Usage, cells: usize, full: Style, paint: Paint) -> [Span<'static>; 2] {
    let drawn = filled(usage.percent(), cells);
    let rest = cells - drawn.chars().count();
    let (rest, style) = if usage.allocatable <= 0 && usage.coming > 0 {
        ("▒".repeat(rest), paint.coming())
    } else {
        ("░".repeat(rest), paint.faint())
    };
    [Span::styled(drawn, full), Span::styled(rest, style)]
}

/// A bar and its percentage; nothing where there is none of it.
fn meter(usage: &Usage, size: usize, paint: Paint) -> Vec<Span<'static>> {
    if usage.allocatable + usage.coming <= 0 {
        return vec![Span::styled(format!("{:>size$}", "-"), paint.faint())];
    }
    let full = paint.full(usage.percent());
    let mut spans = track(usage, size.saturating_sub(PERCENT), full, paint).to_vec();
    spans.push(Span::raw(if usage.allocatable > 0 {
        format!(" {:>3}%", usage.percent())
    } else {
        format!(" {:>4}", "new")
    }));
    spans
}

fn pods(usage: &Usage) -> String {
    format!("{}/{}", usage.requested, usage.allocatable + usage.coming)
}

/// What a node wastes an hour, if its price is known.
fn wasted(node: &NodeView) -> String {
    match (node.price.bound, node.state) {
        (Bound::Unknown, _) => "?".to_owned(),
        (_, State::Coming | State::Starting) => "-".to_owned(),
        _ => dollars(node.waste()),
    }
}

/// How old a node was when the picture was taken, in seconds.
pub(super) fn age(screen: &Screen, node: &NodeView) -> i64 {
    let at = screen.picture().overview.at;
    at.duration_since(node.created).as_secs()
}

/// Why a node stays or goes: the code first, for what follows may be cut, and nothing twice.
pub(super) fn sentence(node: &NodeView) -> String {
    let words = node.stays_words();
    match (&node.stays, node.state) {
        (Some(said), _) => {
            let code = &said.verdict.code;
            let told = ["Stays: ", "Goes: "];
            let short = told.iter().find_map(|told| words.strip_prefix(told));
            let short = short.unwrap_or(&words);
            let twice = format!("{code}: ");
            let short = short.strip_prefix(&*twice).unwrap_or(short);
            format!("{twice}{short}")
        }
        (None, State::Coming) => "Not joined yet.".to_owned(),
        (None, _) => words,
    }
}
