//! The test programs of the workspace: builds them, and runs several of them beside each other.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use serde_json::Value;

use crate::{
    command::{output, root, tool},
    steps::minutes,
    tally::Tally,
};

/// The command that selects everything that is tested.
pub(crate) const WHOLE: &str = "cargo test --workspace --all-features";

/// A test program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The package and the target, such as `redlatch-tests/hermetic`.
    pub(crate) name: String,
    path: PathBuf,
    /// The folder of the package, in which cargo runs its tests.
    folder: PathBuf,
    /// The option of cargo that selects the target.
    option: String,
}

/// Builds all test programs.
pub(crate) fn build() -> Result<Vec<Program>, String> {
    let messages = output(&mut tool(["build-tests"]));
    let messages = messages.ok_or("the test programs cannot be built")?;
    let programs: Vec<_> = messages.lines().filter_map(Program::read).collect();
    if programs.is_empty() {
        return Err("cargo built no test program".to_owned());
    }
    Ok(programs)
}

impl Program {
    /// Reads a message of cargo; `None` if the message is not about a test program.
    fn read(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let path = text(&message["executable"]).filter(|_| message["profile"]["test"] == true)?;
        let manifest = text(&message["manifest_path"])?;
        let folder = Path::new(&manifest).parent()?.to_owned();
        let package = text(&message["package_id"])?;
        let (source, rest) = package.rsplit_once('#')?;
        let package = match rest.split_once('@') {
            Some((name, _)) => name,
            None => source.rsplit('/').next()?,
        };
        let name = text(&message["target"]["name"])?;
        let (name, option) = match message["target"]["kind"][0].as_str()? {
            "test" => (name.clone(), format!("--test {name}")),
            "bin" => (format!("bin {name}"), format!("--bin {name}")),
            "example" => (format!("example {name}"), format!("--example {name}")),
            _ => ("lib".to_owned(), "--lib".to_owned()),
        };
        Some(Self {
            name: format!("{package}/{name}"),
            path: path.into(),
            folder,
            option,
        })
    }

    /// Returns the run of this program. Others go before it if it is `nice`.
    pub(crate) fn run(&self, servers: &str, threads: usize, nice: &str) -> Run {
        let mut command = Command::new("nice");
        command
            .args(["-n", nice])
            .arg(&self.path)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("REDLATCH_TEST_SERVERS", servers)
            .env("RUST_TEST_THREADS", threads.to_string());
        let selected = format!("{WHOLE} {}", self.option);
        let again = format!("REDLATCH_TEST_SERVERS={servers} {selected} -- --exact");
        Run {
            name: self.name.clone(),
            command,
            again,
        }
    }
}

/// A command that runs tests.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) command: Command,
    /// The command that runs one of its tests alone, without the name of the test.
    pub(crate) again: String,
}

/// Runs the lanes beside each other, and the runs of a lane one after the other. Prints a line for
/// each run, and the failures of the failed ones.
pub(crate) fn run_lanes(lanes: Vec<Vec<Run>>, tally: &mut Tally) -> Result<(), String> {
    let folder = root().join("target/test-logs");
    fs::create_dir_all(&folder)
        .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    let sum = Mutex::new((std::mem::take(tally), Vec::new()));
    std::thread::scope(|scope| {
        for lane in lanes {
            scope.spawn(|| {
                for run in lane {
                    let name = run.name.clone();
                    if let Err(reason) = run.finish(&folder, &sum) {
                        println!("FAILED  {name}: {reason}");
                        lock(&sum).1.push(name);
                    }
                }
            });
        }
    });
    let failed;
    (*tally, failed) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (&failed[..], tally.is_empty()) {
        ([], true) => Err("no test ran".to_owned()),
        ([], false) => Ok(()),
        _ => Err(format!("failed: {}", failed.join(", "))),
    }
}

impl Run {
    /// Runs the command to its end, with its output in a file of `folder`.
    fn finish(mut self, folder: &Path, sum: &Mutex<Sum>) -> Result<(), String> {
        println!("begun   {}", self.name);
        let begun = Instant::now();
        let log = folder.join(format!("{}.log", self.name.replace(['/', ' '], "-")));
        let broken = |error| format!("{} cannot be used: {error}", log.display());
        let file = File::create(&log).map_err(broken)?;
        let both = file.try_clone().map_err(broken)?;
        let status = self.command.stdin(Stdio::null()).stdout(file).stderr(both);
        let status = status.status();
        let status = status.map_err(|error| format!("it cannot be run: {error}"))?;
        let text = String::from_utf8_lossy(&fs::read(&log).map_err(broken)?).into_owned();
        let mut own = Tally::default();
        text.lines().for_each(|line| own.read(line));
        println!("ended   {}: {own}, {}", self.name, minutes(begun.elapsed()));
        let is_mute = own.lines.is_empty();
        lock(sum).0.add(own, &self.again);
        match (status.success(), is_mute) {
            (true, false) => Ok(()),
            (true, true) => Err(format!("no result; the output is in {}", log.display())),
            (false, _) => Err(format!("{status}; the output is in {}", log.display())),
        }
    }
}

/// The results of all runs, and the names of the failed ones.
type Sum = (Tally, Vec<String>);

fn lock(sum: &Mutex<Sum>) -> MutexGuard<'_, Sum> {
    sum.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///r/tests#redlatch-tests@0.1.0","manifest_path":"/r/tests/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"hermetic","src_path":"/r/tests/tests/hermetic/main.rs","edition":"2024","doc":false,"doctest":false,"test":true},"profile":{"opt_level":"0","debuginfo":"line-tables-only","debug_assertions":true,"overflow_checks":true,"test":true},"features":["servers"],"filenames":["/r/target/debug/deps/hermetic-1"],"executable":"/r/target/debug/deps/hermetic-1","fresh":true}"#;

    #[test]
    fn test_program_is_read_from_the_message_of_cargo() {
        let program = Program::read(MESSAGE).expect("a test program");
        assert_eq!(program.name, "redlatch-tests/hermetic");
        assert_eq!(program.folder, Path::new("/r/tests"));
        assert_eq!(program.path, Path::new("/r/target/debug/deps/hermetic-1"));
        assert_eq!(
            program.run("/a", 2, "0").again,
            "REDLATCH_TEST_SERVERS=/a cargo test --workspace --all-features --test hermetic -- --exact"
        );
        let short = MESSAGE
            .replace("#redlatch-tests@", "#")
            .replace("/r/tests#", "/r/xtask#");
        let short = short.replace(r#""kind":["test"]"#, r#""kind":["lib"]"#);
        let name = Program::read(&short).map(|program| program.name);
        assert_eq!(name.as_deref(), Some("xtask/lib"));
    }

    #[test]
    fn other_messages_are_no_test_programs() {
        let library = MESSAGE.replace(
            r#""executable":"/r/target/debug/deps/hermetic-1""#,
            r#""executable":null"#,
        );
        assert_eq!(Program::read(&library), None);
        let built = MESSAGE.replace(r#""test":true},"features""#, r#""test":false},"features""#);
        assert_eq!(Program::read(&built), None);
        assert_eq!(
            Program::read(r#"{"reason":"build-finished","success":true}"#),
            None
        );
    }

    fn shell(name: &str, script: &str) -> Run {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let again = "again".to_owned();
        Run {
            name: name.to_owned(),
            command,
            again,
        }
    }

    #[test]
    fn lanes_run_to_their_ends_and_failures_are_named() {
        let ok = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        let bad =
            "echo 'test a::b ... FAILED'; echo 'test result: FAILED. 1 passed; 1 failed;'; exit 1";
        let mut tally = Tally::default();
        let lanes = vec![
            vec![shell("xtask-own/bad", bad), shell("xtask-own/later", ok)],
            vec![shell("xtask-own/mute", "true")],
        ];
        let error = run_lanes(lanes, &mut tally).expect_err("two have failed");
        assert!(
            error.contains("xtask-own/bad") && error.contains("xtask-own/mute"),
            "{error}"
        );
        assert!(!error.contains("later"), "{error}");
        assert_eq!(tally.to_string(), "3 passed, 1 failed");
        assert_eq!(tally.again, ["again a::b"]);
        let mut tally = Tally::default();
        run_lanes(vec![vec![shell("xtask-own/good", ok)]], &mut tally).expect("it passes");
    }
}
