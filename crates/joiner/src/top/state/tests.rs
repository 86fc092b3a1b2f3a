use super::*;
use crate::top::samples::{node, nodes, picture, screen};

fn names(screen: &Screen) -> Vec<&str> {
    screen.nodes().map(|node| &*node.name).collect()
}

fn press(screen: &mut Screen, code: KeyCode) -> Next {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn write(screen: &mut Screen, text: &str) {
    for letter in text.chars() {
        assert_eq!(press(screen, KeyCode::Char(letter)), Next::Draw);
    }
}

fn chosen(screen: &Screen) -> &str {
    screen.chosen().map_or("", |node| &node.name)
}

/// A screen with room for so many of so many nodes.
fn many(count: usize, seen: usize) -> Screen {
    let nodes = (0..count).map(|one| node(&format!("node-{one:03}"), 50, 0.1));
    let mut screen = screen(false);
    screen.read(picture(nodes.collect()));
    screen.fit(room(seen));
    screen
}

fn room(nodes: usize) -> Room {
    Room {
        nodes,
        lines: 30,
        seen: 10,
    }
}

#[test]
fn arrows_choose_the_column_and_r_turns_the_order_round() {
    let mut screen = screen(false);
    assert_eq!(names(&screen)[0], "control-plane");
    press(&mut screen, KeyCode::Right);
    assert_eq!(screen.order(), (Column::Pool, false));
    while screen.order().0 != Column::Price {
        press(&mut screen, KeyCode::Char('>'));
        assert_ne!(screen.order().0, Column::Gpu, "there are no GPUs");
    }
    assert_eq!(names(&screen)[0], "default-b8fj");
    press(&mut screen, KeyCode::Char('r'));
    assert_eq!(screen.order(), (Column::Price, true));
    assert_eq!(names(&screen)[4], "default-b8fj");
    press(&mut screen, KeyCode::Left);
    assert_eq!(screen.order(), (Column::Pods, false));
    for _ in 0..20 {
        press(&mut screen, KeyCode::Char('<'));
    }
    assert!(names(&screen).len() == 5, "it goes round");
}

#[test]
fn gpus_can_be_sorted_by_where_there_are_some() {
    let mut screen = screen(true);
    while screen.order().0 != Column::Gpu {
        press(&mut screen, KeyCode::Right);
    }
    assert_eq!(names(&screen)[0], "default-b8fj");
}

#[test]
fn the_chosen_node_stays_chosen_however_nodes_are_sorted_and_read_anew() {
    let mut screen = screen(false);
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Char('j'));
    assert_eq!(chosen(&screen), "default-b8fj");
    press(&mut screen, KeyCode::Char('r'));
    assert_eq!(chosen(&screen), "default-b8fj");
    let mut more = nodes(false);
    more.insert(0, node("another", 10, 0.1));
    screen.read(picture(more));
    assert_eq!(chosen(&screen), "default-b8fj");
    assert_eq!(screen.nodes().len(), 6);
}

#[test]
fn when_the_chosen_node_goes_the_one_in_its_place_is_chosen() {
    let mut screen = screen(false);
    press(&mut screen, KeyCode::End);
    let mut less = nodes(false);
    less.pop();
    screen.read(picture(less));
    assert_eq!(chosen(&screen), "default-c2d4");
    screen.read(picture(Vec::new()));
    assert_eq!(screen.chosen(), None);
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.front(), None, "there is nothing to ask about");
}

#[test]
fn the_filter_is_typed_word_by_word_and_kept_with_enter() {
    let mut screen = screen(false);
    write(&mut screen, "/spot ZONE-a q");
    assert_eq!(
        screen.filter(),
        ("spot ZONE-a q", true),
        "q is a letter here"
    );
    assert!(names(&screen).is_empty());
    press(&mut screen, KeyCode::Backspace);
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.filter(), ("spot ZONE-a ", false));
    assert_eq!(names(&screen).len(), 3);
    write(&mut screen, "/");
    screen.press(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
    assert_eq!(screen.filter(), ("spot ", true));
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.filter(), ("", false));
    assert_eq!(names(&screen).len(), 5);
    write(&mut screen, "/sim coming");
    assert_eq!(names(&screen), ["default-c2d4"], "a provider is a word too");
}

#[test]
fn the_chosen_node_is_always_seen() {
    let mut screen = many(50, 10);
    assert_eq!((screen.first(), screen.cursor()), (0, 0));
    for (code, first, cursor) in [
        (KeyCode::PageDown, 0, 9),
        (KeyCode::Down, 1, 10),
        (KeyCode::PageDown, 10, 19),
        (KeyCode::Up, 10, 18),
        (KeyCode::End, 40, 49),
        (KeyCode::Down, 40, 49),
        (KeyCode::PageUp, 40, 40),
        (KeyCode::Char('k'), 39, 39),
        (KeyCode::Home, 0, 0),
        (KeyCode::Up, 0, 0),
        (KeyCode::Char('G'), 40, 49),
    ] {
        press(&mut screen, code);
        screen.fit(room(10));
        assert_eq!((screen.first(), screen.cursor()), (first, cursor), "{code}");
    }
    screen.fit(room(20));
    assert_eq!(screen.first(), 30, "a larger terminal leaves no line empty");
    screen.fit(room(0));
    assert_eq!(screen.first(), 49);
}

#[test]
fn w_asks_why_and_the_answer_can_be_scrolled_and_left() {
    let mut screen = screen(false);
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Char('w'));
    let asked = screen.asked().cloned().unwrap();
    assert_eq!(asked.name, "default-a1x7");
    let other = Asked {
        name: "other".to_owned(),
        machine: None,
    };
    screen.explained(&other, "something else".to_owned());
    assert_eq!(
        screen.front().unwrap().text,
        Text::Why(asked.clone(), None),
        "the answer to another question is not shown"
    );
    screen.explained(&asked, "It is ready.".to_owned());
    let text = Text::Why(asked, Some("It is ready.".to_owned()));
    assert_eq!(screen.front().unwrap().text, text);
    screen.fit(room(10));
    for _ in 0..50 {
        press(&mut screen, KeyCode::Down);
    }
    assert_eq!(screen.front().unwrap().first, 20, "the end is the end");
    press(&mut screen, KeyCode::Up);
    assert_eq!(screen.front().unwrap().first, 19);
    assert_eq!(
        chosen(&screen),
        "default-a1x7",
        "nodes stand still behind it"
    );
    assert_eq!(press(&mut screen, KeyCode::Esc), Next::Draw);
    assert_eq!(screen.asked(), None);
}

#[test]
fn a_picture_that_cannot_be_had_leaves_the_last_and_says_why() {
    let mut screen = screen(false);
    screen.failed("no answer".to_owned());
    assert_eq!(screen.trouble(), Some("no answer"));
    assert_eq!(screen.nodes().len(), 5);
    screen.read(picture(nodes(false)));
    assert_eq!(screen.trouble(), None);
}

#[test]
fn q_and_escape_end_it_from_the_nodes_and_control_c_from_everywhere() {
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let mut screen = screen(false);
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Next::End);
    assert_eq!(press(&mut screen, KeyCode::Esc), Next::End);
    assert_eq!(screen.press(control), Next::End);
    write(&mut screen, "/");
    assert_eq!(screen.press(control), Next::End);
    press(&mut screen, KeyCode::Enter);
    write(&mut screen, "?");
    assert!(matches!(screen.front(), Some(front) if front.text == Text::Help));
    assert_eq!(screen.press(control), Next::End);
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Next::Draw);
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Next::End);
}
