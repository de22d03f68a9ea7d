//! The clock, tasks, transport and timers of a client, and what its tasks leave for each other.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{Alarms, alarm::Alarm};
use crate::{
    base::{
        life::Life,
        observe,
        rules::Rules,
        sync::{Mutex, lock},
    },
    protocol::{
        apart::Apart,
        server_clock::{ServerClocks, whole_millis},
        time::Moment,
    },
    runtime::{Address, Runtime, TlsOptions, Transport},
};

/// The environment of all code below the engine.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) life: Arc<Life>,
    /// Tasks that outlive the rest of the client keep them.
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) clocks: Arc<Clocks>,
    /// Notifications without a listener.
    pub(crate) strays: Arc<Strays>,
    /// Names whose calls are not merged with others.
    pub(crate) apart: Arc<Apart>,
    /// The keys of holds to be read, because a hold is new or the key has changed. `None` if the
    /// client does not ask for changes.
    pub(crate) changed: Option<Arc<Strays>>,
    pub(super) tls: Arc<ReplacedTls>,
    pub(crate) rules: Rules,
}

impl World {
    pub(crate) fn new(
        runtime: Arc<dyn Runtime>,
        transport: Arc<dyn Transport>,
        clocks: Clocks,
        life: Arc<Life>,
        (watch_keys, rules): (bool, Rules),
    ) -> Self {
        let alarms = Alarms::start(&runtime, &life);
        Self {
            runtime,
            transport,
            life,
            alarms,
            clocks: Arc::new(clocks),
            strays: Arc::default(),
            apart: Arc::default(),
            changed: watch_keys.then(Arc::default),
            tls: Arc::default(),
            rules,
        }
    }

    /// Records that the key of a hold has to be read, or the keys of all holds for `None`. Does
    /// nothing if the client does not ask for changes.
    pub(crate) fn read_key(&self, key: Option<&str>) {
        let Some(changed) = &self.changed else { return };
        if !key.is_some_and(|key| changed.add(key.into())) {
            // Without room for one more, all are read.
            changed.connected();
        }
    }

    /// Returns a future that resolves at `at`, or when all background work has ended. It suits
    /// futures that may be polled outside of the client's runtime, and time-outs that rarely
    /// expire.
    pub(crate) fn alarm(&self, at: Moment) -> Alarm {
        self.alarms.at(at)
    }

    pub(crate) fn now(&self) -> Moment {
        self.runtime.now()
    }

    /// Resolves when all background work has to end.
    pub(crate) async fn ended(&self) {
        self.life.stopped().await;
    }
}

/// The TLS options that the user has replaced, and those for later connections.
#[derive(Debug, Default)]
pub(super) struct ReplacedTls(Mutex<Option<(TlsOptions, TlsOptions)>>);

impl ReplacedTls {
    /// Replaces the TLS options `old`, which the client was built with.
    pub(super) fn replace(&self, old: TlsOptions, new: TlsOptions) {
        *lock(&self.0) = Some((old, new));
    }

    /// Returns `address` with the TLS options for a connection made now.
    pub(super) fn apply(&self, address: &Address) -> Address {
        let mut address = address.clone();
        if let Address::Tls { options, .. } = &mut address
            && let Some((old, new)) = &*lock(&self.0)
            && options == old
        {
            options.clone_from(new);
        }
        address
    }
}

/// Messages without a listener in this client, or changed keys. Each text is stored once, until a
/// task takes it.
///
/// A server sends a message without a listener if it still has a waiter that has gone. Either the
/// waiter's undo is under way, or the server has lost it.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    state: Mutex<Waiting>,
    nudge: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: BTreeSet<Arc<str>>,
    /// Whether a connection was made since the last [`taken`](Strays::taken).
    connected: bool,
}

impl Strays {
    /// Adds a text. Drops it if very many texts are stored, and returns `false` then. For a message
    /// without a listener, another re-check causes another notification.
    pub(crate) fn add(&self, text: Arc<str>) -> bool {
        let mut state = lock(&self.state);
        let has_room = state.messages.len() < MOST;
        if has_room {
            state.messages.insert(text);
            drop(state);
            self.nudge.notify_one();
        }
        has_room
    }

    /// Records a new connection. The server's state may be older than this client's.
    pub(super) fn connected(&self) {
        lock(&self.state).connected = true;
        self.nudge.notify_one();
    }

    /// Waits for messages or a connection. Returns all messages, and whether a connection was made.
    pub(crate) async fn taken(&self) -> (BTreeSet<Arc<str>>, bool) {
        loop {
            let state = std::mem::take(&mut *lock(&self.state));
            if state.connected || !state.messages.is_empty() {
                return (state.messages, state.connected);
            }
            self.nudge.notified().await;
        }
    }
}

/// Maximum number of stored messages.
const MOST: usize = 4096;

/// The measured differences between the clocks of a client's servers, and the configured allowance.
#[derive(Debug)]
pub(crate) struct Clocks {
    allowance: Duration,
    seen: Mutex<ServerClocks<Address>>,
    /// The largest recent difference in ms.
    difference: AtomicU64,
}

impl Clocks {
    /// Creates an empty record with an allowance for differences that were not measured.
    pub(crate) const fn new(allowance: Duration) -> Self {
        Self {
            allowance,
            seen: Mutex::new(ServerClocks::new()),
            difference: AtomicU64::new(0),
        }
    }

    /// Returns the assumed difference between two servers' clocks: the allowance, or the measured
    /// difference if that is larger.
    pub(crate) fn allowance(&self) -> Duration {
        self.allowance.max(self.difference())
    }

    /// Returns the largest recent difference between two servers.
    pub(crate) fn difference(&self) -> Duration {
        Duration::from_millis(self.difference.load(Ordering::Relaxed))
    }

    /// Records that the server at `address`, asked at `sent`, answered `millis` at `received`.
    pub(super) fn read(&self, address: &Address, sent: Moment, received: Moment, millis: u64) {
        let mut seen = lock(&self.seen);
        let before = seen.difference();
        seen.read(address.clone(), sent, received, millis);
        let difference = seen.difference();
        self.difference
            .store(whole_millis(difference), Ordering::Relaxed);
        drop(seen);
        // Each reading changes the difference a little, which is not worth a report.
        if difference.abs_diff(before) > before / 10 {
            observe::clocks_differ(difference, self.allowance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_certificates_of_sentinels_are_not_replaced() {
        let options = |root: &str| TlsOptions {
            root_pem: Some(root.into()),
            ..TlsOptions::default()
        };
        let address = |root| Address::Tls {
            host: "h".to_owned(),
            port: 1,
            options: options(root),
        };
        let tls = ReplacedTls::default();
        assert_eq!(tls.apply(&address("old")), address("old"));
        for new in ["new", "newer"] {
            tls.replace(options("old"), options(new));
            assert_eq!(tls.apply(&address("old")), address(new));
            assert_eq!(tls.apply(&address("of sentinels")), address("of sentinels"));
        }
    }

    #[test]
    fn text_without_room_is_refused_until_the_others_are_taken() {
        let strays = Strays::default();
        for number in 0..MOST {
            assert!(strays.add(number.to_string().into()));
        }
        assert!(!strays.add("one more".into()));
        lock(&strays.state).messages.clear();
        assert!(strays.add("one more".into()));
    }
}
