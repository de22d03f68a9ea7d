//! The state machine of one waiter, from its first request to its end.
//!
//! # States
//!
//! | state | the waiter | next step |
//! |---|---|---|
//! | `InLine` | stands behind other waiters of its process in the local queue | `AwaitTurn` |
//! | `Asking` | has to send a request to the server | `Send` |
//! | `Subscribing` | got a busy answer before its subscription was active | `Subscribe` |
//! | `Waiting` | got a busy answer | `Wait`, `Pause` if it polls, `AwaitTurn` if others ask first |
//! | `RecheckDue` | has to ask when the client's rate limit allows | `Send`, or `Wait` for that |
//! | `RecheckBooked` | has a time reserved in the client's rate limit | `Wait` |
//! | `Failed` | got no clear answer | `Pause` |
//! | `GivenUp` | needs a fresh attempt | `StartOver` |
//! | `Done` | holds the object | `End` |
//!
//! # Transitions
//!
//! | input | from | to |
//! |---|---|---|
//! | the queue says that others ask first | any phase, barging; `Waiting` with a slot | `InLine` |
//! | the queue says that it is this waiter's turn | `InLine` | the phase before `InLine` |
//! | `on_notified` | `InLine`, `Waiting`, `RecheckBooked` | `Asking` |
//! | `on_queue_changed` | `Waiting`, `RecheckBooked` | `Asking` |
//! | `on_prompt(Retry)` | `InLine`, `Waiting`, `RecheckBooked` | `Asking` |
//! | `on_prompt(Requeue)` | `InLine`, `Waiting` | `RecheckDue` |
//! | `on_elapsed` | `Waiting` | `RecheckDue` |
//! | `on_elapsed` | `RecheckBooked`, `Failed` | `Asking` |
//! | `on_subscribed` | `Subscribing` | `Asking` |
//! | `on_unsubscribed` | `Subscribing` | `Waiting` |
//! | `on_busy` | `Asking` | `Waiting`, or `Subscribing` if no message would reach the waiter |
//! | `on_unfinished`, the first `on_late` | `Asking` | `Asking` |
//! | `on_failed`, a further `on_late` | `Asking` | `Failed` |
//! | `on_cut_off` | `Asking` | `Waiting`, whose time is over |
//! | each of the first eight `on_void` | `Asking` | `GivenUp`, and `Asking` after `StartOver` |
//! | a further `on_void`, `on_grant_expired` | `Asking` | `GivenUp`, and `Failed` after `StartOver` |
//! | `on_granted` | `Asking` | `Done` |
//!
//! A prompt that arrives in any other state stays pending until a state that accepts it.
//!
//! # The end of the caller's time
//!
//! A waiter that knows an answer begins no request that its caller's time is too short for. In
//! `Asking` it waits for its deadline instead. A request that the deadline cuts off all the same
//! does not make the outcome unknown before the server counts as silent: the caller gives up the
//! attempt, which undoes it.

mod recheck;
mod step;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::step::{Discipline, WaitStrategy};
pub(crate) use self::{
    recheck::{Limits, RECHECK, RECHECKS_PER_SECOND, RateLimiter},
    step::{
        Admission, Busy, Contact, End, GiveUp, Granted, Plan, Prompt, QueueView, Registration,
        Restart, Step, Subscription, Turn,
    },
};
use super::time::Moment;

/// The answers in a row that refuse an attempt and lead to a fresh one at once.
const VOIDS_AT_ONCE: u32 = 8;

/// The decisions of one waiter: when it asks the server, and when it stops.
///
/// Inputs: the `on_…` methods, and a view of the local queue. Output: [`step`](Self::step). The
/// caller calls `step`, executes the returned step, reports the result through an `on_…` method,
/// and calls `step` again.
#[derive(Debug)]
pub(crate) struct Waiter {
    plan: Plan,
    state: State,
    slot: ServerSlot,
    cause: Cause,
    /// The pending prompt of another waiter.
    prompt: Option<Prompt>,
    subscription: Subscription,
    /// The time of the last clear answer from the server.
    heard: Moment,
    /// Whether the waiter has sent a request. It sends the first one even after its deadline.
    asked: bool,
    /// Whether a clear answer to this waiter, or to another of its local queue, is known.
    answered: bool,
    /// The longest usual time of an answer.
    usual: Duration,
    failures: u32,
    polls: u32,
    lates: u32,
    voids: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Other waiters of the local queue ask first. The waiter continues with this phase when its
    /// turn comes.
    InLine(Phase),
    /// The waiter acts according to this phase.
    Active(Phase),
    /// The attempt is useless, and a fresh one is necessary.
    GivenUp(Restart),
    /// The server granted the attempt.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Asking,
    Subscribing,
    /// The holder's lease ends `remaining` after the last answer.
    Waiting {
        remaining: Duration,
    },
    RecheckDue,
    RecheckBooked {
        at: Moment,
    },
    Failed,
}

/// The waiter's slot in the server's queue, as far as the waiter knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerSlot {
    /// The waiter has no slot. It asks the server by itself.
    Absent,
    /// The waiter has a slot. The server notifies this waiter, or another waiter forwards the
    /// notification.
    Queued,
    /// The waiter has a slot that counts only while its owner holds the object. The server may
    /// count the owner as a holder for longer than the owner itself does.
    Reentrant,
    /// The slot may be lost: another waiter has lost its own, and has prompted all others to queue
    /// again.
    RequeueRequested,
}

/// The reason for the latest request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The acquisition has just begun. The waiter has not had to wait.
    Arrival,
    /// The waiter's turn in the local queue, or a timer.
    Recheck,
    /// A message of the server, or a prompt of another waiter.
    Notified,
}

impl Waiter {
    /// Creates a waiter that starts at `now`. With an active subscription, its first request may
    /// register.
    pub(crate) const fn new(plan: Plan, now: Moment, subscription: Subscription) -> Self {
        Self {
            plan,
            state: State::Active(Phase::Asking),
            slot: ServerSlot::Absent,
            cause: Cause::Arrival,
            prompt: None,
            subscription,
            heard: now,
            asked: false,
            answered: false,
            usual: Duration::ZERO,
            failures: 0,
            polls: 0,
            lates: 0,
            voids: 0,
        }
    }

    /// Tells the waiter whether an answer is known before its first request.
    pub(crate) const fn after_answer(self, answered: bool) -> Self {
        Self { answered, ..self }
    }

    /// Returns the step to take at `now`. Re-checks reserve their time in `limits`.
    pub(crate) fn step(
        &mut self,
        now: Moment,
        queue: &QueueView,
        random: u64,
        limits: &mut Limits,
    ) -> Step {
        let phase = match self.state {
            State::InLine(phase) | State::Active(phase) => phase,
            State::GivenUp(restart) => return self.start_over(restart, now),
            State::Done => return Step::End(End::Busy),
        };
        let behind = queue.turn == Turn::Others && self.waits_for_turn(phase);
        // A prompt takes effect only in a state that would otherwise wait. In any other state it
        // stays pending.
        let prompt = self.prompt.filter(|_| behind || phase.is_waiting());
        let phase = match prompt {
            Some(prompt) => self.heed(prompt, phase),
            None if behind => return self.stand_in_line(phase, now, queue),
            None => {
                self.catch_up(queue);
                phase
            }
        };
        self.act(phase, now, queue.turn, random, limits)
    }

    /// Returns whether the waiter has had to wait.
    pub(crate) fn has_waited(&self) -> bool {
        self.cause != Cause::Arrival
    }

    /// Returns whether the waiter's slot depends on its owner's hold.
    pub(crate) fn is_reentrant(&self) -> bool {
        self.slot == ServerSlot::Reentrant
    }

    /// Returns whether the waiter moves to another channel when the shard of its name gets another
    /// one. A queued waiter stays, because its address is its ticket.
    pub(crate) fn follows_shard(&self) -> bool {
        self.asked && self.plan.notifies() && self.plan.discipline == Discipline::Barging
    }

    /// Returns the caller's plan.
    pub(crate) const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns when to stop waiting for the reply to a request sent at `now`. That is the end of
    /// the caller's patience, or `silence` after `now` if that is later.
    pub(crate) fn patience_deadline(&self, now: Moment, silence: Duration) -> Moment {
        let patient = self.heard + self.plan.patience;
        self.plan.bound(patient.max(now + silence))
    }
}

/// The inputs of a waiter, and the transition that each of them causes.
impl Waiter {
    /// Records a message of the server that says that the waiter may try. A waiter in line asks
    /// once, since the first waiter may poll and hear no messages.
    pub(crate) fn on_notified(&mut self) {
        match self.state {
            State::InLine(_) => self.on_prompt(Prompt::Retry),
            State::Active(_) => {
                self.cause = Cause::Notified;
                self.state = State::Active(Phase::Asking);
            }
            State::GivenUp(_) | State::Done => {}
        }
    }

    /// Records a change of the waiter's place in the local queue.
    pub(crate) fn on_queue_changed(&mut self) {
        // A waiter in line reads the queue itself, in `step`.
        if let State::Active(_) = self.state {
            self.on_notified();
        }
    }

    /// Records a prompt of another waiter of the local queue. The stronger of two pending prompts
    /// stays.
    pub(crate) fn on_prompt(&mut self, prompt: Prompt) {
        self.prompt = self.prompt.max(Some(prompt));
    }

    /// Records the end of a wait or a pause, or that messages may have been lost. The first waiter
    /// of a local queue asks for all of them then. A re-check keeps to the client's rate limit.
    pub(crate) const fn on_elapsed(&mut self) {
        let State::Active(phase) = self.state else {
            return;
        };
        if let Cause::Notified = self.cause {
            self.cause = Cause::Recheck;
        }
        self.state = State::Active(match phase {
            Phase::Waiting { .. } => Phase::RecheckDue,
            _ => Phase::Asking,
        });
    }

    /// Records that messages reach the client from now on. The next request finds any event that
    /// happened before.
    pub(crate) const fn on_subscribed(&mut self) {
        self.subscription = Subscription::Active;
        self.state = State::Active(Phase::Asking);
    }

    /// Records that messages cannot reach the client. The waiter asks by timer until they do.
    pub(crate) const fn on_unsubscribed(&mut self) {
        self.subscription = Subscription::Inactive;
        self.state = State::Active(Phase::Waiting {
            remaining: Duration::MAX,
        });
    }

    /// Sets the state of the subscription: after a wait in line, for another channel, or when the
    /// waiter begins to listen.
    pub(crate) const fn on_subscription(&mut self, subscription: Subscription) {
        self.subscription = subscription;
    }

    /// Records that the waiter's owner does not hold the object any more.
    pub(crate) fn on_hold_ended(&mut self) {
        if self.slot == ServerSlot::Reentrant {
            self.slot = ServerSlot::Absent;
        }
    }

    /// Records that another owner holds the object, or comes first. Returns the prompt for all
    /// other waiters of the local queue, if any.
    pub(crate) fn on_busy(&mut self, now: Moment, busy: Busy) -> Option<Prompt> {
        let registered = self.registration() != Registration::None;
        let would_hear = registered && self.subscription == Subscription::Active;
        let lost_slot = busy.entered && self.has_slot();
        self.answered(now);
        self.have_waited();
        self.subscription = busy.subscription;
        self.slot = match self.plan.discipline {
            Discipline::Queued if !busy.beside && busy.owner_holds => ServerSlot::Reentrant,
            Discipline::Queued if !busy.beside => ServerSlot::Queued,
            _ => ServerSlot::Absent,
        };
        let subscribes = self.plan.notifies() && !self.plan.takes_first_answer();
        self.state = State::Active(if subscribes && !would_hear {
            Phase::Subscribing
        } else {
            Phase::Waiting {
                remaining: busy.remaining,
            }
        });
        // If this waiter has lost its slot, the others have probably lost theirs.
        lost_slot.then_some(Prompt::Requeue)
    }

    /// Records a grant. Returns the prompt for all other waiters of the local queue, if any.
    pub(crate) fn on_granted(&mut self, granted: Granted) -> Option<Prompt> {
        self.state = State::Done;
        let lost_slot = granted.unqueued && !granted.has_copies && self.has_slot();
        // The grant came from a re-check, so the message that lets all waiters in may have been
        // lost.
        let unnoticed = self.plan.admission == Admission::Together && self.cause == Cause::Recheck;
        let requeue = lost_slot.then_some(Prompt::Requeue);
        requeue.max(unnoticed.then_some(Prompt::Retry))
    }

    /// Records a grant whose reply took so long that the lease may have ended.
    pub(crate) const fn on_grant_expired(&mut self) {
        self.state = State::GivenUp(Restart::GrantExpired);
    }

    /// Records the server's answer that it refuses the attempt. Returns the number of such answers
    /// in a row. Each of the first leads to a fresh attempt at once, since requests of several
    /// threads may overtake each other. A further one counts as a failure.
    pub(crate) const fn on_void(&mut self, now: Moment) -> u32 {
        self.useless(now);
        self.voids += 1;
        self.state = State::GivenUp(Restart::AttemptVoid);
        self.voids
    }

    /// Records that the request arrived too late to act. The caller has refreshed the server's
    /// time. The first such answer leads to another request at once, and a further one counts as a
    /// failure.
    pub(crate) const fn on_late(&mut self, now: Moment) {
        self.useless(now);
        self.lates += 1;
        if self.lates > 1 {
            self.on_failed();
        } else {
            self.state = State::Active(Phase::Asking);
        }
    }

    /// Records an answer that neither grants nor refuses. Only the first in a row extends the
    /// patience, so such answers keep no caller for longer than twice the patience.
    const fn useless(&mut self, now: Moment) {
        if self.voids == 0 && self.lates == 0 {
            self.heard = now;
        }
    }

    /// Records that the server had too many dead entries to remove for an answer. The waiter asks
    /// again at once.
    pub(crate) const fn on_unfinished(&mut self, now: Moment) {
        self.answered(now);
        self.state = State::Active(Phase::Asking);
    }

    /// Records the longest usual time of an answer.
    pub(crate) const fn on_usual(&mut self, usual: Duration) {
        self.usual = usual;
    }

    /// Records that a request which was begun at `begun` has no clear answer at `now`. Returns
    /// `true` if the end of the caller's time has cut it off before the server counts as silent.
    /// Then the waiter ends without a grant.
    pub(crate) fn on_cut_off(&mut self, begun: Moment, now: Moment) -> bool {
        // Without any answer, nothing says that the name is busy.
        let cut_off = self.answered
            && self.plan.is_over(now)
            && self.failures == 0
            && self.is_momentary(now - begun);
        if cut_off {
            self.have_waited();
            self.state = State::Active(Phase::Waiting {
                remaining: Duration::ZERO,
            });
        }
        cut_off
    }

    /// Returns whether an answer that takes `span` is no sign of a silent server.
    pub(crate) fn is_momentary(&self, span: Duration) -> bool {
        let slack = if self.answered {
            MOMENTARY
        } else {
            FIRST_MOMENTARY
        };
        span <= self.usual + slack
    }

    /// Records a request without a clear answer: not sent, not executed for the moment, or of
    /// unknown outcome.
    pub(crate) const fn on_failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.state = State::Active(Phase::Failed);
    }
}

impl Waiter {
    /// Returns whether the waiter leaves the server to the waiters before it in the local queue. A
    /// queued waiter without a slot asks for one. A queued waiter with a slot waits for a
    /// notification.
    fn waits_for_turn(&self, phase: Phase) -> bool {
        match self.plan.discipline {
            Discipline::Barging => true,
            Discipline::Queued => self.has_slot() && phase.is_waiting() && self.plan.notifies(),
        }
    }

    fn stand_in_line(&mut self, phase: Phase, now: Moment, queue: &QueueView) -> Step {
        self.have_waited();
        self.state = State::InLine(phase);
        let over = self.plan.is_over(now);
        let silence = now - queue.heard.max(self.heard);
        match queue.contact {
            // Without an answer, nobody knows whether the object is held.
            Contact::Failing if over || silence >= self.plan.patience => {
                return Step::End(End::QueueUnanswered);
            }
            Contact::Awaited if over && !self.is_momentary(silence) => {
                return Step::End(End::QueueUnanswered);
            }
            _ if over => return Step::End(End::Busy),
            _ => {}
        }
        let (until, overdue) = self.next_look_at_first(queue.first_back_at, now);
        Step::AwaitTurn {
            until: self.plan.bound(until),
            overdue,
        }
    }

    /// Consumes `prompt`, which makes the waiter ask once out of turn.
    fn heed(&mut self, prompt: Prompt, phase: Phase) -> Phase {
        self.prompt = None;
        match prompt {
            Prompt::Retry => {
                self.cause = Cause::Notified;
                Phase::Asking
            }
            Prompt::Requeue => {
                if self.slot != ServerSlot::Absent {
                    self.slot = ServerSlot::RequeueRequested;
                }
                match phase {
                    Phase::Waiting { .. } => Phase::RecheckDue,
                    phase => phase,
                }
            }
        }
    }

    /// Takes over the time of the last answer from the local queue, when the waiter's turn comes.
    fn catch_up(&mut self, queue: &QueueView) {
        if matches!(self.state, State::InLine(_)) && queue.turn == Turn::Ours {
            self.heard = self.heard.max(queue.heard);
            self.answered |= queue.contact == Contact::Answered;
        }
    }

    fn act(
        &mut self,
        phase: Phase,
        now: Moment,
        turn: Turn,
        random: u64,
        limits: &mut Limits,
    ) -> Step {
        self.state = State::Active(phase);
        let over = self.plan.is_over(now);
        match phase {
            Phase::Asking if self.knows_more() && over => Step::End(if self.failures > 0 {
                End::Unanswered
            } else {
                End::Busy
            }),
            Phase::Asking if self.is_too_late(now) => self.await_deadline(now),
            Phase::Asking => {
                self.asked = true;
                Step::Send(self.registration())
            }
            Phase::Subscribing | Phase::RecheckBooked { .. } if over => Step::End(End::Busy),
            Phase::Subscribing => Step::Subscribe,
            Phase::Waiting { .. } if over || self.is_done_waiting() => Step::End(End::Busy),
            Phase::Waiting { remaining } => self.wait(remaining, now, random),
            Phase::RecheckDue => {
                let limiter = match (self.slot, turn) {
                    (ServerSlot::RequeueRequested, Turn::Others) => &mut limits.requeues,
                    // The first waiter looks for all others of its name.
                    _ => &mut limits.rechecks,
                };
                let at = limiter.book(now);
                // After the caller's deadline, `Asking` ends the acquisition.
                let phase = if at > now && !over {
                    Phase::RecheckBooked { at }
                } else {
                    Phase::Asking
                };
                self.act(phase, now, turn, random, limits)
            }
            Phase::RecheckBooked { at } => self.wait_until(at),
            Phase::Failed if over || now - self.heard >= self.plan.patience => {
                Step::End(End::Unanswered)
            }
            // The last request begins before the patience is over, so that the waiter ends at most
            // one request after it.
            Phase::Failed => {
                let delay = recheck::RETRY.delay(self.failures, random);
                self.pause(now, delay.min(self.heard + self.plan.patience - now))
            }
        }
    }

    /// Returns whether the caller's time ends before a further request would be answered.
    fn is_too_late(&self, now: Moment) -> bool {
        self.knows_more() && self.plan.is_over(now + self.usual)
    }

    /// Returns whether this waiter has asked, or knows of an answer to another one.
    const fn knows_more(&self) -> bool {
        self.asked || self.answered
    }

    /// Asks no more. A message may still grant the object.
    fn await_deadline(&mut self, now: Moment) -> Step {
        if self.failures > 0 {
            self.state = State::Active(Phase::Failed);
            return self.pause(now, self.usual);
        }
        self.state = State::Active(Phase::Waiting {
            remaining: Duration::MAX,
        });
        match self.plan.strategy {
            WaitStrategy::Notify => self.wait_until(Moment::FAR_FUTURE),
            WaitStrategy::Poll(_) => self.pause(now, self.usual),
        }
    }

    fn wait(&mut self, remaining: Duration, now: Moment, random: u64) -> Step {
        match self.plan.strategy {
            WaitStrategy::Notify => self.wait_until(self.next_recheck(remaining, now, random)),
            WaitStrategy::Poll(backoff) => {
                let delay = self.next_poll(backoff, random);
                self.pause(now, delay)
            }
        }
    }

    fn wait_until(&self, until: Moment) -> Step {
        let until = self.plan.bound(until);
        Step::Wait { until }
    }

    fn pause(&self, now: Moment, delay: Duration) -> Step {
        let until = self.plan.bound(now + delay);
        Step::Pause { until }
    }

    fn start_over(&mut self, restart: Restart, now: Moment) -> Step {
        self.slot = ServerSlot::Absent;
        let patient = now - self.heard < self.plan.patience;
        if restart == Restart::AttemptVoid && self.voids <= VOIDS_AT_ONCE && patient {
            self.state = State::Active(Phase::Asking);
        } else {
            self.on_failed();
        }
        Step::StartOver(restart)
    }

    fn is_done_waiting(&self) -> bool {
        let polled_enough = match self.plan.strategy {
            WaitStrategy::Poll(backoff) => backoff.is_exhausted(self.polls.saturating_add(1)),
            WaitStrategy::Notify => false,
        };
        polled_enough || self.plan.takes_first_answer()
    }

    /// Returns how the next request registers the waiter.
    pub(crate) fn registration(&self) -> Registration {
        let (plan, listens) = (&self.plan, self.subscription == Subscription::Active);
        match plan.discipline {
            _ if plan.takes_first_answer() => Registration::None,
            Discipline::Queued if plan.notifies() => Registration::Notified,
            Discipline::Queued => Registration::Silent,
            Discipline::Barging if plan.notifies() && listens => Registration::Notified,
            Discipline::Barging => Registration::None,
        }
    }

    /// Returns whether the waiter has a slot in the server's queue that is not in doubt.
    const fn has_slot(&self) -> bool {
        matches!(self.slot, ServerSlot::Queued | ServerSlot::Reentrant)
    }

    const fn have_waited(&mut self) {
        if let Cause::Arrival = self.cause {
            self.cause = Cause::Recheck;
        }
    }

    const fn answered(&mut self, now: Moment) {
        self.heard = now;
        self.answered = true;
        self.failures = 0;
        self.lates = 0;
        self.voids = 0;
    }
}

impl Phase {
    /// Returns whether the last answer was busy, and no input has arrived since.
    const fn is_waiting(self) -> bool {
        matches!(
            self,
            Self::Waiting { .. } | Self::RecheckDue | Self::RecheckBooked { .. }
        )
    }
}

/// An answer that takes this much longer than usual is no sign of a silent server. A busy machine
/// pauses for as long.
const MOMENTARY: Duration = Duration::from_millis(100);

/// As [`MOMENTARY`], before the waiter knows of any answer. A caller with less time than this could
/// never tell a server that is silent from one that is far.
const FIRST_MOMENTARY: Duration = Duration::from_millis(20);
