//! A database that runs. It is stopped, by its own id, when it is dropped.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::Place;
use crate::command::show;

/// The process of a database.
pub(super) struct Running {
    child: Child,
    port: u16,
}

impl Running {
    /// Starts a database on a free port, and waits until its log says that it is `ready`.
    pub(super) fn start(
        start: impl Fn(u16) -> Command,
        ready: &str,
        place: &Place,
    ) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let port = free_port().map_err(text)?;
        let log = place.path("log");
        let file = File::create(&log).map_err(text)?;
        let mut command = start(port);
        show(&command);
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(text)?)
            .stderr(file)
            .spawn()
            .map_err(text)?;
        let mut running = Self { child, port };
        let begin = Instant::now();
        loop {
            let told = fs::read_to_string(&log).unwrap_or_default();
            if told.contains(ready) {
                break;
            }
            let ended = running.child.try_wait().map_err(text)?;
            if ended.is_some() || begin.elapsed() > PATIENCE {
                return Err(format!("the database is not ready; its log:\n{told}"));
            }
            thread::sleep(STEP);
        }
        println!("process {} serves port {port}", running.child.id());
        Ok(running)
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Asks the process to end, and waits for that. Returns `false` if it does not end.
    fn end(&mut self) -> bool {
        // PostgreSQL ends at once on INT, without waiting for clients. MariaDB ends on TERM only.
        for signal in ["-INT", "-TERM"] {
            let pid = self.child.id().to_string();
            let sent = Command::new("kill").args([signal, &pid]).status();
            if !sent.is_ok_and(|status| status.success()) {
                return false;
            }
            let begin = Instant::now();
            while begin.elapsed() < PATIENCE / 6 {
                if matches!(self.child.try_wait(), Ok(Some(_))) {
                    return true;
                }
                thread::sleep(STEP);
            }
        }
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.end() {
            eprintln!("process {} does not end, and is killed", self.child.id());
            // Fails only if it has ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

const PATIENCE: Duration = Duration::from_secs(60);

const STEP: Duration = Duration::from_millis(50);
