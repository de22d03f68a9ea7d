//! The changes between two looks at all objects. Pure: the time of a look is an argument.

use std::collections::{BTreeMap, BTreeSet};

use redlatch::{Object, ObjectHolder, ObjectState};

use crate::app::{
    json::Json,
    report::millis,
    view::{self, access},
};

/// A hold: name, kind, owner, token and access.
type Key = (String, String, String, Option<u64>, Option<&'static str>);

/// The holds of the last look.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    known: BTreeMap<Key, Known>,
    /// The last look was not answered.
    is_silent: bool,
}

#[derive(Clone, Debug)]
struct Known {
    holder: ObjectHolder,
    /// The bounds of the end of its lease: the look found it at some time between its own ends.
    first: u64,
    last: u64,
}

/// Returns the beginning of a line of the recording.
fn line(at_ms: u64, event: &str) -> Json {
    Json::new().with("at_ms", at_ms).with("event", event)
}

impl Changes {
    /// Returns a line of JSON for each hold that is new, renewed or gone, and one if an answer was
    /// `missing`, or is again there. The look began at `began_ms` and ended at `at_ms`.
    pub(crate) fn look<'a>(
        &mut self,
        (began_ms, at_ms): (u64, u64),
        objects: impl Iterator<Item = &'a Object>,
        missing: Option<&str>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        match missing {
            Some(error) => {
                let line = line(at_ms, "unanswered").with("began_ms", began_ms);
                lines.push(line.with("error", error).line());
            }
            None if self.is_silent => lines.push(line(at_ms, "answered").line()),
            None => {}
        }
        self.is_silent = missing.is_some();
        let now = self.seen((began_ms, at_ms), objects);
        self.tell(at_ms, &now, &mut lines);
        self.known = now;
        lines
    }

    /// Returns the holds that there are, as far as a look has shown.
    fn seen<'a>(
        &self,
        (began_ms, at_ms): (u64, u64),
        objects: impl Iterator<Item = &'a Object>,
    ) -> BTreeMap<Key, Known> {
        let (mut now, mut names) = (BTreeMap::new(), BTreeSet::new());
        for object in objects {
            names.insert(&object.name);
            if matches!(object.state, ObjectState::Unreadable { .. }) {
                // Its holds may be over or not.
                now.extend(self.known_of(|name| *name == object.name));
            }
            for holder in &object.holders {
                let key = (
                    object.name.clone(),
                    object.kind.to_string(),
                    holder.owner.clone(),
                    holder.token.map(|token| token.as_u64()),
                    holder.access.map(access),
                );
                let rest = millis(holder.remaining);
                let known = Known {
                    holder: holder.clone(),
                    first: began_ms + rest,
                    last: at_ms + rest,
                };
                now.insert(key, known);
            }
        }
        if self.is_silent {
            // A hold whose name was not seen may be over or not.
            now.extend(self.known_of(|name| !names.contains(name)));
        }
        now
    }

    /// Returns the holds of the last look whose names are wanted.
    fn known_of(&self, is_wanted: impl Fn(&String) -> bool) -> impl Iterator<Item = (Key, Known)> {
        let known = self.known.iter().filter(move |(key, _)| is_wanted(&key.0));
        known.map(|(key, known)| (key.clone(), known.clone()))
    }

    /// Adds a line for each difference between what was known and what is there `now`.
    fn tell(&self, at_ms: u64, now: &BTreeMap<Key, Known>, lines: &mut Vec<String>) {
        let mut tell = |event, key: &Key, known: &Known| {
            let line = line(at_ms, event).with("name", &key.0).with("kind", &key.1);
            let holder = view::holder(&known.holder);
            lines.push(line.with_object("holder", &holder).line());
        };
        for (key, known) in &self.known {
            if !now.contains_key(key) {
                tell("gone", key, known);
            }
        }
        for (key, known) in now {
            match self.known.get(key) {
                None => tell("held", key, known),
                Some(before) if known.first > before.last + JITTER => tell("renewed", key, known),
                Some(_) => {}
            }
        }
    }
}

/// The end of a lease that was not renewed may appear to move by this: the wall clock is
/// adjusted.
const JITTER: u64 = 250;
