//! Locks, and values that tasks wait for.

#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize},
};
use std::{fmt, future::poll_fn, pin::pin, task::Poll};

#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize},
};
use tokio::sync::Notify;

#[cfg(all(test, shuttle))]
pub(crate) use self::threads::{MutexGuard, lock};

/// Locks a mutex that guards plain values. A panic elsewhere cannot leave them half changed.
#[cfg(not(all(test, shuttle)))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Yields once to all tasks that are ready to run.
pub(crate) async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A value whose changes tasks wait for.
///
/// The waiting tasks are woken in the order in which they began to wait. tokio's watch channel
/// wakes them in a random order, so one seed of the simulator would produce different runs.
#[derive(Default)]
pub(crate) struct Watch<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Watch<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            changed: Notify::new(),
        }
    }

    /// Locks the value, to read it or to change it without waking a task.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.value)
    }

    /// Reads the value.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock())
    }

    /// Sets the value.
    pub(crate) fn set(&self, mut value: T) {
        // The old value is dropped behind the lock.
        self.change(|old| {
            std::mem::swap(old, &mut value);
            true
        });
    }

    /// Changes the value. Wakes the tasks if `change` returns `true`, and returns the same.
    pub(crate) fn change(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let news = change(&mut self.lock());
        if news {
            self.changed.notify_waiters();
        }
        news
    }

    /// Waits until `find` returns a result for the value, which is locked meanwhile.
    pub(crate) async fn find<R>(&self, find: impl Fn(&T) -> Option<R>) -> R {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on, no change is missed.
            changed.as_mut().enable();
            let found = self.look(&find);
            if let Some(found) = found {
                return found;
            }
            changed.await;
        }
    }

    /// Waits until `is` holds for the value.
    pub(crate) async fn when(&self, is: impl Fn(&T) -> bool) {
        self.find(move |value| is(value).then_some(())).await;
    }
}

impl<T: fmt::Debug> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.look(|value| value.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::join_all};

    use super::*;

    #[test]
    fn change_wakes_the_waiting_task_unless_it_is_no_news() {
        let watch = Watch::new(1);
        let mut three = pin!(watch.find(|&value| (value > 2).then_some(value)));
        assert!((&mut three).now_or_never().is_none());
        watch.set(2);
        assert!((&mut three).now_or_never().is_none());
        watch.set(3);
        assert_eq!(three.now_or_never(), Some(3));
        let mut four = pin!(watch.when(|&value| value == 4));
        assert!((&mut four).now_or_never().is_none());
        let no_news = watch.change(|value| {
            *value = 4;
            false
        });
        assert!(!no_news && (&mut four).now_or_never().is_none());
        assert!(watch.change(|_| true) && four.now_or_never().is_some());
        assert!(watch.when(|&value| value == 4).now_or_never().is_some());
    }

    #[tokio::test]
    async fn waiters_are_woken_in_the_order_in_which_they_began_to_wait() {
        let watch = Watch::new(0);
        let order = Mutex::new(Vec::new());
        let waiting = (0..50).map(|at| {
            let (watch, order) = (&watch, &order);
            async move {
                watch.when(|&value| value == 1).await;
                lock(order).push(at);
            }
        });
        let change = async {
            tokio::task::yield_now().await;
            watch.set(1);
        };
        tokio::join!(join_all(waiting), change);
        assert_eq!(*lock(&order), (0..50).collect::<Vec<_>>());
    }
}

#[cfg(test)]
#[cfg(shuttle)]
#[path = "sync/tests/threads.rs"]
mod threads;
