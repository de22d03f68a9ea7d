//! The life of a client: the process that created it, and its background tasks.

use std::{
    any::Any,
    fmt,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    process,
    sync::{Arc, OnceLock, atomic::Ordering},
    task::{Context, Poll},
};

use tokio::sync::{Notify, watch};

use crate::{
    Error, ErrorKind,
    base::{observe, owner::Numbers, sync::AtomicUsize},
    runtime::{BoxFuture, Runtime},
};

/// The life of one client.
pub(crate) struct Life {
    runtime: Arc<dyn Runtime>,
    /// The process that created the client.
    process: u32,
    numbers: Arc<Numbers>,
    end: OnceLock<End>,
    /// True when all background work has to end.
    shutdown: watch::Sender<bool>,
    /// Closes the client if its runtime ends or one of its tasks panics.
    on_end: OnceLock<OnEnd>,
    /// Background tasks that have not ended.
    tasks: AtomicUsize,
    /// Notified when the last background task has ended.
    idle: Notify,
}

type OnEnd = Box<dyn Fn(&End) + Send + Sync>;

/// The cause of an end without a call of `close`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A background task was dropped before its end: its runtime was shut down.
    Runtime,
    /// This background task has panicked.
    Panic(&'static str),
}

impl Life {
    pub(crate) fn new(runtime: Arc<dyn Runtime>, numbers: Arc<Numbers>) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            process: process::id(),
            numbers,
            end: OnceLock::new(),
            shutdown: watch::Sender::new(false),
            on_end: OnceLock::new(),
            tasks: AtomicUsize::new(0),
            idle: Notify::new(),
        })
    }

    /// Sets the callback for an end of the client's runtime or a panic of its tasks. Calls it at
    /// once if that has happened already.
    pub(crate) fn on_end(&self, on_end: impl Fn(&End) + Send + Sync + 'static) {
        let on_end = self.on_end.get_or_init(|| Box::new(on_end));
        if let Some(end) = self.end.get() {
            on_end(end);
        }
    }

    /// Runs `future` in the background. The client ends if the task panics or is dropped before its
    /// end.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        let task = Task {
            name,
            life: Arc::clone(self),
            future: Some(Box::pin(future)),
        };
        self.runtime.spawn(name, Box::pin(task));
    }

    /// Returns when no background task is left.
    pub(crate) async fn idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            idle.as_mut().enable();
            if self.tasks.load(Ordering::Acquire) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Resolves when all background work has to end.
    pub(crate) async fn stopped(&self) {
        let mut shutdown = self.shutdown.subscribe();
        // The sender lives as long as `self`.
        let _ = shutdown.wait_for(|&ended| ended).await;
    }

    /// Stops all background work.
    pub(crate) fn stop(&self) {
        self.shutdown.send_replace(true);
    }

    /// Tells whether all background work has to end.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.shutdown.borrow()
    }

    /// Fails if the client's runtime has ended or one of its tasks has panicked.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.end.get() {
            Some(_) => Err(self.closed()),
            None => Ok(()),
        }
    }

    /// Fails if the client has ended, or belongs to another process.
    pub(crate) fn check_all(&self) -> Result<(), Error> {
        self.check_ended()?;
        self.check_process()
    }

    /// Fails if the client has ended.
    pub(crate) fn check_ended(&self) -> Result<(), Error> {
        self.check()?;
        if self.is_stopped() {
            return Err(self.closed());
        }
        Ok(())
    }

    /// Returns the error of a client that accepts no more work.
    pub(crate) fn closed(&self) -> Error {
        let why = match self.end.get() {
            None => "the client is closed",
            Some(End::Runtime) => "the tokio runtime in which this client was made has ended",
            Some(End::Panic(task)) => {
                let why = format!("the client is closed: its task {task} has panicked");
                return Error::new(ErrorKind::Closed, why);
            }
        };
        Error::new(ErrorKind::Closed, why)
    }

    /// Tells whether this process is not the one that created the client. Costs one `getpid`.
    pub(crate) fn is_forked(&self) -> bool {
        process::id() != self.process
    }

    /// Resolves when it is polled in a process other than the one that created the client. Nothing
    /// else may ever wake the caller there. The first poll does not check, since callers check
    /// before they begin to wait.
    pub(crate) fn forked(&self) -> impl Future<Output = ()> + Send {
        let mut polled = false;
        poll_fn(move |_| {
            if std::mem::replace(&mut polled, true) && self.is_forked() {
                return Poll::Ready(());
            }
            Poll::Pending
        })
    }

    /// Fails in a process other than the one that created the client. Costs one `getpid`.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        let here = process::id();
        if here == self.process {
            return Ok(());
        }
        let message = format!(
            "the client was made in process {}, and this is process {here}; make a client of its own after the fork",
            self.process
        );
        Err(Error::new(ErrorKind::Forked, message))
    }

    /// Makes new numbers of owners and attempts differ from those in any copy of this machine.
    /// Called when a connection was made, and when numbers are behind those of such a copy.
    pub(crate) fn leap(&self) {
        self.numbers.jump(self.runtime.entropy());
    }

    fn end(&self, end: End) {
        let first = self.end.set(end.clone()).is_ok();
        if end == End::Runtime {
            self.stop();
        } else if !first {
            return;
        }
        // The runtime may also end after a task has panicked. Then nothing is released any more.
        match self.on_end.get() {
            Some(on_end) => on_end(&end),
            None => self.stop(),
        }
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life")
            .field("process", &self.process)
            .field("end", &self.end)
            .field("tasks", &self.tasks)
            .finish_non_exhaustive()
    }
}

/// A background task that reports its end.
struct Task {
    name: &'static str,
    life: Arc<Life>,
    /// `None` after its end.
    future: Option<BoxFuture<()>>,
}

impl Task {
    fn panicked(&self, panic: &(dyn Any + Send)) {
        observe::panicked(self.name, message(panic));
        self.life.end(End::Panic(self.name));
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else {
            return Poll::Ready(());
        };
        // Nothing reads the half-changed state after a panic: the client ends.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => self.future = None,
            Err(panic) => {
                // Dropping may panic, too. That must not end the client twice.
                let future = self.future.take();
                let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
                self.panicked(&*panic);
                // The runtime reports panics in its own way.
                resume_unwind(panic);
            }
        }
        Poll::Ready(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // `poll` catches the task's own panics, so a drop before the end means that the runtime
        // ends, perhaps during another panic.
        if self.future.is_some() && !self.life.is_stopped() {
            self.life.end(End::Runtime);
        }
        self.future = None;
        if self.life.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.life.idle.notify_waiters();
        }
    }
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or_default()
}
