//! Tasks that belong to a term.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    thread,
};

use redlatch_core::{
    Held,
    family::{Internals, Rule, while_held},
};
use tokio::sync::{oneshot, watch};

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

/// The tasks of one run of the work. The value is true when the tasks have to end. They also end if
/// the sender is dropped. Each task has a receiver until the task has ended.
#[derive(Debug, Default)]
pub(crate) struct TaskGroup(watch::Sender<bool>);

impl TaskGroup {
    /// Runs `future` as a task under `held`.
    pub(crate) fn spawn<F>(
        &self,
        name: &'static str,
        held: &Arc<Held>,
        future: F,
    ) -> TermTask<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (output, handle) = oneshot::channel();
        let (stop, alive, share) = (self.0.subscribe(), self.0.subscribe(), Arc::clone(held));
        let task = async move {
            // The last to be dropped, also if the whole task is dropped before its end: first the
            // work, then its share in the hold, then the sign that it has ended.
            let _alive = alive;
            let share = share;
            if let Some(ended) = under(&share, stop, future).await {
                // Nobody may be interested.
                let _ = output.send(ended);
            }
        };
        held.client().spawn(name, Box::pin(task));
        TermTask(handle)
    }

    /// Stops the tasks, and returns when all have been dropped.
    pub(crate) async fn end(self) {
        self.0.send_replace(true);
        self.0.closed().await;
    }
}

/// Runs a task that nothing ends, which the simulator plants.
pub(crate) fn stray<F>(held: &Held, future: F) -> TermTask<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (output, handle) = oneshot::channel();
    let task = async move {
        let _ = output.send(Ok(future.await));
    };
    held.client().spawn("term", Box::pin(task));
    TermTask(handle)
}

/// Runs `future` until `stop`, and at most as long as work under `held` may go on. Every poll looks
/// at both first. Returns `None` if the future was dropped before its end.
async fn under<F: Future>(
    held: &Held,
    mut stop: watch::Receiver<bool>,
    future: F,
) -> Option<thread::Result<F::Output>> {
    let mut future = pin!(future);
    let looked = stop.clone();
    let mut stopped = pin!(stop.wait_for(|&stop| stop));
    let task = poll_fn(|context| {
        if *looked.borrow() || stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        // After a panic the future is dropped and nothing else sees its state.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Some(Ok(output))),
            Err(panic) => Poll::Ready(Some(Err(panic))),
        }
    });
    // A task may be polled long after its deadline, and before any timer or message.
    let looks = held.client().keeps(Rule::LookBeforeTask);
    while_held(held, looks, task).await.ok().flatten()
}
