//! Heavy checks: `cargo xtask check <name>`. They take long or need more than Rust, C and Python,
//! so the gate does not run them and says so.
//!
//! Each check installs the tools that it needs or names them, and fails without them.

mod apart;
mod archives;
mod browser;
mod histories;
mod load;

use std::{sync::Mutex, thread};

use crate::{command::script, programs, python, servers, steps::Steps};

/// The name of each check and what it shows.
const CHECKS: &str = "\
load       the tests in rounds, their long cases and the soak, beside busy loops
databases  the statements of the fence in PostgreSQL and MariaDB
histories  histories of the soak and of planted faults, judged by a program in Go
fuzz       the parsers, with random bytes
threads    code that threads share, under many of their schedules
book       the book, rendered by mdBook
browser    timelines, as headless Chromium shows them
recipes    programs that combine redlatch with crates of other projects
peers      the Python client and locks of six other libraries beside the Rust client
archives   a release as a dry run, and programs that are built from its archives alone
";

/// Lists all checks, one per line.
pub(crate) fn list() -> String {
    let line = |line: &str| format!("  cargo xtask check {line}\n");
    CHECKS.lines().map(line).collect()
}

/// Returns the names of all checks.
fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.lines().filter_map(|line| line.split(' ').next())
}

/// Runs the steps of a check. Two of the checks take arguments.
fn check(name: &str, args: &[String], steps: &mut Steps) -> Result<(), String> {
    match name {
        "load" => load::run(args, steps)?,
        "browser" => browser::run(args, steps)?,
        _ if !args.is_empty() => return Err(format!("the check takes no arguments: {args:?}")),
        "databases" => apart::databases(steps),
        "histories" => histories::run(steps),
        "fuzz" => apart::fuzz(steps),
        "threads" => drop(steps.run("schedules", || script(["threads"]))),
        // The gate follows the links of the book, and compiles and runs its examples: they are
        // doctests of `redlatch-book`.
        "book" => drop(steps.run("book", || script(["book"]))),
        "recipes" => apart::recipes(steps),
        "peers" => peers(steps)?,
        "archives" => archives::run(steps)?,
        _ => return Err(format!("the check {name} has no steps")),
    }
    Ok(())
}

/// Runs the Python client's tests on all servers, its workers beside those of the Rust client, and
/// locks of other libraries beside `redlatch-compat`.
fn peers(steps: &mut Steps) -> Result<(), String> {
    let servers = servers::list(&servers::find()?);
    let peers = steps.run("peers", programs::peers);
    let tested = steps.run("python client", || python::test(&servers));
    let (Some(peers), Some(())) = (peers, tested) else {
        return Ok(());
    };
    steps.run("python client on other servers", || {
        let mut others = servers.split(',').skip(1);
        others.try_for_each(|server| script(["pytest", server]))
    });
    steps.run("rust beside python", || {
        script(["beside-python", &peers, &servers, "5000"])
    });
    let built = [
        ("build with go", "go"),
        ("build with npm", "npm"),
        ("build with maven", "maven"),
    ];
    let built = built.map(|(step, tool)| steps.run(step, || script([tool])));
    if built.iter().all(Option::is_some) {
        steps.run("beside other libraries", || {
            script(["beside-libraries", &peers, &servers, "10000", "20"])
        });
    }
    Ok(())
}

/// Runs the check with the name in the first argument, and passes the rest to it. Without a name it
/// lists the checks.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let Some((name, rest)) = args.split_first() else {
        print!("{}", list());
        return Ok(());
    };
    if !names().any(|known| known == name) {
        let list = list();
        return Err(format!("there is no check {name:?}; there are:\n{list}"));
    }
    let mut steps = Steps::default();
    check(name, rest, &mut steps)?;
    println!("\n{steps}");
    steps.verdict()
}

/// Runs all checks as steps: first the load, which runs all tests once, since the rest of the night
/// has run them without, then two of the others at a time, since each leaves a core idle.
pub(crate) fn all(steps: &mut Steps) {
    let args = ["load", "--rounds=1", "--minutes=2"].map(str::to_owned);
    steps.run("load", || run(&args));
    let others = Mutex::new(names().filter(|name| *name != "load"));
    let next = || others.lock().ok().and_then(|mut others| others.next());
    let lane = || {
        let mut own = Steps::default();
        while let Some(name) = next() {
            own.run(name, || run(&[name.to_owned()]));
        }
        own
    };
    let lanes =
        thread::scope(|scope| [scope.spawn(lane), scope.spawn(lane)].map(|lane| lane.join()));
    for own in lanes {
        match own {
            Ok(own) => steps.add(own),
            Err(_) => drop(steps.run("checks", || Err::<(), _>("a check panicked".to_owned()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_check_takes_is_refused() {
        for (wrong, why) in [
            (["lode", ""], "cargo xtask check load"),
            (["book", "x"], "x"),
        ] {
            let wrong = wrong.map(str::to_owned);
            let refusal = run(&wrong).expect_err("a refusal");
            assert!(refusal.contains(why), "{refusal}");
        }
    }
}
