//! A reader's token is that of the last write. It covers every write that was granted before, and
//! no later write.

use super::scripts::given;
use crate::{
    names::label,
    watch::{Checker, Event, Record, View},
};

/// Records per name the token of the last write that the server granted.
#[derive(Debug)]
pub(super) struct Freshness {
    last: Vec<u64>,
}

impl Freshness {
    pub(super) fn new(names: usize) -> Self {
        Self {
            last: vec![0; names],
        }
    }
}

impl Checker for Freshness {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Event::Ran { ran, .. } = *event else {
            return;
        };
        if view.conditions.loses_writes || view.conditions.expects_trouble {
            return;
        }
        if ran.verdict() != "granted" {
            if let (Some((_, token, _)), Some(name)) = (given(ran), ran.name()) {
                self.last[name] = token;
            }
            return;
        }
        let (Some(token), Some(name)) = (ran.number(4), ran.name()) else {
            return;
        };
        let last = &mut self.last[name];
        match ran.source.name {
            "rwlock/write" => *last = token,
            "rwlock/read" | "rwlock/downgrade" if token < *last => {
                let name = label(name);
                let what = format!(
                    "a reader of {name} is told that {token} was the last write, and it was {last}"
                );
                record.violate("fresh", view.now, what);
            }
            // A server that has lost its data makes up a token that counts as a write.
            "rwlock/read" | "rwlock/downgrade" => *last = token,
            _ => {}
        }
    }
}
