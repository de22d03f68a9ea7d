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
