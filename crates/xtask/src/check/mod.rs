//! Heavy checks: `cargo xtask check <name>`. They take long or need more than Rust, C and Python,
//! so the gate does not run them and says so.
//!
//! Each check installs the tools that it needs or names them, and fails without them.

mod load;

use std::{env, fs, process, sync::Mutex};

use crate::{servers, steps::Steps};

/// The name of each check and what it shows, and below them its steps; see [`Steps::follow`].
/// FOLDER is outside of the workspace, and removed at the end.
const CHECKS: &str = "\
load       the tests in rounds, their long cases and the soak, beside busy loops
databases  the statements of the fence in PostgreSQL and MariaDB
  lints: lint tests/databases
  databases: databases
histories  histories of the soak and of planted faults, judged by a program in Go
  !judge: judge
  !soak: build-soak
  !simulator: build-sim
  planted overlaps: judge-overlaps
  a million operations: judge-million
  standalone: judge-soak standalone
  replicated: judge-soak replicated
  sentinel: judge-soak sentinel
  cluster: judge-soak cluster
  the library in the simulator: judge-seeds
  early-grant: judge-fault lock early-grant
  token-repeats: judge-fault lock token-repeats
  reentry-not-counted: judge-fault lock reentry-not-counted
  ids-collide: judge-fault lock ids-collide
  fair-granted-ahead-with-an-old-token: judge-fault fair fair-granted-ahead-with-an-old-token
  rwlock-writer-beside-readers: judge-fault rwlock rwlock-writer-beside-readers
  semaphore-one-too-many: judge-fault semaphore semaphore-one-too-many
  permits-one-too-many: judge-fault permits permits-one-too-many
  multi-takes-what-is-held: judge-fault multi multi-takes-what-is-held
  red-early-grant: judge-fault red red-early-grant
  election-early-grant: judge-fault election election-early-grant
  election-token-repeats: judge-fault election election-token-repeats
  election-fence-open: judge-fault election election-fence-open
  once-token-repeats: judge-fault once once-token-repeats
  latch-opens-one-early: judge-fault latch latch-opens-one-early
fuzz       the parsers, with random bytes
  lints: lint fuzz
  addresses: fuzz addresses
  errors: fuzz errors
  globs: fuzz globs
  messages: fuzz messages
  names: fuzz names
  recordings: fuzz recordings
  replies: fuzz replies
  requests: fuzz requests
  scripts: fuzz scripts
threads    code that threads share, under many of their schedules
  schedules: threads
book       the book, rendered by mdBook
  book: book
browser    timelines, as headless Chromium shows them
  !chromium: chromium
  !command: build-command
  a few holds: timeline-few FOLDER
  thousands of holds: timeline-many FOLDER
  a broken page is noticed: timeline-broken FOLDER
recipes    programs that combine redlatch with crates of other projects
  lints: lint examples/recipes
  tokio_cron_scheduler: recipe tokio_cron_scheduler
  apalis: recipe apalis
  pools: recipe pools
  cancellation: recipe cancellation
  shutdown: recipe shutdown
  opentelemetry: recipe opentelemetry
peers      the Python client and locks of six other libraries beside the Rust client
  !peers: build-peers
  !python client: python SERVERS
  python client on other servers: pytest-others SERVERS
  rust beside python: beside-python SERVERS 5000
  !build with go: go
  !build with npm: npm
  !build with maven: maven
  beside other libraries: beside-libraries SERVERS 10000 20
archives   a release as a dry run, and programs that are built from its archives alone
  publish, as a dry run: publish FOLDER
  !archives: archives FOLDER
  the README's program: readme FOLDER
  all libraries, all features: libraries FOLDER
  the command: command FOLDER
  other libraries with TLS: tls FOLDER tls
  other libraries with TLS by ring: tls FOLDER tls-ring
";

/// Returns the lines with the names of the checks.
fn headings() -> impl Iterator<Item = &'static str> {
    CHECKS.lines().filter(|line| !line.starts_with(' '))
}

/// Lists all checks, one per line.
pub(crate) fn list() -> String {
    let line = |line: &str| format!("  cargo xtask check {line}\n");
    headings().map(line).collect()
}

/// Returns the names of all checks.
fn names() -> impl Iterator<Item = &'static str> {
    headings().filter_map(|line| line.split(' ').next())
}

/// Returns the lines with the steps of a check.
fn lines(name: &str) -> impl Iterator<Item = &'static str> {
    let heading = format!("{name} ");
    let lines = CHECKS.lines();
    let below = lines.skip_while(move |line| !line.starts_with(&heading));
    below.skip(1).take_while(|line| line.starts_with(' '))
}

/// Runs the steps of a check.
fn check(name: &str, steps: &mut Steps) -> Result<(), String> {
    let servers = if lines(name).any(|line| line.contains("SERVERS")) {
        servers::list(&servers::find()?)
    } else {
        String::new()
    };
    let folder = env::temp_dir().join(format!("redlatch-{name}-{}", process::id()));
    let failed = |error| format!("{}: {error}", folder.display());
    fs::create_dir(&folder).map_err(failed)?;
    let path = folder.to_string_lossy();
    steps.follow(lines(name), &[("SERVERS", &*servers), ("FOLDER", &*path)]);
    fs::remove_dir_all(&folder).map_err(failed)
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
    match name.as_str() {
        "load" => load::run(rest, &mut steps)?,
        _ if !rest.is_empty() => return Err(format!("the check takes no arguments: {rest:?}")),
        name => check(name, &mut steps)?,
    }
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
    let lane = |steps: &mut Steps| {
        while let Some(name) = next() {
            steps.run(name, || run(&[name.to_owned()]));
        }
    };
    steps.beside(lane, lane);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::command::root;

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

    #[test]
    fn every_check_but_the_load_has_steps_that_the_tools_know() {
        let tools = include_str!("../../tools.sh");
        for name in names() {
            assert_eq!(lines(name).count() == 0, name == "load", "{name}");
            for line in lines(name) {
                let (_, words) = line.split_once(": ").expect(line);
                let case = words.split(' ').next().unwrap_or(words);
                assert!(tools.contains(&format!("\n{case})\n")), "{line}");
            }
        }
    }

    /// Returns the last word of each line but the first, which checks the lints.
    fn last_words(check: &str) -> BTreeSet<String> {
        let words = lines(check).skip(1);
        let words = words.filter_map(|line| line.rsplit(' ').next());
        words.map(str::to_owned).collect()
    }

    /// Returns the names of the files in a folder, without their ends.
    fn stems(folder: &str) -> BTreeSet<String> {
        let files = fs::read_dir(root().join(folder)).expect(folder);
        let stems = files.map(|file| {
            let path = file.expect("a file").path();
            let stem = path.file_stem().expect("a name");
            stem.to_string_lossy().into_owned()
        });
        stems.collect()
    }

    #[test]
    fn every_recipe_is_run() {
        let mut recipes = stems("examples/recipes/src/bin");
        // `check databases` has a PostgreSQL for it.
        recipes.remove("sqlx");
        assert_eq!(recipes, last_words("recipes"));
    }

    #[test]
    fn every_target_runs_and_has_a_corpus() {
        let targets = last_words("fuzz");
        assert_eq!(stems("fuzz/fuzz_targets"), targets);
        assert_eq!(stems("fuzz/corpus"), targets);
        let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("a manifest");
        assert_eq!(manifest.matches("[[bin]]").count(), targets.len());
        for name in targets {
            assert!(manifest.contains(&format!("\"fuzz_targets/{name}.rs\"")));
        }
    }
}
