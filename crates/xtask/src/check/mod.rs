//! Heavy checks: `cargo xtask check <name>`. They take long or need more than Rust, C and Python,
//! so the gate does not run them and says so.
//!
//! Each check is in its own file. It installs the tools that it needs or names them, and fails
//! without them.

mod archives;
mod book;
mod browser;
mod databases;
mod fuzz;
mod histories;
mod load;
mod package;
mod peers;
mod recipes;
mod threads;

use crate::{steps::Steps, suite::Verdict};

/// A heavy check: its name, what it shows, and the steps that it takes with its arguments.
struct Check(
    &'static str,
    &'static str,
    fn(&[String], &mut Steps) -> Result<(), String>,
);

/// All checks.
const CHECKS: &[Check] = &[
    Check(
        "load",
        "the tests in rounds, their long cases and the soak, beside busy loops",
        load::run,
    ),
    Check(
        "databases",
        "the statements of the fence in PostgreSQL and MariaDB",
        databases::run,
    ),
    Check(
        "histories",
        "histories of the soak and of planted faults, judged by a program in Go",
        histories::run,
    ),
    Check("fuzz", "the parsers, with random bytes", fuzz::run),
    Check(
        "threads",
        "code that threads share, under many of their schedules",
        threads::run,
    ),
    Check("book", "the book, rendered by mdBook", book::run),
    Check(
        "browser",
        "timelines, as headless Chromium shows them",
        browser::run,
    ),
    Check(
        "recipes",
        "programs that combine redlatch with crates of other projects",
        recipes::run,
    ),
    Check(
        "peers",
        "the Python client and locks of six other libraries beside the Rust client",
        peers::run,
    ),
    Check(
        "archives",
        "a release as a dry run, and programs that are built from its archives alone",
        archives::run,
    ),
];

impl Check {
    /// Runs the check, and prints its steps.
    fn run(&self, args: &[String]) -> Result<Verdict, String> {
        let mut steps = Steps::default();
        (self.2)(args, &mut steps)?;
        println!("\n{steps}");
        Ok(steps.verdict())
    }
}

/// Refuses arguments.
fn no_arguments(args: &[String]) -> Result<(), String> {
    match args {
        [] => Ok(()),
        _ => Err(format!("the check takes no arguments: {args:?}")),
    }
}

/// Runs the check with the name in the first argument, and passes the rest to it. Without a name it
/// lists the checks.
pub(crate) fn run(args: &[String]) -> Result<Verdict, String> {
    let Some((name, rest)) = args.split_first() else {
        print!("{}", list());
        return Ok(Verdict::Passed);
    };
    if let Some(check) = CHECKS.iter().find(|check| check.0 == name) {
        return check.run(rest);
    }
    Err(format!(
        "there is no check {name:?}; there are:\n{}",
        list()
    ))
}

/// Runs all checks as steps. The load runs all tests once, since the rest of the night has run them
/// without.
pub(crate) fn all(steps: &mut Steps) {
    let once = ["--rounds=1", "--minutes=5"].map(str::to_owned);
    for check in CHECKS {
        let args = if check.0 == "load" { &once[..] } else { &[] };
        steps.run(check.0, || match check.run(args)? {
            Verdict::Passed => Ok(()),
            Verdict::Failed => Err("its own table says what failed".to_owned()),
        });
    }
}

/// Lists all checks, one per line.
pub(crate) fn list() -> String {
    let line = |check: &Check| format!("  cargo xtask check {:10} {}\n", check.0, check.1);
    CHECKS.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_one(name: &str) -> Result<Verdict, String> {
        run(&[name.to_owned()])
    }

    #[test]
    fn unknown_check_is_refused() {
        let refusal = run_one("lode").expect_err("there is no such check");
        assert!(refusal.contains("cargo xtask check load"), "{refusal}");
    }

    #[test]
    fn list_names_only_checks_that_exist() {
        assert_eq!(run(&[]), Ok(Verdict::Passed));
        assert!(CHECKS.iter().all(|check| list().contains(check.0)));
    }
}
