//! Runs one test on all servers at once.

use std::{future::Future, panic::resume_unwind};

use crate::server::ServerBinary;

/// Runs `test` on every server at the same time, each in its own task, and prints the servers on
/// which it failed.
///
/// # Panics
///
/// Panics after all runs have ended if one of them failed.
pub async fn on_every_server<F>(test: impl Fn(ServerBinary) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    run(ServerBinary::all(), test).await;
}

/// Runs `test` as [`on_every_server`] does, but only on the servers that have a `feature` according
/// to `has`, and prints their names.
///
/// # Panics
///
/// Panics after all runs have ended if one of them failed. Panics also if no server of the list has
/// the feature, because such a test run would prove nothing.
pub async fn on_servers_with<F>(
    feature: &str,
    has: impl Fn(&ServerBinary) -> bool,
    test: impl Fn(ServerBinary) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (with, without) = sorted(feature, ServerBinary::every(), has);
    let without = list(&without);
    println!("with {feature}: {}; without: {without}", list(&with));
    run(with, test).await;
}

/// Returns the servers with a feature, of which there is at least one, and the others.
fn sorted(
    feature: &str,
    all: Vec<ServerBinary>,
    has: impl Fn(&ServerBinary) -> bool,
) -> (Vec<ServerBinary>, Vec<ServerBinary>) {
    let (with, without): (Vec<_>, Vec<_>) = all.into_iter().partition(has);
    assert!(
        !with.is_empty(),
        "none of the servers to test against has {feature}: {}; name one that has in REDLATCH_TEST_SERVERS",
        list(&without)
    );
    (with, without)
}

fn list(servers: &[ServerBinary]) -> String {
    let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
    match &servers[..] {
        [] => "none".to_owned(),
        some => some.join(", "),
    }
}

async fn run<F>(servers: Vec<ServerBinary>, test: impl Fn(ServerBinary) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let start = |binary: ServerBinary| (binary.clone(), tokio::spawn(test(binary)));
    let mut failure = None;
    for (binary, run) in servers.into_iter().map(start).collect::<Vec<_>>() {
        if let Err(error) = run.await {
            eprintln!("failed on {binary}");
            failure = Some(error);
        }
    }
    if let Some(error) = failure {
        resume_unwind(error.into_panic());
    }
}

/// Generates a test of each `async fn(ServerBinary)`, which runs on every server at the same time.
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

/// Generates a test of each `async fn(ServerBinary)`, which runs on every server with a feature at
/// the same time. The arguments are the name of the feature, and a function that tells whether a
/// server has it. The tests fail if no server has it.
///
/// ```text
/// on_servers_with!("TLS", ServerBinary::supports_tls; locks_work_in_a_cluster_with_tls);
/// ```
#[macro_export]
macro_rules! on_servers_with {
    ($feature:expr, $has:expr; $($test:ident),+ $(,)?) => {
        mod servers_with_it {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
            async fn $test() {
                $crate::matrix::on_servers_with($feature, $has, super::$test).await;
            })+
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{ServerKind, Version};

    #[test]
    #[should_panic(expected = "none of the servers to test against has wings: Redis 6.2.14")]
    fn feature_that_no_server_has_fails() {
        let server = ServerBinary {
            path: "/nonexistent".into(),
            kind: ServerKind::Redis,
            version: Version(6, 2, 14),
        };
        sorted("wings", vec![server], |_| false);
    }
}
