//! The law of lists: a script that takes several entries answers and leaves what it does for the
//! same entries one by one, and its branch for plain entries does what the rest of it would. The
//! entries and the states are those of the stored vectors.

// A vector that cannot be read fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use redlatch_lua::{List, Source};
use redlatch_vectors::{Bed, Content, State, Vector, at_time, stored};
use serde_json::Value;

#[test]
fn list_answers_and_leaves_what_its_entries_do_one_by_one() {
    // It keeps the scripts that it has compiled.
    let mut bed = Bed::new();
    for (source, form, calls) in of_lists(&stored()) {
        for (at, first) in calls.iter().enumerate() {
            // One list serves the waiters of a pool together, and elections have the branches of
            // the locks.
            if !["pool/", "election/"]
                .iter()
                .any(|kind| source.name.contains(kind))
            {
                for second in &calls {
                    compare(&mut bed, form, &first.before, [first, second]);
                }
            }
            let later = calls.iter().cycle().skip(at);
            for second in later.take(2) {
                let other = renamed(second);
                let mut state = first.before.clone();
                state.extend(other.before.clone());
                compare(&mut bed, form, &state, [first, &other]);
            }
        }
    }
}

/// Each state meets the calls of all others, and its own call with each argument that the others
/// have.
#[test]
fn plain_branch_does_what_the_rest_of_its_script_would() {
    let mut bed = Bed::new();
    for (source, form, calls) in of_lists(&stored()) {
        let Some(rest) = without_plain_branch(source) else {
            let all_alike = source.name.ends_with("/renew") || source.name.starts_with("limit/");
            assert!(all_alike, "{}", source.name);
            continue;
        };
        // Elections have the branches of the locks.
        if source.name.contains("election/") {
            continue;
        }
        for state in &calls {
            let others = calls.iter().map(|call| call.args.clone());
            let args: BTreeSet<_> = others.chain(changed(state, form, &calls)).collect();
            for args in args {
                let call = [(state.keys.clone(), args)];
                let mut run = |text: &str| {
                    let mut outcome = run(&mut bed, text, state, &state.before, form, &call);
                    let lives = forget_ends(&mut outcome.after);
                    (outcome, lives)
                };
                let (plain, lives) = run(&state.text());
                let (other, least) = run(&at_time(&rest, state.time));
                let what = format!("{} with {call:?}", state.title());
                assert_eq!(plain, other, "{what}");
                // A read-write lock lives for what was asked for last.
                let fits = source.name == "rwlock/read" || source.name == "rwlock/write";
                assert!(fits || lives >= least, "{what}: {lives:?}, {least:?}");
            }
        }
    }
}

/// Returns the arguments of `of` with one of its entry's changed: to that of another call, or to a
/// number beside its own. The first one stays: it is the owner, and an attempt has only one.
fn changed(of: &Vector, form: List, calls: &[&Vector]) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for at in form.shared + 1..of.args.len() {
        let number = of.args[at].parse::<u64>().ok();
        let beside = number
            .into_iter()
            .flat_map(|own| [own.saturating_sub(1), own + 1]);
        let others = calls.iter().map(|call| call.args[at].clone());
        for arg in others.chain(beside.map(|number| number.to_string())) {
            let mut args = of.args.clone();
            args[at] = arg;
            all.push(args);
        }
    }
    all
}

/// Returns each script that takes lists, with the vectors of one entry.
fn of_lists(vectors: &[Vector]) -> Vec<(&'static Source, List, Vec<&Vector>)> {
    let lists = redlatch_lua::all().filter_map(|source| Some((source, source.list?)));
    let with_calls = lists.map(|(source, form)| {
        let calls = vectors.iter().filter(|vector| {
            vector.script == source.name
                && vector.keys.len() == form.keys
                && vector.args.len() == form.shared + form.own
        });
        let calls: Vec<_> = calls.collect();
        assert!(calls.len() > 5, "{}: {}", source.name, calls.len());
        (source, form, calls)
    });
    with_calls.collect()
}

/// Returns the vector about the name `m` instead of `n`.
fn renamed(vector: &Vector) -> Vector {
    let other = |text: &String| text.replace("{n}", "{m}");
    let before = vector.before.iter();
    Vector {
        keys: vector.keys.iter().map(other).collect(),
        before: before
            .map(|(name, key)| (other(name), key.clone()))
            .collect(),
        ..vector.clone()
    }
}

/// Runs `entries` as a list and one by one, with the time and the shared arguments of the first.
fn compare(bed: &mut Bed, form: List, state: &State, entries: [&Vector; 2]) {
    let [first, second] = entries;
    let shared = &first.args[..form.shared];
    let own = entries.map(|entry| &entry.args[form.shared..]);
    let list = (
        [&first.keys[..], &second.keys].concat(),
        [shared, own[0], own[1]].concat(),
    );
    let each = [0, 1].map(|at| (entries[at].keys.clone(), [shared, own[at]].concat()));
    let together = run(bed, &first.text(), first, state, form, &[list]);
    let one_by_one = run(bed, &first.text(), first, state, form, &each);
    let (what, name) = (first.title(), &second.keys[0]);
    assert_eq!(together, one_by_one, "{what} and {} of {name}", second.name);
}

/// Runs calls at the time of `of`.
fn run(
    bed: &mut Bed,
    text: &str,
    of: &Vector,
    state: &State,
    form: List,
    calls: &[(Vec<String>, Vec<String>)],
) -> Outcome {
    bed.set_micros(of.time);
    bed.clear();
    bed.restore(state);
    let mut outcome = Outcome::default();
    for (keys, args) in calls {
        let (reply, messages) = bed.eval(text, keys, args);
        outcome.messages.extend(messages);
        outcome.lines.extend(lines(&reply, keys.len() / form.keys));
    }
    outcome.messages.sort();
    outcome.after = bed.state();
    outcome
}

/// What calls answer, say and leave.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// A line of each entry.
    lines: Vec<String>,
    messages: Vec<(String, String)>,
    after: State,
}

/// Returns the lines of a reply to so many entries. A list of items is the answer to all of them.
fn lines(reply: &Value, entries: usize) -> Vec<String> {
    match reply {
        Value::String(text) => text.split('\n').map(str::to_owned).collect(),
        reply => vec![words(reply); entries],
    }
}

fn words(reply: &Value) -> String {
    match reply {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// Returns the text of a script without its branch for plain entries, if it has one.
fn without_plain_branch(source: &Source) -> Option<String> {
    let branches = [
        ("not off[key]", "false"),
        ("local plain = spent and", "local plain = false and"),
        ("local plain = pool.ends and", "local plain = false and"),
    ];
    let is_there = |(branch, _): &(&str, _)| source.text.contains(branch);
    let (branch, none) = branches.into_iter().find(is_there)?;
    Some(source.text.replace(branch, none))
}

/// Forgets what the plain branch may leave in another way: how long a key lives on, and the owner
/// of an upgradable hold that is gone. Returns how long the first key lives on.
fn forget_ends(state: &mut State) -> Option<u64> {
    let lives = state.values().next().and_then(|key| key.ttl);
    for key in state.values_mut() {
        key.ttl = None;
        let Content::Hash(fields) = &mut key.content else {
            continue;
        };
        let kind = |owner: &String| fields.get(&format!("r{owner}"))?.get(48..49);
        let upgradable = fields.get("g").and_then(kind);
        if !upgradable.is_some_and(|kind| kind.eq_ignore_ascii_case("u")) {
            fields.remove("g");
        }
    }
    lives
}
