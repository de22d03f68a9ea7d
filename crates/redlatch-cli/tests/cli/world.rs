//! Helpers of the tests on the embedded server.

use std::{
    ops::{RangeBounds, RangeFrom, RangeTo},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use redlatch::{ObjectHolder, once::JobRecord};
use redlatch_tests::proxy::{Answered, Pick, Proxy, Request, Then};
use serde_json::Value;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::{
    prelude::*,
    server::Server,
    support::{Output, eventually},
};

impl World {
    pub(crate) async fn new() -> Self {
        Self::on(Server::start().await)
    }

    /// Starts a server, and connects a client of the library.
    pub(crate) async fn with_client() -> (Self, Client) {
        let world = Self::new().await;
        let client = world.client().await;
        (world, client)
    }

    /// Starts a way to the server that can turn silent.
    pub(crate) fn way(&self) -> Proxy {
        Proxy::start(self.url().trim_start_matches("redis://").parse().unwrap())
    }

    /// Lets the command end that waits for the file `stop`.
    pub(crate) fn stop(&self) {
        fs::write(self.file("stop"), "").unwrap();
    }

    /// Creates a named pipe.
    pub(crate) fn pipe(&self, name: &str) {
        let mut mkfifo = std::process::Command::new("mkfifo");
        mkfifo.arg(self.file(name)).status().unwrap();
    }

    /// Returns the record of the last run of `job`.
    pub(crate) async fn last_run(&self) -> Option<JobRecord> {
        self.client().await.once("job").last().await.unwrap()
    }

    /// Returns the JSON in the file `report`.
    pub(crate) fn report(&self) -> Value {
        json(&fs::read_to_string(self.file("report")).unwrap())
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

    /// Returns the first holder of `name`, once there is one.
    pub(crate) async fn holder(&self, name: &str) -> ObjectHolder {
        let client = self.client().await;
        let end = Instant::now() + GENEROUS;
        loop {
            let object = client.object(name).await.unwrap();
            if let Some(holder) = object.and_then(|object| object.holders.into_iter().next()) {
                return holder;
            }
            assert!(Instant::now() < end, "nobody holds {name}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the token of the first holder of `name`, once there is one.
    pub(crate) async fn token(&self, name: &str) -> String {
        self.holder(name).await.token.unwrap().to_string()
    }

    /// Waits until the plain lock `name` is free.
    pub(crate) async fn free(&self, name: &str) {
        let lock = self.client().await.lock(name);
        let is_free = async || !lock.is_locked().await.unwrap();
        redlatch_tests::wait::eventually(name, GENEROUS, is_free).await;
    }
}

/// The number of words of a call of a script that takes something.
pub(crate) const TAKES: RangeFrom<usize> = 12..;

/// The number of words of a call of a script that only looks.
pub(crate) const LOOKS: RangeTo<usize> = ..12;

/// Picks the calls of scripts about `name` with so many words.
pub(crate) fn calls(name: &str, words: impl RangeBounds<usize> + Send + 'static) -> Pick {
    let key = format!("redlatch:{{{name}}}");
    Pick::matching(move |request: &Request| {
        let args = request.args();
        let is_about = args.contains(&key.as_bytes()) && words.contains(&args.len());
        is_about && request.command().starts_with("EVAL")
    })
}

/// Loses the replies over `way` to the calls of scripts about `name` with so many words. The server
/// has to know the scripts, since it would run none of them otherwise. Returns the first one.
pub(crate) fn lose_replies(
    way: &Proxy,
    name: &str,
    words: impl RangeBounds<usize> + Clone + Send + 'static,
) -> Answered {
    // The client asks again about every two seconds.
    let lost = (0..100).map(|_| way.drop_reply(calls(name, words.clone()), Then::Stall));
    lost.collect::<Vec<_>>().remove(0)
}

/// Waits until `is_so` returns true.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || is_so().then_some(())).await;
}

/// Sends a signal to a process, and waits for its end.
pub(crate) async fn ended_by(name: &str, child: Child) -> Output {
    signal(pid_of(&child), name);
    finished(child).await
}

/// Stops a process, and waits until it stands still.
pub(crate) async fn suspend(pid: &str) {
    signal(pid, "STOP");
    let state = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    until("the process to be stopped", || state().contains(") T ")).await;
}

/// Tells whether a process is there and no zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}
