//! Objects as JSON and as rows of a table.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redlatch::{Access, Object, ObjectHolder, ObjectState, once::JobRecord};

use super::{
    json::Json,
    out::clean,
    report::millis,
    span::{per, short},
};

/// Returns an object as JSON; `None` for a name of which the server knows nothing.
pub(crate) fn json(name: &str, object: Option<&Object>) -> Json {
    let holders = object.map_or(&[][..], |object| &object.holders);
    let json = Json::new()
        .with("name", name)
        .with("kind", object.map(|object| object.kind.as_str()))
        .with_list("holders", holders.iter().map(holder))
        .with("waiters", object.map_or(0, |object| object.waiters));
    let of = Json::default();
    match object.map(|object| &object.state) {
        Some(ObjectState::Permits { total, available }) => {
            let of = of.with("total", total).with("available", available);
            json.with_object("permits", &of)
        }
        Some(ObjectState::Latch(latch)) => {
            let of = of.with("count", latch.count).with("initial", latch.initial);
            let of = of.with_some("remaining_ms", latch.remaining.map(millis));
            json.with_object("latch", &of)
        }
        Some(ObjectState::Limit(limit)) => {
            let of = of.with("owed", limit.owed);
            let of = of.with("reset_ms", millis(limit.reset_after));
            json.with_object("limit", &of.with_some("rate", limit.rate.map(per)))
        }
        Some(ObjectState::Leader(value)) => json.with_some("value", value.as_ref()),
        Some(ObjectState::Job { last, running }) => {
            let json = json.with_some("slot", running.as_ref().map(ToString::to_string));
            match last {
                Some(last) => json.with_object("last", &run(last)),
                None => json,
            }
        }
        Some(ObjectState::Unreadable { reason, .. }) => json.with("unreadable", reason),
        _ => json,
    }
}

/// Returns a holder as JSON.
pub(crate) fn holder(holder: &ObjectHolder) -> Json {
    let of = holder.metadata.as_ref();
    Json::default()
        .with("owner", &holder.owner)
        .with_some("token", holder.token.map(|token| token.as_u64()))
        .with_some("access", holder.access.map(access))
        .with_some("permits", holder.permits)
        .with_some("age_ms", holder.age.map(millis))
        .with("remaining_ms", millis(holder.remaining))
        .with_some("application", of.map(|of| &of.application))
        .with_some("host", of.map(|of| &of.host))
        .with_some("pid", of.map(|of| of.pid))
        .with_some("note", holder.note.as_ref())
        .with_some("broken", holder.broken.as_ref())
}

/// Returns the last run of a job as JSON.
fn run(run: &JobRecord) -> Json {
    Json::default()
        .with("slot", run.slot.to_string())
        .with("outcome", run.outcome.as_str())
        .with("attempt", run.attempt)
        .with("token", run.token.as_u64())
        .with("began_ms", since_1970(run.began))
        .with("ended_ms", since_1970(run.ended))
        .with("host", &run.host)
        .with("pid", run.pid)
        .with_some("error", run.error.as_ref())
}

/// Returns the milliseconds since 1970.
pub(crate) fn since_1970(instant: SystemTime) -> u64 {
    millis(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(crate) fn access(access: Access) -> &'static str {
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
