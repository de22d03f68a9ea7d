//! Heavy checks: `cargo xtask check <name>`. They take long or need more than Rust, C and Python,
//! so the gate does not run them and says so.
//!
//! Each check is in its own file. It installs the tools that it needs, and fails if it cannot.

mod archives;
mod book;
mod browser;
mod databases;
mod load;
mod package;
mod peers;
mod recipes;

use crate::{steps::Steps, suite::Verdict};

/// A heavy check.
struct Check {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<Verdict, String>,
}

/// All checks.
const CHECKS: &[Check] = &[
    Check {
        name: "load",
        about: "the tests in rounds, long histories and the soak, beside busy loops",
        run: load::run,
    },
    Check {
        name: "databases",
        about: "the statements of the fence in PostgreSQL and MariaDB",
        run: databases::run,
    },
    Check {
        name: "book",
        about: "the book, rendered by mdBook, and its links",
        run: book::run,
    },
    Check {
        name: "browser",
        about: "timelines, as headless Chromium shows them",
        run: browser::run,
    },
    Check {
        name: "recipes",
        about: "programs that combine redlatch with crates of other projects",
        run: recipes::run,
    },
    Check {
        name: "peers",
        about: "the Python client and locks of six other libraries beside the Rust client",
        run: peers::run,
    },
    Check {
        name: "archives",
        about: "a release as a dry run, and programs that are built from its archives alone",
        run: archives::run,
    },
];

/// Runs the check with the name in the first argument, and passes the rest to it. Without a name it
/// lists the checks.
pub(crate) fn run(args: &[String]) -> Result<Verdict, String> {
    let Some((name, rest)) = args.split_first() else {
        print!("{}", list());
        return Ok(Verdict::Passed);
    };
    if let Some(check) = CHECKS.iter().find(|check| check.name == name) {
        return (check.run)(rest);
    }
    Err(format!(
        "there is no check {name:?}; there are:\n{}",
        list()
    ))
}

/// Runs all checks as steps. The load runs all tests once, since the rest of the night has run them
/// without.
pub(crate) fn all(steps: &mut Steps) {
    let once = ["--rounds", "1", "--minutes", "5"].map(str::to_owned);
    for check in CHECKS {
        let args = if check.name == "load" { &once[..] } else { &[] };
        steps.run(check.name, || match (check.run)(args)? {
            Verdict::Passed => Ok(()),
            Verdict::Failed => Err("its own table says what failed".to_owned()),
        });
    }
}

/// Lists all checks, one per line.
pub(crate) fn list() -> String {
    let line = |check: &Check| format!("  cargo xtask check {:10} {}\n", check.name, check.about);
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
        assert!(CHECKS.iter().all(|check| list().contains(check.name)));
    }
}
