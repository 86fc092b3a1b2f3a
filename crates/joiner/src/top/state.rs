//! What the live terminal shows: a function of what was read and of the keys that were pressed. It reads no clock and
//! knows no terminal.

use jiff::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::api::column::Column;
use crate::api::model::{NodeView, Overview};

/// What was read at a moment.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    /// The whole cluster.
    pub(super) overview: Overview,
    /// How many nodes there are.
    pub(super) total: usize,
    /// Its nodes; of very many only some.
    pub(super) nodes: Vec<NodeView>,
    /// When it was read, by the clock of this terminal.
    pub(super) read: Timestamp,
}

/// A node, as it can be asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Its name; the machine's until it has joined.
    pub(super) name: String,
    /// Its machine, if it is ours.
    pub(super) machine: Option<String>,
}

/// What a key asks of the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To draw.
    Draw,
    /// To end.
    End,
}

/// How much the terminal has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Nodes that can be seen at once.
    pub(super) nodes: usize,
    /// Lines of the text in front, of which so many can be seen at once.
    pub(super) lines: usize,
    /// Lines of a text that can be seen at once.
    pub(super) seen: usize,
}

/// A text in front of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// The keys.
    Help,
    /// Why a node is as it is; nothing until the answer is there.
    Why(Asked, Option<String>),
}

/// What is in front of the nodes, and how far it is scrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Front {
    /// The text.
    pub(super) text: Text,
    /// The first line that is seen.
    pub(super) first: usize,
}

/// Who was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// In words.
    pub(super) name: String,
    /// Whether it is the page of a running Joiner, which may lead or not.
    pub(super) page: bool,
}

/// All that is shown.
#[derive(Clone, Debug)]
pub(super) struct Screen {
    origin: Origin,
    picture: Picture,
    trouble: Option<String>,
    order: Column,
    reversed: bool,
    filter: String,
    typing: bool,
    /// Positions of nodes in the picture, as they are filtered and sorted.
    rows: Vec<usize>,
    cursor: usize,
    first: usize,
    front: Option<Front>,
    room: Room,
}

impl Screen {
    /// The first picture.
    pub(super) fn new(origin: Origin, picture: Picture, order: Column, filter: &str) -> Self {
        let mut screen = Screen {
            origin,
            picture,
            trouble: None,
            order,
            reversed: false,
            filter: filter.to_owned(),
            typing: false,
            rows: Vec::new(),
            cursor: 0,
            first: 0,
            front: None,
            room: Room::default(),
        };
        screen.arrange(None);
        screen
    }

    /// Who was asked.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What was read last.
    pub(super) fn picture(&self) -> &Picture {
        &self.picture
    }

    /// Why the picture is not newer, if it should be.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Order of nodes, and whether it is turned round.
    pub(super) fn order(&self) -> (Column, bool) {
        (self.order, self.reversed)
    }

    /// The filter, and whether it is being typed.
    pub(super) fn filter(&self) -> (&str, bool) {
        (&self.filter, self.typing)
    }

    /// Nodes that the filter leaves, in order.
    pub(super) fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeView> {
        self.rows.iter().map(|row| &self.picture.nodes[*row])
    }

    /// The first node that is seen, by its position among these.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// The position of the chosen node among these.
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// The chosen node.
    pub(super) fn chosen(&self) -> Option<&NodeView> {
        let row = self.rows.get(self.cursor)?;
        self.picture.nodes.get(*row)
    }

    /// What is in front.
    pub(super) fn front(&self) -> Option<&Front> {
        self.front.as_ref()
    }

    /// The node whose why is in front, for it changes as the nodes do.
    pub(super) fn asked(&self) -> Option<&Asked> {
        match self.front.as_ref().map(|front| &front.text) {
            Some(Text::Why(asked, _)) => Some(asked),
            _ => None,
        }
    }

    /// Who provides a node.
    pub(super) fn provider(&self, node: &NodeView) -> &str {
        provider(&self.picture.overview, node)
    }

    /// Takes in a new picture; the chosen node stays chosen wherever it went.
    pub(super) fn read(&mut self, picture: Picture) {
        let chosen = self.chosen().map(|node| node.name.clone());
        self.picture = picture;
        self.trouble = None;
        self.arrange(chosen.as_deref());
    }

    /// The last picture stays, and why is said.
    pub(super) fn failed(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// Takes in why a node is as it is, if that is still asked.
    pub(super) fn explained(&mut self, of: &Asked, said: String) {
        if let Some(Front {
            text: Text::Why(asked, text),
            ..
        }) = &mut self.front
            && asked == of
        {
            *text = Some(said);
        }
    }

    /// The terminal has so much room: what is seen is moved so that the chosen node is among it.
    pub(super) fn fit(&mut self, room: Room) {
        self.room = room;
        let seen = room.nodes.max(1);
        let last = self.rows.len().saturating_sub(seen);
        let highest = self.cursor.saturating_sub(seen - 1);
        self.first = self.first.clamp(highest, self.cursor).min(last);
        if let Some(front) = &mut self.front {
            front.first = front.first.min(room.lines.saturating_sub(room.seen));
        }
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Next::End;
        }
        if self.front.is_some() {
            self.press_in_front(key.code);
            return Next::Draw;
        }
        if self.typing {
            self.type_key(key.code, control);
            return Next::Draw;
        }
        self.press_on_nodes(key.code)
    }

    fn press_on_nodes(&mut self, code: KeyCode) -> Next {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Next::End,
            KeyCode::Char('w') | KeyCode::Enter => self.ask(),
            KeyCode::Char('?') => {
                self.front = Some(Front {
                    text: Text::Help,
                    first: 0,
                });
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('r') => {
                self.reversed = !self.reversed;
                self.rearrange();
            }
            KeyCode::Left | KeyCode::Char('<') => self.sort_by_next(Direction::Back),
            KeyCode::Right | KeyCode::Char('>') => self.sort_by_next(Direction::On),
            other => {
                let last = self.rows.len().saturating_sub(1);
                if let Some(moved) = moved(other, self.cursor, self.room.nodes) {
                    self.cursor = moved.min(last);
                }
            }
        }
        Next::Draw
    }

    fn press_in_front(&mut self, code: KeyCode) {
        let Some(front) = &mut self.front else {
            return;
        };
        if matches!(
            code,
            KeyCode::Char('q' | 'w' | '?') | KeyCode::Esc | KeyCode::Enter
        ) {
            self.front = None;
        } else if let Some(moved) = moved(code, front.first, self.room.seen) {
            front.first = moved.min(self.room.lines.saturating_sub(self.room.seen));
        }
    }

    fn type_key(&mut self, code: KeyCode, control: bool) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char('u') if control => self.filter.clear(),
            KeyCode::Char('w') if control => {
                let kept = self.filter.trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.filter.truncate(kept);
            }
            KeyCode::Char(_) if control => {}
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown => {
                let last = self.rows.len().saturating_sub(1);
                if let Some(moved) = moved(code, self.cursor, self.room.nodes) {
                    self.cursor = moved.min(last);
                }
            }
            _ => {}
        }
        self.rearrange();
    }

    fn ask(&mut self) {
        let Some(node) = self.chosen() else {
            return;
        };
        let asked = Asked {
            name: node.name.clone(),
            machine: node.machine.clone(),
        };
        self.front = Some(Front {
            text: Text::Why(asked, None),
            first: 0,
        });
    }

    fn sort_by_next(&mut self, direction: Direction) {
        let gpus = self.picture.overview.usage.gpu;
        let none = gpus.allocatable + gpus.coming == 0;
        let all = Column::all().iter().copied();
        let all: Vec<Column> = all
            .filter(|order| !(none && *order == Column::Gpu))
            .collect();
        let at = all.iter().position(|order| *order == self.order);
        let step = match direction {
            Direction::On => 1,
            Direction::Back => all.len() - 1,
        };
        self.order = all[(at.unwrap_or_default() + step) % all.len()];
        self.reversed = false;
        self.rearrange();
    }

    /// Filters and sorts anew; the chosen node stays chosen.
    fn rearrange(&mut self) {
        let chosen = self.chosen().map(|node| node.name.clone());
        self.arrange(chosen.as_deref());
    }

    fn arrange(&mut self, chosen: Option<&str>) {
        let query = self.filter.to_lowercase();
        let Picture {
            overview, nodes, ..
        } = &self.picture;
        let left = |row: &usize| matches(&nodes[*row], provider(overview, &nodes[*row]), &query);
        let mut rows: Vec<usize> = (0..nodes.len()).filter(left).collect();
        rows.sort_by(|a, b| self.order.between(&nodes[*a], &nodes[*b], self.reversed));
        let last = rows.len().saturating_sub(1);
        let kept = chosen.and_then(|name| rows.iter().position(|row| nodes[*row].name == name));
        self.cursor = kept.unwrap_or_else(|| self.cursor.min(last));
        self.rows = rows;
    }
}

/// Which way to go through the orders.
#[derive(Clone, Copy)]
enum Direction {
    On,
    Back,
}

/// Where a key moves a position that so many lines are seen of; nowhere if it is none that moves.
fn moved(code: KeyCode, at: usize, seen: usize) -> Option<usize> {
    let page = seen.saturating_sub(1).max(1);
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => at + 1,
        KeyCode::PageUp | KeyCode::Char('b') => at.saturating_sub(page),
        KeyCode::PageDown | KeyCode::Char(' ') => at + page,
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => usize::MAX,
        _ => return None,
    })
}

fn provider<'o>(overview: &'o Overview, node: &NodeView) -> &'o str {
    let class = node.class.as_deref().unwrap_or_default();
    let known = overview.providers.iter().find(|one| one.class == class);
    known.map_or("", |one| &one.provider)
}

/// Whether each word is in the node or in the name of its provider.
fn matches(node: &NodeView, provider: &str, query: &str) -> bool {
    let provider = provider.to_lowercase();
    query
        .split_whitespace()
        .all(|word| node.matches(word) || provider.contains(word))
}

#[cfg(test)]
mod tests;
