//! The laws of the parsers, as functions of any bytes. Each function panics if a parser breaks a
//! law. The package `fuzz` draws the bytes. A test here takes those of `fuzz/corpus`.

#![expect(
    clippy::expect_used,
    reason = "a value that a law needs is a part of the law"
)]

use std::{iter, net::Ipv6Addr, str, sync::Arc};

use redlatch_lua::REENTRANT;

use crate::{
    Client, ClientBuilder,
    api::address,
    base::{
        items::{Items, listed, reported_grants, server_millis},
        merge::{MergedCall, Part, Slots},
        primitive::{ReleaseReply, Renewed, Withdrawn},
        rules::Rules,
        script::{Script, ScriptCall},
    },
    engine::{
        Withdrawals,
        withdrawals::{Cause, Stray},
    },
    net::{Bell, Topology, routes, sentinel, subscription_table::SubscriptionTable},
    protocol::{
        classify::{Class, classify},
        glob::matches,
        grant::Notice,
        name::{Key, Name, Prefix},
        slot::{SLOTS, slot_of},
    },
    runtime::{Address, Command, Push, Reply, Value},
    transport::redis::resp::{self, Decoder, Item},
};

/// A function that panics if a law is broken.
pub type Law = fn(&[u8]);

/// The laws by the names of their targets.
pub const LAWS: [(&str, Law); 7] = [
    ("addresses", addresses),
    ("errors", errors),
    ("globs", globs),
    ("messages", messages),
    ("names", names),
    ("replies", replies),
    ("scripts", scripts),
];

/// Returns `bytes` if they are a text.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

/// Reads what a server sends. The portions in which the bytes arrive make no difference.
pub fn replies(bytes: &[u8]) {
    let whole = read([bytes].into_iter());
    let mut rest = bytes;
    let portions = iter::from_fn(|| {
        let length = usize::from(*rest.first()?) % 16 + 1;
        rest.split_off(..length.min(rest.len()))
    });
    assert_eq!(read(portions), whole);
    assert_eq!(read(bytes.chunks(1)), whole);
    for item in whole.0 {
        match item {
            Item::Reply(reply) => reply.iter().for_each(deployment),
            Item::Push(items) => drop(resp::told(&items)),
        }
    }
}

/// Returns the replies in what a server sends.
pub fn decoded(bytes: &[u8]) -> Vec<Reply> {
    let (items, _) = read([bytes].into_iter());
    let replies = items.into_iter().filter_map(|item| match item {
        Item::Reply(reply) => Some(reply),
        Item::Push(_) => None,
    });
    replies.collect()
}

/// Returns all items, and whether the bytes behind them are refused.
pub(crate) fn read<'a>(portions: impl Iterator<Item = &'a [u8]>) -> (Vec<Item>, bool) {
    let mut decoder = Decoder::default();
    let mut items = Vec::new();
    for portion in portions {
        decoder.room(portion.len()).extend_from_slice(portion);
        loop {
            match decoder.next() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(_) => return (items, true),
            }
        }
    }
    (items, false)
}

/// The servers that a reply names can exist, and no slot has two masters.
fn deployment(reply: &Value) {
    let address = |host: &str, port| {
        assert_ne!(port, 0);
        let host = host.to_owned();
        Some(Address::Tcp { host, port })
    };
    let shards = routes::slots(reply, address).unwrap_or_default();
    let mut free = 0;
    for shard in shards {
        assert!(free <= shard.first && shard.first <= shard.last && shard.last < SLOTS);
        free = shard.last + 1;
    }
    let watched = sentinel::watched(reply, reply).map(|watched| watched.master);
    for (host, port) in sentinel::followers(reply).into_iter().chain(watched) {
        assert!(!host.is_empty() && port != 0);
    }
}

/// Writes a command as a server reads it.
pub fn encode(command: &Command) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode(command, &mut bytes);
    bytes
}

/// Reads an address with its options. Each server is written so that it is read again, and an error
/// shows nothing in front of the last `@`.
pub fn addresses(bytes: &[u8]) {
    let text = text(bytes);
    // An error may quote the rest.
    let secret = text.split_once("://").is_some_and(|(scheme, rest)| {
        rest.rsplit_once('@').is_some_and(|(login, servers)| {
            login.contains(SECRET) && ![scheme, servers].iter().any(|it| it.contains(SECRET))
        })
    });
    let shows = |error: &crate::Error| format!("{error} {error:?}").contains(SECRET);
    let (kind, addresses) = match address::read(text).map(|(servers, _)| servers.topology) {
        Err(error) => return assert!(!secret || !shows(&error), "{error:?}"),
        Ok(Topology::Single(address)) => ("", vec![address]),
        Ok(Topology::Cluster(addresses)) => ("+cluster", addresses),
        Ok(Topology::Replicas(addresses)) => ("+replicas", addresses),
        Ok(Topology::Sentinel(sentinels)) => ("", sentinels.addresses),
    };
    for address in addresses {
        let written = address.written(kind);
        if written.contains("/.") {
            // A URL has no path with dots for a folder.
            continue;
        }
        let again = match address::read(&written).map(|(servers, _)| servers.topology) {
            Ok(Topology::Single(again)) => again,
            Ok(Topology::Cluster(mut all) | Topology::Replicas(mut all)) => all.swap_remove(0),
            other => panic!("{written}: {other:?}"),
        };
        assert_eq!(plain(again), plain(address), "{written}");
    }
    let _ = ClientBuilder::<Client>::new(text).into_config();
}

/// A word in passwords that no error may show.
const SECRET: &str = "hunter2";

/// Returns an address with the shortest form of its IPv6 address.
fn plain(mut address: Address) -> Address {
    if let Address::Tcp { host, .. } | Address::Tls { host, .. } = &mut address
        && let Ok(ip) = host.parse::<Ipv6Addr>()
    {
        *host = ip.to_string();
    }
    address
}

/// Reads a message and a notice. Nothing may follow a notice, and a message reaches the waiter that
/// it names, with and without a grant.
pub fn messages(bytes: &[u8]) {
    let text = text(bytes);
    let word = text.rsplit(' ').next().unwrap_or_default();
    for tail in ["0", ".", " ", "x"] {
        let longer = format!("{word}{tail}");
        assert!(Notice::parse(word).is_none() || Notice::parse(&longer).is_none());
    }
    let (nonce, token) = (u64::MAX - 1, text.len() as u64);
    let notice = Notice {
        nonce,
        token,
        ends: 7,
        abandoned: true,
    };
    let grant = format!("{text} g{nonce:016x}.{token}.7.1");
    assert_eq!(Notice::split(&grant), Some((text, notice)));
    let mut table = SubscriptionTable::new(Rules::default());
    let message = |channel: &str| Push::Message {
        channel: channel.into(),
        payload: grant.clone().into(),
    };
    table.pin(&"own".into());
    assert_eq!(table.take(message("own")), Some(grant.clone()));
    let bell = Arc::new(Bell::default());
    table.listen(&"other".into(), Arc::clone(&bell));
    assert_eq!(table.take(message("other")), None);
    assert_eq!(bell.take(|news| news.message), Some(2));
    let prefix = Prefix::default();
    for Stray { key, .. } in Withdrawals::read(&prefix, text) {
        let rest = text.strip_prefix(key.as_str());
        assert!(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')));
    }
    if let Ok(name) = Name::parse(text) {
        let key = Key::new(&prefix, &name);
        for (says, cause) in [
            (key.to_string(), Cause::Called),
            (format!("{key} 9"), Cause::CalledBy(9)),
        ] {
            let mut strays = Withdrawals::read(&prefix, &says);
            assert!(strays.any(|stray| stray.key == key && stray.cause == cause));
        }
    }
}

/// Reads a name and a key. A name is had back from its key, and from no other.
pub fn names(bytes: &[u8]) {
    let text = text(bytes);
    let prefix = Prefix::default();
    if let Some(name) = Key::decode(&prefix, text) {
        assert_eq!(Key::new(&prefix, &name).as_str(), text);
    }
    let Ok(name) = Name::parse(text) else { return };
    let key = Key::new(&prefix, &name);
    let part = key.part("q");
    assert_eq!(key.name(), text);
    assert_eq!(Key::decode(&prefix, key.as_str()), Some(name.clone()));
    assert_eq!(Key::decode(&prefix, &part), None);
    assert_eq!(
        [slot_of(part.as_bytes()); 2],
        [slot_of(key.as_str().as_bytes()), key.slot()]
    );
    if let Ok(key) = Key::foreign(&prefix, &name) {
        let beside = key.beside(&prefix, "c");
        assert_eq!(slot_of(beside.as_bytes()), key.slot());
        assert_eq!(Key::decode(&prefix, &beside), None);
    }
}

/// Reads a script's reply. A text and the list of its words mean the same, and each line of a
/// reply to several calls answers one of them.
pub fn scripts(bytes: &[u8]) {
    let text = text(bytes);
    let reply = Value::Bulk(text.into());
    let list = listed(reply.clone());
    let [words, items] = [&reply, &list].map(|reply| Items::new(SCRIPT, reply).expect("items"));
    assert_eq!(words.len(), items.len());
    for at in 0..=words.len() {
        assert_eq!(words.text(at).ok(), items.text(at).ok());
        assert_eq!(words.maybe::<i64>(at).ok(), items.maybe::<i64>(at).ok());
    }
    assert_eq!(server_millis(&reply), server_millis(&list));
    assert!(reported_grants(&reply).eq(reported_grants(&list)));
    let decoded = |items: &Items<'_>| {
        let renewed = Renewed::read(items).ok();
        let released = ReleaseReply::read(items, 1).ok();
        (renewed, released, Withdrawn::read(items).ok())
    };
    assert_eq!(decoded(&words), decoded(&items));

    let call = ScriptCall::in_slot(SCRIPT, 0).key("k").dated();
    let call = call.args(["c", "9", "ttl", ":1", "5"]);
    let part = Part::of(&call, 9, Slots::Any).expect("one entry");
    let mut merged = MergedCall::of(&part);
    let lines: Vec<_> = text.split('\n').collect();
    while merged.len() < lines.len() && merged.add(&part) {}
    let Some(replies) = merged.replies(&reply) else {
        return assert!(merged.is_full());
    };
    assert_eq!(replies.len(), lines.len());
    for (line, reply) in lines.into_iter().zip(replies) {
        match reply {
            Ok(value) => assert_eq!(value.as_str(), Some(line)),
            Err(_) => assert!(line.starts_with('-')),
        }
    }
}

/// A script whose calls go together.
static SCRIPT: &Script = &REENTRANT.renew;

/// Reads an error. A redirection names a slot, and the words in which servers of all versions wrap
/// the error of a command within a script mean the same.
pub fn errors(bytes: &[u8]) {
    let text = text(bytes);
    let (code, message) = text.split_once(' ').unwrap_or((text, ""));
    if let Class::Redirect(redirect) = classify(code, message) {
        assert!(redirect.slot < SLOTS);
    }
    let is_code = code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_plain = classify("ERR", message) == Class::Unknown && !message.contains([':', '\'']);
    if is_code && !["ERR", "MOVED", "ASK"].contains(&code) && is_plain {
        let old = format!("Error running script (call to f_1): @user_script:1: -{text}");
        let new = format!("{message} script: f_1, on @user_script:1.");
        assert_eq!(classify("ERR", &old), classify(code, &new));
    }
}

/// Matches the pattern in the first line with the rest. A star stands for any beginning, and a
/// text that is escaped stands for itself alone.
pub fn globs(bytes: &[u8]) {
    let (pattern, text) = parts(bytes);
    let starred = ["*", pattern].concat();
    let mut tails = text.char_indices().map(|(at, _)| &text[at..]).chain([""]);
    assert_eq!(
        matches(&starred, text),
        tails.any(|tail| matches(pattern, tail))
    );
    let escaped: String = pattern.chars().flat_map(|c| ['\\', c]).collect();
    assert!(matches(&escaped, pattern));
    assert_eq!(matches(&escaped, text), pattern == text);
    let (around, within) = (format!("*{escaped}*"), [text, pattern, text].concat());
    assert!(matches(&around, &within));
}

/// Returns a pattern, a text, and whether the text matches.
pub fn matched(bytes: &[u8]) -> (&str, &str, bool) {
    let (pattern, text) = parts(bytes);
    (pattern, text, matches(pattern, text))
}

fn parts(bytes: &[u8]) -> (&str, &str) {
    let text = text(bytes);
    text.split_once('\n').unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::runtime::values::many_cases;

    #[test]
    fn corpus_keeps_the_laws() {
        for (target, law) in LAWS {
            let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
            let files = fs::read_dir(corpus.join(target)).unwrap();
            let checked = files.map(|file| law(&fs::read(file.unwrap().path()).unwrap()));
            assert!(checked.count() > 5, "{target}");
        }
    }

    /// Laws, and the texts that they are tried with.
    const DRAWN: [(Law, &str); 5] = [
        (globs, r"\PC{0,9}\n\PC{0,9}"),
        (globs, r"[a-c*?^\\\[\]-]{0,12}\n[a-c*?^\\\[\]-]{0,6}"),
        (names, r"redlatch:(%7B|%7D|%25|%7b|%|a|@|\{|\}|é){0,8}"),
        (names, r"redlatch:\{(%7B|%7D|%25|%7b|%|a|@|\{|\}|é){0,8}\}"),
        (scripts, "([a-z0-9]{0,3} ){0,40}[a-z0-9]{0,3}"),
    ];

    #[test]
    fn drawn_texts_keep_the_laws() {
        for (law, texts) in DRAWN {
            let outcome = TestRunner::new(many_cases()).run(&texts, |text| {
                law(text.as_bytes());
                Ok(())
            });
            assert!(outcome.is_ok(), "{texts}: {outcome:?}");
        }
    }
}
