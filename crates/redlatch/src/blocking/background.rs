//! The thread of a client, on which its renewals, releases and connections run.

use std::{
    convert::Infallible,
    fmt,
    future::{Future, IntoFuture},
    io,
    pin::pin,
    process,
    sync::{Arc, Mutex, PoisonError, mpsc as threads},
    task::{Context, Waker},
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle},
    select,
    sync::{mpsc, oneshot},
    task::coop::consume_budget,
};

use crate::{
    Error, ErrorKind, Moment, TokioRuntime,
    runtime::{BoxFuture, Runtime},
};

/// The thread and its runtime. They end when the last handle and guard of the client has gone.
pub(super) struct Background {
    handle: Handle,
    /// The process that started the thread. A fork of it has no such thread.
    process: u32,
    /// Its drop tells the thread that nobody uses the client any more.
    users: Mutex<Option<oneshot::Sender<Infallible>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Background {
    /// Starts the thread. Returns the runtime that clients on it use.
    pub(super) fn start() -> Result<(Arc<Self>, Arc<dyn Runtime>), Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| no_thread(&error))?;
        let handle = runtime.handle().clone();
        let (users, left) = oneshot::channel::<Infallible>();
        let (task, mut tasks) = mpsc::channel(1);
        let thread = thread::Builder::new().name("redlatch".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                // It ends when all tasks have ended, and the client, which could start others.
                let ended = async { while tasks.recv().await.is_some() {} };
                let cut_off = async {
                    let _ = left.await;
                    last_releases().await;
                };
                select! { () = ended => {}, () = cut_off => {} }
            });
            // A name that is being looked up must not delay the end of the program.
            runtime.shutdown_background();
        });
        let background = Self {
            handle: handle.clone(),
            process: process::id(),
            users: Mutex::new(Some(users)),
            thread: Mutex::new(Some(thread.map_err(|error| no_thread(&error))?)),
        };
        let runtime = Counted {
            runtime: TokioRuntime::new(handle),
            task,
        };
        Ok((Arc::new(background), Arc::new(runtime)))
    }

    /// Blocks until `future` is done.
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub(super) fn wait<F: IntoFuture>(&self, future: F) -> F::Output {
        assert!(!in_async_code(), "{IN_ASYNC_CODE}");
        self.handle.block_on(future.into_future())
    }

    /// Runs a release in the background, and waits for its end if this thread may wait.
    #[expect(
        clippy::disallowed_methods,
        reason = "the release must reach the thread without a tokio context of the caller"
    )]
    pub(super) fn finish(&self, release: impl Future<Output = ()> + Send + 'static) {
        if self.is_forked() {
            return;
        }
        // The task owns one end of the channel, so the channel ends with the task.
        let (done, ended) = threads::channel::<Infallible>();
        self.handle.spawn(async move {
            let _done = done;
            release.await;
        });
        if !in_async_code() {
            let _ = ended.recv_timeout(RELEASE_ON_DROP);
        }
    }

    fn is_forked(&self) -> bool {
        process::id() != self.process
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(lock(&self.users).take());
        let thread = lock(&self.thread).take();
        // In a fork, a wait for the thread would never end.
        if let Some(thread) = thread
            && !self.is_forked()
            && !in_async_code()
        {
            // It has no panics to report: those of tasks stay in the runtime.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

/// Tells whether this thread polls async code of tokio at this moment, so that blocking it would
/// stop tasks.
///
/// A runtime limits how long it polls one task, and nothing limits other code, such as that of
/// `spawn_blocking`. So a limit that can be used up shows async code. Tokio has no direct question.
/// Code in `unconstrained` is not recognised; there tokio's own check of `block_on` panics.
fn in_async_code() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    (0..=u8::MAX).any(|_| pin!(consume_budget()).poll(&mut context).is_pending())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the thread's own end is outside of the client, which has ended"
)]
async fn last_releases() {
    tokio::time::sleep(LAST_RELEASES).await;
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_thread(error: &io::Error) -> Error {
    let text = format!("the client's thread cannot be started: {error}");
    Error::new(ErrorKind::Unavailable, text)
}

/// The runtime of a client on the thread. It and its tasks keep a channel open, whose end shows
/// that no task is left.
#[derive(Debug)]
struct Counted {
    runtime: TokioRuntime,
    task: mpsc::Sender<Infallible>,
}

impl Runtime for Counted {
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
}

/// How long the drop of a guard waits for the answer to its release.
const RELEASE_ON_DROP: Duration = Duration::from_secs(1);

/// How long the thread goes on with outstanding releases when nobody uses the client any more.
const LAST_RELEASES: Duration = Duration::from_secs(1);

const IN_ASYNC_CODE: &str = "redlatch::blocking was called in async code, where it would block a \
    thread of the tokio runtime; use redlatch::Client there, or wrap the call in \
    tokio::task::spawn_blocking";
