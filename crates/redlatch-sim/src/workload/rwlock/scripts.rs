//! The actions of the scripts of the read-write lock.

use redlatch_embedded::engine::{Contents, KeyDump};

use crate::{
    scripts::{Ran, Seen},
    workload::lock,
};

pub(super) fn seen(ran: &Ran<'_>) -> Vec<Seen> {
    let Some(name) = ran.name() else {
        return Vec::new();
    };
    let granted = |at| Seen::granted(name, ran.arg(at));
    let seen = match (ran.source.name, ran.verdict()) {
        ("rwlock/read" | "rwlock/write", "granted") => vec![granted(6)],
        ("rwlock/downgrade", "granted") => {
            vec![granted(3), Seen::ended(name, ran.arg(6), false)]
        }
        ("rwlock/renew", "renewed") => {
            let hold = format!("{}{}", ran.arg(6), ran.arg(7));
            vec![Seen::renewed(name, hold)]
        }
        ("rwlock/release", verdict) if !verdict.is_empty() => {
            let freed = verdict == "released" && frees(ran, 4);
            vec![Seen::ended(name, ran.arg(4), freed)]
        }
        ("rwlock/force", "done") => vec![Seen::Forced {
            name,
            hold: format!("{}{}", ran.arg(1), ran.arg(3)),
            ended: ran.arg(4) == "now",
            freed: ran.arg(4) == "now" && frees(ran, 3),
        }],
        ("rwlock/withdraw", "struck") => Vec::new(),
        _ => return Vec::new(),
    };
    let given = lock::given(ran, name, report(ran));
    seen.into_iter().chain(given).collect()
}

/// Tells whether nobody held the lock any more, by item `at` of the reply, before it was given to a
/// waiter.
fn frees(ran: &Ran<'_>, at: usize) -> bool {
    ran.number(at) == Some(1) || given(ran).is_some()
}

/// Reads the grant of a write that a script has made on behalf of a waiter: attempt, token, end.
pub(super) fn given<'a>(ran: &'a Ran<'_>) -> Option<(&'a str, u64, u64)> {
    let at = report(ran);
    if ran.text(at)? != "granted" {
        return None;
    }
    let mut parts = ran.text(at + 2)?.split('.').skip(1);
    let mut number = || parts.next()?.parse().ok();
    Some((ran.text(at + 1)?, number()?, number()?))
}

/// Returns the position at which a reply may tell of a grant to a waiter.
fn report(ran: &Ran<'_>) -> usize {
    match ran.source.name {
        "rwlock/release" => 5,
        "rwlock/force" => 4,
        _ => 3,
    }
}

/// Reads the live holders from the keys of a lock.
pub(super) fn holders(key: &KeyDump, now: u64) -> Vec<String> {
    let Contents::Hash(fields) = &key.contents else {
        return Vec::new();
    };
    let lives = |until: &[u8]| {
        let until = std::str::from_utf8(until).ok();
        until.is_some_and(|until| until.parse::<u64>().is_ok_and(|until| until > now))
    };
    let readers = fields.iter().filter_map(|(field, hold)| {
        let owner = String::from_utf8_lossy(field.strip_prefix(b"r")?).into_owned();
        lives(hold.get(..13)?).then_some(owner)
    });
    lock::holder(key, now).into_iter().chain(readers).collect()
}
