//! Colours, if they are wanted. None of them says anything that no word says.

use ratatui::style::{Color, Modifier, Style};

use crate::api::model::State;

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    colours: bool,
}

impl Paint {
    /// In colour or not.
    pub(crate) fn new(colours: bool) -> Self {
        Paint { colours }
    }

    fn colour(self, colour: Color) -> Style {
        if self.colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// What is neither good nor bad.
    pub(super) fn plain(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// Titles.
    pub(super) fn title(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// What matters most.
    pub(super) fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What matters least.
    pub(super) fn faint(self) -> Style {
        self.colour(Color::DarkGray)
    }

    /// What has gone wrong.
    pub(super) fn alarm(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What needs attention.
    pub(super) fn warning(self) -> Style {
        self.colour(Color::Yellow)
    }

    /// Money.
    pub(super) fn money(self) -> Style {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    /// What is on its way.
    pub(super) fn coming(self) -> Style {
        self.colour(Color::Blue)
    }

    /// The node that is chosen.
    pub(super) fn chosen() -> Style {
        Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// How full: what is paid for and not requested is what stands out.
    pub(super) fn full(self, percent: i64) -> Style {
        self.colour(match percent {
            ..30 => Color::Red,
            30..65 => Color::Yellow,
            _ => Color::Green,
        })
    }

    /// How far a node has come.
    pub(super) fn state(self, state: State) -> Style {
        match state {
            State::Ready => self.colour(Color::Green),
            State::Starting => self.colour(Color::Cyan),
            State::Coming => self.coming(),
            State::Leaving => self.warning(),
            State::NotReady => self.alarm(),
        }
    }

    /// How it is paid for.
    pub(super) fn paid(self, capacity_type: &str) -> Style {
        match capacity_type {
            "spot" => self.colour(Color::Magenta),
            "reserved" => self.colour(Color::Cyan),
            _ => Style::new(),
        }
    }
}
