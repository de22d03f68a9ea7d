//! A client whose background tasks a test starts in its own way.

use std::{fmt, sync::Arc};

use redlatch::{
    Client, Moment,
    runtime::{BoxFuture, Runtime},
};
use redlatch_tests::backend::Backend;

/// A runtime that starts tasks with `spawn`, and does all else as `inner`.
struct Spawning<F> {
    inner: Arc<dyn Runtime>,
    spawn: F,
}

/// Connects a client to the embedded server. `spawn` starts each of its tasks, by name.
pub(crate) async fn client_with(
    backend: &Backend,
    spawn: impl Fn(&dyn Runtime, &'static str, BoxFuture<()>) + Send + Sync + 'static,
) -> Client {
    let Backend::Embedded { runtime, .. } = backend else {
        panic!("this needs the embedded server");
    };
    let inner = Arc::clone(runtime);
    let runtime = Arc::new(Spawning { inner, spawn });
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
}

impl<F> fmt::Debug for Spawning<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawning")
    }
}
