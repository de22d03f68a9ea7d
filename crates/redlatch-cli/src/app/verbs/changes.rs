//! What has changed between two looks at all objects. Pure: the time of a look is an argument.

use std::collections::BTreeMap;

use redlatch::Object;
use serde::Serialize;

use crate::app::view::{HolderView, VERSION, line};

/// A hold: name, kind, owner, token and access.
type Key = (String, String, String, Option<u64>, Option<&'static str>);

/// The holds of the last look.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    known: BTreeMap<Key, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    view: HolderView,
    ends: u64,
}

#[derive(Serialize)]
struct Change<'a> {
    v: u32,
    at_ms: u64,
    event: &'static str,
    name: &'a str,
    kind: &'a str,
    holder: &'a HolderView,
}

impl Changes {
    /// Returns a line of JSON for each hold that is new, renewed or gone.
    pub(crate) fn look<'a>(
        &mut self,
        at_ms: u64,
        objects: impl Iterator<Item = &'a Object>,
    ) -> Vec<String> {
        let mut now = BTreeMap::new();
        for object in objects {
            for view in object.holders.iter().map(HolderView::of) {
                let key = (
                    object.name.clone(),
                    object.kind.to_string(),
                    view.owner.clone(),
                    view.token,
                    view.access,
                );
                let ends = at_ms + view.remaining_ms;
                now.insert(key, Known { view, ends });
            }
        }
        let mut lines = Vec::new();
        let mut tell = |event, key: &Key, known: &Known| {
            lines.push(line(&Change {
                v: VERSION,
                at_ms,
                event,
                name: &key.0,
                kind: &key.1,
                holder: &known.view,
            }));
        };
        for (key, known) in &self.known {
            if !now.contains_key(key) {
                tell("gone", key, known);
            }
        }
        for (key, known) in &now {
            match self.known.get(key) {
                None => tell("held", key, known),
                Some(before) if known.ends > before.ends + JITTER => tell("renewed", key, known),
                Some(_) => {}
            }
        }
        self.known = now;
        lines
    }
}

/// The end of a lease that nobody has renewed appears to move by the time that looks take.
const JITTER: u64 = 250;
