//! Many timers on one. The time-out of a request costs no timer of the runtime, and so no wake-up
//! of the runtime's driver.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::{select, sync::Notify};

use crate::{
    base::{
        life::Life,
        sync::{Mutex, lock},
    },
    protocol::time::{Moment, SleepDeadline},
    runtime::Runtime,
};

/// The alarms of one client. One task sleeps until the earliest alarm. A later alarm does not wake
/// the task, and most alarms are removed before their time.
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
        let running = alarms.run(Arc::clone(life));
        life.spawn("alarms", running);
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

    fn run(self: &Arc<Self>, life: Arc<Life>) -> impl Future<Output = ()> + use<> {
        // The guard also works if the task is dropped before its first poll.
        let over = Over(Arc::clone(self));
        async move {
            let Over(alarms) = &over;
            let mut stopped = pin!(life.stopped());
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
        }
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
}
