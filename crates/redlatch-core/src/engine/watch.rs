//! The watch loop: the wait for the end of a phase of an object, without an acquisition.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::select;
use tracing::{Instrument, Span};

use super::{
    Wait,
    phase_watches::{Looking, WatchSlot},
};
use crate::{
    Client, Error, ErrorKind,
    base::{
        items::Items,
        observe,
        primitive::Watched,
        rules::Rule,
        script::{CallOutcome, Failure},
        timeouts,
    },
    net::{Bell, Dispatch, LinkClass, Listener},
    protocol::{
        phase_watch::{PhaseState, WatchResult},
        time::Moment,
        waiter::{
            Admission, Busy, Discipline, End, GiveUp, Plan, QueueView, RECHECK, Registration, Step,
            Subscription, WaitStrategy, Waiter,
        },
    },
};

/// The options of one wait for the end of a phase.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// The phase, if it is known. Otherwise the phase that the first query finds.
    pub phase: Option<u64>,
    /// How long to wait.
    pub wait: Wait,
    /// How to wait; the client's strategy if absent.
    pub strategy: Option<WaitStrategy>,
}

/// One watcher.
struct Run<'a> {
    client: &'a Client,
    watched: &'a Arc<dyn Watched>,
    wait: Wait,
    /// The time of the last answered query that counts for this watcher, or the time at which the
    /// watcher began.
    heard: Moment,
    /// The number of the last query that this watcher has processed. Initially the last query that
    /// began before this watcher joined, which does not count.
    seen: u64,
    /// Whether any query has counted.
    answered: bool,
    waiter: Waiter,
    slot: WatchSlot,
    /// Messages ring here.
    bell: Arc<Bell>,
    listener: Option<Listener>,
    /// The reason why the last query had no clear answer.
    trouble: Option<Error>,
    /// The last message that no query has followed yet.
    message: Option<u64>,
    requests: u32,
    span: Span,
}

impl Client {
    /// Waits until a phase of `watched` is over. Returns `false` if the caller's time ends first.
    ///
    /// The watchers of one object in one client share their queries. A message is only a hint: it
    /// makes one watcher query, and the server's answer applies to all of them.
    ///
    /// # Cancel safety
    ///
    /// The wait acquires and registers nothing. The subscription ends with the last watcher.
    pub(crate) async fn watch(
        &self,
        watched: &Arc<dyn Watched>,
        options: &WatchOptions,
    ) -> Result<bool, Error> {
        self.check_open()?;
        let _ticket = self.admit()?;
        let span = observe::watch_span(watched.as_ref());
        let mut run = Run::new(self, watched, options, span.clone());
        let going = pin!(run.go());
        self.unless_closing(going).instrument(span).await
    }
}

impl<'a> Run<'a> {
    fn new(
        client: &'a Client,
        watched: &'a Arc<dyn Watched>,
        options: &WatchOptions,
        span: Span,
    ) -> Self {
        let now = client.now();
        let give_up = options.wait.give_up(now);
        let plan = Plan {
            give_up,
            strategy: options.strategy.unwrap_or_else(|| client.0.strategy),
            discipline: Discipline::Barging,
            admission: Admission::OneByOne,
            patience: client.0.patience,
        };
        let subscription = subscription(client, watched.as_ref());
        let mut waiter = Waiter::new(plan, now, subscription);
        let heard = subscription == Subscription::Active;
        if options.phase.is_some() && !heard && give_up != GiveUp::AtFirstAnswer {
            // The phase was in progress a moment ago, so subscribe first and query afterwards.
            waiter.on_busy(now, busy(Duration::MAX, subscription));
        }
        let slot = client.0.phase_watches.join(watched.as_ref(), options.phase);
        Self {
            client,
            watched,
            wait: options.wait,
            heard: now,
            seen: slot.begun(),
            answered: false,
            waiter,
            slot,
            bell: Arc::default(),
            listener: None,
            trouble: None,
            message: None,
            requests: 0,
            span,
        }
    }

    async fn go(&mut self) -> Result<bool, Error> {
        let started = self.client.now();
        let result = self.run().await;
        let outcome = match &result {
            Ok(true) => "over",
            Ok(false) => "under way",
            Err(_) => "failed",
        };
        observe::waited(&self.span, self.requests, outcome);
        if let Ok(true) = result {
            observe::watched(self.watched.as_ref(), self.client.now() - started);
        }
        result
    }

    /// Executes the waiter's steps until the phase is over or the waiter ends.
    async fn run(&mut self) -> Result<bool, Error> {
        loop {
            self.client.check_closing()?;
            if let Some(result) = self.slot.take_result()
                && self.is_over(result)?
            {
                return Ok(true);
            }
            let now = self.client.now();
            let (net, slot) = (self.client.net(), self.watched.key().slot());
            net.check_away(slot)?;
            if let Some(session) = net.router.up(slot, LinkClass::Command) {
                self.waiter.on_usual(session.usual);
            }
            let waiter = &mut self.waiter;
            match self.client.next_step(waiter, &QueueView::NONE, now) {
                Step::Send(registration) => {
                    if registration == Registration::Notified {
                        // Subscribe before the query, so that no message after the query is missed.
                        self.listen();
                    }
                    if let Some(over) = self.consult(now).await? {
                        return Ok(over);
                    }
                }
                Step::Subscribe => self.subscribe().await,
                Step::Wait { until, .. } => {
                    if self.wait(until, true).await? {
                        return Ok(true);
                    }
                }
                // A watcher is in no queue.
                Step::Pause { until } | Step::AwaitTurn { until, .. } => {
                    self.wait(until, false).await?;
                }
                // A watcher acquires nothing that could be undone.
                Step::StartOver(_) => {}
                Step::End(End::Busy) => return Ok(false),
                Step::End(End::Unanswered | End::QueueUnanswered) => {
                    return Err(self.unanswered());
                }
            }
        }
    }

    /// Gets the object's state from a query that begins from `begun` on, by this watcher or by
    /// another. If the wait has ended, returns whether the phase is over.
    async fn consult(&mut self, begun: Moment) -> Result<Option<bool>, Error> {
        let afresh = self.client.keeps(Rule::LookAfresh);
        self.slot.want(self.message.take(), afresh);
        loop {
            if let Some(result) = self.slot.take_result() {
                if self.is_over(result)? {
                    return Ok(Some(true));
                }
                self.on_under_way();
                return Ok(None);
            }
            let now = self.client.now();
            let until = now + timeouts::REQUEST + OVERDUE;
            if let Some(looking) = self.slot.begin(now, until) {
                let (requests, trouble) = self.look(looking).await;
                self.requests += requests;
                if trouble.is_none() {
                    continue;
                }
                self.trouble = trouble;
                self.client.check_process()?;
                if !self.waiter.on_cut_off(begun, self.client.now()) {
                    self.waiter.on_failed();
                }
                return Ok(None);
            }
            // Another watcher's query is in progress. Alarms of a client that has ended fire at
            // once, so check for that.
            self.client.check_closing()?;
            if self.waiter.plan().is_over(now) {
                let momentary = self.waiter.is_momentary(now - self.heard);
                return if self.answered && (self.slot.phase().is_some() || momentary) {
                    Ok(Some(false))
                } else {
                    Err(self.unanswered())
                };
            }
            if now - self.heard >= self.client.0.patience {
                return Err(self.unanswered());
            }
            let until = self.waiter.plan().bound(now + OVERDUE);
            let world = &self.client.net().world;
            world.until(until, self.slot.rung()).await;
            self.client.check_process()?;
        }
    }

    /// Tells whether a query says that the phase is over.
    fn is_over(&mut self, result: WatchResult<Error>) -> Result<bool, Error> {
        self.trouble = None;
        match result {
            Ok(Some(PhaseState::UnderWay)) => Ok(false),
            Ok(Some(PhaseState::Over)) => Ok(true),
            Ok(Some(PhaseState::Gone)) => Err(self.watched.gone()),
            Ok(None) => Err(self.watched.absent()),
            Err(error) => Err(error),
        }
    }

    /// Processes a query result that says that the phase is still in progress.
    fn on_under_way(&mut self) {
        let Some(seen) = self.slot.last() else {
            return;
        };
        self.seen = seen.number;
        self.answered = true;
        self.heard = self.heard.max(seen.at);
        let subscription = match self.listener {
            Some(_) => subscription(self.client, self.watched.as_ref()),
            None => Subscription::Inactive,
        };
        self.waiter
            .on_busy(seen.at, busy(seen.snapshot.remaining, subscription));
    }

    async fn subscribe(&mut self) {
        let now = self.client.now();
        let deadline = self.waiter.plan().bound(now + timeouts::SUBSCRIPTION);
        self.listen();
        let channel = self.watched.key().broadcast_channel();
        let ready = self.client.net().hub.ready(&channel, deadline).await;
        self.client.subscribed(&mut self.waiter, ready, now);
    }

    /// Waits for a message if `listens`, until `until` at the latest. Returns `true` if the phase
    /// counts as over.
    async fn wait(&mut self, until: Moment, listens: bool) -> Result<bool, Error> {
        select! {
            biased;
            news = self.bell.news(), if listens => match news.message {
                Some(_) if !self.client.keeps(Rule::ConfirmMessages) => return Ok(true),
                Some(number) => {
                    self.message = Some(number);
                    self.waiter.on_notified();
                }
                None => self.waiter.on_elapsed(),
            },
            // The loop processes the result.
            () = self.slot.rung() => {}
            () = self.client.forked() => self.client.check_process()?,
            () = self.client.alarm(until) => match self.slot.last() {
                // Another watcher has queried in the meantime. If the phase were over, this watcher
                // would have a result.
                Some(last) if last.number > self.seen => self.on_under_way(),
                _ => self.waiter.on_elapsed(),
            },
        }
        Ok(false)
    }

    fn listen(&mut self) {
        let (hub, bell) = (&self.client.net().hub, &self.bell);
        self.listener.get_or_insert_with(|| {
            let channel = self.watched.key().broadcast_channel();
            hub.listen(&channel, Arc::clone(bell))
        });
    }

    /// Sends one query and passes its result to all watchers. Returns the number of requests, and
    /// the error if there was no clear answer.
    async fn look(&self, looking: Looking<'_>) -> (u32, Option<Error>) {
        let (now, silence) = (self.client.now(), timeouts::REQUEST);
        let up_by = self.waiter.plan().bound(now + silence);
        let deadline = self.waiter.patience_deadline(now, silence);
        let call = self.watched.look(looking.phases());
        let sending = self
            .client
            .send_once(&call, up_by, deadline, Dispatch::AtOnce);
        let (outcome, sent) = match sending.await {
            Ok((response, sent)) => (response.into_single().0, sent),
            Err(failure) => return (0, settle(looking, failure.into_error(false))),
        };
        let trouble = match outcome {
            CallOutcome::Replied(reply) | CallOutcome::Bare(reply) => {
                let items = Items::new(call.script(), &reply);
                match items.and_then(|items| self.watched.looked(looking.phases(), &items)) {
                    Ok(snapshot) => {
                        looking.saw(sent, snapshot);
                        None
                    }
                    Err(error) => settle(looking, error),
                }
            }
            CallOutcome::Failed(Failure::Redirected(redirect)) => {
                looking.failed(&Failure::Redirected(redirect).into_error(false));
                None
            }
            // A query changes nothing, so its outcome is never in doubt.
            CallOutcome::Failed(failure) => settle(looking, failure.into_error(false)),
        };
        (1, trouble)
    }

    fn unanswered(&mut self) -> Error {
        self.trouble.take().unwrap_or_else(|| {
            let patience = self.client.0.patience;
            let within = match self.wait {
                Wait::For(wait) if !wait.is_zero() => wait.min(patience),
                _ => patience,
            };
            Error::unavailable(format!("the server did not answer within {within:?}"))
        })
    }
}

/// Tells whether this client receives the messages to watchers.
fn subscription(client: &Client, watched: &dyn Watched) -> Subscription {
    let channel = watched.key().broadcast_channel();
    client.net().hub.hears(&channel).into()
}

fn busy(remaining: Duration, subscription: Subscription) -> Busy {
    Busy {
        remaining,
        subscription,
        ..Busy::default()
    }
}

/// Passes a permanent error to all watchers. Returns the error if it may be transient.
fn settle(looking: Looking<'_>, error: Error) -> Option<Error> {
    if error.is_transient() && error.kind() != ErrorKind::ServerFull {
        return Some(error);
    }
    looking.failed(&error);
    None
}

/// How long after its time-out a query counts as abandoned: nothing polls its future.
const OVERDUE: Duration = RECHECK;
