//! One run of a server program, and the watchdog that ends it if the test process dies first.

use std::{
    ffi::OsString,
    fs::OpenOptions,
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use super::{ServerBinary, ServerOptions};
use crate::child;

/// A running server program. Dropping it kills it.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    watchdog: Child,
}

impl ServerProcess {
    /// Starts the program. Its output goes to the end of the file [`LOG`] in `dir`.
    pub(super) fn spawn(
        binary: &ServerBinary,
        options: &ServerOptions,
        environment: impl Iterator<Item = (&'static str, OsString)>,
        config: &Path,
        dir: &Path,
    ) -> io::Result<Self> {
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).open(dir.join(LOG))?;
        let mut child = Command::new(&binary.path)
            .arg(config)
            .args(&options.args)
            .envs(environment)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        match watch_over(&child, options.shared.then_some(dir)) {
            Ok(watchdog) => Ok(Self { child, watchdog }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Returns the exit status if the server has ended.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.child.try_wait();
        ended.expect("a child of this process can be waited for")
    }

    /// Suspends the server, and returns when it is suspended.
    pub(super) fn suspend(&mut self) {
        self.assert_runs();
        child::suspend(&self.child);
    }

    /// Resumes the server.
    pub(super) fn resume(&mut self) {
        self.assert_runs();
        child::resume(&self.child);
    }

    /// Checks that the server has not ended: its pid is its own as long as its end has not been
    /// waited for.
    fn assert_runs(&mut self) {
        if let Some(status) = self.ended() {
            panic!("the server has ended by itself: {status}");
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The watchdog ends first: it must not outlive the server and kill the next process with
        // its pid. Neither step fails for a child that was not waited for yet, and a drop cannot
        // report errors.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The name of the server's log file.
pub(super) const LOG: &str = "server.log";

/// Starts a process that kills `server` when this process ends, however it ends, and removes `dir`.
///
/// `PR_SET_PDEATHSIG` would have to be set between fork and exec, which safe code cannot do. It
/// would also fire at the end of the thread that forked, which comes soon in a test run.
///
/// The watchdog reads from a pipe to which nothing is written. The pipe ends with this process. Its
/// own process group protects it from a Ctrl-C at the terminal.
fn watch_over(server: &Child, dir: Option<&Path>) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", WATCHDOG, "redlatch-watchdog"])
        .arg(server.id().to_string())
        .args(dir)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

const WATCHDOG: &str = r#"read -r _; kill -9 "$1"; test -z "$2" || rm -rf "$2""#;
