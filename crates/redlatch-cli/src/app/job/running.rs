//! A command that has been started, with its guardian and its terminal.

use std::{
    io::{self, Write},
    os::{
        fd::AsRawFd,
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Child, Command},
    time::Duration,
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpgrp, getpid,
        kill_current_process_group, kill_process, waitid, waitpid,
    },
};

use super::{
    Ended, Job, group,
    guardian::{Guardian, Held, this_program},
    signals::{Signals, is_ignored},
    terminal::Terminal,
};
use crate::app::exit::{Failure, NOT_EXECUTABLE, OWN, warn};

/// A command under way. It dies with this value.
#[derive(Debug)]
pub(super) struct Running {
    leader: Child,
    group: Pid,
    guardian: Guardian,
    /// What the guardian has to give back.
    held: String,
    terminal: Option<Terminal>,
    /// The command had the foreground of the terminal at its start.
    foreground: bool,
    /// The group was stopped together with this process, which has been continued.
    stopped: bool,
    finished: bool,
}

fn failed(error: io::Error) -> Failure {
    let code = match error.kind() {
        // The command line of the start is a little longer than that of this process.
        io::ErrorKind::ArgumentListTooLong => NOT_EXECUTABLE,
        _ => OWN,
    };
    Failure::new(code, format!("the command cannot be started: {error}"))
}

impl Running {
    /// Starts the command, and its guardian before it.
    pub(super) fn start(
        job: &Job<'_>,
        deadline: Duration,
        signals: &mut Signals,
    ) -> Result<Self, Failure> {
        let terminal = Terminal::open();
        let foreground = terminal.as_ref().is_some_and(Terminal::is_for_command);
        if terminal.is_some() && !foreground {
            signals.listen_to_stop()?;
        }
        let mut guardian = Guardian::start()?;
        // The other end closes with this process: then the command never starts.
        let (wait, mut go) = io::pipe().map_err(failed)?;
        fcntl_setfd(&wait, FdFlags::empty()).map_err(|errno| failed(errno.into()))?;
        let mut launcher = Command::new(this_program()?);
        launcher.args(["__launch", "--go", &wait.as_raw_fd().to_string()]);
        launcher.args(foreground.then_some("--foreground"));
        launcher.arg("--program").arg(&job.program.path);
        launcher.arg("--").args(&job.program.words);
        launcher.envs(job.environment.iter().map(|(name, value)| (name, value)));
        let spawned = launcher.process_group(0).spawn();
        drop(wait);
        let leader = spawned.map_err(|error| {
            guardian.end();
            failed(error)
        })?;
        // Numbers of processes are positive and fit.
        let group = i32::try_from(leader.id()).ok().and_then(Pid::from_raw);
        let group = group.unwrap_or(Pid::INIT);
        let mut running = Self {
            leader,
            group,
            guardian,
            held: Held::of(job).line(),
            terminal,
            foreground,
            stopped: false,
            finished: false,
        };
        let told = running.guardian.guard(group, deadline, &running.held);
        told.map_err(failed)?;
        go.write_all(b"!").map_err(failed)?;
        Ok(running)
    }

    fn send(&self, signal: Signal) {
        group::send(self.group, signal);
    }

    /// Passes a signal on. A command that is told to end has to run for that.
    pub(super) fn forward(&self, signal: Signal) {
        match signal {
            Signal::TERM => self.terminate(),
            _ => self.send(signal),
        }
    }

    /// Tells the command to end. A stopped one has to run for that.
    pub(super) fn terminate(&self) {
        self.send(Signal::TERM);
        self.send(Signal::CONT);
    }

    pub(super) fn kill(&self) {
        self.send(Signal::KILL);
    }

    /// Tells the guardian the deadline, and replaces a guardian that has gone.
    pub(super) fn guard(&mut self, deadline: Duration) {
        if !self.guardian.is_gone() {
            self.guardian.tell(deadline);
            return;
        }
        match Guardian::start() {
            Ok(mut guardian) => match guardian.guard(self.group, deadline, &self.held) {
                Ok(()) => self.guardian = guardian,
                Err(error) => warn(&format!("the guardian was killed: {error}")),
            },
            Err(failure) => warn(&failure.message),
        }
    }

    /// Tells whether the leader of the group has ended. Does not reap it, so that the number of the
    /// group stays its own.
    pub(super) fn leader_has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.group), options), Ok(None))
    }

    /// Tells whether other processes of the group are alive; `None` if the system does not tell.
    pub(super) fn others_alive(&self) -> Option<bool> {
        group::others_alive(self.group)
    }

    /// Stops this process if the terminal has stopped the command.
    pub(super) fn follow_stops(&mut self) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let Ok(Some(status)) = waitid(WaitId::Pid(self.group), options) else {
            return;
        };
        let by_access = [Signal::TTIN, Signal::TTOU].map(|signal| Some(signal.as_raw()));
        let wants_terminal = by_access.contains(&status.stopping_signal());
        if wants_terminal && terminal.is_of(getpgrp()) {
            terminal.give(self.group);
            self.send(Signal::CONT);
        } else if self.foreground || wants_terminal {
            terminal.take_from(self.group);
            let _ = kill_current_process_group(Signal::TSTP);
            self.stopped = true;
        }
    }

    /// Stops the command and this process, as a key press asks.
    pub(super) fn stop(&mut self) {
        self.send(Signal::TSTP);
        stop_this_process();
        self.stopped = true;
    }

    /// Continues the command after this process was stopped with it and continued. The caller has
    /// looked at the deadline.
    pub(super) fn resume(&mut self) {
        if !std::mem::take(&mut self.stopped) {
            return;
        }
        if self.foreground
            && let Some(terminal) = &self.terminal
            && terminal.is_of(getpgrp())
        {
            terminal.give(self.group);
        }
        self.send(Signal::CONT);
    }

    /// Reaps processes that were orphaned, if this is the process that inherits them.
    pub(super) fn reap_strangers(&self) {
        if getpid() != Pid::INIT {
            return;
        }
        let guardian = self.guardian.pid().into_iter();
        let known: Vec<_> = guardian.chain([self.group]).collect();
        for pid in group::dead_strangers(&known) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    /// Reaps the leader, and returns how it ended. The group is dead.
    pub(super) fn finish(&mut self) -> Result<Ended, Failure> {
        self.finished = true;
        self.guardian.end();
        if let Some(terminal) = &self.terminal {
            terminal.take_from(self.group);
        }
        let unknown = |error| Failure::own(format!("the end of the command is unknown: {error}"));
        let status = self.leader.wait().map_err(unknown)?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Exited(code),
            (None, signal) => Ended::Signaled(signal.unwrap_or_default()),
        })
    }
}

/// A caller that drops the work, because its claim is over, must not leave the command behind.
impl Drop for Running {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        self.kill();
        for _ in 0..LOOKS {
            if self.leader_has_ended() && self.others_alive() != Some(true) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        self.guardian.end();
        if let Some(terminal) = &self.terminal {
            terminal.take_from(self.group);
        }
        let _ = self.leader.try_wait();
        let _ = io::stderr().flush();
    }
}

const LOOKS: u32 = 400;
const LOOK: Duration = Duration::from_millis(5);

/// Stops this process until it is continued. In an orphaned process group, which no shell
/// continues, the system ignores TTOU, and nothing stops.
pub(super) fn stop_this_process() {
    let signal = match is_ignored(Signal::TTOU) {
        true => Signal::STOP,
        false => Signal::TTOU,
    };
    let _ = kill_process(getpid(), signal);
}
