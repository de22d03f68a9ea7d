//! The results that the test runner printed at the end of each test program.

use std::fmt;

/// The number of lines about failures that are kept. They are printed last, where readers look
/// first, and should not be a flood.
const MOST: usize = 300;

/// The result lines of all test programs, their sums, and the lines about failures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The counted lines, unchanged.
    pub(crate) lines: Vec<String>,
    /// The first lines about failed tests.
    pub(crate) failures: Vec<String>,
    /// The names of the failed tests, in the order in which they ended.
    pub(crate) failed_tests: Vec<String>,
    /// A command for each failed test, which runs the test alone.
    pub(crate) again: Vec<String>,
    failing: bool,
    pub(crate) passed: u64,
    failed: u64,
}

impl Tally {
    /// Reads a line of output: keeps it if it is about a failure, and counts it if it is the result
    /// line of a test program.
    pub(crate) fn read(&mut self, line: &str) {
        self.failing |= line == "failures:";
        if line.contains("test result: ") {
            self.failing = false;
        }
        if self.failing && self.failures.len() < MOST {
            self.failures.push(line.to_owned());
        }
        let name = line.strip_prefix("test ");
        if let Some(name) = name.and_then(|rest| rest.split_once(" ... FAILED")) {
            self.failed_tests.push(name.0.to_owned());
        }
        // A coloured line contains escape sequences, but none within the counts.
        let Some((_, counts)) = line.split_once("test result: ") else {
            return;
        };
        let (Some(passed), Some(failed)) = (count(counts, "passed"), count(counts, "failed"))
        else {
            return;
        };
        self.passed += passed;
        self.failed += failed;
        self.lines.push(line.trim_end().to_owned());
    }

    /// Adds the results of a run. `again` is the command that runs one test of the run, without the
    /// name.
    pub(crate) fn add(&mut self, other: Self, again: &str) {
        let commands = other.failed_tests.iter();
        self.again
            .extend(commands.map(|name| format!("{again} {name}")));
        self.lines.extend(other.lines);
        let room = MOST.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.into_iter().take(room));
        self.failed_tests.extend(other.failed_tests);
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// Tells whether no test ran at all.
    pub(crate) const fn is_empty(&self) -> bool {
        self.passed + self.failed == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Reads `41 passed` from `ok. 41 passed; 0 failed; …`.
fn count(counts: &str, what: &str) -> Option<u64> {
    let part = counts
        .split(';')
        .find_map(|part| part.trim_end().strip_suffix(what))?;
    part.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_summed() {
        let mut tally = Tally::default();
        assert!(tally.is_empty());
        for line in [
            "running 3 tests",
            "test a ... ok",
            "failures:",
            "---- b stdout ----",
            "test result: ok. 41 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.30s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.00s",
            "test result: \u{1b}[32mok\u{1b}[m. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            "test result: unheard of",
        ] {
            tally.read(line);
        }
        assert_eq!(tally.to_string(), "47 passed, 2 failed");
        assert_eq!(tally.lines.len(), 3);
        assert_eq!(tally.failures, ["failures:", "---- b stdout ----"]);
    }
}
