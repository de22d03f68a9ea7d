//! Checks that `docs/contributing/failure-modes.md` and the comments at tests agree.

#![allow(
    clippy::unwrap_used,
    reason = "a page that is written otherwise fails the test"
)]

// This binary uses only a part of the module.
#[allow(dead_code)]
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use tree::{Tracked, read, tracked};

/// The number of failures on the page.
const ENTRIES: u32 = 50;

/// The entries for which redlatch offers nothing, so that no test can show them.
const WITHOUT_TESTS: [u32; 1] = [43];

/// Names of tests by the number of the failure.
type Tests = BTreeMap<u32, BTreeSet<String>>;

#[test]
fn entries_are_numbered_in_order() {
    let numbers: Vec<_> = entries().into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, Vec::from_iter(1..=ENTRIES));
}

#[test]
fn entries_list_the_tests_whose_comments_refer_to_them() {
    let listed: Tests = entries().into_iter().collect();
    let mut commented = Tests::from_iter((1..=ENTRIES).map(|number| (number, BTreeSet::new())));
    for Tracked { name: path, text } in sources() {
        for (numbers, name) in comments(&text) {
            for number in numbers {
                let entry = commented.get_mut(&number);
                let entry = entry.unwrap_or_else(|| panic!("{path}: L{number} is no entry"));
                entry.insert(name.clone());
            }
        }
    }
    assert_eq!(
        listed, commented,
        "left is the page, right are the comments"
    );
}

#[test]
fn each_entry_has_a_test() {
    for (number, tests) in entries() {
        let expected = !WITHOUT_TESTS.contains(&number);
        assert_eq!(!tests.is_empty(), expected, "L{number}");
    }
}

#[test]
fn mentions_refer_to_entries() {
    for Tracked { name: path, text } in sources() {
        for line in text.lines() {
            let Some((_, comment)) = line.split_once("//") else {
                continue;
            };
            for number in mentions(comment) {
                assert!((1..=ENTRIES).contains(&number), "{path}: {line}");
            }
        }
    }
}

#[test]
fn names_of_tests_have_no_codes() {
    for Tracked { name: path, text } in sources() {
        let is_test =
            path.contains("/tests/") || path.starts_with("tests/") || path.ends_with("/tests.rs");
        let after = match text.find("#[cfg(test)]") {
            _ if is_test => 0,
            Some(at) => at,
            None => continue,
        };
        for line in text[after..].lines() {
            let Some(name) = function(line) else { continue };
            let code = name.split('_').find(|word| is_code(word));
            assert_eq!(code, None, "{path}: {name}");
        }
    }
}

/// Returns the numbers of the page's entries with the tests of each, in order.
fn entries() -> Vec<(u32, BTreeSet<String>)> {
    let page = read("docs/contributing/failure-modes.md");
    let mut entries: Vec<(u32, BTreeSet<String>)> = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("### L") {
            let (number, _) = title.split_once('.').unwrap();
            entries.push((number.parse().unwrap(), BTreeSet::new()));
        } else if let Some(name) = line.strip_prefix("* `") {
            let name = name.strip_suffix('`').unwrap();
            let (_, tests) = entries.last_mut().unwrap();
            assert!(tests.insert(name.to_owned()), "{name} stands there twice");
        }
    }
    entries
}

/// Returns the comments that stand alone before a function, such as `// L2, L41`, with the name of
/// the function.
fn comments(text: &str) -> Vec<(Vec<u32>, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(comment) = line.trim_start().strip_prefix("// L") else {
            continue;
        };
        let numbers = comment.split(", L").map(str::parse);
        let Ok(numbers) = numbers.collect::<Result<Vec<u32>, _>>() else {
            continue;
        };
        let mut below = lines.clone().map(str::trim_start);
        let declaration = below.find(|line| !line.starts_with("#["));
        let name = declaration.and_then(function);
        let name = name.unwrap_or_else(|| panic!("{line} stands before no function"));
        found.push((numbers, name.to_owned()));
    }
    found
}

/// Returns the numbers of the failures that a comment mentions, such as 2 in `what is left (L2)`.
fn mentions(comment: &str) -> Vec<u32> {
    let words = comment.split(|c: char| !c.is_ascii_alphanumeric());
    let numbers = words.filter_map(|word| word.strip_prefix('L'));
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Returns the name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// Tells whether a part of a name is a letter and a number, as in `l12`.
fn is_code(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|c| "abcdlp".contains(c))
        && !letters.as_str().is_empty()
        && letters.all(|c| c.is_ascii_digit())
}

/// Reads the Rust files except this one, whose comments are examples.
fn sources() -> impl Iterator<Item = Tracked> {
    let files = tracked("rs").into_iter();
    files.filter(|file| !file.name.ends_with("xtask/tests/failure_modes.rs"))
}
