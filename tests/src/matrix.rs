//! One test, every server, all at once.

use std::{future::Future, panic::resume_unwind};

use crate::server::ServerBinary;

/// Runs `test` on every server at the same time, each in a task of its own, and says on which it failed.
///
/// # Panics
///
/// When it does on one of them, after all have ended.
pub async fn on_every_server<F>(test: impl Fn(ServerBinary) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let runs: Vec<_> = ServerBinary::all()
        .into_iter()
        .map(|binary| (binary.clone(), tokio::spawn(test(binary))))
        .collect();
    let mut failure = None;
    for (binary, run) in runs {
        if let Err(error) = run.await {
            eprintln!("failed on {binary}");
            failure = Some(error);
        }
    }
    if let Some(error) = failure {
        resume_unwind(error.into_panic());
    }
}

/// Runs `test` on every server at the same time, all in this task, and says on which it failed. For futures that stay on a thread.
///
/// # Panics
///
/// As soon as it does on one of them.
pub async fn beside_each_other(test: impl AsyncFn(ServerBinary)) {
    let runs = ServerBinary::all().into_iter().map(|binary| {
        let test = &test;
        async move {
            let _name = Name(binary.clone());
            test(binary).await;
        }
    });
    futures_util::future::join_all(runs).await;
}

/// Says its name if it is dropped by a failure.
struct Name(ServerBinary);

impl Drop for Name {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed on, or while others did: {}", self.0);
        }
    }
}

/// Makes a test of each `async fn(ServerBinary)`, on every server at the same time.
#[macro_export]
macro_rules! on_every_server {
    ($($test:ident),+ $(,)?) => {
        mod every_server {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
            async fn $test() {
                $crate::matrix::on_every_server(super::$test).await;
            })+
        }
    };
}
