//! The acquire loop. All primitives and all ways to wait share it.
//!
//! The loop executes each [`Step`] that its [`Waiter`] returns, and reports the result to the
//! [`Waiter`]. All decisions about waiting are in `protocol::waiter`.

mod ahead;
mod answer;
mod wait;

use std::{pin::pin, sync::Arc, time::Duration};

use tracing::{Instrument, Span};

use self::{ahead::Anchor, answer::Trouble};
use super::{AcquireOptions, Held, QueueSlot, attempt::Attempt, hold::Asked};
use crate::{
    Client, Error,
    base::{
        observe::{self, Labels, Waiting},
        primitive::{AcquireRequest, Primitive, Side},
        rules::Rule,
        script::{CallOutcome, Failure, ScriptCall},
    },
    engine::options::Standing,
    net::{Bell, Checked, Dispatch, Limit, Listener, Request, Session},
    protocol::{
        remains::Effect,
        time::Moment,
        waiter::{Admission, GiveUp, Plan, Registration, Restart, Step, WaitStrategy, Waiter},
    },
};

/// One acquisition in progress.
struct Run<'a> {
    client: &'a Client,
    primitive: &'a Arc<dyn Primitive>,
    asked: Asked<'a>,
    /// Until the first wait.
    checked: Checked,
    /// When the last request was begun. It may have waited before it was sent.
    begun: Moment,
    /// Decides what to do next.
    waiter: Waiter,
    /// Undoes the acquisition on drop, unless the grant has been delivered.
    attempt: Attempt,
    /// The place in the local queue. An acquisition that does not wait has none.
    queue_slot: Option<QueueSlot>,
    /// All that may end a wait rings here.
    bell: Arc<Bell>,
    /// Whether messages that notify the attempt ring.
    listens: bool,
    /// Messages on the object's own channel, to all waiters of this side of it. Few acquisitions
    /// have that channel.
    broadcast: Option<Box<Listener>>,
    /// The part of the last busy answer by which messages about grants are judged.
    anchor: Option<Anchor>,
    trouble: Trouble,
    log: Log,
}

/// Data for the log and the metrics of one acquisition.
struct Log {
    started: Moment,
    /// When to tell of a long wait. `None` once that is done.
    warn_at: Option<Moment>,
    requests: u32,
    /// Whether the span names who holds the name.
    blocked: bool,
    /// Present from the first wait on.
    waiting: Option<Waiting>,
    span: Span,
}

impl Client {
    /// Acquires `primitive`. Returns `None` if another owner holds it when the caller's time is up.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped at any await, the background gives back everything that was taken,
    /// and the local turn passes on.
    pub(crate) async fn acquire(
        &self,
        primitive: &Arc<dyn Primitive>,
        options: &AcquireOptions,
    ) -> Result<Option<Held>, Error> {
        self.check_open()?;
        let asked = Asked::new(self, options)?;
        let _ticket = self.admit()?;
        let span = observe::wait_span(primitive.as_ref(), &asked.owner);
        let mut run = Run::new(primitive, asked, span.clone());
        let going = pin!(run.go());
        let Some(held) = self.unless_closing(going).instrument(span).await? else {
            return Ok(None);
        };
        if let Some(note) = &options.note {
            held.withhold();
            Box::pin(held.put_note(note)).await;
            held.hand_out();
        }
        // If the client began to close just before the grant, `close` may not have seen the hold.
        if let Err(closing) = self.check_closing() {
            held.take_back();
            return Err(closing);
        }
        Ok(Some(held))
    }

    /// Returns the last server time at which a request that is sent now may act.
    pub(super) fn act_before(&self, session: &Session, now: Moment) -> u64 {
        if self.keeps(Rule::LimitBy) {
            session.act_before(now)
        } else {
            9_999_999_999_999
        }
    }
}

impl<'a> Run<'a> {
    fn new(primitive: &'a Arc<dyn Primitive>, asked: Asked<'a>, span: Span) -> Self {
        let Asked {
            client, options, ..
        } = asked;
        let now = client.now();
        let plan = Plan {
            give_up: options.wait.give_up(now),
            strategy: options.strategy.unwrap_or_else(|| client.0.strategy),
            discipline: primitive.discipline(),
            admission: match primitive.queue_side() {
                Side::Exclusive => Admission::OneByOne,
                Side::Shared => Admission::Together,
            },
            patience: client.0.patience,
        };
        let attempt = attempt(&asked, primitive, &plan);
        let bell = Arc::default();
        let queue_slot = (plan.give_up != GiveUp::AtFirstAnswer).then(|| {
            let asks = (attempt.id.number(), asked.owner.number());
            let (queues, called_by) = (client.local_queues(), &attempt.called_by);
            let place = (
                primitive.key().clone(),
                primitive.kind(),
                primitive.queue_side(),
            );
            queues.join(place, asks, called_by, &bell, now)
        });
        let heard = attempt.subscription();
        let waiter = Waiter::new(plan, now, heard).after_answer(options.answered);
        let run = Self {
            client,
            primitive,
            asked,
            // The caller has checked the process.
            checked: Some(now),
            begun: now,
            waiter,
            attempt,
            queue_slot,
            bell,
            listens: false,
            broadcast: None,
            anchor: None,
            trouble: Trouble::default(),
            log: Log {
                started: now,
                warn_at: Some(now + client.0.long_wait),
                requests: 0,
                blocked: false,
                waiting: None,
                span,
            },
        };
        if run.asked.standing == Standing::Known {
            run.claim_reentrance();
        }
        run
    }

    async fn go(&mut self) -> Result<Option<Held>, Error> {
        let result = self.run().await;
        let outcome = match &result {
            Ok(Some(_)) => "granted",
            Ok(None) => "busy",
            Err(_) => "failed",
        };
        observe::waited(&self.log.span, self.log.requests, outcome);
        if outcome != "granted" {
            observe::refused(&Labels::of(self.primitive.as_ref()), outcome);
        }
        result
    }

    /// Executes the waiter's steps until it ends or the server grants the request.
    async fn run(&mut self) -> Result<Option<Held>, Error> {
        loop {
            // A closing client must not use a turn that passes on to it.
            self.client.check_closing()?;
            self.follow_shard();
            // A grant comes with a prompt, which this takes. So the grant is looked at afterwards.
            let queue = self.look_at_queue();
            if let Some(held) = self.take_grant() {
                return Ok(Some(held));
            }
            if let Err(error) = self.client.net().check_away(self.primitive.key().slot()) {
                return self.failed(Failure::Fatal(error));
            }
            let now = self.checked.unwrap_or_else(|| self.client.now());
            self.measure();
            let step = self.client.next_step(&mut self.waiter, &queue, now);
            if !matches!(step, Step::Send(_)) {
                self.checked = None;
            }
            if matches!(step, Step::AwaitTurn { .. } | Step::Wait { .. }) {
                let primitive = self.primitive.as_ref();
                self.log
                    .waiting
                    .get_or_insert_with(|| Waiting::begin(primitive));
            }
            match step {
                Step::AwaitTurn { until, overdue } => self.await_turn(until, overdue).await?,
                Step::Send(registration) => {
                    if let Some(held) = self.send(registration).await? {
                        return Ok(Some(held));
                    }
                }
                Step::Subscribe => self.subscribe().await,
                Step::Wait { until } => self.wait(until).await?,
                Step::Pause { until } => self.pause(until).await?,
                Step::StartOver(restart) => self.start_over(restart),
                Step::End(end) => return self.ended(end),
            }
        }
    }

    /// Tells a waiter with a deadline how long answers take. The first request needs no such time.
    fn measure(&mut self) {
        let first = self.log.requests == 0 && self.log.waiting.is_none();
        if first && !self.asked.options.answered || self.waiter.plan().deadline().is_none() {
            return;
        }
        let class = self.asked.options.durability.link_class();
        let net = self.client.net();
        if let Some(session) = net.router.up(self.primitive.key().slot(), class) {
            self.waiter.on_usual(session.usual);
        }
    }

    /// Moves to the channel of the new shard if the key's slot has moved since the last request.
    fn follow_shard(&mut self) {
        if self.waiter.follows_shard() && self.attempt.follow_slot() {
            self.listens = false;
            self.asks_with_attempt();
            self.waiter.on_subscription(self.attempt.subscription());
        }
    }

    /// Replaces this attempt with a fresh one. Dropping the old attempt undoes it.
    fn start_over(&mut self, restart: Restart) {
        let fresh = self.fresh_attempt();
        // The slot may have moved to a shard with another channel.
        self.listens &= Arc::ptr_eq(&fresh.called_by.wakes, &self.attempt.called_by.wakes);
        self.attempt = fresh;
        self.anchor = None;
        self.asks_with_attempt();
        self.trouble.restarted(restart);
    }

    fn fresh_attempt(&self) -> Attempt {
        attempt(&self.asked, self.primitive, self.waiter.plan())
    }

    /// Tells the local queue which attempt this waiter sends now.
    fn asks_with_attempt(&self) {
        if let Some(queue_slot) = &self.queue_slot {
            queue_slot.asks_with(self.attempt.id.number(), &self.attempt.called_by);
        }
    }

    /// Gives the attempt the latest number of the client after a wait, if the server has executed
    /// nothing of it. The server refuses a number that is below that of another acquisition which
    /// came first.
    fn renumber(&mut self) {
        if self.attempt.renumber() {
            self.asks_with_attempt();
        }
    }

    /// Sends the attempt once. Returns the guard if the server granted it.
    async fn send(&mut self, registration: Registration) -> Result<Option<Held>, Error> {
        if self.asked.standing == Standing::Known {
            let primitive = self.primitive.as_ref();
            self.client
                .holds()
                .check_entry(primitive, &self.asked.owner)?;
        }
        let mut checked = self.checked.take();
        let now = checked.unwrap_or_else(|| self.client.now());
        self.begun = now;
        let silence = self.asked.lease.attempt_timeout();
        let up_by = self.waiter.plan().bound(now + silence);
        let deadline = self.waiter.patience_deadline(now, silence);
        let net = self.client.net();
        let key = self.primitive.key();
        let slot = key.slot();
        let durability = self.asked.options.durability;
        // The request must not find the name held by an earlier guard of this process whose release
        // is still queued.
        let class = durability.link_class();
        if self.client.let_go_first(key, class, up_by).await {
            checked = None;
        }
        let session = match net.router.up(slot, class) {
            Some(session) => session,
            None => {
                checked = None;
                self.expect(up_by);
                match Box::pin(net.router.session(slot, class, up_by)).await {
                    Ok(session) => session,
                    Err(error) => return self.failed(Failure::of_session(error)),
                }
            }
        };
        if checked.is_none() {
            self.renumber();
        }
        let sent = checked.unwrap_or_else(|| self.client.now());
        let act_before = self.client.act_before(&session, sent);
        let limit = Limit { silence, deadline };
        // A waiter that is not polled must not stop the others for its whole patience.
        let replicas = if durability.waits() {
            silence
        } else {
            Duration::ZERO
        };
        self.expect(sent + silence.max(session.usual) + replicas);
        self.log.requests += 1;
        // Boxed, so that the future of an acquisition stays small.
        let sending = self.send_call(&session, (act_before, limit, checked), registration);
        let (outcome, acknowledged) = Box::pin(sending).await;
        self.heard(outcome, acknowledged, &session, sent)
    }

    /// Sends the attempt's call. Returns the outcome, and the confirmations of replicas.
    async fn send_call(
        &mut self,
        session: &Session,
        (act_before, limit, checked): (u64, Limit, Checked),
        mut registration: Registration,
    ) -> (CallOutcome, Result<Option<u32>, Error>) {
        if registration == Registration::Notified {
            // A waiter that registers must be able to receive the notification, which may arrive
            // before the reply. The client may have left the channel since the waiter was told that
            // the subscription is active.
            self.open_subscriptions();
            self.waiter.on_subscription(self.attempt.subscription());
            registration = self.waiter.registration();
        }
        let register = registration != Registration::None && self.client.keeps(Rule::Register);
        let call = self.call(register.then(|| self.client.registration()));
        if register {
            self.client.0.withdrawals.knows(self.primitive);
        }
        self.attempt.remains.sending(act_before, register);
        let durability = self.asked.options.durability;
        let replication = durability.replication(session, limit.silence);
        let request = Request {
            calls: &[&call],
            act_before,
            limit,
            replication,
            dispatch: Dispatch::Together,
            checked,
        };
        let response = self.client.net().send(session, &request).await;
        self.trouble.in_doubt |= response.before != Effect::Nothing;
        self.attempt.remains.joined(response.before);
        let (outcome, confirmations) = response.into_single();
        let acknowledged =
            replication.map_or(Ok(Some(0)), |wanted| wanted.confirmed(confirmations));
        (outcome, acknowledged)
    }

    /// Builds the call, with an address and a time for a waiter that is to be registered.
    fn call(&self, register: Option<Duration>) -> ScriptCall {
        self.primitive.acquire(&AcquireRequest {
            owner: &self.asked.owner,
            attempt: &self.attempt.id,
            lease: self.client.lease_on_server(self.asked.lease.span()),
            retention: self.client.0.retention,
            address: self.queue_slot.as_ref().map(|_| self.attempt.address()),
            register,
        })
    }
}

/// Begins an attempt of an acquisition with this plan.
fn attempt(asked: &Asked<'_>, primitive: &Arc<dyn Primitive>, plan: &Plan) -> Attempt {
    let order = ahead::order(asked, primitive.as_ref(), plan);
    let silent = matches!(plan.strategy, WaitStrategy::Poll(_));
    let id = asked.client.draw_attempt();
    Attempt::new(asked, primitive, id, (silent, order))
}
