//! Every script compiles as Lua 5.1, which servers speak, and a linter finds nothing in it.

#![allow(
    clippy::expect_used,
    reason = "a linter that cannot be set up fails the test"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
};

use full_moon::LuaVersion;
use mlua::Lua;
use redlatch_lua::Source;
use selene_lib::{
    Checker, CheckerConfig, LintVariation, lints::Severity, standard_library::StandardLibrary,
};
use serde_json::json;

#[test]
fn every_script_compiles() {
    let lua = Lua::new();
    for source in redlatch_lua::all() {
        let compiled = lua.load(source.text).set_name(source.name).into_function();
        assert!(compiled.is_ok(), "{compiled:?}");
    }
}

#[test]
fn linter_finds_nothing_in_any_script() {
    // A shared part may define more than one script uses, but not what none of them uses.
    let mut unused: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (source, findings) in lint_all() {
        for definition in definitions(source.text) {
            *uses.entry(definition).or_default() += 1;
        }
        for finding in findings {
            let shared = finding.code == "unused_variable" && is_definition(&finding.line);
            if shared {
                unused.entry(finding.line).or_insert((0, source.name)).0 += 1;
            } else {
                found.push(format!("{}: {finding:?}", source.name));
            }
        }
    }
    for (line, (times, name)) in unused {
        if uses.get(&line) == Some(&times) {
            found.push(format!("{name}: no script uses `{line}`"));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn faults_are_found() {
    let linter = linter();
    for (text, code) in [
        ("local left = 1", "unused_variable"),
        ("return {nwo}", "undefined_variable"),
        ("left = 1 return left", "unscoped_variables"),
        ("local a = 1 local a = 2 return a", "shadowing"),
        ("if ARGV[1] then end", "empty_if"),
        ("return redis.cal('GET')", "incorrect_standard_library_use"),
        ("return string.sub('a')", "incorrect_standard_library_use"),
    ] {
        let codes: BTreeSet<_> = lint(&linter, text).into_iter().map(|it| it.code).collect();
        assert!(codes.contains(code), "{text}: {codes:?}");
    }
    assert_eq!(lint(&linter, "return redis.call('GET', KEYS[1])"), []);
    let broken = "local a = = 1";
    assert!(Lua::new().load(broken).into_function().is_err());
}

/// What the linter says of one line.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    code: String,
    message: String,
    line: String,
}

fn lint(linter: &Checker<serde_json::Value>, text: &str) -> Vec<Finding> {
    let parsed = full_moon::parse_fallible(text, LuaVersion::lua51());
    assert_eq!(parsed.errors(), [], "{text}");
    linter
        .test_on(parsed.ast())
        .into_iter()
        .filter(|finding| finding.severity != Severity::Allow)
        .map(|finding| {
            let at = finding.diagnostic.primary_label.range.0 as usize;
            let begin = text[..at].rfind('\n').map_or(0, |before| before + 1);
            Finding {
                code: finding.diagnostic.code.to_owned(),
                message: finding.diagnostic.message,
                line: text[begin..].lines().next().unwrap_or_default().to_owned(),
            }
        })
        .collect()
}

fn linter() -> Checker<serde_json::Value> {
    let mut library = StandardLibrary::from_name("lua51").expect("the library of Lua 5.1");
    let redis = json!({ "globals": {
        "KEYS": { "property": "read-only" },
        "ARGV": { "property": "read-only" },
        "redis.call": { "args": [{ "type": "string" }, { "type": "...", "required": false }] },
        "redis.pcall": { "args": [{ "type": "string" }, { "type": "...", "required": false }] },
        "redis.error_reply": { "args": [{ "type": "string" }] },
    }});
    library.extend(serde_json::from_value(redis).expect("the library of scripts"));
    let mut config = CheckerConfig::default();
    // A chain of cases may say the same of two of them.
    let same = "if_same_then_else".to_owned();
    config.lints.insert(same, LintVariation::Allow);
    Checker::new(config, library).expect("a linter")
}

/// Lints all scripts, half of them on another thread.
fn lint_all() -> Vec<(&'static Source, Vec<Finding>)> {
    let lint_some = |some: &[&'static Source]| {
        let linter = linter();
        let lint_one = |&source: &&'static Source| (source, lint(&linter, source.text));
        some.iter().map(lint_one).collect::<Vec<_>>()
    };
    let all: Vec<_> = redlatch_lua::all().collect();
    let (one, other) = all.split_at(all.len() / 2);
    thread::scope(|scope| {
        let other = scope.spawn(|| lint_some(other));
        let mut linted = lint_some(one);
        linted.extend(other.join().expect("no panic"));
        linted
    })
}

/// Returns the lines that define something at the outermost level.
fn definitions(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| is_definition(line))
        .map(str::to_owned)
        .collect()
}

fn is_definition(line: &str) -> bool {
    line.starts_with("local ")
}
