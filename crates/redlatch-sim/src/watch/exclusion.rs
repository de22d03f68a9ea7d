//! P1: no two holds that exclude each other are believed to be valid at the same time.

use super::{
    checker::{Checker, Event},
    record::Record,
    view::{Claim, Part, View},
};
use crate::names::label;

/// Checks after each step the names with guards of more than one hold.
#[derive(Debug)]
pub(super) struct Exclusion {
    pub(super) crowded: Vec<bool>,
}

impl Exclusion {
    fn check(&mut self, view: &View, record: &mut Record) {
        for name in 0..view.names() {
            if !self.crowded[name] {
                continue;
            }
            let mut holds: Vec<&Claim> = Vec::new();
            for (_, claim) in view.believers(name) {
                if view.was_ended_by_force(claim) {
                    continue;
                }
                if holds.iter().all(|known| !known.is_with(claim)) {
                    holds.push(claim);
                }
            }
            if let Some(what) = clash(&holds) {
                record.violate("P1", view.now, format!("{what} {}", label(name)));
                self.crowded[name] = false;
            }
        }
    }
}

impl Checker for Exclusion {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        match *event {
            Event::Delivered { claim, .. } => {
                self.crowded[claim.name] = view.holds(claim.name) > 1;
                self.check(view, record);
            }
            Event::Left { name } => self.crowded[name] = view.holds(name) > 1,
            Event::Stepped if self.crowded.contains(&true) => self.check(view, record),
            _ => {}
        }
    }
}

/// Returns a description of two holds that exclude each other, if there are any.
fn clash(holds: &[&Claim]) -> Option<String> {
    let two = |one: &Claim, two: &Claim| {
        format!(
            "{} ({}) and {} ({}) both hold",
            one.who, one.hold, two.who, two.hold
        )
    };
    let (first, rest) = holds.split_first()?;
    if let Some(whole) = holds.iter().find(|claim| claim.part == Part::Whole) {
        let other = rest
            .iter()
            .chain([first])
            .find(|claim| !claim.is_with(whole) && !claim.shares_owner(whole));
        return other.map(|other| two(whole, other));
    }
    let (mut taken, mut most) = (0, 0);
    for claim in holds {
        if let Part::Units { taken: units, of } = claim.part {
            taken += units;
            most = most.max(of);
        }
    }
    (taken > most).then(|| {
        let who: Vec<_> = holds.iter().map(|claim| claim.who.as_str()).collect();
        format!("{} have {taken} of {most} of", who.join(", "))
    })
}
