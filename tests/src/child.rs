//! Child processes of a test.

use std::{
    env,
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::wait::{GENEROUS, eventually_blocking};

/// Suspends a child, and returns when all its threads are stopped. A signal alone takes time on a
/// busy machine, and some threads run on meanwhile.
///
/// # Panics
///
/// Panics if the child has ended, or does not stop.
pub fn suspend(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).expect("a child of this process takes signals");
    eventually_blocking("the process to be suspended", GENEROUS, || {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(pid), options).expect("a child of this process can be waited for")
    });
}

/// Resumes a suspended child.
///
/// # Panics
///
/// Panics if the child has ended.
pub fn resume(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::CONT).expect("a child of this process takes signals");
}

/// This test binary, started anew to play a part of a test. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts `test`, which does something only if it finds these variables.
    ///
    /// # Panics
    ///
    /// Panics if the process does not start.
    pub fn start(test: &str, vars: &[(&str, String)]) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", test])
            .envs(vars.iter().cloned())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns what it says next by [`say`]; `None` when it has ended. Other tasks go on meanwhile.
    pub fn hears(&mut self) -> Option<String> {
        tokio::task::block_in_place(|| {
            let mut lines = self.lines.by_ref().map_while(Result::ok);
            lines.find_map(|line| Some(line.split_once(MARK)?.1.to_owned()))
        })
    }

    /// Waits for its end, and tells whether it was no failure.
    ///
    /// # Panics
    ///
    /// Panics if the system does not say so.
    pub fn succeeds(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }

    /// Returns its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Suspends it.
    pub fn suspend(&self) {
        suspend(&self.child);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        resume(&self.child);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says something to the test that has started this process.
pub fn say(what: &str) {
    println!("{MARK}{what}");
}

/// The runner of tests prints lines too.
const MARK: &str = "a process says: ";
