//! Checks that each failure of `docs/contributing/failure-modes.md` has a test with its number in a
//! comment, and that each such comment names a failure of the page.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{Tracked, read, tracked};

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
        collect(&file.text, &mut tests);
    }
    let entries = entries(&read("docs/contributing/failure-modes.md"));
    let found = disagreements(&entries, &tests);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn disagreements_are_found() {
    let page = "| failure | redlatch |\n|---|---|\n| L1: a | b |\n| L2: c | d |\n| L43: e | f |\n";
    let entries = entries(page);
    assert_eq!(entries, [1, 2, 43]);
    for (text, found) in [
        ("// L1, L2\n#[test]\nfn one() {}\n", None),
        ("// L1\nfn one() {}\n", Some("L2 has no test")),
        (
            "// L1, L2, L7\nasync fn one() {}\n",
            Some("L7 of {\"one\"} is no entry"),
        ),
        (
            "// L1, L2, L43\nfn one() {}\n",
            Some("L43 has a test after all"),
        ),
    ] {
        let mut tests = Tests::new();
        collect(text, &mut tests);
        assert_eq!(
            disagreements(&entries, &tests),
            Vec::from_iter(found),
            "{text}"
        );
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

/// Collects the comments that stand alone before a function, such as `// L2, L41`, with the name of
/// the function.
fn collect(text: &str, tests: &mut Tests) {
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
        for number in numbers {
            tests.entry(number).or_default().insert(name.to_owned());
        }
    }
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

/// Reads the Rust files except this one, whose comments are examples.
fn sources() -> impl Iterator<Item = Tracked> {
    let files = tracked("rs").into_iter();
    files.filter(|file| !file.name.ends_with("xtask/tests/failure_modes.rs"))
}
