//! Helpers of the tests on the embedded server.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use tokio::{
    process::Command,
    time::{Duration, Instant, sleep},
};

use crate::{
    server::Server,
    support::{GENEROUS, REDLATCH, World},
};

impl World {
    pub(crate) async fn new() -> Self {
        Self::on(Server::start().await)
    }

    /// Builds a call of the command by a program that becomes it. Its arguments are still missing.
    pub(crate) fn command_through(&self, program: &[&str]) -> Command {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(REDLATCH);
        self.equip(&mut command, &self.url());
        command
    }

    /// Builds a call of the shell, which finds `redlatch` in its path.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        self.equip(&mut command, &self.url());
        let own = Path::new(REDLATCH).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", own.display()));
        command
    }

    /// Writes a program into the folder of this world.
    pub(crate) fn program(&self, name: &str, script: &str) {
        let file = self.file(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Waits until the plain lock `name` is free.
    pub(crate) async fn free(&self, name: &str) {
        let client = self.client().await;
        let end = Instant::now() + GENEROUS;
        while client.lock(name).is_locked().await.unwrap() {
            assert!(Instant::now() < end, "{name} is still held");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Tells whether a process is there and no zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}
