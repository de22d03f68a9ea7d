//! Objects as JSON and as rows of a table. `docs/book/src/operate/command.md` describes the JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redlatch::{Access, Object, ObjectHolder, ObjectState, once::JobRecord};
use serde::Serialize;

use super::{
    out::clean,
    report::millis,
    span::{per, short},
};

/// The version of the JSON. It changes if a field changes its meaning or goes.
pub(crate) const VERSION: u32 = 1;

/// One object as JSON.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ObjectView {
    v: u32,
    name: String,
    kind: String,
    holders: Vec<HolderView>,
    waiters: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<PermitsView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latch: Option<LatchView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<LimitView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<RunView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

/// One holder as JSON.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HolderView {
    pub(crate) owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
    pub(crate) remaining_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    application: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
}

#[derive(Debug, Serialize)]
struct PermitsView {
    total: u32,
    available: u32,
}

#[derive(Debug, Serialize)]
struct LatchView {
    count: u32,
    initial: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct LimitView {
    owed: u64,
    reset_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
}

/// The last run of a job as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct RunView {
    slot: String,
    outcome: &'static str,
    attempt: u32,
    token: u64,
    began_ms: u64,
    ended_ms: u64,
    host: String,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl ObjectView {
    pub(crate) fn of(object: &Object) -> Self {
        let mut view = Self {
            v: VERSION,
            name: object.name.clone(),
            kind: object.kind.to_string(),
            holders: object.holders.iter().map(HolderView::of).collect(),
            waiters: object.waiters,
            ..Self::default()
        };
        match &object.state {
            ObjectState::Permits { total, available } => {
                let (total, available) = (*total, *available);
                view.permits = Some(PermitsView { total, available });
            }
            ObjectState::Latch(latch) => {
                view.latch = Some(LatchView {
                    count: latch.count,
                    initial: latch.initial,
                    remaining_ms: latch.remaining.map(millis),
                });
            }
            ObjectState::Limit(limit) => {
                view.limit = Some(LimitView {
                    owed: limit.owed,
                    reset_ms: millis(limit.reset_after),
                    rate: limit.rate.map(per),
                });
            }
            ObjectState::Leader(value) => view.value.clone_from(value),
            ObjectState::Job { last, running } => {
                view.slot = running.as_ref().map(ToString::to_string);
                view.last = last.as_ref().map(RunView::of);
            }
            ObjectState::Unreadable { reason, .. } => view.unreadable = Some(reason.clone()),
            _ => {}
        }
        view
    }

    /// Returns one line.
    pub(crate) fn line(&self) -> String {
        line(self)
    }
}

impl HolderView {
    pub(crate) fn of(holder: &ObjectHolder) -> Self {
        let of = holder.metadata.as_ref();
        Self {
            owner: holder.owner.clone(),
            token: holder.token.map(|token| token.as_u64()),
            access: holder.access.map(access),
            permits: holder.permits,
            age_ms: holder.age.map(millis),
            remaining_ms: millis(holder.remaining),
            application: of.map(|of| of.application.clone()),
            host: of.map(|of| of.host.clone()),
            pid: of.map(|of| of.pid),
            note: holder.note.clone(),
            broken: holder.broken.clone(),
        }
    }
}

impl RunView {
    pub(crate) fn of(run: &JobRecord) -> Self {
        Self {
            slot: run.slot.to_string(),
            outcome: run.outcome.as_str(),
            attempt: run.attempt,
            token: run.token.as_u64(),
            began_ms: since_1970(run.began),
            ended_ms: since_1970(run.ended),
            host: run.host.clone(),
            pid: run.pid,
            error: run.error.clone(),
        }
    }
}

/// Writes a value as one line of JSON.
pub(crate) fn line(value: &impl Serialize) -> String {
    // These values have no maps with odd keys, so they can be written.
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Returns the milliseconds since 1970.
pub(crate) fn since_1970(instant: SystemTime) -> u64 {
    millis(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn access(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::UpgradableRead => "upgradable_read",
        Access::Write => "write",
        _ => "unknown",
    }
}

/// The titles of the columns of [`rows`].
pub(crate) fn titles(long: bool) -> Vec<&'static str> {
    let mut titles = vec!["NAME", "KIND", "HELD BY", "FOR", "LEFT", "WAITING", "STATE"];
    if long {
        titles.extend(["TOKEN", "OWNER"]);
    }
    titles
}

/// Returns the rows of one object: one per holder, or one without.
pub(crate) fn rows(object: &Object, long: bool) -> Vec<Vec<String>> {
    let row = |holder: Option<&ObjectHolder>| {
        let span = |span: Option<Duration>| span.map_or_else(none, short);
        let mut row = vec![
            clean(&object.name),
            clean(object.kind.as_str()),
            holder.map_or_else(none, who),
            span(holder.and_then(|holder| holder.age)),
            span(holder.map(|holder| holder.remaining)),
            object.waiters.to_string(),
            state(object, holder, long),
        ];
        if long {
            let token = holder.and_then(|holder| holder.token);
            row.push(token.map_or_else(none, |token| token.to_string()));
            row.push(holder.map_or_else(none, |holder| clean(&holder.owner)));
        }
        row
    };
    if object.holders.is_empty() {
        return vec![row(None)];
    }
    let holders = object.holders.iter();
    holders.map(|holder| row(Some(holder))).collect()
}

/// Says who a holder is: application, process and host, or else its owner; and why it holds.
pub(crate) fn who(holder: &ObjectHolder) -> String {
    let who = match &holder.metadata {
        Some(of) => clean(&of.to_string()),
        None => format!("client {}", clean(&holder.owner)),
    };
    match &holder.note {
        Some(note) => format!("{who}: {}", clean(note)),
        None => who,
    }
}

fn state(object: &Object, holder: Option<&ObjectHolder>, long: bool) -> String {
    let own = holder.and_then(|holder| match (holder.access, holder.permits) {
        (Some(how), _) => Some(access(how).to_owned()),
        (None, Some(permits)) => Some(format!("has {permits}")),
        (None, None) => None,
    });
    let common = match &object.state {
        ObjectState::Permits { total, available } => Some(format!("{available} of {total} free")),
        ObjectState::Latch(latch) if latch.is_open() => Some("open".to_owned()),
        ObjectState::Latch(latch) => Some(format!("{} of {} to go", latch.count, latch.initial)),
        ObjectState::Limit(limit) => Some(match limit.rate {
            Some(rate) => {
                let (owed, span) = (limit.owed, short(limit.reset_after));
                format!("owes {owed} for {span} at {}", per(rate))
            }
            None => "owes nothing".to_owned(),
        }),
        ObjectState::Leader(value) => value.as_deref().map(clean),
        ObjectState::Unreadable { reason, .. } => Some(format!("unreadable: {}", clean(reason))),
        ObjectState::Job {
            running: Some(slot),
            ..
        } => Some(format!("runs slot {}", clean(&slot.to_string()))),
        ObjectState::Job { last, .. } => last.as_ref().map(|last| match long {
            true => clean(&last.to_string()),
            false => {
                let slot = clean(&last.slot.to_string());
                format!("slot {slot} {}", last.outcome.as_str())
            }
        }),
        _ => None,
    };
    let broken = holder.and_then(|holder| holder.broken.as_deref());
    let broken = broken.map(|by| match by {
        "" => "not renewed any more".to_owned(),
        by => format!("not renewed any more, by {}", clean(by)),
    });
    let parts: Vec<_> = broken.into_iter().chain(own).chain(common).collect();
    match parts[..] {
        [] => none(),
        _ => parts.join(", "),
    }
}

fn none() -> String {
    "-".to_owned()
}
