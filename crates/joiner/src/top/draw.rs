//! The screen of `joiner top`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::{Screen, TITLES, cells, header, sizes};
use crate::api::model::{NodeView, State};

/// Widths of the columns.
const WIDTHS: [Constraint; 10] = [
    Constraint::Min(18),
    Constraint::Max(14),
    Constraint::Max(16),
    Constraint::Length(9),
    Constraint::Max(14),
    Constraint::Length(13),
    Constraint::Length(13),
    Constraint::Length(8),
    Constraint::Length(9),
    Constraint::Length(9),
];

pub(super) fn screen(frame: &mut Frame<'_>, screen: &Screen) {
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let totals = match (&screen.trouble, &screen.overview) {
        (Some(trouble), _) => Line::from(trouble.clone()).red(),
        (None, Some(view)) => Line::from(header(view)).bold(),
        (None, None) => Line::from("Reading the cluster"),
    };
    frame.render_widget(Paragraph::new(totals).wrap(Wrap { trim: true }), top);
    nodes(frame, middle, screen);
    let filter = match (screen.typing, screen.filter.is_empty()) {
        (true, _) => format!("filter: {}_   Enter keeps it, Esc drops it", screen.filter),
        (false, true) => format!(
            "sorted by {}   ↑↓ scroll   s order   / filter   w why   q ends",
            screen.sort
        ),
        (false, false) => format!(
            "filter: {}   sorted by {}   s order   / filter   w why   q ends",
            screen.filter, screen.sort
        ),
    };
    frame.render_widget(Paragraph::new(filter).dim(), bottom);
    if screen.why
        && let Some(node) = screen.nodes.get(screen.selected)
    {
        why(frame, middle, node);
    }
}

fn nodes(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let rows = screen.nodes.iter().map(|node| {
        let tone = match (&node.machine, &*node.capacity_type) {
            (None, _) => Color::DarkGray,
            (_, "spot") => Color::Green,
            (_, "reserved") => Color::Yellow,
            _ => Color::Blue,
        };
        let state = match node.state {
            State::Ready => Style::new(),
            State::Starting | State::Coming => Style::new().fg(Color::Cyan),
            State::Leaving | State::NotReady => Style::new().fg(Color::Red),
        };
        let cells = cells(node).into_iter().enumerate();
        Row::new(cells.map(|(column, text)| {
            let style = match column {
                3 | 5 | 6 => Style::new().fg(tone),
                9 => state,
                _ => Style::new(),
            };
            Cell::from(text).style(style)
        }))
    });
    let titles = Row::new(TITLES).style(Style::new().add_modifier(Modifier::DIM));
    let table = Table::new(rows, WIDTHS)
        .header(titles)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(screen.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

fn why(frame: &mut Frame<'_>, area: Rect, node: &NodeView) {
    let height = area.height.min(9);
    let below = Rect {
        y: area.y + area.height - height,
        height,
        ..area
    };
    let mut lines = vec![
        Line::from(sizes(node)),
        Line::from(node.stays_words()).bold(),
    ];
    if let Some(said) = &node.stays {
        lines.extend(
            said.verdict
                .remedies
                .iter()
                .map(|one| Line::from(format!("→ {one}"))),
        );
    }
    let block = Block::bordered().title(format!(" Why {} ", node.name));
    frame.render_widget(Clear, below);
    frame.render_widget(
        Paragraph::new(lines).wrap(Wrap { trim: true }).block(block),
        below,
    );
}
