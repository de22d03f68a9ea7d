//! Many timers on one: a request's time-out costs no timer of the runtime, and so no wake-up of its
//! driver.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

use tokio::{select, sync::Notify};

use crate::{
    base::{life::Life, sync::lock},
    protocol::{sleep_deadline::SleepDeadline, time::Moment},
    runtime::Runtime,
};

/// The alarms of one client. One task sleeps until the earliest; one that is set for later does not
/// wake it, and most are taken back before their time.
#[derive(Debug)]
pub(crate) struct Alarms {
    runtime: Arc<dyn Runtime>,
    table: Mutex<Table>,
    /// An alarm is earlier than what the task sleeps for.
    earlier: Notify,
}

#[derive(Debug)]
struct Table {
    set: BTreeMap<(Moment, u64), Waker>,
    next_id: u64,
    sleep_deadline: SleepDeadline,
    /// The task has ended: every alarm goes off at once.
    over: bool,
}

/// Resolves when its time has come; set when first polled, taken back when dropped.
#[derive(Debug)]
pub(crate) struct Alarm {
    alarms: Arc<Alarms>,
    at: Moment,
    id: Option<u64>,
}

impl Alarms {
    pub(super) fn start(runtime: &Arc<dyn Runtime>, life: &Arc<Life>) -> Arc<Self> {
        let alarms = Arc::new(Self {
            runtime: Arc::clone(runtime),
            table: Mutex::new(Table {
                set: BTreeMap::new(),
                next_id: 0,
                sleep_deadline: SleepDeadline::endless(),
                over: false,
            }),
            earlier: Notify::new(),
        });
        let running = alarms.run(Arc::clone(life));
        life.spawn("alarms", running);
        alarms
    }

    /// Makes an alarm for `at`.
    pub(crate) fn at(self: &Arc<Self>, at: Moment) -> Alarm {
        Alarm {
            alarms: Arc::clone(self),
            at,
            id: None,
        }
    }

    /// Reads the clock that alarms go by.
    pub(crate) fn now(&self) -> Moment {
        self.runtime.now()
    }

    fn run(self: &Arc<Self>, life: Arc<Life>) -> impl Future<Output = ()> + use<> {
        // Also when the task is dropped before it was polled at all.
        let over = Over(Arc::clone(self));
        async move {
            let Over(alarms) = &over;
            let mut stopped = pin!(life.stopped());
            loop {
                let (due, next) = alarms.table().take_due(alarms.now());
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

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

/// The task of the alarms. However it ends, every alarm goes off: nothing may wait for one that
/// never comes.
struct Over(Arc<Alarms>);

impl Drop for Over {
    fn drop(&mut self) {
        let mut table = self.0.table();
        table.over = true;
        let set = std::mem::take(&mut table.set);
        drop(table);
        set.into_values().for_each(Waker::wake);
    }
}

impl Table {
    /// Takes what is due; returns it and when to look again.
    fn take_due(&mut self, now: Moment) -> (Vec<Waker>, Moment) {
        let later = self.set.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut self.set, later);
        let first = self.set.keys().next().map(|&(at, _)| at);
        (
            due.into_values().collect(),
            self.sleep_deadline.resume(now, first),
        )
    }

    /// Sets or sets again; returns whether the task sleeps too long for it, and the waker that was
    /// set before, to be dropped outside.
    fn set(&mut self, at: Moment, id: u64, waker: &Waker) -> (bool, Option<Waker>) {
        let before = self.set.insert((at, id), waker.clone());
        (self.sleep_deadline.is_cut_short(at), before)
    }
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // One that has just been set need not look: if its time has come the task tells it so at
        // once.
        if this.id.is_some() && this.alarms.runtime.now() >= this.at {
            return Poll::Ready(());
        }
        let mut table = this.alarms.table();
        if table.over {
            return Poll::Ready(());
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
            let waker = self.alarms.table().set.remove(&(self.at, id));
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    fn table() -> Table {
        Table {
            set: BTreeMap::new(),
            next_id: 0,
            sleep_deadline: SleepDeadline::endless(),
            over: false,
        }
    }

    #[test]
    fn only_an_earlier_alarm_wakes_the_task() {
        let mut table = table();
        assert!(table.set(at(1000), 1, Waker::noop()).0);
        assert!(
            !table.set(at(1001), 2, Waker::noop()).0,
            "it looks at the earlier one first anyway"
        );
        assert!(table.set(at(500), 3, Waker::noop()).0);
        table.set.remove(&(at(500), 3));
        assert!(
            !table.set(at(600), 4, Waker::noop()).0,
            "it still sleeps until the one that was taken back"
        );
        let (due, next) = table.take_due(at(600));
        assert_eq!((due.len(), next), (1, at(1000)));
        let (due, next) = table.take_due(at(2000));
        assert_eq!((due.len(), next), (2, Moment::FAR_FUTURE));
    }
}
