//! `joiner top`: the nodes live in a terminal; a table in a pipe.

mod draw;

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::time::Instant;

use crate::api::model::{NodeView, Nodes, Overview, Usage};
use crate::args::{ReportFormat, Sort, TopArgs};
use crate::ask::{self, Source};
use crate::failure::Failure;
use crate::page::{cores, gib};

/// How often the cluster is asked.
const ASKED: Duration = Duration::from_secs(2);
/// How long a key is waited for before something else is looked at.
const KEY: Duration = Duration::from_millis(100);

/// The order that `s` goes through.
const ORDERS: [Sort; 7] = [
    Sort::Name,
    Sort::Price,
    Sort::Waste,
    Sort::Cpu,
    Sort::Memory,
    Sort::Age,
    Sort::Pool,
];

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    ask::block_on(async {
        let source = Source::open(&args.ask).await?;
        let live = std::io::stdout().is_terminal() && args.ask.output == ReportFormat::Text;
        if live {
            return watch(args, &source).await;
        }
        let nodes = source.nodes(&args.sort.to_string(), &args.filter).await?;
        let text = match args.ask.output {
            ReportFormat::Text => {
                let overview = source.overview().await?;
                format!("{}\n{}\n", header(&overview), table(&nodes))
            }
            ReportFormat::Json => serde_json::to_string_pretty(&nodes).unwrap_or_default() + "\n",
        };
        std::io::stdout()
            .lock()
            .write_all(text.as_bytes())
            .map_err(Failure::stdout)
    })
}

/// Totals in a line.
fn header(view: &Overview) -> String {
    let part =
        |name: &str, usage: &Usage, words: String| format!("{name} {words} ({}%)", usage.percent());
    let usage = &view.usage;
    let mut text = format!(
        "{} nodes   {}   {}",
        view.nodes.all(),
        part("CPU", &usage.cpu, usage.cpu.as_cores()),
        part("MEM", &usage.memory, usage.memory.as_gib()),
    );
    if usage.gpu.allocatable > 0 {
        text += &format!("   GPU {}", usage.gpu.as_number());
    }
    text + &format!(
        "   {}/h  {}/month   spot {}   not requested {}/h   least possible {}/h",
        view.cost.dollars(),
        view.cost.monthly(),
        view.spot_percent.percent(),
        view.waste.dollars(),
        view.bound.dollars()
    )
}

/// A bar of so many cells, and the percentage.
fn bar(usage: &Usage, cells: i64) -> String {
    if usage.allocatable <= 0 {
        return "-".to_owned();
    }
    let percent = usage.percent();
    let eighths = percent * cells * 8 / 100;
    let mut drawn = String::new();
    for cell in 0..cells {
        let part = usize::try_from((eighths - cell * 8).clamp(0, 8)).unwrap_or_default();
        drawn.push([' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'][part]);
    }
    format!("{drawn} {percent:>3}%")
}

/// The cells of a node.
fn cells(node: &NodeView) -> [String; 10] {
    [
        node.name.clone(),
        node.owner().to_owned(),
        node.instance_type.clone(),
        node.capacity_type.clone(),
        node.zone.clone(),
        bar(&node.usage.cpu, 8),
        bar(&node.usage.memory, 8),
        node.usage.pods.as_number().replace(" of ", "/"),
        node.price.dollars(),
        node.state.to_string(),
    ]
}

const TITLES: [&str; 10] = [
    "NODE", "POOL", "TYPE", "PAID", "ZONE", "CPU", "MEMORY", "PODS", "$/H", "STATE",
];

fn table(nodes: &Nodes) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let titles = TITLES.iter().copied().chain(["WHY IT STAYS"]);
    table.set_header(titles);
    for node in &nodes.nodes {
        table.add_row(cells(node).into_iter().chain([node.stays_words()]));
    }
    for index in [7, 8] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// What is on the screen.
struct Screen {
    overview: Option<Overview>,
    nodes: Vec<NodeView>,
    selected: usize,
    sort: Sort,
    filter: String,
    typing: bool,
    why: bool,
    trouble: Option<String>,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    End,
    Ask,
    Draw,
}

impl Screen {
    fn new(args: &TopArgs) -> Self {
        Screen {
            overview: None,
            nodes: Vec::new(),
            selected: 0,
            sort: args.sort,
            filter: args.filter.clone(),
            typing: false,
            why: false,
            trouble: None,
        }
    }

    async fn ask(&mut self, source: &Source) {
        let nodes = source.nodes(&self.sort.to_string(), &self.filter).await;
        let seen = match nodes {
            Ok(nodes) => source.overview().await.map(|overview| (nodes, overview)),
            Err(failure) => Err(failure),
        };
        match seen {
            Ok((nodes, overview)) => {
                self.nodes = nodes.nodes;
                self.overview = Some(overview);
                self.trouble = None;
            }
            Err(failure) => self.trouble = Some(failure.to_string()),
        }
        self.selected = self.selected.min(self.nodes.len().saturating_sub(1));
    }

    fn go(&mut self, by: isize) {
        let last = self.nodes.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Action::End;
        }
        if self.typing {
            match key.code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => {
                    self.typing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => {
                    self.filter.pop();
                }
                KeyCode::Char(letter) => self.filter.push(letter),
                _ => return Action::Draw,
            }
            return Action::Ask;
        }
        match key.code {
            KeyCode::Char('q') => return Action::End,
            KeyCode::Esc if self.why => self.why = false,
            KeyCode::Esc => return Action::End,
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-20),
            KeyCode::PageDown => self.go(20),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.go(isize::MAX),
            KeyCode::Char('w') | KeyCode::Enter => self.why = !self.why,
            KeyCode::Char('/' | 'f') => self.typing = true,
            KeyCode::Char('s') => {
                let now = ORDERS
                    .iter()
                    .position(|one| *one == self.sort)
                    .unwrap_or_default();
                self.sort = ORDERS[(now + 1) % ORDERS.len()];
                return Action::Ask;
            }
            _ => {}
        }
        Action::Draw
    }
}

async fn watch(args: &TopArgs, source: &Source) -> Result<(), Failure> {
    let mut screen = Screen::new(args);
    screen.ask(source).await;
    let mut terminal = ratatui::try_init().map_err(Failure::stdout)?;
    let ended = look(&mut screen, source, &mut terminal).await;
    ratatui::restore();
    ended.map_err(Failure::stdout)
}

async fn look(
    screen: &mut Screen,
    source: &Source,
    terminal: &mut ratatui::DefaultTerminal,
) -> std::io::Result<()> {
    let mut asked = Instant::now();
    loop {
        terminal.draw(|frame| draw::screen(frame, screen))?;
        let pressed = tokio::task::block_in_place(|| {
            if event::poll(KEY)? {
                event::read().map(Some)
            } else {
                Ok(None)
            }
        })?;
        let action = match pressed {
            Some(Event::Key(key)) if key.kind == KeyEventKind::Press => screen.key(key),
            _ => Action::Draw,
        };
        match action {
            Action::End => return Ok(()),
            Action::Ask => asked = Instant::now() - ASKED,
            Action::Draw => {}
        }
        if asked.elapsed() >= ASKED {
            screen.ask(source).await;
            asked = Instant::now();
        }
    }
}

/// What a node has, in words.
fn sizes(node: &NodeView) -> String {
    let usage = &node.usage;
    format!(
        "{} cores and {} requested of {} and {}",
        cores(usage.cpu.requested),
        gib(usage.memory.requested),
        cores(usage.cpu.allocatable + usage.cpu.coming),
        gib(usage.memory.allocatable + usage.memory.coming)
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::api::model::{Figure, State, Usages};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        top: TopArgs,
    }

    fn node(name: &str, requested: i64) -> NodeView {
        let usage = Usage {
            requested,
            allocatable: 4000,
            coming: 0,
        };
        NodeView {
            name: name.to_owned(),
            machine: Some(name.to_owned()),
            pool: Some("default".to_owned()),
            instance_type: "m-4".to_owned(),
            capacity_type: "spot".to_owned(),
            price: Figure::exact(0.25),
            usage: Usages {
                cpu: usage,
                ..Usages::default()
            },
            state: State::Ready,
            ..NodeView::default()
        }
    }

    fn screen() -> Screen {
        let line = Line::parse_from(["top"]);
        let mut screen = Screen::new(&line.top);
        screen.nodes = vec![node("one", 1000), node("two", 4000)];
        screen
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Action {
        screen.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn bars_are_as_long_as_what_is_requested() {
        let usage = |requested| Usage {
            requested,
            allocatable: 100,
            coming: 0,
        };
        assert_eq!(bar(&usage(50), 4), "██    50%");
        assert_eq!(bar(&usage(100), 4), "████ 100%");
        assert_eq!(bar(&Usage::default(), 4), "-");
    }

    #[test]
    fn a_pipe_gets_a_table_with_why_each_node_stays() {
        let nodes = Nodes {
            schema_version: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            total: 1,
            matching: 1,
            nodes: vec![node("one", 1000)],
        };
        let text = table(&nodes).to_string();
        for part in [
            "NODE",
            "WHY IT STAYS",
            "one",
            "default",
            "m-4",
            "25%",
            "$0.250",
            "Ready",
            "Not looked at yet.",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn keys_move_sort_filter_and_ask_why() {
        let mut screen = screen();
        assert_eq!(press(&mut screen, KeyCode::Down), Action::Draw);
        assert_eq!(screen.selected, 1);
        press(&mut screen, KeyCode::Down);
        assert_eq!(screen.selected, 1, "there is nothing below the last");
        assert_eq!(press(&mut screen, KeyCode::Char('s')), Action::Ask);
        assert_eq!(screen.sort, Sort::Price);
        press(&mut screen, KeyCode::Char('/'));
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Action::Ask);
        assert_eq!(screen.filter, "q");
        press(&mut screen, KeyCode::Esc);
        assert_eq!(screen.filter, "");
        press(&mut screen, KeyCode::Char('w'));
        assert!(screen.why);
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Action::End);
    }

    #[test]
    fn the_screen_shows_nodes_and_why_the_chosen_one_stays() {
        let mut terminal = Terminal::new(TestBackend::new(140, 20)).unwrap();
        let mut screen = screen();
        screen.why = true;
        terminal.draw(|frame| draw::screen(frame, &screen)).unwrap();
        let text = terminal.backend().to_string();
        for part in [
            "one",
            "two",
            "m-4",
            "100%",
            "Why one",
            "Not looked at yet.",
            "q ends",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
