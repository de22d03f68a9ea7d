//! The content of the display. Pure, but for the drawing itself.

use std::{collections::BTreeMap, time::Duration};

use ratatui::{
    Frame,
    layout::{Constraint, Layout},
    style::{Style, Stylize},
    text::Line,
    widgets::{Row, Table, TableState},
};
use redlatch::{Object, ObjectHolder};

use crate::app::{
    out::clean,
    view::{rows, titles, who},
};

/// The meaning of the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Looking,
    Filtering,
    /// Whether to break the hold that was chosen then.
    Asking,
}

/// The state of the display.
#[derive(Debug, Default)]
pub(super) struct Screen {
    all: BTreeMap<String, Object>,
    /// The longest rest of each lease that was seen, by name and owner.
    leases: BTreeMap<(String, String), Duration>,
    filter: String,
    mode: Mode,
    table: TableState,
    /// The hold that the question is about, whatever comes to its line meanwhile.
    asked: Option<(Object, ObjectHolder)>,
    said: String,
}

/// Lines of the table, each with its object and perhaps a holder.
type Lines<'a> = Vec<(&'a Object, Option<&'a ObjectHolder>, Vec<String>)>;

impl Screen {
    pub(super) const fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        if mode == Mode::Asking {
            let chosen = self.chosen();
            self.asked = chosen.map(|(object, holder)| (object.clone(), holder.clone()));
        }
        self.mode = mode;
        self.said.clear();
    }

    pub(super) fn say(&mut self, text: String) {
        self.said = clean(&text);
    }

    pub(super) fn update(&mut self, all: BTreeMap<String, Object>) {
        let mut leases = BTreeMap::new();
        for object in all.values() {
            for holder in &object.holders {
                let key = (object.name.clone(), holder.owner.clone());
                let before = self.leases.get(&key).copied().unwrap_or_default();
                leases.insert(key, before.max(holder.remaining));
            }
        }
        self.leases = leases;
        self.all = all;
        let last = self.lines().len().saturating_sub(1);
        let chosen = self.table.selected().unwrap_or_default();
        self.table.select(Some(chosen.min(last)));
    }

    pub(super) fn filter_by(&mut self, filter: String) {
        self.filter = filter;
        self.mode = Mode::Looking;
    }

    pub(super) fn type_in(&mut self, letter: char) {
        self.filter.push(letter);
    }

    pub(super) fn rub_out(&mut self) {
        self.filter.pop();
    }

    pub(super) fn go_down(&mut self) {
        let last = self.lines().len().saturating_sub(1);
        let chosen = self.table.selected().map_or(0, |chosen| chosen + 1);
        self.table.select(Some(chosen.min(last)));
    }

    pub(super) fn go_up(&mut self) {
        let chosen = self.table.selected().unwrap_or_default();
        self.table.select(Some(chosen.saturating_sub(1)));
    }

    /// Returns the hold that is chosen.
    pub(super) fn chosen(&self) -> Option<(&Object, &ObjectHolder)> {
        let chosen = self.table.selected()?;
        let lines = self.lines();
        let (object, holder, _) = lines.get(chosen)?;
        Some((*object, (*holder)?))
    }

    /// Returns the hold that the question is about.
    pub(super) fn asked(&self) -> Option<(&Object, &ObjectHolder)> {
        self.asked.as_ref().map(|(object, holder)| (object, holder))
    }

    /// Returns the lines that the filter lets pass.
    fn lines(&self) -> Lines<'_> {
        let mut lines = Vec::new();
        for object in self.all.values() {
            let mut holders = object.holders.iter();
            for mut row in rows(object, false) {
                let holder = holders.next();
                if !self.filter.is_empty() && !row.iter().any(|cell| cell.contains(&self.filter)) {
                    continue;
                }
                let bar = holder.map(|holder| self.bar(object, holder));
                row.insert(LEFT + 1, bar.unwrap_or_default());
                lines.push((object, holder, row));
            }
        }
        lines
    }

    /// Draws what is left of a lease.
    fn bar(&self, object: &Object, holder: &ObjectHolder) -> String {
        let key = (object.name.clone(), holder.owner.clone());
        let lease = self.leases.get(&key).copied().unwrap_or(holder.remaining);
        let full = f64::from(u32::try_from(BAR).unwrap_or_default());
        let part = holder.remaining.as_secs_f64() / lease.as_secs_f64().max(0.001) * full;
        // At most the whole bar, since the lease is the longest rest.
        let filled = (0..BAR).filter(|&n| (n as f64) < part).count();
        format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled))
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let held: usize = self.all.values().map(|object| object.holders.len()).sum();
        let waiting: u64 = self.all.values().map(|object| object.waiters).sum();
        let count = self.all.len();
        let title = format!("redlatch: {count} objects, {held} holds, {waiting} waiting");
        frame.render_widget(Line::from(title).bold(), head);

        let mut titles = titles(false);
        titles.insert(LEFT + 1, "");
        let rows: Vec<_> = self
            .lines()
            .into_iter()
            .map(|(_, _, row)| Row::new(row))
            .collect();
        let widths = [
            Constraint::Fill(3),
            Constraint::Length(10),
            Constraint::Fill(3),
            Constraint::Length(7),
            Constraint::Length(7),
            Constraint::Length(u16::try_from(BAR).unwrap_or_default()),
            Constraint::Length(7),
            Constraint::Fill(2),
        ];
        let table = Table::new(rows, widths)
            .header(Row::new(titles).bold())
            .row_highlight_style(Style::new().reversed());
        frame.render_stateful_widget(table, body, &mut self.table);
        frame.render_widget(Line::from(self.foot()), foot);
    }

    fn foot(&self) -> String {
        match self.mode {
            Mode::Filtering => format!("/{}", self.filter),
            Mode::Asking => {
                let asked = self.asked.as_ref();
                let name = asked.map_or_else(String::new, |(object, _)| clean(&object.name));
                let who = asked.map_or_else(String::new, |(_, holder)| who(holder));
                format!("forbid the renewal of {name} for {who}? y/n")
            }
            Mode::Looking if !self.said.is_empty() => self.said.clone(),
            Mode::Looking if self.filter.is_empty() => "/ filter  b break  q quit".to_owned(),
            Mode::Looking => format!("showing {:?}  / filter  b break  q quit", self.filter),
        }
    }
}

/// The place of the column LEFT, behind which the bar comes.
const LEFT: usize = 4;

/// The length of a bar.
const BAR: usize = 10;
