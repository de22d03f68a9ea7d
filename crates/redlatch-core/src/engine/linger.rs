//! Drops that wait, in programs without async code.

use std::{cell::RefCell, sync::Arc};

use futures_util::future::join_all;

use crate::runtime::{BoxFuture, Runtime};

type Ends = Vec<(Arc<dyn Runtime>, BoxFuture<()>)>;

thread_local! {
    /// What the drops of this thread wait for at the end of [`together`].
    static TOGETHER: RefCell<Option<Ends>> = const { RefCell::new(None) };
}

/// Waits on this thread until `end` resolves, for a while, if the runtime does so.
pub(crate) fn linger(runtime: &Arc<dyn Runtime>, end: impl FnOnce() -> Option<BoxFuture<()>>) {
    if !runtime.lingers() {
        return;
    }
    let mut end = end();
    // The value of the thread may have gone at the end of the thread.
    let _ = TOGETHER.try_with(|together| {
        if let Some(ends) = together.borrow_mut().as_mut() {
            ends.extend(end.take().map(|end| (Arc::clone(runtime), end)));
        }
    });
    if let Some(end) = end {
        runtime.linger(end);
    }
}

/// Runs `drops`, and then waits once for all that they would wait for.
pub(super) fn together(drops: impl FnOnce()) {
    let outermost = TOGETHER.try_with(|together| {
        let mut together = together.borrow_mut();
        let outermost = together.is_none();
        if outermost {
            *together = Some(Vec::new());
        }
        outermost
    });
    if outermost != Ok(true) {
        return drops();
    }
    let _end = End;
    drops();
}

/// The end of the outermost [`together`], also by a panic.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        let ends = TOGETHER.try_with(|together| together.borrow_mut().take());
        let (runtimes, ends): (Vec<_>, Vec<_>) =
            ends.ok().flatten().unwrap_or_default().into_iter().unzip();
        if let Some(runtime) = runtimes.first() {
            runtime.linger(Box::pin(async move {
                join_all(ends).await;
            }));
        }
    }
}
