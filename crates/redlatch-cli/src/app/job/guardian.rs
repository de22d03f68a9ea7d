//! The guardian: a second process of this program, which kills the group of a command when the
//! deadline of the hold has come, or when the process that holds is gone.
//!
//! It reads lines from its standard input: `held <JSON>`, `group <n>`, and `deadline <ns>` by
//! [`clock`]. The end of the input means that the other process is gone: then the guardian kills
//! the group, and gives the names back when nothing of the group is alive. A group of its own keeps
//! it from signals to the command and to the other process.

use std::{
    io::{self, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    time::Duration,
};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use redlatch::{Client, ObjectHolder, Token};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    process::Pid,
};
use serde::{Deserialize, Serialize};

use super::{Job, group};
use crate::app::{
    args::ServerArgs,
    clock,
    exit::{Failure, warn},
    run, session,
    verbs::{How, end},
};

/// The other end of a guardian.
#[derive(Debug)]
pub(super) struct Guardian {
    process: Child,
    input: ChildStdin,
    told: Option<Duration>,
}

impl Guardian {
    /// Starts a guardian, which does nothing before it is told a group.
    pub(super) fn start() -> Result<Self, Failure> {
        // It starts with the signals blocked, so none of them ends it before its first line.
        let before = deaf().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let mut command = Command::new(this_program()?);
        command.arg("__guardian").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let process = command.spawn();
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
        let failed = |error| Failure::own(format!("the guardian cannot be started: {error}"));
        let mut process = process.map_err(failed)?;
        let input = process.stdin.take();
        let input = input.ok_or_else(|| failed(Errno::PIPE.into()))?;
        // A guardian that was stopped reads nothing, and must not stop this process.
        let flags = fcntl_getfl(&input).map_err(|errno| failed(errno.into()))?;
        fcntl_setfl(&input, flags | OFlags::NONBLOCK).map_err(|errno| failed(errno.into()))?;
        Ok(Self {
            process,
            input,
            told: None,
        })
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        let number = i32::try_from(self.process.id());
        number.ok().and_then(Pid::from_raw)
    }

    /// Tells the group that it guards, until when, and what is held meanwhile.
    pub(super) fn guard(&mut self, group: Pid, deadline: Duration, held: &str) -> io::Result<()> {
        self.told = Some(deadline);
        let deadline = deadline.as_nanos();
        let lines = format!("held {held}\ndeadline {deadline}\ngroup {group}\n");
        self.input.write_all(lines.as_bytes())
    }

    /// Tells a new deadline.
    pub(super) fn tell(&mut self, deadline: Duration) {
        let is_near = |told: Duration| told.abs_diff(deadline) < JITTER;
        if self.told.is_some_and(is_near) {
            return;
        }
        self.told = Some(deadline);
        // A guardian that is gone is replaced when the signal of its end arrives.
        let _ = writeln!(self.input, "deadline {}", deadline.as_nanos());
    }

    /// Tells whether the guardian has ended.
    pub(super) fn is_gone(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// Ends the guardian. The command has ended.
    pub(super) fn end(&mut self) {
        // It blocks other signals, and it may be stopped.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A smaller change of the deadline comes from reading two clocks.
const JITTER: Duration = Duration::from_millis(1);

/// Returns the path of this program. The file may have been replaced in the meantime.
pub(super) fn this_program() -> Result<PathBuf, Failure> {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() {
        return Ok(link);
    }
    std::env::current_exe()
        .map_err(|error| Failure::own(format!("the path of redlatch is unknown: {error}")))
}

/// Returns the signals that do not end a guardian.
fn deaf() -> SigSet {
    let ends = [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ];
    let users = [Signal::SIGUSR1, Signal::SIGUSR2];
    let stops = [Signal::SIGTSTP, Signal::SIGTTOU];
    ends.into_iter().chain(users).chain(stops).collect()
}

/// Guards until the input ends.
pub(crate) fn main() -> ExitCode {
    let _ = deaf().thread_block();
    let mut guarded = Guarded::default();
    let alarm = Alarm::new();
    loop {
        if guarded.is_due(clock::now()) {
            guarded.kill();
        }
        let input = io::stdin();
        let mut ready = [PollFd::new(&input, PollFlags::IN)].to_vec();
        let limit = alarm.until(guarded.wakes_at());
        let timer = alarm.0.as_ref();
        ready.extend(timer.map(|timer| PollFd::new(timer, PollFlags::IN)));
        match poll(&mut ready, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break,
        }
        if ready.first().is_none_or(|input| input.revents().is_empty()) {
            continue;
        }
        // All that the pipe can hold, so that no deadline is looked at which a later line replaces.
        // Not through the buffer of the standard library, which `poll` does not see.
        let mut text = [0; 65_536];
        match rustix::io::read(&input, &mut text) {
            Ok(0) => break,
            Err(Errno::INTR) => {}
            Err(_) => break,
            Ok(n) => guarded.read(&text[..n]),
        }
    }
    if let Some(group) = guarded.group {
        guarded.kill();
        warn("the process that held the lock is gone, and its command was killed");
        if group::is_dead_within(group, UNTIL_DEAD)
            && let Some(held) = guarded.held
        {
            // Without an answer the lease ends the hold.
            let _ = run(held.give_back());
        }
    }
    ExitCode::SUCCESS
}

/// The state of a guardian.
#[derive(Debug, Default)]
struct Guarded {
    group: Option<Pid>,
    deadline: Option<Duration>,
    killed: Option<Duration>,
    held: Option<Held>,
    line: Vec<u8>,
}

impl Guarded {
    fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).into_owned();
            self.line.clear();
            match line.split_once(' ') {
                Some(("held", json)) => self.held = serde_json::from_str(json).ok(),
                Some(("group", n)) => self.group = n.parse().ok().and_then(Pid::from_raw),
                Some(("deadline", ns)) => {
                    self.deadline = ns.parse().ok().map(Duration::from_nanos);
                }
                _ => {}
            }
        }
    }

    fn is_due(&self, now: Duration) -> bool {
        self.group.is_some() && self.wakes_at().is_some_and(|at| at <= now)
    }

    /// Returns when to kill, for the first time or again.
    fn wakes_at(&self) -> Option<Duration> {
        let again = self.killed.map(|killed| killed + AGAIN);
        Some(self.deadline?.max(again.unwrap_or_default()))
    }

    fn kill(&mut self) {
        if let Some(group) = self.group {
            group::send(group, rustix::process::Signal::KILL);
        }
        self.killed = Some(clock::now());
    }
}

/// How long the names are kept for a group that was killed and may be alive.
const UNTIL_DEAD: Duration = Duration::from_secs(10);

/// The time between two kills of a group that should be dead.
const AGAIN: Duration = Duration::from_millis(100);

/// A timer on [`clock`], where the system has one.
struct Alarm(Option<OwnedFd>);

impl Alarm {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn new() -> Self {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        Self(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK).ok())
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const fn new() -> Self {
        Self(None)
    }

    /// Sets the timer, which also ends when it came during a suspension. Returns a limit for the
    /// poll if there is no timer.
    fn until(&self, at: Option<Duration>) -> Option<Timespec> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(timer) = &self.0 {
            use rustix::time::{Itimerspec, TimerfdTimerFlags, timerfd_settime};
            let spec = Itimerspec {
                it_interval: timespec(Duration::ZERO),
                it_value: timespec(at.unwrap_or_default()),
            };
            if timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec).is_ok() {
                return None;
            }
        }
        Some(slice(at))
    }
}

/// Returns how long to sleep until `at`, in slices that a suspension prolongs little.
fn slice(at: Option<Duration>) -> Timespec {
    let span = at.map_or(SLICE, |at| at.saturating_sub(clock::now()).min(SLICE));
    timespec(span)
}

const SLICE: Duration = Duration::from_millis(250);

fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}

/// The names that a client holds, each with its token, and where its server is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Held {
    server: ServerArgs,
    client: String,
    names: Vec<(String, Option<u64>)>,
}

impl Held {
    pub(super) fn of(job: &Job<'_>) -> Self {
        let name = |(name, token): &(String, Option<Token>)| {
            (name.clone(), token.map(|token| token.as_u64()))
        };
        Self {
            server: job.server.clone(),
            client: job.client.id().to_string(),
            names: job.holds.iter().map(name).collect(),
        }
    }

    /// Returns one line; an empty one if it is too long for a pipe. The lease then ends the hold.
    pub(super) fn line(&self) -> String {
        // These values have no maps with odd keys, so they can be written.
        let line = serde_json::to_string(self).unwrap_or_default();
        if line.len() > LONGEST {
            return String::new();
        }
        line
    }

    /// Gives the names back. Their holder is dead.
    pub(super) async fn give_back(self) -> Result<(), Failure> {
        if self.names.is_empty() {
            return Ok(());
        }
        let client = session::looker(&self.server, "redlatch guardian")?;
        let client = client.patience(PATIENCE).connect().await?;
        for (name, token) in &self.names {
            // The others are given back even if this one cannot be.
            let _ = self.give_one(&client, name, *token).await;
        }
        session::close(&client).await;
        Ok(())
    }

    async fn give_one(
        &self,
        client: &Client,
        name: &str,
        token: Option<u64>,
    ) -> Result<(), Failure> {
        let Some(object) = client.object(name).await? else {
            return Ok(());
        };
        let is_ours = |holder: &&ObjectHolder| {
            holder.owner.split(':').next() == Some(&self.client)
                && holder.token.map(|token| token.as_u64()) == token
        };
        for holder in object.holders.iter().filter(is_ours) {
            end(client, &object, holder, How::Now).await?;
        }
        Ok(())
    }
}

/// A pipe has 64 KiB at the usual, and deadlines have to fit as well.
const LONGEST: usize = 32 * 1024;

/// How long the guardian insists on an answer.
const PATIENCE: Duration = Duration::from_secs(5);
