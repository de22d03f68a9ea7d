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
pub(crate) struct Watch<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

struct State<T> {
    version: u64,
    value: T,
}

/// Waits for changes of a value after the version that it has seen.
pub(crate) struct Watcher<'a, T> {
    watch: &'a Watch<T>,
    seen: u64,
}

impl<T> Watch<T> {
    pub(crate) fn new(value: T) -> Self {
        let state = State { version: 0, value };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Reads the value.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&lock(&self.state).value)
    }

    /// Sets the value.
    pub(crate) fn set(&self, mut value: T) {
        // The old value is dropped behind the lock.
        self.change(|old| {
            std::mem::swap(old, &mut value);
            true
        });
    }

    /// Changes the value. Wakes no task if `change` returns `false`.
    pub(crate) fn change(&self, change: impl FnOnce(&mut T) -> bool) {
        let news = {
            let mut state = lock(&self.state);
            let news = change(&mut state.value);
            state.version += u64::from(news);
            news
        };
        if news {
            self.changed.notify_waiters();
        }
    }

    /// Creates a watcher. It has seen the current value.
    pub(crate) fn watch(&self) -> Watcher<'_, T> {
        Watcher {
            seen: lock(&self.state).version,
            watch: self,
        }
    }
}

impl<T> Watcher<'_, T> {
    /// Reads the value and marks it as seen.
    pub(crate) fn look<R>(&mut self, look: impl FnOnce(&T) -> R) -> R {
        let state = lock(&self.watch.state);
        self.seen = state.version;
        look(&state.value)
    }

    /// Waits until the value has changed since it was last seen, and marks the new value as seen.
    pub(crate) async fn changed(&mut self) {
        let seen = self.seen;
        self.seen = self
            .until(|state| (state.version != seen).then_some(state.version))
            .await;
    }

    /// Waits until `find` returns a result for the value.
    pub(crate) async fn find<R>(&self, find: impl Fn(&T) -> Option<R>) -> R {
        self.until(|state| find(&state.value)).await
    }

    async fn until<R>(&self, find: impl Fn(&State<T>) -> Option<R>) -> R {
        loop {
            let mut changed = pin!(self.watch.changed.notified());
            // From here on, no change is missed.
            changed.as_mut().enable();
            let found = find(&lock(&self.watch.state));
            if let Some(found) = found {
                return found;
            }
            changed.await;
        }
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

    #[tokio::test]
    async fn a_change_is_seen_once_and_none_is_missed() {
        let watch = Watch::new(1);
        let mut watcher = watch.watch();
        assert!(watcher.changed().now_or_never().is_none());
        watch.set(2);
        watch.set(3);
        watcher.changed().await;
        assert_eq!(watcher.look(|&value| value), 3);
        assert!(watcher.changed().now_or_never().is_none());
        watch.change(|value| {
            *value = 4;
            false
        });
        assert!(watcher.changed().now_or_never().is_none(), "no news");
        assert_eq!(watcher.find(|&value| (value == 4).then_some(())).await, ());
    }

    #[tokio::test]
    async fn waiters_are_woken_in_the_order_in_which_they_began_to_wait() {
        let watch = Watch::new(0);
        let order = Mutex::new(Vec::new());
        let waiting = (0..50).map(|at| {
            let (watch, order) = (&watch, &order);
            async move {
                watch.watch().changed().await;
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
