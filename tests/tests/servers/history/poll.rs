//! When a poll began. Work is held to the deadline at the begin of each poll. A process that is
//! suspended within a poll goes on with that poll, and then only the token helps. So each line says
//! how long the poll has taken by then.

use std::{cell::Cell, future::poll_fn, pin::pin};

use redlatch::{
    Moment,
    runtime::{BoxFuture, Runtime, TokioRuntime},
};

use super::line::now;

thread_local! {
    static BEGAN: Cell<u64> = const { Cell::new(0) };
}

/// Returns the µs since the poll under way began.
pub(super) fn taken(now: u64) -> u64 {
    now - BEGAN.get()
}

/// Notes the begin of each poll of a future. It has to be the outermost future of its task.
pub(super) async fn noted<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        BEGAN.set(now());
        future.as_mut().poll(context)
    })
    .await
}

/// The production runtime. It notes the polls of the tasks that a client spawns.
#[derive(Debug)]
pub(super) struct NotingRuntime(TokioRuntime);

impl NotingRuntime {
    pub(super) fn new() -> Self {
        Self(TokioRuntime::current().unwrap())
    }
}

impl Runtime for NotingRuntime {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        self.0.sleep_until(until)
    }

    fn spawn(&self, task: &'static str, future: BoxFuture<()>) {
        self.0.spawn(task, Box::pin(noted(future)));
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}
