//! A runtime in which one background task of a client panics.

use std::{
    cell::Cell,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use redlatch::{
    Moment,
    runtime::{BoxFuture, Runtime as Outside},
};

/// A runtime in which one task panics on request.
#[derive(Debug)]
pub struct Saboteur {
    /// The runtime that does the work.
    pub inner: Arc<dyn Outside>,
    /// The task that panics.
    pub task: &'static str,
    /// Whether the task shall panic.
    pub armed: Arc<AtomicBool>,
}

std::thread_local! {
    /// Whether the task that is being polled shall panic.
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

struct Sabotaged(BoxFuture<()>, Arc<AtomicBool>);

impl Future for Sabotaged {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        PANICS.set(self.1.load(Ordering::Relaxed));
        let polled = self.0.as_mut().poll(context);
        PANICS.set(false);
        polled
    }
}

impl Outside for Saboteur {
    fn now(&self) -> Moment {
        // The panic must occur within the task, and not in other code that its end runs.
        assert!(!PANICS.replace(false), "planted");
        self.inner.now()
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        assert!(!PANICS.replace(false), "planted");
        self.inner.sleep_until(until)
    }

    fn spawn(&self, task: &'static str, future: BoxFuture<()>) {
        if task == self.task {
            let armed = Arc::clone(&self.armed);
            return self.inner.spawn(task, Box::pin(Sabotaged(future, armed)));
        }
        self.inner.spawn(task, future);
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}
