use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::columns::WORTH;
use super::*;
use crate::api::column::Column;
use crate::top::samples::{history, later, many, noon, screen, screen_of};

/// What stands on a terminal of this size, without what is blank at the ends of lines.
fn seen(screen: &mut Screen, now: Timestamp, width: u16, height: u16) -> Vec<String> {
    let terminal = drawn(screen, now, width, height, Paint::new(false));
    let buffer = terminal.backend().buffer();
    let cells = buffer.content().chunks(usize::from(width));
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    };
    cells.map(line).collect()
}

fn drawn(
    screen: &mut Screen,
    now: Timestamp,
    width: u16,
    height: u16,
    paint: Paint,
) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    screen.fit(room(screen, now, Size::new(width, height)));
    terminal
        .draw(|frame| draw(frame, screen, now, paint))
        .unwrap();
    terminal
}

fn press(screen: &mut Screen, code: KeyCode) {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE));
}

#[test]
fn on_120_columns_there_is_room_for_most() {
    let mut screen = screen(false);
    press(&mut screen, KeyCode::Down);
    let lines = [
        " joiner top  5 nodes, 1 on the way, 1 leaving, 1 of others  40 pods, 4 pending, 1 without a place              12:00:00",
        " CPU  ███████▎░░░░░░░░▒▒▒▒  46%  6.46 of 14 cores, 4 coming              cost  $2.25/h  $1,642/month  spot 44%",
        " MEM  ███▌░░░░░░░░░░░▒▒▒▒▒  24%  12.9 GiB of 52.0 GiB, 16.0 GiB coming   waste ≥ $1.19/h  53% of the cost",
        " PODS █▎░░░░░░░░░░░░░░▒▒▒▒   8%  36 of 440, 110 coming                   bound ≥ $1.80/h  ≤ 25% above",
        "  NODE▲               POOL      TYPE  PAID       CPU          MEMORY       PODS       $/H  STATE    WHY IT STAYS",
        "  control-plane       not ours  bare             █▌░░░░  25%  █▌░░░░  25%   7/110       ?  Ready    Never touched.",
        "> default-a1x7        default   m-4x  spot       ████▉░  82%  ██▍░░░  40%  16/110  $0.250  Ready    NotCheaper",
        "  default-b8fj        default   m-4x  on-demand  █▏░░░░  20%  ▌░░░░░   9%   4/110   $1.25  Leaving  Underutilized",
        "  default-c2d4        default   m-4x  spot       ▒▒▒▒▒▒  new  ▒▒▒▒▒▒  new   0/110  $0.500  Coming   Not joined yet.",
        "  default-v…internal  default   m-4x  spot       ██▊░░░  47%  █▍░░░░  23%   9/110  $0.250  Ready    NotCheaper",
        "",
        "",
        "",
        "",
        "────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────",
        " default-a1x7  m-4x  spot  in zone-a  pool default  from sim  3h old",
        " NotCheaper: nothing cheaper holds its pods: the cheapest replacement costs $0.240 an hour.",
        " by name ▲  2/5                                                     w why  / filter  < > sort  r reverse  ? help  q end",
    ];
    assert_eq!(seen(&mut screen, later(1), 120, 18), lines);
}

#[test]
fn on_80_columns_bars_price_and_state_are_left_and_the_rest_is_below() {
    let mut screen = screen(true);
    press(&mut screen, KeyCode::Down);
    let lines = [
        " joiner top  5 nodes  40 pods, 4 pending, 1 without a place            12:00:00",
        " CPU  ██▊░░░▒▒  46%  6.46 of 14 cores      cost  $2.25/h  $1,642/month  spot 44%",
        " MEM  █▍░░░░▒▒  24%  12.9 GiB of 52.0 GiB  waste ≥ $1.19/h  53% of the cost",
        " GPU  ██░░░░░░  25%  1 of 4                bound ≥ $1.80/h  ≤ 25% above",
        " PODS ▍░░░░░▒▒   8%  36 of 440",
        "  NODE▲              CPU         MEMORY      GPU         PODS       $/H  STATE",
        "  control-plane      █▎░░░  25%  █▎░░░  25%           -   7/110       ?  Ready",
        "> default-a1x7       ████░  82%  ██░░░  40%           -  16/110  $0.250  Ready",
        "  default-b8fj       █░░░░  20%  ▍░░░░   9%  █▎░░░  25%   4/110   $1.25  Leaving",
        "  default-c2d4       ▒▒▒▒▒  new  ▒▒▒▒▒  new           -   0/110  $0.500  Coming",
        "  default-…internal  ██▎░░  47%  █▏░░░  23%           -   9/110  $0.250  Ready",
        "",
        "",
        "",
        "────────────────────────────────────────────────────────────────────────────────",
        " default-a1x7  m-4x  spot  in zone-a  pool default  from sim  3h old",
        " NotCheaper: nothing cheaper holds its pods: the cheapest replacement costs $0…",
        " by name ▲  2/5             w why  / filter  < > sort  r reverse  ? help  q end",
    ];
    assert_eq!(seen(&mut screen, later(1), 80, 18), lines);
}

#[test]
fn on_140_columns_pods_have_bars_and_provider_and_zone_are_there() {
    let mut screen = screen(false);
    let lines = seen(&mut screen, later(1), 140, 24);
    let titles = "  NODE▲               POOL      PROVIDER  TYPE  PAID       ZONE    CPU          MEMORY       PODS            \
                  $/H  STATE    WHY IT STAYS";
    assert_eq!(lines[4], titles);
    assert!(lines[6].contains("▌░░░ 16/110"), "{}", lines[6]);
}

#[test]
fn on_200_columns_the_reason_is_more_than_a_word() {
    let mut screen = screen(false);
    let lines = seen(&mut screen, later(1), 200, 24);
    assert!(lines[4].contains("WASTE  AGE"), "{}", lines[4]);
    let said = "NotCheaper: nothing cheaper";
    assert!(lines[6].contains(said), "{}", lines[6]);
}

#[test]
fn on_60_columns_money_and_state_are_still_there() {
    let mut screen = screen(false);
    let lines = seen(&mut screen, later(1), 60, 20);
    assert_eq!(
        lines[..5],
        [
            " joiner top  5 nodes  40 pods, 4 pending, 1 without a place",
            " CPU  ██▎░░▒  46%  cost  $2.25/h  $1,642/month  spot 44%",
            " MEM  █▏░░░▒  24%  waste ≥ $1.19/h  53% of the cost",
            " PODS ▍░░░░▒   8%  bound ≥ $1.80/h  ≤ 25% above",
            "  NODE▲              CPU         MEMORY         $/H  STATE",
        ]
    );
}

#[test]
fn no_size_is_too_small() {
    for width in (0..50).step_by(3).chain([300]) {
        for height in (0..26).step_by(2).chain([1, 3, 70]) {
            for front in [None, Some(KeyCode::Char('?')), Some(KeyCode::Char('w'))] {
                let mut screen = screen(true);
                screen.failed("the page does not answer".to_owned());
                if let Some(key) = front {
                    press(&mut screen, key);
                }
                drawn(&mut screen, noon(), width, height, Paint::new(true));
            }
        }
    }
}

#[test]
fn a_picture_that_grew_old_says_how_old_it_is_and_why() {
    let mut screen = screen(false);
    screen.failed("cannot ask http://127.0.0.1:8082: connection refused".to_owned());
    let lines = seen(&mut screen, later(74), 120, 24);
    let said = " This picture is 1m14s old: cannot ask http://127.0.0.1:8082: connection refused";
    assert_eq!(lines[4], said);
    assert!(lines[0].ends_with("12:00:00, 1m14s ago"), "{}", lines[0]);
    assert!(
        lines[7].contains("default-a1x7"),
        "the nodes are still there"
    );
}

#[test]
fn a_provider_that_sells_nothing_and_a_replica_that_does_not_lead_are_told() {
    let mut picture = screen(false).picture().clone();
    picture.overview.providers[0].ready = false;
    picture.overview.providers[0].sentence = Some("the token is not valid".to_owned());
    let mut screen = screen(false);
    screen.read(picture.clone());
    let said = " Nothing can be bought with SimNodeClass/cloud: the token is not valid";
    assert_eq!(seen(&mut screen, noon(), 120, 24)[4], said);
    picture.overview.leading = false;
    screen.read(picture);
    let lines = seen(&mut screen, noon(), 120, 24);
    assert!(lines[4].contains("does not lead"), "{}", lines[4]);
}

#[test]
fn the_trend_of_the_cost_is_drawn_where_there_is_room() {
    let mut picture = screen(false).picture().clone();
    picture.overview.history = history(9);
    let mut screen = screen(false);
    screen.read(picture.clone());
    let lines = seen(&mut screen, noon(), 120, 40);
    let drawn = "trend ▁▂▃▄▅▆▇██  since 11:51, at most $2.25/h";
    assert!(lines[4].ends_with(drawn), "{}", lines[4]);
    assert!(
        lines[5].is_empty() && lines[6].contains("NODE"),
        "{lines:#?}"
    );
    assert!(seen(&mut screen, noon(), 120, 24)[4].contains("NODE"));
    picture.overview.history = history(300);
    screen.read(picture);
    let line = &seen(&mut screen, noon(), 100, 40)[4];
    assert!(line.contains("▁▁▂▂▂▃"), "{line}");
}

#[test]
fn why_is_shown_in_front_and_says_how_much_is_below() {
    let mut screen = screen(false);
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Char('w'));
    let lines = seen(&mut screen, noon(), 60, 12);
    assert!(lines[1].starts_with("┌ why default-a1x7 ─"), "{}", lines[1]);
    let asked = screen.asked().cloned().unwrap();
    let said: Vec<String> = (1..=20).map(|line| format!("line {line}")).collect();
    screen.explained(&asked, "What would help:\n".to_owned() + &said.join("\n"));
    let lines = seen(&mut screen, noon(), 60, 12);
    assert!(lines[2].starts_with("│ What would help:"), "{}", lines[2]);
    assert!(lines[9].starts_with("│ line 7"), "{}", lines[9]);
    assert!(lines[10].contains(" 13 more lines "), "{}", lines[10]);
    press(&mut screen, KeyCode::End);
    let lines = seen(&mut screen, noon(), 60, 12);
    assert!(lines[9].starts_with("│ line 20"), "{}", lines[9]);
    assert!(!lines[10].contains("more"), "{}", lines[10]);
}

#[test]
fn the_help_is_whole_on_an_ordinary_terminal() {
    let mut screen = screen(false);
    press(&mut screen, KeyCode::Char('?'));
    let lines = seen(&mut screen, noon(), 80, 24);
    for line in ["w Enter", "Ctrl-C", "≤ at most, ? not known."] {
        assert!(
            lines.iter().any(|one| one.contains(line)),
            "{line}: {lines:#?}"
        );
    }
}

#[test]
fn the_filter_is_seen_while_it_is_typed() {
    let mut screen = screen(false);
    for letter in "/spo".chars() {
        press(&mut screen, KeyCode::Char(letter));
    }
    let lines = seen(&mut screen, noon(), 80, 24);
    assert!(
        lines[23].starts_with(" /spo   3 of 5 nodes"),
        "{}",
        lines[23]
    );
    for letter in "nge".chars() {
        press(&mut screen, KeyCode::Char(letter));
    }
    let lines = seen(&mut screen, noon(), 80, 24);
    assert!(
        lines[5].contains("No node has all these words"),
        "{}",
        lines[5]
    );
}

#[test]
fn without_colours_there_is_none_and_the_chosen_node_still_stands_out() {
    for (colours, some) in [(false, false), (true, true)] {
        let terminal = drawn(&mut screen(true), noon(), 120, 24, Paint::new(colours));
        let cells = terminal.backend().buffer().content();
        let coloured = cells.iter().any(|cell| cell.fg != Color::Reset);
        assert_eq!(coloured, some);
        assert!(cells.iter().all(|cell| cell.bg == Color::Reset));
        let reversed = |cell: &&ratatui::buffer::Cell| cell.modifier.contains(Modifier::REVERSED);
        let name: String = cells
            .iter()
            .filter(reversed)
            .map(ratatui::buffer::Cell::symbol)
            .collect();
        assert_eq!(name.trim(), "control-plane");
    }
}

#[test]
fn every_column_has_its_worth() {
    let mut all = WORTH.to_vec();
    all.sort_unstable();
    assert_eq!(all, Column::all());
}

#[test]
fn gpus_have_a_bar_of_their_own_and_one_in_the_totals() {
    let mut screen = screen_of(many(16));
    // By name, that is number eight of sixteen, which are not written with zeros before them.
    for _ in 0..14 {
        press(&mut screen, KeyCode::Down);
    }
    let lines = seen(&mut screen, noon(), 120, 30);
    let total = lines.iter().find(|line| line.starts_with(" GPU ")).unwrap();
    // One node asks for none of its eight, the other for one of its eight.
    assert!(total.contains("  6%  1 of 16"), "{total}");
    let row = lines.iter().find(|line| line.starts_with("> ")).unwrap();
    assert!(row.contains("░  12% "), "{row}");
    while screen.order().0 != Column::Gpu {
        press(&mut screen, KeyCode::Right);
    }
    let lines = seen(&mut screen, noon(), 120, 30);
    let titles = lines.iter().position(|line| line.contains("GPU▼")).unwrap();
    assert!(lines[titles + 1].contains(" 12% "), "{}", lines[titles + 1]);
    assert!(lines[titles + 2].contains("  0% "), "{}", lines[titles + 2]);
}

#[test]
fn columns_stay_apart_on_narrow_terminals_whatever_their_nodes_are_called() {
    for (width, height) in [(60, 24), (80, 24), (100, 30), (132, 43)] {
        let mut screen = screen_of(many(400));
        let lines = seen(&mut screen, noon(), width, height);
        let titles = lines
            .iter()
            .position(|line| line.contains("NODE▲"))
            .unwrap();
        let letters: Vec<char> = lines[titles].chars().collect();
        // Columns begin where their titles do, but for those of figures, which end where their titles do.
        let begins = (4..letters.len()).filter(|at| {
            let title: String = letters[*at..]
                .iter()
                .take_while(|one| **one != ' ')
                .collect();
            let figures = ["$/H", "WASTE", "AGE"].contains(&&*title);
            !figures && !title.is_empty() && letters[at - 2..*at] == [' ', ' ']
        });
        let begins: Vec<usize> = begins.collect();
        assert!(begins.len() >= 3, "{}", lines[titles]);
        let rows = &lines[titles + 1..titles + 6];
        for row in rows {
            assert!(
                row.starts_with("> ip-") || row.starts_with("  ip-"),
                "{row}"
            );
            let letters: Vec<char> = row.chars().collect();
            for begin in begins.iter().filter(|begin| **begin < letters.len()) {
                assert_eq!(letters[begin - 2..*begin], [' ', ' '], "{row}");
            }
        }
        let state = rows.iter().all(|row| row.contains("Ready"));
        assert!(state, "the state is whole on {width} columns: {rows:#?}");
        let last = lines.last().unwrap();
        assert!(last.starts_with(" by name ▲  1/400"), "{last}");
    }
}

#[test]
fn five_thousand_nodes_are_scrolled_sorted_and_filtered_at_once() {
    /// What a person does not notice; five times that without optimisation, on a machine that does other things beside.
    const FRAME: std::time::Duration =
        std::time::Duration::from_millis(if cfg!(debug_assertions) { 250 } else { 50 });
    let mut screen = screen_of(many(5000));
    let mut slowest = Vec::new();
    let mut step = |screen: &mut Screen, code: KeyCode| {
        let took = (0..5).map(|_| {
            let mut screen = screen.clone();
            let begun = std::time::Instant::now();
            press(&mut screen, code);
            let lines = seen(&mut screen, noon(), 200, 60);
            (begun.elapsed(), lines)
        });
        let (took, lines) = took.min_by_key(|(took, _)| *took).unwrap();
        slowest.push((took, code));
        press(screen, code);
        lines
    };
    let lines = step(&mut screen, KeyCode::End);
    assert!(lines.last().unwrap().contains("5000/5000"), "{lines:#?}");
    let lines = step(&mut screen, KeyCode::PageUp);
    assert!(lines.last().unwrap().contains("/5000"), "{lines:#?}");
    for _ in Column::all() {
        step(&mut screen, KeyCode::Right);
    }
    step(&mut screen, KeyCode::Char('r'));
    step(&mut screen, KeyCode::Char('/'));
    let mut lines = Vec::new();
    for letter in "pool-7 spot".chars() {
        lines = step(&mut screen, KeyCode::Char(letter));
    }
    let left = (0..5000).filter(|number| number % 13 == 7 && number % 3 == 0);
    let said = format!("  {} of 5000 nodes", left.count());
    assert!(lines.last().unwrap().contains(&said), "{said}: {lines:#?}");
    let (slowest, key) = slowest.into_iter().max_by_key(|(took, _)| *took).unwrap();
    println!("the slowest of all frames took {slowest:.1?}, after {key:?}");
    assert!(slowest < FRAME, "{slowest:?} after {key:?}");
}
