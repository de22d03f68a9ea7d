//! The handle through which tests and users inspect and control a server.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redlatch_core::runtime::{Command, Reply, Runtime, ServerError};
use tokio::sync::Notify;

use crate::{
    engine::{Condition, KeyDump, Model, ServerTime, SessionId, SessionKind, Snapshot},
    shared::{Pusher, State},
    trouble::{LostReply, Order, calls},
};

/// A server inside this process: a cloneable handle to inspect it, to step its clock and to cause
/// trouble.
///
/// Any number of clients connect to it through an [`EmbeddedTransport`](crate::EmbeddedTransport).
/// The server lives as long as a handle, a transport or a connection. All methods take effect at
/// once and never wait.
#[derive(Clone)]
pub struct EmbeddedServer {
    inner: Arc<Inner>,
}

impl fmt::Debug for EmbeddedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedServer").finish_non_exhaustive()
    }
}

struct Inner {
    state: Mutex<State>,
    /// Notified when a stopped server resumes, for tasks that wait to connect.
    resumed: Notify,
}

impl EmbeddedServer {
    /// Starts an empty server that behaves as Redis 7.0, with the system's wall clock.
    ///
    /// From then on its clock follows `runtime`. The clock stands still while that of `runtime`
    /// does.
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self::starting_at(runtime, Model::default(), wall_clock())
    }

    /// Starts an empty server that behaves as `model` and whose clock shows `time` now.
    pub fn starting_at(runtime: Arc<dyn Runtime>, model: Model, time: ServerTime) -> Self {
        let state = Mutex::new(State::new(runtime, model, time));
        Self {
            inner: Arc::new(Inner {
                state,
                resumed: Notify::new(),
            }),
        }
    }

    /// Returns the server's time.
    pub fn now(&self) -> ServerTime {
        self.state().now()
    }

    /// Steps the server's clock forward, as an administrator or NTP would. The clients' clocks do
    /// not change.
    pub fn advance(&self, span: Duration) {
        let mut state = self.state();
        state.base = state.base.after(span);
    }

    /// Steps the server's clock back.
    pub fn set_back(&self, span: Duration) {
        let mut state = self.state();
        state.base = state.base.before(span);
    }

    /// Stops the server as `SIGSTOP` does: connections stay open, nothing is answered, and its
    /// clock runs on.
    ///
    /// Requests that are sent meanwhile run after [`resume`](Self::resume), even if their senders
    /// are gone by then.
    pub fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.stops += 1;
    }

    /// Stops the server and resumes it after `span` by the runtime's clock.
    pub fn stop_for(&self, span: Duration) {
        self.stop();
        let state = self.state();
        let (runtime, stops) = (Arc::clone(&state.runtime), state.stops);
        drop(state);
        let over = runtime.sleep_until(runtime.now() + span);
        let server = Arc::downgrade(&self.inner);
        let wake = Box::pin(async move {
            over.await;
            if let Some(server) = server.upgrade().map(|inner| Self { inner })
                && server.state().stops == stops
            {
                server.resume();
            }
        });
        runtime.spawn("embedded server resumes", wake);
    }

    /// Resumes a stopped server. The requests that were sent meanwhile run now, in order.
    pub fn resume(&self) {
        let mut state = self.state();
        state.stopped = false;
        state.stops += 1;
        state.run_backlog();
        drop(state);
        self.inner.resumed.notify_waiters();
    }

    /// Loses the reply to the next command. The command runs, and the connection hangs from then
    /// on.
    pub fn drop_next_reply(&self) {
        self.drop_reply(calls::any(), LostReply::Hangs);
    }

    /// Loses the next `count` replies to commands. The commands run.
    pub fn drop_replies(&self, count: usize, how: LostReply) {
        (0..count).for_each(|_| self.drop_reply(calls::any(), how));
    }

    /// Loses the reply to the next command for which `when` is true. The command runs.
    ///
    /// Several orders may be pending. Each applies once, the oldest first.
    pub fn drop_reply(&self, when: impl Fn(&Command) -> bool + Send + 'static, how: LostReply) {
        let (when, what) = (Box::new(when), how);
        self.state().losses.push(Order { when, what });
    }

    /// Loses the next `count` messages to subscribers. Replaces an earlier order.
    pub fn drop_messages(&self, count: usize) {
        self.state().lost_messages = count;
    }

    /// Answers the next command for which `when` is true with `error`, without running it.
    ///
    /// Several orders may be pending. Each applies once, the oldest first. See [`calls`] for
    /// predicates.
    pub fn fail_next(&self, when: impl Fn(&Command) -> bool + Send + 'static, error: ServerError) {
        let (when, what) = (Box::new(when), error);
        self.state().failures.push(Order { when, what });
    }

    /// Withdraws all pending orders for failures and losses.
    pub fn clear_trouble(&self) {
        let mut state = self.state();
        state.failures.clear();
        state.losses.clear();
        state.lost_messages = 0;
    }

    /// Cuts all connections.
    pub fn cut_connections(&self) {
        self.state().cut_all();
    }

    /// Refuses new connections, or accepts them again. Open connections stay.
    pub fn refuse_connections(&self, refuse: bool) {
        self.state().refuses = refuse;
    }

    /// Removes all scripts, as `SCRIPT FLUSH` does.
    pub fn flush_scripts(&self) {
        self.state().engine.flush_scripts();
    }

    /// Sets whether the server's memory is used up. Commands that need memory are then refused with
    /// `OOM`.
    pub fn set_full(&self, full: bool) {
        self.set_condition(Condition::Full, full);
    }

    /// Sets whether replicas are missing. Writes are then refused with `NOREPLICAS`.
    pub fn set_short_of_replicas(&self, short: bool) {
        self.set_condition(Condition::ShortOfReplicas, short);
    }

    /// Sets the number of replicas that acknowledge writes, which `WAIT` returns. The default is 0.
    pub fn set_replicas(&self, replicas: u32) {
        self.state().engine.set_replicas(replicas);
    }

    /// Sets or clears a condition under which the server refuses commands.
    pub fn set_condition(&self, condition: Condition, on: bool) {
        self.state().engine.set_condition(condition, on);
    }

    /// Removes a key as an administrator would. Returns whether it was there.
    pub fn delete_key(&self, key: impl AsRef<[u8]>) -> bool {
        let mut state = self.state();
        let now = state.now();
        state.engine.delete(key.as_ref(), now)
    }

    /// Returns all keys, in order.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let state = self.state();
        state.engine.keys(state.now())
    }

    /// Returns all data, in order of the keys.
    pub fn dump(&self) -> Vec<KeyDump> {
        let state = self.state();
        state.engine.dump(state.now())
    }

    /// Returns the remaining time of a key, in whole milliseconds as `PTTL` does. It is `None` for
    /// a missing key and `Some(None)` for a key without expiry.
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Option<Option<Duration>> {
        let state = self.state();
        state.engine.ttl(key.as_ref(), state.now())
    }

    /// Returns how often clients have sent each command that was admitted. The names are in lower
    /// case.
    pub fn command_counts(&self) -> BTreeMap<&'static str, u64> {
        self.state().engine.command_counts()
    }

    /// Returns how often clients have sent the command `name` and it was admitted.
    pub fn command_count(&self, name: &str) -> u64 {
        let counts = self.command_counts();
        let count = counts.get(name.to_ascii_lowercase().as_str());
        count.copied().unwrap_or(0)
    }

    /// Returns the number of open connections.
    pub fn connection_count(&self) -> usize {
        self.state().links.len()
    }

    /// Returns a copy of all data.
    pub fn snapshot(&self) -> Snapshot {
        self.state().engine.snapshot()
    }

    /// Replaces the data by those of `snapshot`, as a failover to a lagging replica does.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.state().engine.restore(snapshot);
    }

    /// Restarts as a new process with the data of `snapshot`. Connections, scripts, conditions and
    /// the uptime are gone. Requests that were sent to a stopped server are lost with the old
    /// process; the new one is not stopped.
    pub fn restart(&self, snapshot: &Snapshot) {
        let mut state = self.state();
        let now = state.now();
        state.forget_clients();
        state.engine.restart(snapshot, now);
        drop(state);
        self.resume();
    }

    /// Restarts as a new process without saved data.
    pub fn restart_empty(&self) {
        self.restart(&Snapshot::empty());
    }

    /// Runs one command as a client with its own connection would. No trouble but the conditions
    /// affects it.
    ///
    /// # Errors
    ///
    /// Returns the error reply of the server.
    pub fn execute(&self, command: &Command) -> Reply {
        let mut state = self.state();
        let session = state.engine.open(SessionKind::Command);
        let now = state.now();
        let reply = state.engine.execute(session, command, now);
        state.deliver();
        state.engine.close(session);
        reply
    }

    /// Connects, and waits while the server is stopped. Returns `None` if it refuses.
    pub(crate) async fn connect(
        &self,
        kind: SessionKind,
        name: Option<&str>,
        pusher: Pusher,
    ) -> Option<SessionId> {
        let mut pusher = Some(pusher);
        let opened = |state: &mut State| match (state.refuses, state.stopped) {
            (true, _) => Some(None),
            (false, true) => None,
            (false, false) => Some(Some(state.open(kind, name, pusher.take()?))),
        };
        self.resumed_until(opened).await
    }

    /// Waits while the server is stopped.
    #[cfg(feature = "listen")]
    pub(crate) async fn running(&self) {
        self.resumed_until(|state| (!state.stopped).then_some(()))
            .await;
    }

    /// Looks now and after each resumption, until `look` returns something.
    async fn resumed_until<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let mut resumed = std::pin::pin!(self.inner.resumed.notified());
            resumed.as_mut().enable();
            if let Some(found) = look(&mut self.state()) {
                return found;
            }
            resumed.await;
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let state = self.inner.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the system's clock once, for where a new server's clock starts.
#[expect(
    clippy::disallowed_methods,
    reason = "the runtime has no wall clock, and a server's begins near the true time so that fences rise over restarts"
)]
fn wall_clock() -> ServerTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    ServerTime::default().after(since_epoch.unwrap_or_default())
}
