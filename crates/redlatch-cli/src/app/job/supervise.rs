//! The command under its hold: the kill rule, signals and the end.

use std::{
    fmt,
    future::{Future, pending, ready},
    pin::{Pin, pin},
    time::Duration,
};

use redlatch::{Client, Held, Lasting, LossCause, SemaphorePermit, Token};
use redlatch_core::family::Internals;
use rustix::process::Signal;
use tokio::{
    select,
    time::{sleep, timeout},
};

use super::{
    Patience, Program, Signals,
    rule::{Action, Rule},
    running::Running,
    signals::Event,
};
use crate::app::{
    args::ServerArgs,
    clock,
    exit::{Failure, LOST, warn},
    out::clean,
    record,
};

/// A command to run under a hold.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) program: &'a Program,
    pub(crate) environment: &'a [(&'static str, String)],
    pub(crate) patience: Patience,
    /// The client that holds.
    pub(crate) client: &'a Client,
    /// The server, for the guardian.
    pub(crate) server: &'a ServerArgs,
    /// The names that are held, each with its token, if they can be given back by force.
    pub(crate) holds: &'a [(String, Option<Token>)],
}

/// The state of a hold.
pub(crate) trait Lease: Lasting {
    /// Returns why the hold is lost.
    fn cause(&self) -> Option<LossCause> {
        self.check().err()?.loss()
    }

    /// Asks whether the server keeps the hold until its end, although its renewal is forbidden. If
    /// not, another client may have the name already.
    fn is_kept(&self) -> impl Future<Output = bool> {
        ready(false)
    }
}

impl Lease for Held {}

impl Lease for SemaphorePermit {}

/// The time that is left of a hold, also of one whose renewal is forbidden.
struct Rest<'a, L> {
    lease: &'a L,
    /// The last deadline before the loss.
    deadline: Duration,
    /// Asks whether the server keeps a hold that is lost.
    look: Option<Pin<Box<dyn Future<Output = bool> + 'a>>>,
    is_forbidden: bool,
    is_gone: bool,
}

impl<'a, L: Lease> Rest<'a, L> {
    fn new(lease: &'a L, now: Duration) -> Self {
        Self {
            lease,
            deadline: now + lease.remaining(),
            look: None,
            is_forbidden: false,
            is_gone: false,
        }
    }

    /// Returns how long the hold lasts at `now`. No other client has a name whose renewal is
    /// forbidden before the lease ends, so the last deadline counts then.
    fn at(&mut self, now: Duration) -> Duration {
        let remaining = self.lease.remaining();
        if !remaining.is_zero() {
            self.deadline = now + remaining;
            return remaining;
        }
        if self.lease.cause() != Some(LossCause::Revoked) || self.is_gone {
            return Duration::ZERO;
        }
        if !self.is_forbidden {
            self.is_forbidden = true;
            self.look = Some(Box::pin(self.lease.is_kept()));
        }
        self.deadline.saturating_sub(now)
    }

    /// Resolves when the server has said what it keeps. Never resolves if it is not asked.
    async fn looked(&mut self) {
        let Some(look) = &mut self.look else {
            return pending().await;
        };
        self.is_gone = !look.await;
        self.look = None;
    }
}

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    pub(crate) cut: Option<Cut>,
    pub(crate) ran: Duration,
    /// TERM or INT was forwarded to the command.
    pub(crate) told_to_end: bool,
    /// Who ended the hold by force, and why.
    pub(crate) by: Option<String>,
}

impl Outcome {
    /// Says why the hold was lost.
    pub(crate) fn why(&self, cause: Option<LossCause>) -> String {
        match (&self.by, cause) {
            (Some(by), _) => format!("it was ended by force, by {}", clean(by)),
            (None, Some(cause)) => cause.to_string(),
            (None, None) => "it could not be renewed".to_owned(),
        }
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        match self.cut {
            Some(Cut::Lost) => LOST,
            Some(Cut::Overran) | None => self.ended.code(),
        }
    }
}

/// Runs the command, and ends it by the kill rule. `over` resolves at the loss of the hold, or
/// before. When this returns, the group of the command is dead.
///
/// If the future is dropped, the group is killed at once.
pub(crate) async fn supervise(
    job: &Job<'_>,
    lease: &impl Lease,
    over: impl Future,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    let started = clock::now();
    let mut work = Work {
        job,
        running: Running::start(job, started + lease.remaining(), signals)?,
        rule: Rule::new(job.patience, started),
        rest: Rest::new(lease, started),
        killed_at: None,
    };
    let mut told_to_end = false;
    let mut cut_short = CutShort(Some(job.client));
    let (mut over, mut is_over) = (pin!(over), false);
    while let Some(pause) = work.step() {
        select! {
            event = signals.next() => match event {
                Event::Forward(signal) => {
                    told_to_end |= signal != Signal::HUP;
                    work.running.forward(signal);
                }
                Event::Child => work.running.follow_stops(),
                Event::Stop => work.running.stop(),
            },
            _ = &mut over, if !is_over => is_over = true,
            () = work.rest.looked() => {}
            () = sleep(pause) => {}
        }
    }
    cut_short.0 = None;
    Ok(Outcome {
        ran: clock::now() - started,
        ended: work.running.finish()?,
        cut: work.rule.cut,
        told_to_end,
        by: broken_by(job, lease, &work.rule).await,
    })
}

/// A command under its hold.
struct Work<'a, L> {
    job: &'a Job<'a>,
    running: Running,
    rule: Rule,
    rest: Rest<'a, L>,
    /// When KILL was sent, or its lack of effect was last told.
    killed_at: Option<Duration>,
}

impl<L: Lease> Work<'_, L> {
    /// Does what the kill rule asks for. Returns the pause until the next step; `None` if the group
    /// is dead.
    fn step(&mut self) -> Option<Duration> {
        // The clock is read first: a deadline that is a little too early does no harm.
        let now = clock::now();
        let remaining = self.rest.at(now);
        if self.rest.is_forbidden {
            let action = self.rule.forbidden(now, remaining);
            self.act(action);
        }
        let action = self.rule.step(now, remaining);
        self.act(action);
        self.running.resume();
        self.running.guard(now + remaining);
        self.running.reap_strangers();
        if self.running.leader_has_ended() {
            match self.running.others_alive() {
                Some(false) => return None,
                // Nothing tells what is left, so nothing may be left.
                None => {
                    self.act(Action::Kill);
                    return None;
                }
                Some(true) => {
                    let action = self.rule.left_behind(now, remaining);
                    self.act(action);
                }
            }
        }
        if self.rule.is_killed() && now > *self.killed_at.get_or_insert(now) + UNKILLABLE {
            self.killed_at = Some(now);
            warn("the command was killed and is still there; the name is not given back");
        }
        Some(self.rule.pause(now, remaining))
    }

    fn act(&self, action: Action) {
        match action {
            Action::Nothing => {}
            Action::Term => {
                self.running.terminate();
                record::signalled(self.job.client, "TERM");
            }
            Action::Kill => {
                self.running.kill();
                record::signalled(self.job.client, "KILL");
            }
        }
    }
}

/// Returns which client has ended a lost hold by force, and why.
async fn broken_by(job: &Job<'_>, lease: &impl Lease, rule: &Rule) -> Option<String> {
    // A silent server has no answer to this either.
    if rule.cut != Some(Cut::Lost) || lease.cause() == Some(LossCause::Expired) {
        return None;
    }
    // The answer is for the client as a whole.
    let of = job.client.owner().to_string();
    let asked = async {
        for (name, token) in job.holds {
            if let Ok(Some(by)) = job.client.end_note(&of, name, *token).await {
                return Some(by);
            }
        }
        None
    };
    timeout(LAST_LOOK, asked).await.ok().flatten()
}

/// Records the KILL of a command whose supervision is dropped, as at the loss of a term.
struct CutShort<'a>(Option<&'a Client>);

impl Drop for CutShort<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.0 {
            record::signalled(client, "KILL");
        }
    }
}

/// How long the question who has ended a hold may take.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// A killed process that takes longer to end waits for a device.
const UNKILLABLE: Duration = Duration::from_secs(10);
