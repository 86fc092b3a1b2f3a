//! The frame: a function of what is shown, of the time and of the size of the terminal.
//!
//! ```text
//! nodes and pods, who was asked, when
//! CPU, memory, GPU, pods              cost, waste, bound
//! what is wrong, if anything is
//! titles of the columns
//! nodes
//! ────────────────────────────
//! the chosen node, why it stays
//! order and filter                    keys
//! ```

mod columns;
mod paint;
mod totals;
mod words;

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Rect, Size};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

use self::columns::{Columns, age, arrow, sentence};
use self::words::{clip, short, wrap};
use super::state::{Front, Room, Screen, Text};
use crate::api::model::NodeView;
use crate::api::why::lasted;

pub(super) use self::paint::Paint;

/// Below this height only the nodes are shown, with their titles.
const LOW: u16 = 14;
/// From these heights on the reason of the chosen node has two lines, and three.
const HIGH: u16 = 22;
const VERY_HIGH: u16 = 34;
/// The most lines that what is wrong may take.
const WRONG: usize = 2;

const HELP: &str = "\
Up Down j k            the node above, the one below
PageUp PageDown b Spc  a page up, a page down
Home End g G           the first node, the last
Left Right < >         sort by another column
r                      turn the order round
/                      filter: words of name, pool, provider, type, zone, capacity type, state
w Enter                why the node is as it is, and what would change it
?                      this help
q Esc                  back, and from the nodes: end
Ctrl-C                 end

CPU, memory, GPU and pods are what pods request of what is allocatable; ▒ is on its way.
waste is what nodes cost an hour for what no pod requests, by the resource that is requested most.
bound: no set of machines that holds these pods costs less than that an hour.
A figure without a mark is exact; ≥ means at least, ≤ at most, ? not known.";

/// How many lines each part has.
#[derive(Clone, Copy, Debug, Default)]
struct Heights {
    totals: u16,
    gap: u16,
    chosen: u16,
    nodes: u16,
}

impl Heights {
    /// Title, titles of columns and the last line are always there.
    fn of(screen: &Screen, size: Size, wrong: usize) -> Self {
        let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let low = size.height < LOW;
        let totals = if low {
            0
        } else {
            let space = if size.height < VERY_HIGH {
                totals::Space::Little
            } else {
                totals::Space::Much
            };
            lines(totals::height(&screen.picture().overview, space))
        };
        let chosen = match size.height {
            ..LOW => 0,
            LOW..HIGH => 3,
            HIGH..VERY_HIGH => 4,
            _ => 5,
        };
        let wrong = lines(wrong);
        let gap = u16::from(size.height >= VERY_HIGH);
        let nodes = size
            .height
            .saturating_sub(3 + totals + wrong + gap + chosen)
            .max(1);
        Heights {
            totals,
            gap,
            chosen,
            nodes,
        }
    }
}

/// How much there is room for.
pub(super) fn room(screen: &Screen, now: Timestamp, size: Size) -> Room {
    let width = usize::from(size.width);
    let heights = Heights::of(screen, size, wrong(screen, now, width).len());
    let lines = screen.front().map(|front| text(front, width).len());
    Room {
        nodes: usize::from(heights.nodes),
        lines: lines.unwrap_or_default(),
        seen: usize::from(size.height.saturating_sub(4)),
    }
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen, now: Timestamp, paint: Paint) {
    let area = frame.area();
    let width = usize::from(area.width);
    let old = old(screen, now);
    let mut lines = vec![totals::title(screen, old, width, paint)];
    if let Some(front) = screen.front() {
        frame.render_widget(Paragraph::new(lines), area);
        in_front(frame, front, paint);
    } else {
        let wrong = wrong(screen, now, width);
        let size = Size::new(area.width, area.height);
        let heights = Heights::of(screen, size, wrong.len());
        if heights.totals > 0 {
            let height = usize::from(heights.totals);
            lines.extend(totals::totals(screen, height, width, paint));
        }
        let alarm = |line: String| Line::styled(line, paint.alarm());
        lines.extend(wrong.into_iter().map(alarm));
        lines.extend((0..heights.gap).map(|_| Line::default()));
        lines.extend(nodes(screen, heights, width, paint));
        lines.extend(chosen(screen, heights, width, paint));
        frame.render_widget(Paragraph::new(lines), area);
    }
    let last = Rect {
        y: area.bottom().saturating_sub(1),
        height: area.height.min(1),
        ..area
    };
    frame.render_widget(Paragraph::new(status(screen, width, paint)), last);
}

/// How old the picture is, in seconds.
fn old(screen: &Screen, now: Timestamp) -> i64 {
    let read = screen.picture().read;
    now.duration_since(read).as_secs().max(0)
}

/// What is wrong, as lines.
fn wrong(screen: &Screen, now: Timestamp, width: usize) -> Vec<String> {
    let picture = screen.picture();
    let view = &picture.overview;
    let said = if let Some(trouble) = screen.trouble() {
        let age = lasted(old(screen, now));
        format!("This picture is {age} old: {trouble}")
    } else if !view.synced {
        "Not every list has come in yet: nodes and pods may be missing.".to_owned()
    } else if screen.origin().page && !view.leading {
        "This replica does not lead: what was decided is known to the leader.".to_owned()
    } else if let Some(one) = view.providers.iter().find(|one| !one.ready) {
        let said = one.sentence.as_deref().unwrap_or("it is not ready");
        format!("Nothing can be bought with {}: {said}", one.class)
    } else if picture.nodes.len() < picture.total {
        let (some, all) = (picture.nodes.len(), picture.total);
        format!("These are {some} of {all} nodes: the page tells of no more at once.")
    } else {
        return Vec::new();
    };
    let mut lines = wrap(&said, width.saturating_sub(2));
    shorten(&mut lines, WRONG, width.saturating_sub(2));
    lines.into_iter().map(|line| format!(" {line}")).collect()
}

/// At most so many lines; the last is cut where there were more.
fn shorten(lines: &mut Vec<String>, most: usize, width: usize) {
    if most > 0 && lines.len() > most {
        let rest = lines.split_off(most - 1);
        let rest: Vec<&str> = rest.iter().map(|line| line.trim()).collect();
        lines.push(clip(&rest.join(" "), width));
    }
}

fn nodes(screen: &Screen, heights: Heights, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let columns = Columns::choose(screen, width);
    let seen = usize::from(heights.nodes);
    let mut lines = vec![columns.titles(screen, paint)];
    let rows = screen
        .nodes()
        .enumerate()
        .skip(screen.first())
        .take(seen)
        .map(|(row, node)| columns.row(screen, node, row == screen.cursor(), paint));
    lines.extend(rows);
    if screen.nodes().len() == 0 {
        let said = if screen.filter().0.trim().is_empty() {
            "  There are no nodes yet."
        } else {
            "  No node has all these words: / and Esc show all again."
        };
        lines.push(Line::styled(said, paint.faint()));
    }
    lines.resize(seen + 1, Line::default());
    lines
}

/// The chosen node in more words than its row has.
fn chosen(screen: &Screen, heights: Heights, width: usize, paint: Paint) -> Vec<Line<'static>> {
    if heights.chosen == 0 {
        return Vec::new();
    }
    let mut lines = vec![Line::styled("─".repeat(width), paint.faint())];
    if let Some(node) = screen.chosen() {
        let said = facts(screen, node);
        let room = width.saturating_sub(node.name.chars().count() + 3);
        lines.push(Line::from(vec![
            Span::styled(format!(" {}", node.name), Paint::strong()),
            Span::styled(clip(&format!("  {said}"), room), paint.faint()),
        ]));
        let reason = sentence(node);
        let most = usize::from(heights.chosen - 2);
        let mut reason = wrap(&reason, width.saturating_sub(2));
        shorten(&mut reason, most, width.saturating_sub(2));
        lines.extend(reason.into_iter().map(|line| Line::raw(format!(" {line}"))));
    }
    lines
}

/// What a narrow terminal has no columns for.
fn facts(screen: &Screen, node: &NodeView) -> String {
    let of = |text: &str, before: &str| (!text.is_empty()).then(|| format!("{before}{text}"));
    let parts = [
        of(&node.instance_type, ""),
        of(&node.capacity_type, ""),
        of(&node.zone, "in "),
        node.pool.as_deref().and_then(|pool| of(pool, "pool ")),
        of(screen.provider(node), "from "),
        Some(short(age(screen, node)) + " old"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("  ")
}

/// Order and filter, and the keys that matter most.
fn status(screen: &Screen, width: usize, paint: Paint) -> Line<'static> {
    if screen.front().is_some() {
        return Line::styled(" Up Down scroll  q back  Ctrl-C end", paint.faint());
    }
    let (order, reversed) = screen.order();
    let (filter, typing) = screen.filter();
    let (left, all) = (screen.nodes().len(), screen.picture().nodes.len());
    let mut spans = Vec::new();
    if typing {
        spans.push(Span::styled(format!(" /{filter}"), Paint::strong()));
        spans.push(Span::styled(" ", Paint::chosen()));
    } else {
        spans.push(Span::raw(format!(" by {order} {}", arrow(order, reversed))));
        if !filter.is_empty() {
            spans.push(Span::styled(format!("  /{filter}"), Paint::strong()));
        }
    }
    spans.push(Span::raw(if left == all {
        format!("  {}/{all}", (screen.cursor() + 1).min(all))
    } else {
        format!("  {left} of {all} nodes")
    }));
    let used: usize = spans.iter().map(Span::width).sum();
    let room = width.saturating_sub(used + 3);
    let keys = if typing {
        ["Enter keep  Esc clear", "", ""]
    } else {
        [
            "w why  / filter  < > sort  r reverse  ? help  q end",
            "w why  / filter  < > sort  ? help  q end",
            "? help  q end",
        ]
    };
    if let Some(keys) = keys.iter().find(|keys| keys.len() <= room) {
        let gap = width - used - keys.len() - 1;
        spans.push(Span::raw(" ".repeat(gap)));
        spans.push(Span::styled(*keys, paint.faint()));
    }
    Line::from(spans)
}

/// The lines of a text, as broad as the terminal allows.
fn text(front: &Front, width: usize) -> Vec<String> {
    let width = width.saturating_sub(4);
    match &front.text {
        Text::Help => wrap(HELP, width),
        Text::Why(_, Some(said)) => wrap(said, width),
        Text::Why(_, None) => vec!["…".to_owned()],
    }
}

fn in_front(frame: &mut Frame<'_>, front: &Front, paint: Paint) {
    let area = frame.area();
    let inner = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(2),
        ..area
    };
    let title = match &front.text {
        Text::Help => " keys and words ".to_owned(),
        Text::Why(asked, _) => format!(" why {} ", asked.name),
    };
    let all = text(front, usize::from(area.width));
    let seen = usize::from(inner.height.saturating_sub(2));
    let below = all.len().saturating_sub(front.first + seen);
    let lines = all.into_iter().skip(front.first).take(seen).map(|line| {
        let heading = line.ends_with(':') && !line.starts_with(' ');
        let style = if heading {
            Paint::strong()
        } else {
            ratatui::style::Style::new()
        };
        Line::styled(format!(" {line}"), style)
    });
    let mut block = Block::bordered()
        .border_style(paint.faint())
        .title(Span::styled(title, paint.title()));
    if below > 0 {
        block = block.title_bottom(Line::raw(format!(" {below} more lines ")).right_aligned());
    }
    let lines: Vec<Line<'_>> = lines.collect();
    frame.render_widget(Paragraph::new(lines).block(block), inner);
}

#[cfg(test)]
mod tests;
