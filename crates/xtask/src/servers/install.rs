//! Packages from the system's package manager.

use std::process::Command;

use crate::command::{output, run, which};

/// Installs packages with apt.
pub(crate) fn with_apt(packages: &[&str]) -> Result<(), String> {
    which("apt-get").ok_or_else(|| format!("there is no apt-get to install {packages:?} with"))?;
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

fn apt(args: &[&str]) -> Result<(), String> {
    // The variable is set through `env`, because sudo does not pass its own environment on.
    let mut words = vec!["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    let is_root = output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    if !is_root && which("sudo").is_some() {
        words.insert(0, "sudo");
    }
    words.extend(args);
    run(Command::new(words[0]).args(&words[1..]))
}
