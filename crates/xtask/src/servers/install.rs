//! Packages from the system's package manager.

use std::process::Command;

use crate::command::{output, run, which};

/// Installs one server, with the first package manager that is found.
pub(super) fn with_package_manager() -> Result<(), String> {
    let manager = MANAGERS
        .iter()
        .find(|manager| which(manager.program).is_some())
        .ok_or("there is none of apt-get, dnf, apk, pacman, brew")?;
    println!("installing one with {}", manager.program);
    if !manager.refresh.is_empty() {
        manager.run(manager.refresh)?;
    }
    let mut outcome = Err("no package to try".to_owned());
    for package in manager.packages {
        outcome = manager.run(&[manager.install, &[package]].concat());
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Installs packages with apt.
pub(crate) fn with_apt(packages: &[&str]) -> Result<(), String> {
    let apt = MANAGERS.iter().find(|manager| manager.program == "apt-get");
    let apt = apt.filter(|apt| which(apt.program).is_some());
    let apt = apt.ok_or_else(|| format!("there is no apt-get to install {packages:?} with"))?;
    apt.run(apt.refresh)?;
    apt.run(&[apt.install, packages].concat())
}

struct Manager {
    program: &'static str,
    refresh: &'static [&'static str],
    install: &'static [&'static str],
    /// The candidates, tried in order: distributions have replaced one package by the other.
    packages: &'static [&'static str],
    /// Whether it writes where only root may write.
    system_wide: bool,
}

impl Manager {
    fn run(&self, args: &[&str]) -> Result<(), String> {
        // The variable is set through `env`, because sudo does not pass its own environment on.
        let mut words = vec!["env", "DEBIAN_FRONTEND=noninteractive", self.program];
        if self.system_wide && !is_root() && which("sudo").is_some() {
            words.insert(0, "sudo");
        }
        words.extend(args);
        run(Command::new(words[0]).args(&words[1..]))
    }
}

pub(crate) fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}

const MANAGERS: &[Manager] = &[
    Manager {
        program: "apt-get",
        refresh: &["update"],
        install: &["install", "--yes", "--no-install-recommends"],
        packages: &["redis-server", "valkey-server"],
        system_wide: true,
    },
    Manager {
        program: "dnf",
        refresh: &[],
        install: &["install", "--assumeyes"],
        packages: &["valkey", "redis"],
        system_wide: true,
    },
    Manager {
        program: "apk",
        refresh: &["update"],
        install: &["add"],
        packages: &["valkey", "redis"],
        system_wide: true,
    },
    Manager {
        program: "pacman",
        refresh: &["--sync", "--refresh"],
        install: &["--sync", "--noconfirm", "--needed"],
        packages: &["valkey", "redis"],
        system_wide: true,
    },
    Manager {
        program: "brew",
        refresh: &[],
        install: &["install"],
        packages: &["valkey", "redis"],
        system_wide: false,
    },
];
