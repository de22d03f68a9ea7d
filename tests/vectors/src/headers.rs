//! The kinds of answers: those that a script's header declares, and that of a reply.

use std::{collections::BTreeSet, fs, path::Path};

use redlatch_lua::Source;
use serde_json::Value;

/// Returns the kinds of answers that the header of a script declares. The kind of an empty text is
/// `""`, that of an error its code.
///
/// # Panics
///
/// Panics if the file of the script has no header with a reply.
pub fn declared(source: &Source) -> BTreeSet<String> {
    let mut kinds = of_file(&file_of(source.name));
    let text = source.text;
    if text.contains("error_reply('CLOCK ") {
        kinds.insert("CLOCK".to_owned());
    }
    // The shared beginnings of scripts answer for them.
    if text.contains(include_str!("../../../lua/core/act_before.lua")) {
        kinds.insert("late".to_owned());
    }
    let (_, shared) = include_str!("../../../lua/fence/shared.lua")
        .split_once('\n')
        .expect("a line of parts");
    if text.contains(shared) {
        kinds.extend(of_file("fence/shared"));
    }
    for (script, kind) in NEVER {
        if *script == source.name {
            assert!(kinds.remove(*kind), "{script} declares no answer {kind}");
        }
    }
    kinds
}

/// Answers that the header of a shared file declares, and that a script of some kind never gives:
/// kinds without a queue never have too many dead waiters.
const NEVER: &[(&str, &str)] = &[("reentrant/acquire", "more"), ("election/acquire", "more")];

/// Returns the file of a script, without its suffix.
fn file_of(script: &str) -> String {
    let (folder, file) = script.split_once('/').expect("a folder");
    let shared = ["reentrant", "fair", "election", "fair_election"].contains(&folder);
    let own = ["waiters", "position", "announce", "look"].contains(&file);
    if shared && !own {
        format!("exclusive/{file}")
    } else {
        script.to_owned()
    }
}

fn of_file(file: &str) -> BTreeSet<String> {
    let path = format!("../../lua/{file}.lua");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("-- Reply"));
    let reply: Vec<_> = lines
        .take_while(|line| !line.starts_with("-- Cost") && line.starts_with("--"))
        .collect();
    assert!(!reply.is_empty(), "{file} declares no reply");
    let mut kinds = BTreeSet::new();
    for line in &reply {
        kinds.extend(quoted(line));
        kinds.extend(listed(line));
    }
    let all = reply.join(" ").replace("--", "");
    let all = all.split_whitespace().collect::<Vec<_>>().join(" ");
    if all.contains("a text of one line per") {
        kinds.extend(of_lines(&all));
    }
    kinds
}

/// Returns the words behind `{now, ` in quotes.
fn quoted(line: &str) -> Vec<String> {
    let words = line.split("{now, '").skip(1);
    words
        .filter_map(|rest| rest.split_once('\'').map(|(word, _)| word.to_owned()))
        .collect()
}

/// Returns the verdicts of a line: at the place of a verdict, or behind `{now, verdict…}`.
fn listed(line: &str) -> Vec<String> {
    let line = line.strip_prefix("--").unwrap_or(line);
    let own = line
        .strip_prefix("       ")
        .filter(|rest| !rest.starts_with(' '));
    if let Some(own) = own {
        if own.starts_with("-<code>") {
            return vec![ERROR.to_owned()];
        }
        let own = own.strip_prefix("<now> ").map_or(own, |line| {
            let end = line.find(' ').unwrap_or(line.len());
            &line[..end]
        });
        let words = own.split_once("  ").map_or(own, |(words, _)| words);
        return words_of(words).unwrap_or_default();
    }
    let Some((_, rest)) = line.split_once("{now, verdict") else {
        return Vec::new();
    };
    let rest = rest.split_once('}').map_or("", |(_, rest)| rest);
    let rest = rest.rsplit_once(": ").map_or(rest, |(_, rest)| rest);
    words_of(rest.trim()).unwrap_or_default()
}

/// The kind of the error of one entry among several.
const ERROR: &str = "-";

fn words_of(text: &str) -> Option<Vec<String>> {
    let words = text.split(", ").map(str::to_owned).collect::<Vec<_>>();
    let is_word =
        |word: &String| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    words.iter().all(is_word).then_some(words)
}

/// Returns the kinds of a reply that repeats the one of another script in each line.
fn of_lines(reply: &str) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for before in ["with the verdict as in ", "with both as in "] {
        if let Some((_, rest)) = reply.split_once(before) {
            let end = rest.find([',', '.', ';', ' ']).unwrap_or(rest.len());
            kinds.extend(of_file(&rest[..end]));
        }
    }
    if reply.contains("`late`") || reply.contains("late` in each line") {
        kinds.insert("late".to_owned());
    }
    kinds
}

/// Returns the kinds of answers in a reply to `script`, which has declared `declared`.
///
/// # Panics
///
/// Panics if the reply is an answer that is not declared.
pub fn answers(script: &str, reply: &Value, declared: &BTreeSet<String>) -> BTreeSet<String> {
    let found: BTreeSet<_> = match reply {
        Value::String(text) if text.is_empty() => [String::new()].into(),
        Value::String(text) => text
            .split('\n')
            .map(|line| match line.strip_prefix('-') {
                Some(_) => ERROR.to_owned(),
                None => line.split(' ').nth(1).unwrap_or_default().to_owned(),
            })
            .collect(),
        Value::Array(items) => {
            let words = items.iter().skip(1).filter_map(Value::as_str);
            let words: BTreeSet<_> = words.map(str::to_owned).collect();
            // The first item behind the time is the answer, or a number.
            if let Some(Value::String(first)) = items.get(1)
                && !declared.is_empty()
                && first.bytes().all(|byte| byte.is_ascii_lowercase())
            {
                assert!(declared.contains(first), "{script} answers {first:?}");
            }
            words.intersection(declared).cloned().collect()
        }
        Value::Object(error) => {
            let code = error["error"].as_str().expect("a code");
            [code.to_owned()].into()
        }
        other => panic!("{script} answers {other}"),
    };
    let alien = found.difference(declared).next();
    assert!(
        alien.is_none(),
        "{script} answers {alien:?}, which its header does not declare"
    );
    found
}
