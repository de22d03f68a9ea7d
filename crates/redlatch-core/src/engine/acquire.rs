//! The acquire loop: the only one over attempts, for every primitive and every way to wait.

mod answer;

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use tokio::select;
use tracing::{Instrument, Span};

use super::{
    AcquireOptions, Held, Place, Wait,
    attempt::Attempt,
    ears::Ears,
    turns::{Call, OVERDUE},
};
use crate::{
    Client, Error, ErrorKind, Owner,
    client::WaiterTicket,
    net::{Limit, Request, Session},
    observe,
    primitive::{AcquireRequest, Primitive, Side},
    protocol::{
        acquisition::{Acquisition, Discipline, End, Plan, Step, WaitStrategy},
        lease::Lease,
        time::Moment,
    },
    rules::Rule,
    script::Failure,
    timeouts,
};

/// One acquisition under way.
struct Run<'a> {
    client: &'a Client,
    primitive: &'a Arc<dyn Primitive>,
    owner: Owner,
    options: &'a AcquireOptions,
    lease: Lease,
    strategy: WaitStrategy,
    deadline: Option<Moment>,
    started: Moment,
    machine: Acquisition,
    attempt: Attempt,
    place: Option<Place>,
    ears: Ears,
    /// A message, or another of this client, made it ask.
    told: bool,
    /// Another of this client has told it that its place may be lost, and the others, too.
    recalled: bool,
    /// The server has told that this attempt is in its queue.
    queued: bool,
    /// Its owner held the name when it last had to wait. It may wait by that and not in the queue.
    excused: bool,
    /// Why the last request had no clear answer.
    trouble: Option<Error>,
    /// Whether any request may have been executed without an answer.
    unknown: bool,
    contended: bool,
    warned: bool,
    requests: u32,
    span: Span,
}

impl Client {
    /// Acquires `primitive`; `None` if another holds it and the caller's time is up.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, whatever was taken is given back in the background, and the local turn passes on.
    pub(crate) async fn acquire(
        &self,
        primitive: &Arc<dyn Primitive>,
        options: &AcquireOptions,
    ) -> Result<Option<Held>, Error> {
        self.check_open()?;
        let owner = self.resolve(&options.owner)?;
        let _ticket: WaiterTicket = self.admit()?;
        let span = observe::wait_span(primitive.as_ref(), &owner);
        let mut run = Run::new(self, primitive, options, owner, span.clone());
        let mut going = pin!(run.go());
        let acquiring = async {
            select! {
                biased;
                result = &mut going => match result {
                    // Granted in the moment of closing: `close` may not have seen the hold.
                    Ok(Some(_)) if self.is_closing() => Err(self.closed()),
                    result => result,
                },
                () = self.closing() => Err(self.closed()),
            }
        };
        acquiring.instrument(span).await
    }
}

impl Client {
    /// Returns the last server time at which a request that is sent now may act.
    pub(super) fn acts_by(&self, session: &Session, now: Moment) -> u64 {
        if self.keeps(Rule::LimitBy) {
            session.by(now)
        } else {
            9_999_999_999_999
        }
    }
}

impl<'a> Run<'a> {
    fn new(
        client: &'a Client,
        primitive: &'a Arc<dyn Primitive>,
        options: &'a AcquireOptions,
        owner: Owner,
        span: Span,
    ) -> Self {
        let now = client.now();
        let (deadline, once) = match options.wait {
            Wait::Never | Wait::For(Duration::ZERO) => (None, true),
            Wait::For(wait) => (Some(now + wait), false),
            Wait::Forever => (None, false),
        };
        let strategy = options.strategy.unwrap_or_else(|| client.wait_strategy());
        let plan = Plan {
            deadline,
            once,
            strategy,
            discipline: primitive.discipline(),
            patience: client.patience(),
        };
        let lease = options.lease.unwrap_or_else(|| client.default_lease());
        let attempt = Attempt::new(client, primitive, &owner, lease.span(), strategy);
        let key = primitive.key();
        let place = (!once).then(|| {
            let (turns, number) = (client.turns(), attempt.id().number());
            let side = primitive.line();
            turns.join(key, side, number, owner.number(), attempt.called_by(), now)
        });
        let run = Self {
            client,
            primitive,
            owner,
            options,
            lease,
            strategy,
            deadline,
            started: now,
            machine: Acquisition::new(plan, now, hears(client, primitive.as_ref(), &attempt)),
            attempt,
            place,
            ears: Ears::default(),
            told: false,
            recalled: false,
            queued: false,
            excused: false,
            trouble: None,
            unknown: false,
            contended: false,
            warned: false,
            requests: 0,
            span,
        };
        run.excuse();
        run
    }

    async fn go(&mut self) -> Result<Option<Held>, Error> {
        let result = self.run().await;
        let outcome = match &result {
            Ok(Some(_)) => "granted",
            Ok(None) => "busy",
            Err(_) => "failed",
        };
        observe::waited(&self.span, self.requests, outcome);
        result
    }

    async fn run(&mut self) -> Result<Option<Held>, Error> {
        loop {
            if !self.turn().await? {
                return Ok(None);
            }
            // A turn that passes on while the client closes is not used.
            self.client.check_closing()?;
            self.follow_slot();
            let now = self.client.now();
            match self.client.next_step(&mut self.machine, now) {
                Step::Send { register } => {
                    if let Some(held) = self.send(register).await? {
                        return Ok(Some(held));
                    }
                }
                Step::Subscribe => self.subscribe().await,
                Step::Wait { until } => {
                    let until = if self.client.keeps(Rule::LookAgain) {
                        until
                    } else {
                        self.deadline.unwrap_or(Moment::FAR_FUTURE)
                    };
                    self.wait(until, true).await?;
                }
                Step::Pause { until } => self.wait(until, false).await?,
                Step::End(End::Busy) => return Ok(None),
                Step::End(End::Unanswered) => return Err(self.unanswered()),
            }
        }
    }

    /// Waits for the turn to speak; `false` when the caller's time is up.
    ///
    /// A queued waiter speaks to get its ticket, and then when it is called; else the first of the line looks for all.
    async fn turn(&mut self) -> Result<bool, Error> {
        if self.excused && !self.holds() {
            self.queued = false;
        }
        let Some(place) = &self.place else {
            return Ok(true);
        };
        if place.may_speak() || self.is_queued() && !self.waits_to_be_called() {
            place.hush();
            if self.machine.is_busy() {
                self.take_call();
            }
            return Ok(true);
        }
        self.contended = true;
        loop {
            if self.take_call() {
                return Ok(true);
            }
            let Some(place) = self.place.as_ref().filter(|place| !place.may_speak()) else {
                break;
            };
            // Alarms of a client that has ended go off at once.
            self.client.check_closing()?;
            let now = self.client.now();
            if self.gives_up(place, now)? {
                return Ok(false);
            }
            let patience = if self.is_queued() {
                SOON_OVERDUE
            } else {
                OVERDUE
            };
            let late = place.challenge_at(patience).filter(|&late| late > now);
            let look = late.unwrap_or(now + patience).min(now + OVERDUE);
            let until = self.deadline.map_or(look, |deadline| deadline.min(look));
            select! {
                biased;
                () = self.called() => {
                    self.told = true;
                    self.machine.on_woken();
                    return Ok(true);
                }
                () = place.rung() => {}
                () = self.client.forked() => self.client.check_process()?,
                () = self.client.alarm(until) => {
                    place.challenge(self.client.now(), patience);
                    self.excuse();
                }
            }
        }
        self.begin_to_speak();
        Ok(true)
    }

    /// Tells whether the time of one who never spoke is up. Fails if those before it were not answered: nobody knows then whether the name is held.
    fn gives_up(&self, place: &Place, now: Moment) -> Result<bool, Error> {
        let news = place.news();
        let silence = now - news.heard.max(self.started);
        let over = self.deadline.is_some_and(|deadline| now >= deadline);
        match news.trouble {
            Some(error) if over || silence >= self.client.patience() => {
                Err(not_asked(error.to_string()))
            }
            None if over && !news.answered => {
                Err(not_asked("the server has not answered yet".to_owned()))
            }
            _ => Ok(over),
        }
    }

    /// Speaks for its line from now on: goes by what those before it have heard.
    fn begin_to_speak(&mut self) {
        if let Some(place) = &self.place {
            place.hush();
            let hears = self.hears();
            self.machine.on_turn(place.news().heard, hears);
        }
    }

    /// Heeds what another of its line has told this waiter; `false` if nothing.
    fn take_call(&mut self) -> bool {
        let call = self.place.as_ref().and_then(Place::take_call);
        match call {
            Some(Call::Now) => {
                self.told = true;
                self.machine.on_woken();
            }
            Some(Call::Again) => {
                self.recalled = true;
                self.machine.on_due();
            }
            None => {}
        }
        call.is_some()
    }

    /// Tells whether the server knows this waiter and will call it, or another of its line.
    fn waits_to_be_called(&self) -> bool {
        self.queued
            && self.machine.is_busy()
            && self.ears.are_open()
            && self.strategy == WaitStrategy::Notify
            && self.trouble.is_none()
    }

    /// Resolves when the server calls this queued waiter.
    async fn called(&self) {
        if !self.is_queued() {
            return pending().await;
        }
        // After a gap in the messages the first of the line looks for all.
        while !self.ears.woken().await {}
    }

    /// Whoever holds the name already need not queue for it.
    fn excuse(&self) {
        if self.place.is_some() && self.holds() {
            let key = self.primitive.key();
            let turns = self.client.turns();
            turns.excuse(key, self.owner.number(), None);
        }
    }

    fn holds(&self) -> bool {
        let (key, now) = (self.primitive.key(), self.client.now());
        self.client.holds().held(key, &self.owner, now)
    }

    /// Waits where it is called, if its slot has gone to another shard since it asked. One that is served in order keeps its address: it is its ticket.
    fn follow_slot(&mut self) {
        let may = self.requests > 0 && self.strategy == WaitStrategy::Notify && !self.is_queued();
        if !may || !self.attempt.follow_slot() {
            return;
        }
        self.ears = Ears::default();
        if let Some(place) = &self.place {
            place.asks_with(self.attempt.id().number(), self.attempt.called_by());
        }
        let hears = self.hears();
        self.machine.on_turn(self.started, hears);
    }

    /// Sends the attempt once; returns the guard if it was granted.
    async fn send(&mut self, register: bool) -> Result<Option<Held>, Error> {
        let now = self.client.now();
        let silence = self.lease.attempt_timeout();
        let up_by = self.machine.attempt_deadline(now, silence);
        let deadline = self.machine.patience_deadline(now, silence);
        self.expect(deadline);
        if register && self.strategy == WaitStrategy::Notify {
            // Whoever registers must hear the wake, which may come before the answer.
            self.open_ears();
        }
        let net = self.client.net();
        let key = self.primitive.key();
        let slot = key.slot();
        let durability = self.options.durability;
        // Whoever has let go of the name in this process must not be in its own way.
        let class = durability.link_class();
        self.client.let_go_first(key, class, up_by).await;
        let session = match net.session(slot, class, up_by).await {
            Ok(session) => session,
            Err(error) => return self.failed(Failure::of_session(error)).map(|()| None),
        };
        let sent = self.client.now();
        let by = self.client.acts_by(&session, sent);
        let register = register && self.client.keeps(Rule::Register);
        let call = self.primitive.acquire(&AcquireRequest {
            owner: &self.owner,
            attempt: self.attempt.id(),
            lease: self.client.lease_on_server(self.lease.span()),
            retention: self.client.retention(),
            address: if self.place.is_some() {
                self.attempt.address()
            } else {
                ""
            },
            register: register.then(|| self.client.registration()),
        });
        if register {
            self.client.withdrawals().knows(self.primitive);
        }
        self.attempt.sending(by, register);
        self.requests += 1;
        let replication = durability.replication(&session, silence);
        let request = Request {
            calls: &[&call],
            act_before: by,
            limit: Limit { silence, deadline },
            replication,
        };
        let (outcome, told) = net.send(&session, &request).await.into_single();
        let acknowledged = replication.map_or(Ok(Some(0)), |wanted| wanted.confirmed(told));
        self.heard(outcome, acknowledged, sent)
    }

    fn is_queued(&self) -> bool {
        self.primitive.discipline() == Discipline::Queued
    }

    fn is_shared(&self) -> bool {
        self.primitive.line() == Side::Shared
    }

    async fn subscribe(&mut self) {
        let now = self.client.now();
        let deadline = self.machine.attempt_deadline(now, SUBSCRIBE_TIMEOUT);
        self.expect(deadline);
        self.attempt.wakes().pin();
        self.open_ears();
        if self.ears.ready(deadline).await {
            self.machine.on_subscribed();
            if !self.client.keeps(Rule::TryAfterSubscribing) {
                self.machine.on_busy(now, Duration::MAX, true);
            }
        } else {
            self.machine.on_deaf();
        }
    }

    /// Waits for a wake if `wakeable`, until `until` at the latest.
    async fn wait(&mut self, until: Moment, wakeable: bool) -> Result<(), Error> {
        self.expect(until);
        let speaks = |place: &Place| self.is_queued() && place.may_speak();
        if wakeable && self.ears.are_open() && self.place.as_ref().is_some_and(speaks) {
            let primitive = self.primitive.as_ref();
            self.ears.open_for_all(primitive, self.attempt.wakes());
        }
        let woken = async {
            if wakeable {
                self.ears.woken().await
            } else {
                pending().await
            }
        };
        let rung = async {
            match self.place.as_ref().filter(|_| wakeable) {
                Some(place) => place.rung().await,
                None => pending().await,
            }
        };
        let told = select! {
            biased;
            told = woken => told,
            () = rung => {
                if self.take_call() {
                    return Ok(());
                }
                true
            }
            () = self.client.forked() => {
                self.client.check_process()?;
                false
            }
            () = self.client.alarm(until) => false,
        };
        self.told = told;
        if told {
            self.machine.on_woken();
        } else {
            self.machine.on_elapsed();
        }
        Ok(())
    }

    fn open_ears(&mut self) {
        let (primitive, attempt) = (self.primitive.as_ref(), &self.attempt);
        self.ears
            .open(self.client, primitive, attempt.id(), attempt.wakes());
    }

    fn hears(&self) -> bool {
        hears(self.client, self.primitive.as_ref(), &self.attempt)
    }

    fn expect(&self, back_at: Moment) {
        if let Some(place) = &self.place {
            place.expect(back_at);
        }
    }

    fn unanswered(&mut self) -> Error {
        let error = self.trouble.take();
        let error = error.unwrap_or_else(|| {
            Error::new(ErrorKind::Unavailable, "the server did not answer in time")
        });
        if self.unknown {
            error.in_doubt()
        } else {
            error
        }
    }
}

/// Tells whether everything reaches this client that is said to who waits for `primitive` with `attempt`.
fn hears(client: &Client, primitive: &dyn Primitive, attempt: &Attempt) -> bool {
    let channel =
        (primitive.line() == Side::Shared).then(|| client.broadcast_channel(primitive.key()));
    attempt.wakes().are_heard() && channel.is_none_or(|channel| client.net().hub.hears(&channel))
}

/// The error of a waiter that never asked the server itself.
fn not_asked(why: String) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("a waiter of this process before this one gets no answer: {why}"),
    )
}

/// Longest wait for a subscription before the waiter goes by the clock.
const SUBSCRIBE_TIMEOUT: Duration = timeouts::SUBSCRIPTION;

/// The same as [`OVERDUE`] where a whole client counts as dead when the first of its line is silent for long. It costs such a waiter nothing but the task of
/// asking for the others.
const SOON_OVERDUE: Duration = timeouts::TURN_OVERDUE;
