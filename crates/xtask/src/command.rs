//! Runs other programs and prints their commands.

use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Returns the workspace's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Returns a command for cargo in the workspace's root.
pub(crate) fn cargo(args: impl IntoIterator<Item: AsRef<OsStr>>) -> Command {
    let mut cargo = in_root(&env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(args);
    cargo
}

/// Returns a command for a case of `tools.sh`, which only starts other tools.
pub(crate) fn tool(args: impl IntoIterator<Item: AsRef<OsStr>>) -> Command {
    let mut sh = in_root("sh".as_ref());
    sh.arg("crates/xtask/tools.sh").args(args);
    sh
}

/// Runs a case of `tools.sh`.
pub(crate) fn script(args: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<(), String> {
    run(&mut tool(args))
}

/// Returns a command for a program in the workspace's root.
///
/// The variables that `cargo run` sets for this package are removed. Build scripts that depend on
/// such variables would otherwise run again at each change between a call from here and one from a
/// shell.
fn in_root(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let mut of_this = OF_THIS_PACKAGE.iter();
        if of_this.any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs cargo behind other programs.
pub(crate) fn run_cargo(args: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<(), String> {
    run(&mut yielding(cargo(args)))
}

/// Returns the command as one that other programs go before, if this system can do so.
pub(crate) fn yielding(command: Command) -> Command {
    let Some(nice) = which("nice") else {
        return command;
    };
    let mut nicer = Command::new(nice);
    nicer.args(["-n", "4"]);
    nicer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nicer.env(name, value),
            None => nicer.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        nicer.current_dir(folder);
    }
    nicer
}

/// Prints a command, runs it, and returns an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    show(command);
    let status = command
        .status()
        .map_err(|error| cannot_run(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", line(command)))
    }
}

/// Runs a command and returns its standard output; `None` if it fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let quiet = command.stdin(Stdio::null()).stderr(Stdio::null());
    let output = quiet.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// Prints a command as a user would type it.
pub(crate) fn show(command: &Command) {
    println!("\n$ {}", line(command));
}

/// Returns the error text for a command that could not be run.
pub(crate) fn cannot_run(command: &Command, error: &io::Error) -> String {
    format!("{} cannot be run: {error}", line(command))
}

/// Finds a program on the PATH.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let vars = command.get_envs().filter_map(|(name, value)| {
        let (name, value) = (name.to_string_lossy(), value?.to_string_lossy());
        Some(format!("{name}={value:?}"))
    });
    let words = [program].into_iter().chain(command.get_args());
    let words = words.map(|word| word.to_string_lossy().into_owned());
    vars.chain(words).collect::<Vec<_>>().join(" ")
}

const OF_THIS_PACKAGE: &[&str] = &[
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
    "CARGO_PRIMARY_PACKAGE",
];
