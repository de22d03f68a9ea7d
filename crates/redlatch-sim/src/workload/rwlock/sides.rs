//! Neither side starves: a reader waits for few writes. That writers do not wait for new readers is in the scripts' model.
//!
//! Counted on the server, from a waiter's first busy answer to its grant, in runs where messages arrive.

use std::collections::BTreeMap;

use redlatch_core::seam::Value;

use crate::{
    names::label,
    watch::{Checker, Event, Record, View},
};

/// Who waits, by attempt, with the grants to the other side since.
#[derive(Debug)]
pub(super) struct Sides {
    /// When each last looked, and how many writes have begun since it came.
    readers: Vec<BTreeMap<String, (u64, u32)>>,
}

impl Sides {
    pub(super) fn new(names: usize) -> Self {
        Self {
            readers: vec![BTreeMap::new(); names],
        }
    }
}

impl Checker for Sides {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Event::Ran { ran, .. } = *event else {
            return;
        };
        let Some(name) = ran.name() else {
            return;
        };
        let readers = &mut self.readers[name];
        match (ran.source.name, ran.verdict()) {
            ("rwlock/read", "busy")
                if ran.arg(8) == "r" && !ran.arg(6).is_empty() && view.conditions.calm =>
            {
                let entered = ran.item(6).and_then(Value::as_int) == Some(1);
                let waits = readers.entry(ran.arg(3).to_owned()).or_default();
                *waits = (view.now, if entered { 0 } else { waits.1 });
            }
            ("rwlock/read", _) => {
                readers.remove(ran.arg(3));
            }
            ("rwlock/release", _) => {
                readers.remove(ran.arg(2));
            }
            // A re-entry, or an upgrade, is no other write.
            ("rwlock/write", "granted") if ran.item(3).and_then(Value::as_int) == Some(1) => {
                // One that has not looked for long may have lost its place.
                readers.retain(|_, (looked, _)| *looked + ALIVE > view.now);
                for (attempt, (_, writes)) in readers.iter_mut() {
                    *writes += 1;
                    if *writes > MOST {
                        let name = label(name);
                        let what = format!(
                            "{attempt} waits to read {name}, and {writes} writes have begun since"
                        );
                        record.violate("sides", view.now, what);
                        *writes = 0;
                    }
                }
            }
            _ => {}
        }
    }
}

/// Writes that may begin while a reader waits: one that the server had called when it came, one after an upgrade, one in turn.
const MOST: u32 = 3;

/// A waiter that has looked keeps its place for so long, in µs.
const ALIVE: u64 = 4_000_000;
