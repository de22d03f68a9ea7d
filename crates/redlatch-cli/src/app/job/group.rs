//! The process group of a command.

use std::{fs, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::app::clock;

/// Sends `signal` to all processes of `group`.
///
/// The caller has not reaped the leader of the group, so the number still belongs to it.
pub(crate) fn send(group: Pid, signal: Signal) {
    // A group without members that may be signalled needs no signal.
    let _ = kill_process_group(group, signal);
}

/// Returns whether a process of `group` other than its leader is alive; `None` if this system does
/// not tell.
pub(crate) fn others_alive(group: Pid) -> Option<bool> {
    let leader = group.as_raw_pid();
    let mut alive = alive(group)?;
    Some(alive.any(|process| process.pid != leader))
}

/// Lists the processes of `group` that are alive.
fn alive(group: Pid) -> Option<impl Iterator<Item = Process>> {
    let is_alive = move |process: &Process| process.group == group.as_raw_pid() && !process.is_dead;
    Some(processes()?.filter(is_alive))
}

/// Waits until no process of `group` is alive, its leader included. Returns whether that is known
/// before `limit` is over.
pub(crate) fn is_dead_within(group: Pid, limit: Duration) -> bool {
    let end = clock::now() + limit;
    loop {
        match alive(group).map(|mut alive| alive.next()) {
            Some(None) => return true,
            Some(Some(_)) if clock::now() < end => std::thread::sleep(LOOK),
            _ => return false,
        }
    }
}

const LOOK: Duration = Duration::from_millis(10);

/// Returns the children of this process that have ended and are none of `known`.
pub(crate) fn dead_strangers(known: &[Pid]) -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_pid();
    let dead = processes().into_iter().flatten();
    dead.filter(|process| process.parent == own && process.is_dead)
        .filter_map(|process| Pid::from_raw(process.pid))
        .filter(|pid| !known.contains(pid))
        .collect()
}

struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    is_dead: bool,
}

/// Lists all processes, where the system has `/proc` in the form of Linux.
fn processes() -> Option<impl Iterator<Item = Process>> {
    if !cfg!(any(target_os = "linux", target_os = "android")) {
        return None;
    }
    let entries = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    Some(entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        parse(pid, &fs::read_to_string(entry.path().join("stat")).ok()?)
    }))
}

/// Reads `pid (name) state parent group …`, where the name may contain anything.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let state = words.next()?;
    Some(Process {
        pid,
        parent: words.next()?.parse().ok()?,
        group: words.next()?.parse().ok()?,
        is_dead: matches!(state, "Z" | "X" | "x"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_are_skipped() {
        let process = parse(7, "7 (a) Z 9) S 5 6 7 0 -1").unwrap();
        assert_eq!(
            (process.parent, process.group, process.is_dead),
            (5, 6, false)
        );
        assert!(parse(7, "7 (x) Z 5 6 7").unwrap().is_dead);
        assert!(parse(7, "7 (x").is_none());
    }
}
