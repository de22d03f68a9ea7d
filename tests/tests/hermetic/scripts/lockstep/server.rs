//! One server of a lockstep, and its data as far as they have to agree.

use std::collections::BTreeMap;

use redlatch::runtime::Value;
use redlatch_core::family::listed;
use redlatch_embedded::engine::{Contents, KeyDump};

use super::calls::POOL_KINDS;
use crate::scripts::bed::Bed;

/// The hash fields or sorted set members of each key, and the last ms of its life.
pub(super) type Data = BTreeMap<String, (BTreeMap<String, String>, Option<u64>)>;

/// The items of a reply, numbers as their text.
pub(super) fn items(reply: Value) -> Vec<String> {
    let text = |item: &Value| match item {
        Value::Int(number) => number.to_string(),
        other => other.as_str().unwrap_or("nil").to_owned(),
    };
    let list = listed(reply);
    list.as_array().unwrap().iter().map(text).collect()
}

pub(super) fn data(bed: &Bed) -> Data {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let entry = |dump: KeyDump| {
        let parts = match dump.contents {
            Contents::Hash(fields) => fields
                .iter()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            Contents::SortedSet(members) => members
                .iter()
                .map(|(member, score)| (text(member), score.to_string()))
                .collect(),
            other => panic!("{other:?}"),
        };
        let expires = dump.expires.map(|at| at.millis());
        (text(&dump.key), (parts, expires))
    };
    bed.dump().into_iter().map(entry).collect()
}

/// Removes the owner of an upgradable hold that is gone.
pub(super) fn without_stale_upgradables(data: &mut Data) {
    for (fields, _) in data.values_mut() {
        let Some(owner) = fields.get("g") else {
            continue;
        };
        let hold = fields.get(&format!("r{owner}"));
        let kind = hold.and_then(|hold| hold.get(48..49));
        if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("u")) {
            fields.remove("g");
        }
    }
}

/// Removes expired holds of pools, as an ordinary script would, and corrects the index.
pub(super) fn without_expired_holds(data: &mut Data, now: u64) {
    let pools: Vec<_> = data
        .iter()
        .filter(|(_, (fields, _))| {
            fields
                .get("k")
                .is_some_and(|kind| POOL_KINDS.contains(&kind.as_str()))
        })
        .map(|(key, _)| key.clone())
        .collect();
    for key in pools {
        let mut ends = BTreeMap::new();
        let (fields, _) = data.get_mut(&key).unwrap();
        let mut back = 0;
        fields.retain(|field, value| {
            let Some(hold) = field.strip_prefix("h:") else {
                return true;
            };
            let mut words = value.split(' ').map(|word| word.parse::<u64>().unwrap());
            let (until, permits) = (words.next().unwrap(), words.next().unwrap());
            if until > now {
                ends.insert(hold.to_owned(), until.to_string());
            } else {
                back += permits;
            }
            until > now
        });
        if let Some(out) = fields.get_mut("c") {
            *out = (out.parse::<u64>().unwrap() - back).to_string();
        }
        let index = format!("{key}:d");
        let (members, _) = data.entry(index.clone()).or_default();
        *members = ends;
        if members.is_empty() {
            data.remove(&index);
        }
    }
}

/// Returns how many permits a waiter needs.
pub(super) fn needs(member: &str) -> u64 {
    member.split(' ').nth(3).unwrap().parse().unwrap()
}

/// Replaces the tickets of a pool's waiters by their ranks, and removes those that need more than
/// the size, and what its queue has left of waiters that are gone. `name` is the pool's first key.
pub(super) fn with_ranks_for_tickets(data: &mut Data, name: &str) {
    let (queue, clients) = (format!("{name}:q"), format!("{name}:l"));
    let mut tickets = Vec::new();
    let size = data.get(name).and_then(|(fields, _)| fields.get("s"));
    let size: Option<u64> = size.map(|size| size.parse().unwrap());
    if let Some((members, _)) = data.get_mut(&queue) {
        members.retain(|member, _| size.is_none_or(|size| needs(member) <= size));
        for (member, ticket) in members.iter() {
            tickets.push((ticket.parse::<f64>().unwrap(), member.clone()));
        }
        tickets.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (rank, (_, member)) in tickets.iter().enumerate() {
            members.insert(member.clone(), rank.to_string());
        }
        if members.is_empty() {
            data.remove(&queue);
        }
    }
    if let Some((fields, _)) = data.get_mut(name) {
        if let Some(rung) = fields.remove("r") {
            let rung: f64 = rung.parse().unwrap();
            let rung = tickets.iter().filter(|(ticket, _)| *ticket <= rung);
            fields.insert("r".to_owned(), rung.count().to_string());
        }
        if fields.get("r").is_some_and(|rung| rung == "0") {
            fields.remove("r");
        }
        if tickets.is_empty() {
            fields.remove("n");
        }
        let waits = |member: &str| tickets.iter().any(|(_, one)| one == member);
        if fields.get("y").is_some_and(|called| !waits(&called[14..])) {
            fields.remove("y");
        }
    }
    if let Some((living, _)) = data.get_mut(&clients) {
        living.retain(|client, _| {
            let channel = format!(" {client} ");
            tickets.iter().any(|(_, member)| member.contains(&channel))
        });
        if living.is_empty() {
            data.remove(&clients);
        }
    }
}

/// Gives the queues of `one` the times of `other` until which their clients are alive, where those
/// are later by the time for which a client is not recorded again. Tells whether there are any.
pub(super) fn with_the_fresher_times(one: &mut Data, other: &Data) -> bool {
    let mut changed = false;
    let mut fresher = |mine: &mut u64, its: u64| {
        if *mine < its && its <= *mine + FRESH {
            *mine = its;
            changed = true;
        }
    };
    for (key, (fields, until)) in one.iter_mut() {
        let Some((its_fields, its_until)) = other.get(key) else {
            continue;
        };
        if let (Some(until), Some(its)) = (until, its_until)
            && (key.ends_with(":q") || key.ends_with(":l"))
        {
            fresher(until, *its);
        }
        for (name, value) in fields.iter_mut() {
            if name != "n" && !key.ends_with(":l") {
                continue;
            }
            if let Some(its) = its_fields.get(name) {
                let mut time = value.parse().unwrap();
                fresher(&mut time, its.parse().unwrap());
                *value = time.to_string();
            }
        }
    }
    changed
}

/// The ms for which a client is not recorded as alive again.
const FRESH: u64 = 100;
