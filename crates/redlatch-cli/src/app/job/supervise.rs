//! The command under its hold: the kill rule, signals and the end.

use std::{fmt, time::Duration};

use redlatch::{Held, HoldState, LossCause, MultiGuard, SemaphorePermit};
use rustix::process::Signal;
use tokio::{select, time::sleep};

use super::{
    Patience, Program, Signals,
    rule::{Action, Rule},
    running::Running,
    signals::Event,
};
use crate::app::{
    clock,
    exit::{Failure, LOST, warn},
};

/// A command to run under a hold.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) program: &'a Program,
    pub(crate) environment: &'a [(&'static str, String)],
    pub(crate) patience: Patience,
}

/// The state of a hold.
pub(crate) trait Lease {
    /// Returns how long the hold lasts if nothing renews it; zero after a loss.
    fn remaining(&self) -> Duration;
    /// Returns why the hold is lost.
    fn cause(&self) -> Option<LossCause>;
}

macro_rules! leases {
    ($($guard:ty),*) => {$(
        impl Lease for $guard {
            fn remaining(&self) -> Duration {
                self.remaining()
            }

            fn cause(&self) -> Option<LossCause> {
                match self.state() {
                    HoldState::Lost(cause) => Some(cause),
                    _ => None,
                }
            }
        }
    )*};
}

leases!(Held, MultiGuard, SemaphorePermit);

/// Why a command was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The hold was over, or about to be.
    Lost,
    /// The command took longer than it may.
    Overran,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Signaled(i32),
}

impl Ended {
    /// Returns the exit code that tells it, as shells do.
    pub(crate) fn code(self) -> u8 {
        let code = match self {
            Self::Exited(code) => code & 0xff,
            Self::Signaled(signal) => 128 + signal,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "the command ended with exit code {code}"),
            Self::Signaled(signal) => write!(f, "signal {signal} ended the command"),
        }
    }
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    pub(crate) cut: Option<Cut>,
    pub(crate) ran: Duration,
    /// TERM or INT was forwarded to the command.
    pub(crate) told_to_end: bool,
}

impl Outcome {
    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        match self.cut {
            Some(Cut::Lost) => LOST,
            Some(Cut::Overran) | None => self.ended.code(),
        }
    }
}

/// Runs the command, and ends it by the kill rule. When this returns, its group is dead.
///
/// If the future is dropped, the group is killed at once.
pub(crate) async fn supervise(
    job: &Job<'_>,
    lease: &impl Lease,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    let started = clock::now();
    let mut running = Running::start(job, started + lease.remaining(), signals)?;
    let mut rule = Rule::new(job.patience, started);
    let mut killed_at = None;
    let mut told_to_end = false;
    loop {
        // The clock is read first: a deadline that is a little too early does no harm.
        let now = clock::now();
        let remaining = lease.remaining();
        act(&running, rule.step(now, remaining));
        running.resume();
        running.guard(now + remaining);
        running.reap_strangers();
        if running.leader_has_ended() {
            match running.others_alive() {
                Some(false) => break,
                // Nothing tells what is left, so nothing may be left.
                None => {
                    running.kill();
                    break;
                }
                Some(true) => act(&running, rule.left_behind(now, remaining)),
            }
        }
        if rule.is_killed() && now > *killed_at.get_or_insert(now) + UNKILLABLE {
            killed_at = Some(now);
            warn("the command was killed and is still there; the name is not given back");
        }
        select! {
            event = signals.next() => match event {
                Event::Forward(signal) => {
                    told_to_end |= signal != Signal::HUP;
                    running.send(signal);
                }
                Event::Child => running.follow_stops(),
                Event::Stop => running.stop(),
            },
            () = sleep(rule.pause(now, remaining)) => {}
        }
    }
    let ran = clock::now() - started;
    Ok(Outcome {
        ended: running.finish()?,
        cut: rule.cut(),
        ran,
        told_to_end,
    })
}

fn act(running: &Running, action: Action) {
    match action {
        Action::Nothing => {}
        Action::Term => running.terminate(),
        Action::Kill => running.kill(),
    }
}

/// A killed process that takes longer to end waits for a device.
const UNKILLABLE: Duration = Duration::from_secs(10);
