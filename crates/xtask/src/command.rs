//! Runs cases of `tools.sh`, which only starts other tools and prints their commands.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Returns the workspace's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Returns a command for a case.
pub(crate) fn tool(args: impl IntoIterator<Item: AsRef<OsStr>>) -> Command {
    let mut sh = Command::new("sh");
    sh.current_dir(root()).arg("crates/xtask/tools.sh");
    sh.args(args);
    sh
}

/// Runs a case, and returns an error if it fails.
pub(crate) fn script(args: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<(), String> {
    let mut tool = tool(args);
    let status = tool.status().map_err(|error| format!("sh: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let words = tool.get_args().map(OsStr::to_string_lossy);
    let words: Vec<_> = words.collect();
    Err(format!("{} ended with {status}", words.join(" ")))
}

/// Runs a command and returns its standard output; `None` if it fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = output.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}
