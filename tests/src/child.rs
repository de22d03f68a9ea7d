//! Processes that a test has started.

use std::process::Child;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::wait::{GENEROUS, eventually_blocking};

/// Suspends a child, and returns when all of it stands still: a signal alone takes its time where
/// much runs, and some threads go on meanwhile.
///
/// # Panics
///
/// If the child has ended, or does not stop.
pub fn suspend(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).expect("a child of this process takes signals");
    eventually_blocking("the process to be suspended", GENEROUS, || {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(pid), options).expect("a child of this process can be waited for")
    });
}

/// Lets a suspended child go on.
///
/// # Panics
///
/// If the child has ended.
pub fn resume(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::CONT).expect("a child of this process takes signals");
}
