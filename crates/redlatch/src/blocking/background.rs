//! The thread of a client, on which its renewals, releases and connections run.

use std::{
    convert::Infallible,
    io,
    sync::Arc,
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use tokio::{runtime::Builder, sync::mpsc};

use super::wait::{block_on, in_async_code, is_polling};
use crate::{
    Error, ErrorKind, Moment, TokioRuntime,
    runtime::{BoxFuture, Runtime},
};

/// A runtime on a thread. The client and its tasks keep a channel open, whose end shows that no
/// task is left, and ends the thread.
#[derive(Debug)]
pub(super) struct Background {
    runtime: TokioRuntime,
    thread: ThreadId,
    task: mpsc::Sender<Infallible>,
}

impl Background {
    /// Starts the thread.
    pub(super) fn start() -> Result<Arc<dyn Runtime>, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| no_thread(&error))?;
        let handle = runtime.handle().clone();
        let (task, mut tasks) = mpsc::channel(1);
        let thread = thread::Builder::new().name("redlatch".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async { while tasks.recv().await.is_some() {} });
            // A name that is being looked up must not delay the end of the thread.
            runtime.shutdown_background();
        });
        let thread = thread.map_err(|error| no_thread(&error))?;
        Ok(Arc::new(Self {
            runtime: TokioRuntime::new(handle),
            thread: thread.thread().id(),
            task,
        }))
    }
}

impl Runtime for Background {
    fn now(&self) -> Moment {
        self.runtime.now()
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        self.runtime.sleep_until(until)
    }

    fn spawn(&self, name: &'static str, future: BoxFuture<()>) {
        let task = self.task.clone();
        let counted = async move {
            let _task = task;
            future.await;
        };
        self.runtime.spawn(name, Box::pin(counted));
    }

    fn random(&self) -> u64 {
        self.runtime.random()
    }

    /// The end of `main` must not overtake a release. Where a future is polled, the caller of
    /// [`Wait::wait`](super::Wait::wait) gets its result without a delay.
    fn lingers(&self) -> bool {
        thread::current().id() != self.thread && !is_polling() && !in_async_code()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a limit for a thread that sleeps, not for a hold"
    )]
    fn linger(&self, end: BoxFuture<()>) {
        block_on(end, Some(Instant::now() + LINGER));
    }
}

fn no_thread(error: &io::Error) -> Error {
    let text = format!("the client's thread cannot be started: {error}");
    Error::new(ErrorKind::Unavailable, text)
}

/// How long the drop of a guard waits for the answer to its release, and that of the last handle
/// for the end of all background work.
const LINGER: Duration = Duration::from_secs(1);
