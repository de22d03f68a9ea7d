//! Suspends and resumes child processes of a test.

use std::process::Child;

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
