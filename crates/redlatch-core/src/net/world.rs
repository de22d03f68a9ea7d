//! The clock, tasks, transport and timers of a client, and what its tasks leave for each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{select, sync::Notify};

use crate::{
    base::{
        life::Life,
        observe,
        rules::Rules,
        sync::{Mutex, Watch, lock},
    },
    protocol::{
        apart::Apart,
        server_clock::{ServerClocks, whole_millis},
        time::{Moment, SleepDeadline},
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

    /// Awaits `future` until `deadline` at the latest. A result that is ready counts, however late.
    ///
    /// Returns `None` at the deadline, when all background work has ended, and in a forked process,
    /// where nothing else may ever wake the caller. [`Life::check_all`] tells the causes apart.
    ///
    /// # Cancel safety
    ///
    /// A drop, like the deadline, leaves only what the drop of `future` leaves.
    pub(crate) async fn until<T>(
        &self,
        deadline: Moment,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        select! {
            biased;
            result = future => Some(result),
            () = self.life.forked() => None,
            () = self.alarm(deadline) => None,
        }
    }

    /// Runs `task` in the background until the task ends, or until all background work has to end.
    /// A forked process drops the task as well, because both processes share the sockets.
    pub(crate) fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let life = Arc::clone(&self.life);
        self.life.spawn(name, async move {
            select! {
                biased;
                () = life.stopped() => {}
                () = life.forked() => {}
                () = task => {}
            }
        });
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
pub(crate) struct Strays(Watch<Waiting>);

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
        let mut has_room = false;
        self.0.change(|waiting| {
            has_room = waiting.messages.len() < MOST;
            has_room && waiting.messages.insert(text)
        });
        has_room
    }

    /// Records a new connection. The server's state may be older than this client's.
    pub(super) fn connected(&self) {
        self.0
            .change(|waiting| !std::mem::replace(&mut waiting.connected, true));
    }

    /// Waits for messages or a connection. Returns all messages, and whether a connection was made.
    pub(crate) async fn taken(&self) -> (BTreeSet<Arc<str>>, bool) {
        let any = |waiting: &Waiting| waiting.connected || !waiting.messages.is_empty();
        self.0.when(any).await;
        let taken = std::mem::take(&mut *self.0.lock());
        (taken.messages, taken.connected)
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

/// The alarms of one client: many timers on one. The time-out of a request costs no timer of the
/// runtime, and so no wake-up of the runtime's driver.
///
/// One task sleeps until the earliest alarm. A later alarm does not wake the task, and most alarms
/// are removed before their time.
#[derive(Debug)]
pub(crate) struct Alarms {
    runtime: Arc<dyn Runtime>,
    table: Mutex<Table>,
    /// Notified when an alarm is earlier than the task's wake-up time.
    earlier: Notify,
}

#[derive(Debug)]
struct Table {
    set: BTreeMap<(Moment, u64), Waker>,
    next_id: u64,
    sleep_deadline: SleepDeadline,
    /// Whether the task has ended. Every alarm then fires at its second poll.
    over: bool,
}

/// A future that resolves at its time. The first poll sets the alarm, and dropping removes it.
#[derive(Debug)]
pub(crate) struct Alarm {
    alarms: Arc<Alarms>,
    at: Moment,
    id: Option<u64>,
    /// Whether the alarm has let other tasks run since the alarms' task ended.
    yielded: bool,
}

impl Alarms {
    pub(super) fn start(runtime: &Arc<dyn Runtime>, life: &Arc<Life>) -> Arc<Self> {
        let alarms = Arc::new(Self {
            runtime: Arc::clone(runtime),
            table: Mutex::new(Table::new()),
            earlier: Notify::new(),
        });
        // The guard also works if the task is dropped before its first poll.
        let (over, ends) = (Over(Arc::clone(&alarms)), Arc::clone(life));
        life.spawn("alarms", async move {
            let Over(alarms) = &over;
            let mut stopped = pin!(ends.stopped());
            loop {
                let (due, next) = lock(&alarms.table).take_due(alarms.now());
                due.into_iter().for_each(Waker::wake);
                select! {
                    biased;
                    () = &mut stopped => return,
                    () = alarms.earlier.notified() => {}
                    () = alarms.runtime.sleep_until(next) => {}
                }
            }
        });
        alarms
    }

    /// Creates an alarm for `at`.
    pub(crate) fn at(self: &Arc<Self>, at: Moment) -> Alarm {
        Alarm {
            alarms: Arc::clone(self),
            at,
            id: None,
            yielded: false,
        }
    }

    /// Returns the time of the clock that alarms follow.
    pub(crate) fn now(&self) -> Moment {
        self.runtime.now()
    }
}

/// A guard in the alarms' task. Its drop fires every alarm, however the task ends, so that no
/// future waits for ever.
struct Over(Arc<Alarms>);

impl Drop for Over {
    fn drop(&mut self) {
        let mut table = lock(&self.0.table);
        table.over = true;
        let set = std::mem::take(&mut table.set);
        drop(table);
        set.into_values().for_each(Waker::wake);
    }
}

impl Table {
    const fn new() -> Self {
        Self {
            set: BTreeMap::new(),
            next_id: 0,
            sleep_deadline: SleepDeadline::endless(),
            over: false,
        }
    }

    /// Removes and returns the due alarms, and returns the time of the next check.
    fn take_due(&mut self, now: Moment) -> (Vec<Waker>, Moment) {
        let later = self.set.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut self.set, later);
        let first = self.set.keys().next().map(|&(at, _)| at);
        (
            due.into_values().collect(),
            self.sleep_deadline.resume(now, first),
        )
    }

    /// Sets an alarm, or replaces its waker. Returns whether the task would sleep beyond it, and
    /// the previous waker. The caller drops that waker outside of the lock.
    fn set(&mut self, at: Moment, id: u64, waker: &Waker) -> (bool, Option<Waker>) {
        let before = self.set.insert((at, id), waker.clone());
        (self.sleep_deadline.is_cut_short(at), before)
    }
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // The first poll need not read the clock. If the time has come, the task wakes the alarm at
        // once.
        if this.id.is_some() && this.alarms.runtime.now() >= this.at {
            return Poll::Ready(());
        }
        let mut table = lock(&this.alarms.table);
        if table.over {
            if this.yielded {
                return Poll::Ready(());
            }
            // A loop that waits by alarms would otherwise never leave one poll of its task.
            drop(table);
            this.yielded = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let id = *this.id.get_or_insert_with(|| {
            table.next_id += 1;
            table.next_id
        });
        let (earlier, before) = table.set(this.at, id, context.waker());
        drop(table);
        drop(before);
        if earlier {
            this.alarms.earlier.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let waker = lock(&self.alarms.table).set.remove(&(self.at, id));
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::time::at;

    #[test]
    fn only_an_earlier_alarm_wakes_the_task() {
        let mut table = Table::new();
        assert!(table.set(at(1000), 1, Waker::noop()).0);
        for later in [1000, 1001] {
            let cuts_short = table.set(at(later), 2, Waker::noop()).0;
            assert!(!cuts_short, "the task reads the table at 1000 anyway");
        }
        assert!(table.set(at(500), 3, Waker::noop()).0);
        table.set.remove(&(at(500), 3));
        assert!(
            !table.set(at(600), 4, Waker::noop()).0,
            "it still sleeps until the one that was taken back"
        );
        let (due, next) = table.take_due(at(600));
        assert_eq!((due.len(), next), (1, at(1000)));
        let (due, next) = table.take_due(at(2000));
        assert_eq!((due.len(), next), (3, Moment::FAR_FUTURE));
    }

    #[test]
    fn alarm_of_an_ended_task_fires_at_its_second_poll() {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let runtime = crate::runtime::TokioRuntime::new(tokio.handle().clone());
        let alarms = Arc::new(Alarms {
            runtime: Arc::new(runtime),
            table: Mutex::new(Table::new()),
            earlier: Notify::new(),
        });
        drop(Over(Arc::clone(&alarms)));
        let mut alarm = pin!(alarms.at(Moment::FAR_FUTURE));
        let mut context = Context::from_waker(Waker::noop());
        assert!(alarm.as_mut().poll(&mut context).is_pending());
        assert!(alarm.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn text_without_room_is_refused_until_the_others_are_taken() {
        let strays = Strays::default();
        for number in 0..MOST {
            assert!(strays.add(number.to_string().into()));
        }
        assert!(!strays.add("one more".into()));
        strays.0.set(Waiting::default());
        assert!(strays.add("one more".into()));
    }

    #[tokio::test]
    async fn all_keys_are_read_if_too_many_have_changed() {
        let client = crate::Client::builder("redis://localhost").watch_keys(true);
        let client = client.connect_lazy().unwrap();
        let world = &client.net().world;
        for number in 0..=MOST {
            world.read_key(Some(&number.to_string()));
        }
        let (_, all) = world.changed.as_ref().unwrap().taken().await;
        assert!(all);
    }
}
