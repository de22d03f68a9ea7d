//! Tasks that belong to a term.

use std::{
    fmt,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    thread,
};

use redlatch_core::{
    Held,
    family::{Internals, Rule},
};
use tokio::sync::{mpsc, oneshot, watch};

/// A task that [`Term::spawn`](crate::Term::spawn) has started; a future of its output.
///
/// The output is `None` if the task was stopped because its term or its work ended. Dropping the
/// handle has no effect on the task.
///
/// # Panics
///
/// A panic of the task continues in the task that awaits the handle.
///
/// # Cancel safety
///
/// Dropping it loses the output, and nothing else.
#[derive(Debug)]
pub struct TermTask<T>(oneshot::Receiver<thread::Result<T>>);

impl<T> Future for TermTask<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|ended| match ended {
                Ok(Ok(output)) => Some(output),
                Ok(Err(panic)) => resume_unwind(panic),
                // The task was stopped, or its runtime has ended.
                Err(_) => None,
            })
    }
}

/// The tasks of one run of the work.
pub(crate) struct TaskGroup {
    /// True when the tasks have to end. They also end if it is dropped.
    stop: watch::Sender<bool>,
    /// Each task has a clone until it has ended.
    alive: mpsc::Sender<()>,
    ended: mpsc::Receiver<()>,
}

impl TaskGroup {
    pub(crate) fn new() -> Self {
        let (alive, ended) = mpsc::channel(1);
        Self {
            stop: watch::Sender::new(false),
            alive,
            ended,
        }
    }

    /// Returns the future that runs `future` as a task under `held`, and the task's handle.
    pub(crate) fn task<F>(
        &self,
        held: &Arc<Held>,
        future: F,
    ) -> (
        impl Future<Output = ()> + Send + 'static + use<F>,
        TermTask<F::Output>,
    )
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (output, handle) = oneshot::channel();
        let (stop, alive, held) = (self.stop.subscribe(), self.alive.clone(), Arc::clone(held));
        let task = async move {
            // The last to be dropped, also if the whole task is dropped before its end: first the
            // work, then its share in the hold, then the sign that it has ended.
            let _alive = alive;
            let held = held;
            if let Some(ended) = under(&held, stop, future).await {
                // Nobody may be interested.
                let _ = output.send(ended);
            }
        };
        (task, TermTask(handle))
    }

    /// Stops the tasks, and returns when all have been dropped.
    pub(crate) async fn end(mut self) {
        self.stop.send_replace(true);
        drop(self.alive);
        while self.ended.recv().await.is_some() {}
    }
}

impl fmt::Debug for TaskGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup")
            .field("alive", &(self.alive.strong_count() - 1))
            .finish_non_exhaustive()
    }
}

/// Returns a task that nothing ends, which the simulator plants.
pub(crate) fn stray<F>(
    future: F,
) -> (
    impl Future<Output = ()> + Send + 'static + use<F>,
    TermTask<F::Output>,
)
where
    F: Future<Output: Send> + Send + 'static,
{
    let (output, handle) = oneshot::channel();
    let task = async move {
        let _ = output.send(Ok(future.await));
    };
    (task, TermTask(handle))
}

/// Runs `future` until `stop`, and at most as long as work under `held` may go on. Every poll looks
/// at both first. Returns `None` if the future was dropped before its end.
async fn under<F: Future>(
    held: &Held,
    mut stop: watch::Receiver<bool>,
    future: F,
) -> Option<thread::Result<F::Output>> {
    let mut future = pin!(future);
    let mut over = pin!(held.work_over());
    let looked = stop.clone();
    let mut stopped = pin!(stop.wait_for(|&stop| stop));
    let looks = held.client().keeps(Rule::LookBeforeTask);
    poll_fn(|context| {
        // A task may be polled long after its deadline, and before any timer or message.
        let lost = looks && (held.work_until().is_err() || over.as_mut().poll(context).is_ready());
        if lost || *looked.borrow() || stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        // After a panic the future is dropped and nothing else sees its state.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Some(Ok(output))),
            Err(panic) => Poll::Ready(Some(Err(panic))),
        }
    })
    .await
}
