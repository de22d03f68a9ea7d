//! A client whose background tasks a test starts in its own way, and one that hands over what a
//! drop would wait for.

use std::{fmt, sync::mpsc};

use redlatch::{
    Moment,
    runtime::{BoxFuture, Runtime},
};

use crate::prelude::*;

/// What a drop would wait for.
type End = BoxFuture<()>;

/// A runtime that starts tasks with `spawn`, and does all else as `inner`.
struct Spawning<F> {
    inner: Arc<dyn Runtime>,
    spawn: F,
    /// Takes what a drop would wait for. Without this, no drop waits.
    ends: Option<mpsc::Sender<End>>,
}

/// Returns the runtime of an embedded server.
pub(crate) fn runtime_of(backend: &Backend) -> Arc<dyn Runtime> {
    let Backend::Embedded { runtime, .. } = backend else {
        panic!("this needs the embedded server");
    };
    Arc::clone(runtime)
}

/// Connects a client to the embedded server. `spawn` starts each of its tasks, by name.
pub(crate) async fn client_with(
    backend: &Backend,
    spawn: impl Fn(&dyn Runtime, &'static str, BoxFuture<()>) + Send + Sync + 'static,
) -> Client {
    connect(backend, spawn, None).await
}

/// Connects a client as of a program without async code. Returns also what its drops would wait
/// for, in the order that drops the client first.
pub(crate) async fn lingering_client(backend: &Backend) -> (mpsc::Receiver<End>, Client) {
    let (ends, ended) = mpsc::channel();
    let connecting = connect(
        backend,
        |inner, task, future| inner.spawn(task, future),
        Some(ends),
    );
    (ended, connecting.await)
}

async fn connect(
    backend: &Backend,
    spawn: impl Fn(&dyn Runtime, &'static str, BoxFuture<()>) + Send + Sync + 'static,
    ends: Option<mpsc::Sender<End>>,
) -> Client {
    let inner = runtime_of(backend);
    let runtime = Arc::new(Spawning { inner, spawn, ends });
    backend.builder().runtime(runtime).connect().await.unwrap()
}

impl<F> Runtime for Spawning<F>
where
    F: Fn(&dyn Runtime, &'static str, BoxFuture<()>) + Send + Sync + 'static,
{
    fn now(&self) -> Moment {
        self.inner.now()
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        self.inner.sleep_until(until)
    }

    fn spawn(&self, task: &'static str, future: BoxFuture<()>) {
        (self.spawn)(&*self.inner, task, future);
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }

    fn entropy(&self) -> u128 {
        self.inner.entropy()
    }

    fn lingers(&self) -> bool {
        self.ends.is_some()
    }

    fn linger(&self, end: End) {
        let ends = self.ends.as_ref().expect("no drop waits otherwise");
        ends.send(end).unwrap();
    }
}

impl<F> fmt::Debug for Spawning<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawning")
    }
}
