//! The content of the display. Pure, but for the drawing itself.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Style, Stylize},
    text::Line,
    widgets::{Paragraph, Row, Table, TableState, Wrap},
};
use redlatch::{Object, ObjectHolder};

use super::columns::{self, BAR, TITLES};
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
    /// All that is known of the chosen line.
    Details,
}

/// The state of the display.
#[derive(Debug, Default)]
pub(super) struct Screen {
    all: BTreeMap<String, Object>,
    /// The longest rest of each lease that was seen, by name and owner.
    leases: BTreeMap<(String, String), Duration>,
    pub(super) filter: String,
    /// Whether only what is held is shown.
    only_held: bool,
    pub(super) mode: Mode,
    table: TableState,
    /// The hold that the question is about, whatever comes to its line meanwhile.
    pub(super) asked: Option<(Object, ObjectHolder)>,
    said: String,
}

/// A line of the table.
#[derive(Debug)]
struct Shown<'a> {
    object: &'a Object,
    holder: Option<&'a ObjectHolder>,
    cells: Vec<String>,
}

/// Returns what a line is about.
fn key(object: &Object, holder: Option<&ObjectHolder>) -> (String, String) {
    let owner = holder.map(|holder| holder.owner.clone());
    (object.name.clone(), owner.unwrap_or_default())
}

impl Screen {
    pub(super) fn new(only_held: bool) -> Self {
        Self {
            only_held,
            ..Self::default()
        }
    }

    /// Shows only what is held, or all again.
    pub(super) fn switch_wanted(&mut self) {
        self.keeping_the_choice(|screen| screen.only_held = !screen.only_held);
    }

    /// Changes the lines. The chosen one stays chosen while it is there.
    fn keeping_the_choice(&mut self, change: impl FnOnce(&mut Self)) {
        let chosen = self.table.selected().unwrap_or_default();
        let about = |line: &Shown<'_>| key(line.object, line.holder);
        let before = self.lines().get(chosen).map(about);
        change(self);
        let lines = self.lines();
        let same = lines.iter().position(|line| Some(about(line)) == before);
        let last = lines.len().saturating_sub(1);
        self.table.select(Some(same.unwrap_or(chosen).min(last)));
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
                let key = key(object, Some(holder));
                let before = self.leases.get(&key).copied().unwrap_or_default();
                leases.insert(key, before.max(holder.remaining));
            }
        }
        self.leases = leases;
        self.keeping_the_choice(|screen| screen.all = all);
    }

    pub(super) fn go_down(&mut self) {
        // The next picture knows how many lines there are, and corrects the choice.
        self.table.select_next();
    }

    pub(super) fn go_up(&mut self) {
        let chosen = self.table.selected().unwrap_or_default();
        self.table.select(Some(chosen.saturating_sub(1)));
    }

    /// Returns the hold that is chosen.
    pub(super) fn chosen(&self) -> Option<(&Object, &ObjectHolder)> {
        let chosen = self.table.selected()?;
        let line = self.lines().into_iter().nth(chosen)?;
        Some((line.object, line.holder?))
    }

    /// Returns the lines that the filter lets pass: what is held first, the oldest hold before all.
    fn lines(&self) -> Vec<Shown<'_>> {
        let mut lines = Vec::new();
        for object in self.all.values() {
            let mut holders = object.holders.iter();
            for mut cells in rows(object, false) {
                let holder = holders.next();
                let passes =
                    self.filter.is_empty() || cells.iter().any(|cell| cell.contains(&self.filter));
                if !passes || (self.only_held && holder.is_none()) {
                    continue;
                }
                let bar = holder.map(|holder| self.bar(object, holder));
                cells.insert(BAR, bar.unwrap_or_default());
                lines.push(Shown {
                    object,
                    holder,
                    cells,
                });
            }
        }
        // Without an age, a hold comes behind those that have one.
        lines.sort_by_key(|line| Reverse(line.holder.map(|holder| holder.age)));
        lines
    }

    /// Draws what is left of a lease.
    fn bar(&self, object: &Object, holder: &ObjectHolder) -> String {
        let lease = self.leases.get(&key(object, Some(holder))).copied();
        let lease = lease.unwrap_or(holder.remaining);
        let full = f64::from(u32::try_from(LONG).unwrap_or_default());
        let part = holder.remaining.as_secs_f64() / lease.as_secs_f64().max(0.001) * full;
        // At most the whole bar, since the lease is the longest rest.
        let filled = (0..LONG).filter(|&n| (n as f64) < part).count();
        format!("{}{}", "█".repeat(filled), "░".repeat(LONG - filled))
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
        if self.mode == Mode::Details {
            let details = Paragraph::new(self.details()).wrap(Wrap { trim: false });
            frame.render_widget(details, body);
        } else {
            self.draw_table(frame, body);
        }
        frame.render_widget(Line::from(self.foot()), foot);
    }

    fn draw_table(&mut self, frame: &mut Frame<'_>, body: Rect) {
        let lines = self.lines();
        let mut needs = [0; TITLES.len()];
        for line in &lines {
            for (need, cell) in needs.iter_mut().zip(&line.cells) {
                *need = cell.chars().count().max(*need);
            }
        }
        let chosen = columns::choose(usize::from(body.width), needs);
        let only = |cells: &[String]| {
            let cells = chosen.iter().filter_map(|(column, _)| cells.get(*column));
            Row::new(cells.cloned().collect::<Vec<_>>())
        };
        let rows: Vec<_> = lines.iter().map(|line| only(&line.cells)).collect();
        let length = |wide: usize| Constraint::Length(u16::try_from(wide).unwrap_or(u16::MAX));
        let widths = chosen.iter().map(|(_, wide)| length(*wide));
        let table = Table::new(rows, widths)
            .header(only(&TITLES.map(str::to_owned)).bold())
            .row_highlight_style(Style::new().reversed());
        frame.render_stateful_widget(table, body, &mut self.table);
    }

    /// Returns all that is known of the chosen line.
    fn details(&self) -> Vec<Line<'static>> {
        let lines = self.lines();
        let chosen = self.table.selected().and_then(|chosen| lines.get(chosen));
        let Some(Shown { object, holder, .. }) = chosen else {
            return Vec::new();
        };
        let mut holders = object.holders.iter();
        let number = holders.position(|other| Some(other) == *holder);
        let mut all = rows(object, true).into_iter();
        let cells = all.nth(number.unwrap_or_default()).unwrap_or_default();
        let details = titles(true).into_iter().zip(cells);
        let details = details.map(|(title, cell)| Line::from(format!("{title:<8} {cell}")));
        details.collect()
    }

    fn foot(&self) -> String {
        let others = if self.only_held { "all" } else { "held" };
        let keys = format!("/ filter  h {others}  b break  enter more  q quit");
        match self.mode {
            Mode::Filtering => format!("/{}", self.filter),
            Mode::Asking => {
                let asked = self.asked.as_ref();
                let name = asked.map_or_else(String::new, |(object, _)| clean(&object.name));
                let who = asked.map_or_else(String::new, |(_, holder)| who(holder));
                format!("forbid the renewal of {name} for {who}? y/n")
            }
            Mode::Looking if !self.said.is_empty() => self.said.clone(),
            Mode::Details => "enter back".to_owned(),
            Mode::Looking if self.filter.is_empty() => keys,
            Mode::Looking => format!("showing {:?}  {keys}", self.filter),
        }
    }
}

/// The length of a bar.
const LONG: usize = 10;
