//! One supervised command connection to one node.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{select, sync::Notify};

use super::{
    Credentials, World,
    dialer::{Dialer, Target},
};
use crate::{
    Error, ErrorKind,
    base::{
        observe,
        script::Script,
        sync::{Watch, lock},
        timeouts,
    },
    protocol::{outage::Outage, server_clock::ServerClock, time::Moment},
    runtime::{Address, Command, Conn, Dialed, Outcome, Purpose, Pushes, Reply, Value},
};

/// The use of a link. Links of different classes to one node do not delay each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub(crate) enum LinkClass {
    /// Scripts and queries.
    Command,
    /// Scripts that are followed by `WAIT`, which blocks its connection.
    Durable,
    /// Renewals, which bypass all other queued requests. They use the command link while the
    /// renewal link is down.
    Renewal,
}

/// The common settings of a client's links.
#[derive(Debug)]
pub(super) struct LinkSettings {
    pub(super) world: World,
    pub(super) credentials: Credentials,
    pub(super) connect_timeout: Duration,
    /// Whether a connection counts only if the server says that it is a master.
    pub(super) asks_role: bool,
    /// Whether no other server may take over from the dialled one, as far as the client's
    /// configuration says.
    pub(super) is_only: bool,
    /// Notified when the connection ends, because another server may be the master now.
    pub(super) stale: Arc<Notify>,
}

/// A connection that is re-established whenever it ends, and closed when it does not answer.
#[derive(Debug)]
pub(crate) struct Link {
    settings: LinkSettings,
    address: Address,
    class: LinkClass,
    /// The largest number of replicas that the server ever had.
    replicas: Arc<AtomicU32>,
    state: Watch<LinkState>,
    /// Notified when the server serves no slots any more.
    retire: Notify,
}

#[derive(Clone, Debug)]
enum LinkState {
    Connecting,
    Up(Arc<Session>),
    Down(Error),
    /// The server serves no slots any more. Requests under way continue.
    Retired,
    Closed,
}

/// One connection of a link, from its first answer to its end.
#[derive(Debug)]
pub(crate) struct Session {
    world: World,
    address: Address,
    replicas: Arc<AtomicU32>,
    conn: Arc<dyn Conn>,
    clock: Mutex<ServerClock>,
    progress: Mutex<Progress>,
    /// The shortest meaningful silence: two round trips, as measured at the beginning of the
    /// connection.
    usual: Duration,
    /// The shortest silence for which a caller has reported a suspicion.
    bearable: Mutex<Duration>,
    /// A request was not answered in time. The supervisor has to check whether the server responds.
    suspect: Notify,
    /// The server is not usable any more.
    condemned: Notify,
    /// The server's uptime when it was asked, and the time of that question.
    age: OnceLock<(Duration, Moment)>,
    /// The scripts that the server has replied to, and hence has in its cache.
    scripts: Mutex<Vec<&'static str>>,
}

impl Link {
    /// Starts a link to `address`, which connects again and again until shutdown or retirement.
    pub(super) fn start(
        settings: LinkSettings,
        address: &Address,
        class: LinkClass,
        replicas: Arc<AtomicU32>,
    ) -> Arc<Self> {
        let world = settings.world.clone();
        let dialer = Dialer::new(
            world.clone(),
            Target::Fixed(address.clone()),
            Purpose::Command,
            settings.credentials.clone(),
            settings.connect_timeout,
        );
        let link = Arc::new(Self {
            settings,
            address: address.clone(),
            class,
            replicas,
            state: Watch::new(LinkState::Connecting),
            retire: Notify::new(),
        });
        let supervising = supervise(Arc::clone(&link), dialer);
        world.life.spawn("link", supervising);
        link
    }

    /// Returns the session if the connection is up.
    pub(super) fn up(&self) -> Option<Arc<Session>> {
        self.state.look(|state| match state {
            LinkState::Up(session) => Some(Arc::clone(session)),
            _ => None,
        })
    }

    /// Returns whether the last try to connect failed, or the connection broke.
    pub(super) fn is_down(&self) -> bool {
        self.state.look(|state| matches!(state, LinkState::Down(_)))
    }

    /// Returns whether the link has ended because the server serves no slots any more.
    pub(super) fn is_retired(&self) -> bool {
        self.state.look(|state| matches!(state, LinkState::Retired))
    }

    /// Ends the link because the server serves no slots any more. Requests under way on its
    /// connection continue.
    pub(super) fn retire(&self) {
        self.retire.notify_one();
    }

    /// Waits until the connection is up, until `deadline` at the latest. Fails at once if the
    /// server refuses the client.
    pub(crate) async fn session(&self, deadline: Moment) -> Result<Arc<Session>, Error> {
        if let Some(session) = self.up() {
            return Ok(session);
        }
        let state = self.state.watch();
        let settled = state.find(|state| state.is_settled().then(|| state.clone()));
        let last = select! {
            biased;
            settled = settled => settled,
            () = self.settings.world.life.forked() => return self.settings.world.life.check_process().and(Err(Error::closed())),
            () = self.settings.world.alarm(deadline) => self.state.look(LinkState::clone),
        };
        match last {
            LinkState::Up(session) => Ok(session),
            LinkState::Down(error) => Err(error),
            LinkState::Closed => Err(self.settings.world.life.closed()),
            LinkState::Connecting => Err(Error::new(
                ErrorKind::Unavailable,
                format!("no connection to {} in time", self.address),
            )),
            LinkState::Retired => Err(Error::new(
                ErrorKind::Unavailable,
                format!("{} is in charge of nothing any more", self.address),
            )),
        }
    }

    /// Runs one connection to its end, and returns the reason.
    async fn live(&self, dialed: Dialed, outage: &mut Outage) -> Error {
        let Dialed {
            conn, mut pushes, ..
        } = dialed;
        let session = match Session::begin(self, conn).await {
            Ok(session) => Arc::new(session),
            Err(error) => return error,
        };
        if (self.settings.asks_role || self.class == LinkClass::Durable)
            && let Err(error) = session.check_role().await
        {
            return error;
        }
        self.state.set(LinkState::Up(Arc::clone(&session)));
        if self.class == LinkClass::Command {
            self.settings.world.strays.connected();
        }
        observe::connected(&self.address, outage.connected(self.settings.world.now()));
        if self.settings.is_only {
            return session.watch(pushes.as_mut()).await;
        }
        select! {
            biased;
            error = session.watch(pushes.as_mut()) => error,
            error = session.watch_server(self.settings.asks_role) => error,
        }
    }
}

impl LinkState {
    /// Returns whether further waiting is useless: up, closed, or refused for a permanent reason.
    fn is_settled(&self) -> bool {
        match self {
            Self::Up(_) | Self::Retired | Self::Closed => true,
            Self::Connecting => false,
            Self::Down(error) => error.kind() != ErrorKind::Unavailable,
        }
    }
}

async fn supervise(link: Arc<Link>, dialer: Dialer) {
    let end = select! {
        biased;
        () = link.retire.notified() => LinkState::Retired,
        () = keep_up(&link, dialer) => LinkState::Closed,
    };
    link.state.set(end);
}

/// Reconnects until shutdown.
async fn keep_up(link: &Link, mut dialer: Dialer) {
    let mut outage = Outage::default();
    while let Some(result) = dialer.next().await {
        let error = match result {
            Ok(dialed) => select! {
                biased;
                () = link.settings.world.ended() => return,
                error = link.live(dialed, &mut outage) => error,
            },
            Err(error) => error,
        };
        let trouble = outage.failed(link.settings.world.now());
        observe::disconnected(&link.address, &error, trouble);
        link.state.set(LinkState::Down(error));
        link.settings.stale.notify_one();
    }
}

impl Session {
    /// Begins a session. Asks for the server's time, which also proves that the server answers.
    async fn begin(link: &Link, conn: Arc<dyn Conn>) -> Result<Self, Error> {
        link.settings.world.life.connected();
        let now = link.settings.world.now();
        let mut session = Self {
            world: link.settings.world.clone(),
            address: link.address.clone(),
            usual: Duration::ZERO,
            replicas: Arc::clone(&link.replicas),
            conn,
            clock: Mutex::new(ServerClock::new(now, 0)),
            progress: Mutex::new(Progress::new(now)),
            bearable: Mutex::new(timeouts::HEALTH_ANSWER),
            suspect: Notify::new(),
            condemned: Notify::new(),
            age: OnceLock::new(),
            scripts: Mutex::default(),
        };
        session.time(now + timeouts::HANDSHAKE).await?;
        session.usual = ((link.settings.world.now() - now) * 2).min(timeouts::HEALTH_ANSWER);
        Ok(session)
    }

    /// Asks for the server's time and updates the clock estimates.
    pub(super) async fn time(&self, deadline: Moment) -> Result<(), Error> {
        let sent = self.world.now();
        let reply = self.ask(Command::new("TIME"), deadline).await?;
        let millis = time_millis(&reply)
            .ok_or_else(|| Error::new(ErrorKind::Protocol, format!("TIME replied {reply:?}")))?;
        self.observe(millis);
        let received = lock(&self.progress).heard;
        self.world
            .clocks
            .read(&self.address, sent, received, millis);
        Ok(())
    }

    /// Fails if the server says that it is no master.
    async fn check_role(&self) -> Result<(), Error> {
        if self.is_master().await? {
            Ok(())
        } else {
            Err(self.no_master())
        }
    }

    /// Asks the server whether it is a master. A user without the right to `ROLE` gets `true`,
    /// since a replica refuses every write anyway.
    async fn is_master(&self) -> Result<bool, Error> {
        let deadline = self.world.now() + timeouts::HANDSHAKE;
        let role = match self.ask(Command::new("ROLE"), deadline).await {
            Err(error) if error.kind() == ErrorKind::Permission => return Ok(true),
            role => role?,
        };
        match role.as_array() {
            Some([role, _, replicas]) if role.as_str() == Some("master") => {
                let replicas = replicas.as_array().map_or(0, <[Value]>::len);
                self.saw_replicas(u32::try_from(replicas).unwrap_or(u32::MAX));
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn no_master(&self) -> Error {
        let why = format!("{} is no master", self.address);
        Error::new(ErrorKind::Unavailable, why)
    }

    /// Watches a server that another one may replace. Returns when the server is no master any
    /// more, provided that `asks_role` is set.
    ///
    /// A demoted server refuses writes. Looks, and attempts that find a name taken, write nothing,
    /// and the server would answer them from old data. So a server in use is asked for its role
    /// every second. Every tenth time it is also asked for its time, for a comparison with other
    /// servers' clocks. A server without requests is not asked.
    async fn watch_server(&self, asks_role: bool) -> Error {
        let (mut asked, mut round) = (0, 0_u32);
        loop {
            let runtime = &self.world.runtime;
            runtime
                .sleep_until(runtime.now() + timeouts::ROLE_CHECK)
                .await;
            if lock(&self.progress).sent == asked {
                continue;
            }
            // The health check judges silence, and not this check.
            if asks_role && matches!(self.is_master().await, Ok(false)) {
                return self.no_master();
            }
            round += 1;
            if round.is_multiple_of(CLOCK_CHECK) {
                let _ = self.time(runtime.now() + timeouts::HANDSHAKE).await;
            }
            asked = lock(&self.progress).sent;
        }
    }

    /// Returns the largest number of replicas that the server ever had.
    pub(crate) fn replicas(&self) -> u32 {
        self.replicas.load(Ordering::Relaxed)
    }

    /// Returns the longest usual time of an answer: two round trips, as measured at the beginning
    /// of the connection.
    pub(crate) const fn usual(&self) -> Duration {
        self.usual
    }

    /// Returns whether the server has run this script, and so does not need its text.
    pub(crate) fn has_run(&self, script: &Script) -> bool {
        lock(&self.scripts).contains(&script.name())
    }

    /// Records that the server has run this script.
    pub(crate) fn ran(&self, script: &Script) {
        let mut scripts = lock(&self.scripts);
        if !scripts.contains(&script.name()) {
            scripts.push(script.name());
        }
    }

    /// Records that the server has `replicas` replicas.
    pub(super) fn saw_replicas(&self, replicas: u32) {
        self.replicas.fetch_max(replicas, Ordering::Relaxed);
    }

    /// Returns the address of the server.
    pub(crate) const fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the last server time at which a request sent at `now` may act.
    pub(crate) fn act_before(&self, now: Moment) -> u64 {
        lock(&self.clock).act_before(now)
    }

    /// Returns the server's time at `now` in milliseconds since the epoch, as estimated from its
    /// replies.
    pub(crate) fn millis(&self, now: Moment) -> u64 {
        lock(&self.clock).millis(now)
    }

    /// Updates the estimate of the server's time from a reply just received. The reply is dated by
    /// the latest answer, so that the estimate may be behind the server but never ahead.
    pub(crate) fn observe(&self, millis: u64) {
        let heard = lock(&self.progress).heard;
        lock(&self.clock).observe(heard, millis);
    }

    /// Sends `batch` as one pipeline and waits within `limit`. A command without an answer by then
    /// has an unknown outcome.
    pub(crate) async fn send(&self, batch: Vec<Command>, limit: Limit) -> Vec<Outcome> {
        let commands = batch.len();
        // A forked process shares the parent's sockets, and the parent would receive the replies.
        if let Err(error) = self.world.life.check_process() {
            return vec![Outcome::NotSent(error.to_string()); commands];
        }
        let runtime = &self.world.runtime;
        let mut quiet_since = runtime.now();
        let place = lock(&self.progress).sent();
        let mut answer = pin!(self.conn.send(batch));
        let mut forked = pin!(self.world.life.forked());
        loop {
            let silence = limit.silence.max(self.usual);
            let until = limit.deadline.min(quiet_since + silence);
            select! {
                biased;
                outcomes = &mut answer => {
                    if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Replied(_))) {
                        lock(&self.progress).answered(place, runtime.now());
                    }
                    return outcomes;
                }
                () = &mut forked => break,
                () = self.world.alarm(until) => {}
            }
            let now = runtime.now();
            // An alarm that goes off early shows that the task of the alarms has ended. The
            // connection is not suspect, and another wait would end at once as well.
            if now < until {
                break;
            }
            // A timer this late shows that the process did not run. The answer may be in the
            // socket, unread.
            let stood_still = now - until >= timeouts::STOOD_STILL;
            match lock(&self.progress).verdict(place, quiet_since) {
                Silence::Slow if now < limit.deadline => quiet_since = now,
                Silence::Dead if stood_still && now < limit.deadline => quiet_since = now,
                Silence::Dead if !stood_still => {
                    self.suspect(limit.silence);
                    break;
                }
                Silence::Dead | Silence::Slow | Silence::Swallowed => break,
            }
        }
        vec![Outcome::Unknown(format!("no answer from {} in time", self.address)); commands]
    }

    /// Sends one plain command and returns the value of its reply.
    pub(crate) async fn ask(&self, command: Command, deadline: Moment) -> Result<Value, Error> {
        let limit = Limit {
            silence: deadline - self.world.now(),
            deadline,
        };
        let outcome = self.send(vec![command], limit).await.swap_remove(0);
        self.value(self.reply(Some(outcome))?)
    }

    /// Returns the reply of `outcome`, or an error if there is none.
    pub(super) fn reply(&self, outcome: Option<Outcome>) -> Result<Reply, Error> {
        let why = match outcome {
            Some(Outcome::Replied(reply)) => return Ok(reply),
            Some(Outcome::NotSent(why) | Outcome::Unknown(why)) => why,
            None => "no outcome".to_owned(),
        };
        let message = format!("no answer from {}: {why}", self.address);
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// Returns a lower bound of the server's uptime. A restart of the server ends the session.
    pub(crate) async fn server_age(&self, deadline: Moment) -> Result<Duration, Error> {
        let (uptime, asked) = match self.age.get() {
            Some(known) => *known,
            None => {
                let asked = self.world.now();
                let info = self
                    .ask(Command::new("INFO").arg("server"), deadline)
                    .await?;
                let uptime = uptime(info.as_str().unwrap_or_default());
                let uptime = uptime.ok_or_else(|| Error::bad_reply("INFO", &info))?;
                *self.age.get_or_init(|| (uptime, asked))
            }
        };
        Ok(uptime + (self.world.now() - asked))
    }

    /// Makes the supervisor check whether the server responds, and wait for the answer no longer
    /// than `silence`.
    pub(crate) fn suspect(&self, silence: Duration) {
        let mut bearable = lock(&self.bearable);
        let least = timeouts::HEALTH_ANSWER_MIN.max(self.usual);
        *bearable = silence.max(least).min(*bearable);
        drop(bearable);
        self.suspect.notify_one();
    }

    /// Makes the supervisor drop this connection and dial anew, because the server is no master any
    /// more.
    pub(super) fn condemn(&self) {
        self.condemned.notify_one();
    }

    /// Returns the value of the reply to a plain command.
    pub(super) fn value(&self, reply: Reply) -> Result<Value, Error> {
        use crate::{
            base::script::Failure,
            protocol::classify::{Class, classify},
        };
        reply.map_err(|error| match classify(&error.code, &error.message) {
            Class::Fatal(refusal) | Class::Halted(refusal) => Error::refused(refusal, error),
            Class::Retry(obstacle) => Failure::Refused(obstacle, error).into_error(false),
            _ => Error::with_source(
                ErrorKind::Protocol,
                format!("{} refuses", self.address),
                error,
            ),
        })
    }

    /// Watches the connection until it ends or does not answer any more, and returns the reason.
    async fn watch(&self, pushes: &mut dyn Pushes) -> Error {
        loop {
            let idle_until = lock(&self.progress).heard + timeouts::HEALTH_CHECK;
            let suspected = select! {
                biased;
                push = pushes.next() => {
                    if push.is_some() { continue }
                    return Error::new(ErrorKind::Unavailable, format!("{} closed the connection", self.address));
                }
                () = self.condemned.notified() => {
                    return Error::new(ErrorKind::Unavailable, format!("{} takes no writes any more", self.address));
                }
                () = self.suspect.notified() => true,
                () = self.world.runtime.sleep_until(idle_until) => false,
            };
            let now = self.world.now();
            if !suspected && now < lock(&self.progress).heard + timeouts::HEALTH_CHECK {
                continue;
            }
            // Asking for the time also keeps the estimate of the server's clock fresh.
            let bearable = std::mem::replace(&mut *lock(&self.bearable), timeouts::HEALTH_ANSWER);
            if self.time(now + bearable).await.is_err() && lock(&self.progress).heard < now {
                return Error::new(
                    ErrorKind::Unavailable,
                    format!("{} does not answer", self.address),
                );
            }
        }
    }
}

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

/// Which requests of a connection have been answered.
#[derive(Debug)]
struct Progress {
    sent: u64,
    /// The latest answered request.
    answered: u64,
    /// The time of the last answer.
    heard: Moment,
}

/// The verdict about a request without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// The server is answering earlier requests.
    Slow,
    /// The server has answered a later request, so this answer will not come.
    Swallowed,
    /// The server answers nothing.
    Dead,
}

impl Progress {
    const fn new(now: Moment) -> Self {
        Self {
            sent: 0,
            answered: 0,
            heard: now,
        }
    }

    const fn sent(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    fn answered(&mut self, place: u64, now: Moment) {
        self.answered = self.answered.max(place);
        self.heard = self.heard.max(now);
    }

    fn verdict(&self, place: u64, quiet_since: Moment) -> Silence {
        if self.answered > place {
            Silence::Swallowed
        } else if self.heard > quiet_since {
            Silence::Slow
        } else {
            Silence::Dead
        }
    }
}

pub(super) fn time_millis(reply: &Value) -> Option<u64> {
    let [seconds, micros] = reply.as_array()? else {
        return None;
    };
    let seconds = u64::try_from(seconds.as_int()?).ok()?;
    let micros = u64::try_from(micros.as_int()?).ok()?;
    seconds.checked_mul(1000)?.checked_add(micros / 1000)
}

/// Returns the uptime in a server's `INFO`. The server reports whole seconds, and one second is
/// subtracted for safety.
fn uptime(info: &str) -> Option<Duration> {
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("uptime_in_seconds:"))?;
    let seconds: u64 = line.trim_end().parse().ok()?;
    Some(Duration::from_secs(seconds.saturating_sub(1)))
}

/// The server's time is requested in one of this many rounds.
const CLOCK_CHECK: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_no_clock_shows_is_refused() {
        let time =
            |seconds: i64, micros| Value::Array(vec![Value::Int(seconds), Value::Int(micros)]);
        assert_eq!(
            time_millis(&time(1_700_000_000, 5_999)),
            Some(1_700_000_000_005)
        );
        for (seconds, micros) in [(i64::MAX, 0), (-1, 0), (0, -1)] {
            assert_eq!(
                time_millis(&time(seconds, micros)),
                None,
                "{seconds} {micros}"
            );
        }
    }
}
