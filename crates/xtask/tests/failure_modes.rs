//! Checks that each failure of `docs/contributing/failure-modes.md` has a test with its number in a
//! comment, and that each such comment names a failure of the page.

#![allow(
    clippy::unwrap_used,
    reason = "a page that is written otherwise fails the test"
)]

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
    assert_eq!(
        entries(&read("docs/contributing/failure-modes.md")),
        Vec::from_iter(1..=ENTRIES)
    );
}

#[test]
fn each_entry_has_a_test_and_each_comment_an_entry() {
    let mut tests = Tests::new();
    for file in sources() {
        for (numbers, name) in comments(&file.text) {
            for number in numbers {
                tests.entry(number).or_default().insert(name.clone());
            }
        }
    }
    let found = disagreements(
        &entries(&read("docs/contributing/failure-modes.md")),
        &tests,
    );
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn disagreements_are_found() {
    let page = "| failure | redlatch |\n|---|---|\n| L1: a | b |\n| L2: c | d |\n| L43: e | f |\n";
    let entries = entries(page);
    assert_eq!(entries, [1, 2, 43]);
    let tests = |text: &str| -> Tests {
        let comments = comments(text).into_iter();
        let pairs = comments.flat_map(|(numbers, name)| {
            numbers
                .into_iter()
                .map(move |n| (n, BTreeSet::from([name.clone()])))
        });
        pairs.collect()
    };
    let agrees = tests("// L1, L2\n#[test]\nfn one() {}\n");
    assert_eq!(disagreements(&entries, &agrees), Vec::<String>::new());
    let missing = tests("// L1\nfn one() {}\n");
    assert_eq!(disagreements(&entries, &missing), ["L2 has no test"]);
    let unknown = tests("// L1, L2, L7\nasync fn one() {}\n");
    assert_eq!(
        disagreements(&entries, &unknown),
        ["L7 of {\"one\"} is no entry"]
    );
    let offered = tests("// L1, L2, L43\nfn one() {}\n");
    assert_eq!(
        disagreements(&entries, &offered),
        ["L43 has a test after all"]
    );
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

/// Returns the numbers in the first cells of the page's table, such as 12 of `| L12: …`, in order.
fn entries(page: &str) -> Vec<u32> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| L"));
    rows.map(|row| row.split_once(':').unwrap().0.parse().unwrap())
        .collect()
}

/// Compares the entries of the page with the comments at tests.
fn disagreements(entries: &[u32], tests: &Tests) -> Vec<String> {
    let mut found = Vec::new();
    for number in entries {
        match (tests.contains_key(number), WITHOUT_TESTS.contains(number)) {
            (false, false) => found.push(format!("L{number} has no test")),
            (true, true) => found.push(format!("L{number} has a test after all")),
            (true, false) | (false, true) => {}
        }
    }
    let strangers = tests.iter().filter(|(number, _)| !entries.contains(number));
    found.extend(strangers.map(|(number, names)| format!("L{number} of {names:?} is no entry")));
    found
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
