//! The stored vectors: complete, up to date, and the same when they are replayed.

// A vector that cannot be read fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};

use redlatch_vectors::{answers, declared, folder, recorded, replay, stored, texts};

#[test]
fn stored_vectors_are_those_that_the_scripts_give() {
    let (stored, recorded) = (texts(&folder()), recorded());
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    let (old, new) = (names(&stored), names(&recorded));
    assert_eq!(old, new, "run `cargo xtask vectors`");
    for (name, text) in &recorded {
        let differs = stored[name]
            .lines()
            .zip(text.lines())
            .find(|(old, new)| old != new);
        assert!(
            stored[name] == *text,
            "vectors/{name} differs: a script or a vector has changed. Run `cargo xtask vectors`, \
             read the difference, and raise the version of docs/contributing/protocol.md if a client of the old \
             scripts would go wrong. First difference: {differs:#?}"
        );
    }
}

#[test]
fn vectors_give_the_same_again() {
    let vectors = stored();
    assert!(vectors.len() > 300, "{}", vectors.len());
    for vector in &vectors {
        // On a real server the keys must not expire before the call.
        let ends = vector.before.values().filter_map(|key| key.ttl);
        assert!(ends.min() >= Some(1000) || vector.before.values().all(|key| key.ttl.is_none()));
        // Its reply, the state after it, and the messages.
        assert_eq!(replay(vector), *vector, "{}", vector.title());
    }
}

#[test]
fn every_answer_of_every_script_has_a_vector() {
    let vectors = stored();
    let mut missing = Vec::new();
    for source in redlatch_lua::all() {
        let declared = declared(source);
        let mut found = BTreeSet::new();
        let calls = vectors.iter().filter(|vector| vector.script == source.name);
        let mut count = 0;
        for vector in calls {
            count += 1;
            found.extend(answers(source.name, &vector.reply, &declared));
        }
        if count == 0 {
            missing.push(format!("{}: no vector", source.name));
        }
        let without = declared.difference(&found);
        missing.extend(without.map(|kind| format!("{}: {kind:?}", source.name)));
    }
    assert!(missing.is_empty(), "without a vector: {missing:#?}");
}

/// Some scripts, and what their headers declare.
const DECLARED: &str = "
reentrant/acquire: - CLOCK busy granted kind late void
fair/acquire: - CLOCK busy granted kind late more void
fair/release: - already expired gone kind released revoked taken
rwlock/renew: expired gone kind late renewed revoked taken
pool/change: CLOCK above below done kind late more set unset
pool/renew: expired gone kind late renewed
fence/eval: CLOCK already failed fenced kind late written
once/renew: CLOCK expired gone kind late renewed taken
rwlock/downgrade: CLOCK granted kind late lost void
";

#[test]
fn declared_answers_are_read_from_the_headers() {
    let script = |name: &str| redlatch_lua::all().find(|one| one.name == name).unwrap();
    for row in DECLARED.trim().lines() {
        let (name, kinds) = row.split_once(": ").unwrap();
        let kinds: BTreeSet<_> = kinds.split(' ').map(str::to_owned).collect();
        assert_eq!(declared(script(name)), kinds, "{name}");
    }
}
