//! One connection to one server, from its first answer to its end.

mod health;

use std::{
    convert::Infallible,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{select, sync::Notify};

pub(super) use self::health::{replicas_of_master, time_millis};
use super::{
    Access, World,
    batcher::{Batcher, JoinedReply},
};
use crate::{
    Error, ErrorKind,
    base::{
        rules::Rule,
        script::{CallOutcome, Script, ScriptCall},
        sync::{AtomicBool, Mutex, lock},
        timeouts,
    },
    protocol::{grant::Dated, remains::Effect, rights, server_clock::ServerClock, time::Moment},
    runtime::{Address, Command, Conn, Login, Outcome, Reply, Value},
};

/// One connection of a link, from its first answer to its end.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) world: World,
    pub(crate) address: Address,
    replicas: Arc<AtomicU32>,
    conn: Arc<dyn Conn>,
    pub(super) batcher: Batcher,
    progress: Mutex<Progress>,
    /// The longest usual time of an answer: two round trips, as measured at the beginning of the
    /// connection. A shorter silence means nothing.
    pub(crate) usual: Duration,
    /// The shortest silence for which a caller has reported a suspicion.
    bearable: Mutex<Duration>,
    /// A request was not answered in time, so the supervisor has to check whether the server
    /// responds. Or the server is not usable any more.
    doubted: Notify,
    is_condemned: AtomicBool,
    /// The server's uptime when it was asked, and the time of that question.
    age: OnceLock<(Duration, Moment)>,
    /// The scripts that the server has replied to, and hence has in its cache.
    scripts: Mutex<Vec<&'static str>>,
}

impl Session {
    /// Begins a session. Asks for the server's time, which also proves that the server answers.
    pub(super) async fn begin(
        world: &World,
        address: &Address,
        replicas: &Arc<AtomicU32>,
        conn: Arc<dyn Conn>,
        by_slot: bool,
    ) -> Result<Self, Error> {
        world.life.leap();
        let now = world.now();
        let mut session = Self {
            world: world.clone(),
            address: address.clone(),
            usual: Duration::ZERO,
            replicas: Arc::clone(replicas),
            conn,
            batcher: Batcher::new(by_slot),
            progress: Mutex::new(Progress::new(now)),
            bearable: Mutex::new(timeouts::HEALTH_ANSWER),
            doubted: Notify::new(),
            is_condemned: AtomicBool::new(false),
            age: OnceLock::new(),
            scripts: Mutex::default(),
        };
        let answers = session.time(now + timeouts::HANDSHAKE).await;
        if let Err(error) = answers {
            return Err(session.stranger(error).await);
        }
        session.usual = ((world.now() - now) * 2).min(timeouts::HEALTH_ANSWER);
        Ok(session)
    }

    /// Returns the error of a server that does not know the command for its time, and any other
    /// `error` as it is. Sentinels do not know it.
    async fn stranger(&self, error: Error) -> Error {
        let reason = error.reason().map(ToString::to_string).unwrap_or_default();
        if !rights::is_unknown_command(&reason) {
            return error;
        }
        let address = &self.address;
        let role = self.ask(Command::new("ROLE"), self.world.now() + timeouts::HANDSHAKE);
        let role = role.await.unwrap_or(Value::Nil);
        let role = role.as_array().and_then(<[Value]>::first);
        if role.and_then(Value::as_str) == Some("sentinel") {
            let message = format!(
                "{address} is a sentinel; the address of sentinels is {}/name",
                address.written("+sentinel")
            );
            return Error::new(ErrorKind::UnsupportedServer, message);
        }
        let message = format!(
            "{address} does not know TIME, which every Redis and Valkey has, or has renamed it; give it back its name, or ask for a server that has it ({reason})"
        );
        Error::new(ErrorKind::Permission, message)
    }

    /// Returns the largest number of replicas that the server ever had.
    pub(crate) fn replicas(&self) -> u32 {
        self.replicas.load(Ordering::Relaxed)
    }

    /// Returns whether the server was found to be no master any more.
    pub(super) fn is_condemned(&self) -> bool {
        self.is_condemned.load(Ordering::Relaxed)
    }

    /// Returns the time of the last answer.
    pub(super) fn heard(&self) -> Moment {
        lock(&self.progress).heard
    }

    /// Returns whether the server has run this script, and so does not need its text.
    pub(crate) fn has_run(&self, script: &Script) -> bool {
        lock(&self.scripts).contains(&script.name)
    }

    /// Records that the server has run this script.
    pub(crate) fn ran(&self, script: &Script) {
        let mut scripts = lock(&self.scripts);
        if !scripts.contains(&script.name) {
            scripts.push(script.name);
        }
    }

    /// Records that the server has `replicas` replicas.
    pub(super) fn saw_replicas(&self, replicas: u32) {
        if !self.world.rules.keeps(Rule::CountMostReplicas) {
            return self.replicas.store(replicas, Ordering::Relaxed);
        }
        self.replicas.fetch_max(replicas, Ordering::Relaxed);
    }

    /// Returns the last server time at which a request sent at `now` may act.
    pub(crate) fn act_before(&self, now: Moment) -> u64 {
        lock(&self.progress).clock.act_before(now)
    }

    /// Returns the server's time at `now` in milliseconds since the epoch, as estimated from its
    /// replies.
    pub(crate) fn millis(&self, now: Moment) -> u64 {
        lock(&self.progress).clock.millis(now)
    }

    /// Updates the estimate of the server's time from a reply just received. The reply is dated by
    /// the latest answer, so that the estimate may be behind the server but never ahead.
    pub(crate) fn observe(&self, millis: u64) {
        let mut progress = lock(&self.progress);
        let heard = progress.heard;
        progress.clock.observe(heard, millis);
    }

    /// Records the server's time in the reply to a request.
    pub(crate) fn date(&self, dated: Dated) {
        let last = &mut lock(&self.progress).dated;
        *last = Some(last.map_or(dated, |last| last.later(dated)));
    }

    /// Returns the record of the request that was sent last; see [`date`](Self::date).
    pub(crate) fn dated(&self) -> Option<Dated> {
        lock(&self.progress).dated
    }

    /// Sends `batch` as one pipeline and waits within `limit`. A command without an answer by then
    /// has an unknown outcome.
    pub(crate) fn send(
        &self,
        batch: Vec<Command>,
        limit: Limit,
        checked: Checked,
    ) -> impl Future<Output = Vec<Outcome>> {
        let commands = batch.len();
        let runtime = &self.world.runtime;
        let is_reply = |outcome: &Outcome| matches!(outcome, Outcome::Replied(_));
        let replied = move |all: &Vec<Outcome>| all.iter().any(is_reply).then(|| runtime.now());
        let place = |progress: &mut Progress| Some(progress.sent());
        let sending = self.within(limit, (checked, place), self.conn.send(batch), replied);
        sending.map(move |result| result.unwrap_or_else(|outcome| vec![outcome; commands]))
    }

    /// Returns when a request begins. A forked process sends none: it shares the parent's sockets,
    /// and the parent would receive the replies.
    fn begun(&self, checked: Checked) -> Result<Moment, Outcome> {
        if checked.is_none()
            && let Err(error) = self.world.life.check_process()
        {
            return Err(Outcome::NotSent(error.to_string()));
        }
        Ok(checked.unwrap_or_else(|| self.world.now()))
    }

    /// Waits for `answer` within `limit`, and records when the server `replied`. Without an answer,
    /// the error is the outcome. A request that is sent at once has a `place` among the others.
    async fn within<T>(
        &self,
        limit: Limit,
        (checked, place): (Checked, fn(&mut Progress) -> Option<u64>),
        answer: impl Future<Output = T>,
        replied: impl Fn(&T) -> Option<Moment>,
    ) -> Result<T, Outcome> {
        let mut quiet_since = self.begun(checked)?;
        let place = place(&mut lock(&self.progress));
        let mut answer = pin!(answer);
        let mut forked = pin!(self.world.life.forked());
        loop {
            let silence = limit.silence.max(self.usual);
            let until = limit.deadline.min(quiet_since + silence);
            select! {
                biased;
                answer = &mut answer => {
                    if let Some(at) = replied(&answer) {
                        lock(&self.progress).answered(place, at);
                    }
                    return Ok(answer);
                }
                () = &mut forked => break,
                () = self.world.alarm(until) => {}
            }
            let now = self.world.now();
            // An alarm that goes off early shows that the task of the alarms has ended. The
            // connection is not suspect, and another wait would end at once as well.
            if now < until {
                break;
            }
            // A timer this late shows that the process did not run. The answer may be in the
            // socket, unread.
            let stood_still = now - until >= timeouts::STOOD_STILL;
            let (answered, heard) = {
                let progress = lock(&self.progress);
                (progress.answered, progress.heard)
            };
            if place.is_some_and(|place| answered > place) {
                // The server has answered a later request, so this answer will not come.
                break;
            }
            // The server has answered an earlier request since.
            let is_slow = heard > quiet_since;
            if !is_slow && !stood_still {
                self.suspect(limit.silence);
                break;
            }
            if now >= limit.deadline {
                break;
            }
            quiet_since = now;
        }
        let why = format!("no answer from {} in time", self.address);
        Err(Outcome::Unknown(why))
    }

    /// Sends the calls of tasks that have joined, until dropped.
    pub(super) fn send_joined(&self) -> impl Future<Output = Infallible> + '_ {
        let observe = |now, millis| {
            let mut progress = lock(&self.progress);
            progress.heard_at(now);
            progress.clock.observe(now, millis);
        };
        self.batcher.run(self.conn.as_ref(), &self.world, observe)
    }

    /// Waits for the outcome of a call that has joined others. The error is the effect of the
    /// list on a call that has to be sent by itself.
    pub(super) async fn joined(
        &self,
        joined: impl Future<Output = (JoinedReply, Moment)>,
        limit: Limit,
        checked: Checked,
    ) -> Result<CallOutcome, Effect> {
        let replied = |(reply, at): &(JoinedReply, Moment)| {
            let replied = matches!(reply, Ok(Outcome::Replied(Ok(_))) | Err(_));
            replied.then_some(*at)
        };
        // Its list is sent at any time, behind requests that began later.
        match self
            .within(limit, (checked, |_| None), joined, replied)
            .await
        {
            Ok((reply, _)) => reply.map(CallOutcome::of),
            Err(outcome) => Ok(CallOutcome::of(outcome)),
        }
    }

    /// Tells whether `call` merges with others now.
    pub(super) fn merges(&self, call: &ScriptCall, now: Moment) -> bool {
        call.list().is_some() && !self.world.apart.contains(first_key(call), now)
    }

    /// Keeps calls about the object of `call` apart for a while.
    pub(super) fn keep_apart(&self, call: &ScriptCall) {
        self.world.apart.add(first_key(call), self.world.now());
    }

    /// Sends one plain command and returns the value of its reply.
    pub(crate) async fn ask(&self, command: Command, deadline: Moment) -> Result<Value, Error> {
        let limit = Limit {
            silence: deadline - self.world.now(),
            deadline,
        };
        let outcomes = self.send(vec![command], limit, None).await;
        self.value(self.reply(outcomes)?)
    }

    /// Logs in again after each change of the credentials, until dropped. The connection is logged
    /// in with `login`, and stays so if the server refuses another one.
    pub(super) async fn stay_logged_in(&self, access: &Access, mut login: Login) -> Infallible {
        loop {
            let other = access.other_than(&login).await;
            let Some(auth) = other.auth() else {
                login = other;
                continue;
            };
            let deadline = self.world.now() + timeouts::HANDSHAKE;
            match self.ask(auth, deadline).await {
                // The health check judges silence. `AUTH` may be repeated.
                Err(error) if error.reason().is_none() => {
                    let next = self.world.now() + timeouts::HANDSHAKE;
                    self.world.runtime.sleep_until(next).await;
                    continue;
                }
                Err(error) => access.refused_again(&self.address, &other, &error),
                Ok(_) => {}
            }
            login = other;
        }
    }

    /// Returns the reply to one command, or an error if there is none.
    pub(super) fn reply(&self, outcomes: Vec<Outcome>) -> Result<Reply, Error> {
        let late = |why| Error::unavailable(format!("no answer from {}: {why}", self.address));
        Outcome::first_reply(outcomes).map_err(late)
    }

    /// Returns the value of the reply to a plain command.
    pub(super) fn value(&self, reply: Reply) -> Result<Value, Error> {
        reply.map_err(|error| Error::plain(&self.address, error))
    }
}

/// Returns the key of the object that `call` is about.
fn first_key(call: &ScriptCall) -> &[u8] {
    call.all_keys().next().unwrap_or_default()
}

/// When the caller has checked that this is the process that created the client, if it has not
/// waited since. The check costs a system call, and only a task that waits may continue in another
/// process.
pub(crate) type Checked = Option<Moment>;

/// How long a request waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// How long the connection may be silent, or two round trips if that is longer. Replies arrive
    /// in order. While answers to earlier requests arrive, the server is slow and not gone, and a
    /// repeated request would make it slower.
    pub(crate) silence: Duration,
    /// When to give up in any case.
    pub(crate) deadline: Moment,
}

/// Which requests of a connection have been answered, and what the answers say of the time.
#[derive(Debug)]
struct Progress {
    sent: u64,
    /// The latest answered request.
    answered: u64,
    /// The time of the last answer.
    heard: Moment,
    clock: ServerClock,
    /// The server's time in the reply to the request that was sent last.
    dated: Option<Dated>,
}

impl Progress {
    const fn new(now: Moment) -> Self {
        Self {
            sent: 0,
            answered: 0,
            heard: now,
            clock: ServerClock::new(now, 0),
            dated: None,
        }
    }

    /// Counts a request that is about to be sent. Returns its number.
    const fn sent(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    fn answered(&mut self, place: Option<u64>, now: Moment) {
        self.answered = self.answered.max(place.unwrap_or_default());
        self.heard_at(now);
    }

    /// Records that the server has answered a request at `now`.
    fn heard_at(&mut self, now: Moment) {
        self.heard = self.heard.max(now);
    }
}
