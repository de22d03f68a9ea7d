//! The behaviours of `redlatch-behaviours`, each as a test per backend: on the embedded server with
//! stepped time and, with the feature `servers`, on real ones. `Place` says which; with the
//! variable `REDLATCH_NIGHT`, every behaviour runs on every backend.
//!
//! The name of a test is its backend and its behaviour, such as
//! `cluster::valkey-9.1.2::lock::loss::run_ends_with_the_hold`. The options are those of libtest.

// The threads of the runner run tests, and what fails here fails the run.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::{env, process::ExitCode};

use libtest_mimic::{Arguments, Trial};
use redlatch_behaviours::{Case, Place, Run, multi::Fleet};
use redlatch_tests::{backend::Backend, server::ServerBinary, wait::is_night};
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    if arguments.test_threads.is_none() {
        let threads = env::var("RUST_TEST_THREADS").ok();
        arguments.test_threads = threads.map(|text| text.parse().unwrap());
    }
    let mut groups = vec![group(&Ground::Embedded, |_| true)];
    if cfg!(feature = "servers") {
        groups.extend(on_servers(&ServerBinary::all(), is_night()));
    }
    libtest_mimic::run(&arguments, interleaved(groups)).exit_code()
}

/// The servers of a test.
#[derive(Clone, Debug)]
enum Ground {
    Embedded,
    Server(ServerBinary),
    Cluster(ServerBinary),
    Sentinels(ServerBinary),
}

/// Returns the tests on real servers. By day, only the newest one makes groups and fleets.
fn on_servers(binaries: &[ServerBinary], night: bool) -> Vec<Vec<Trial>> {
    let newest = binaries.iter().map(|binary| binary.version).max().unwrap();
    let mut groups = Vec::new();
    for binary in binaries {
        let chosen = night || binary.version == newest;
        let at = |place| {
            move |case: &Case| chosen && !case.needs_fleet() && (night || case.place() >= place)
        };
        let server = Ground::Server(binary.clone());
        groups.push(group(&server, |case| chosen || !case.needs_fleet()));
        groups.push(group(&Ground::Cluster(binary.clone()), at(Place::Cluster)));
        groups.push(group(
            &Ground::Sentinels(binary.clone()),
            at(Place::Everywhere),
        ));
    }
    groups
}

/// Returns a test for each of the behaviours that `wanted` chooses.
fn group(ground: &Ground, wanted: impl Fn(&Case) -> bool) -> Vec<Trial> {
    let cases = redlatch_behaviours::all().filter(wanted);
    cases
        .map(|case| {
            let ground = ground.clone();
            let name = format!("{}::{}", ground.name(), case.name());
            Trial::test(name, move || {
                ground.run(&case);
                Ok(())
            })
        })
        .collect()
}

/// Mixes the groups, each in its order and at an even rate. Tests of one group may wait for each
/// other, and tests of other groups use the time.
fn interleaved(groups: Vec<Vec<Trial>>) -> Vec<Trial> {
    let mut all = Vec::new();
    for group in groups {
        let count = group.len();
        let placed = group.into_iter().enumerate();
        all.extend(placed.map(|(at, trial)| (at * 1_000_000 / count, trial)));
    }
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, trial)| trial).collect()
}

impl Ground {
    fn name(&self) -> String {
        let (kind, binary) = match self {
            Self::Embedded => return "embedded".to_owned(),
            Self::Server(binary) => ("server", binary),
            Self::Cluster(binary) => ("cluster", binary),
            Self::Sentinels(binary) => ("sentinels", binary),
        };
        let server = format!("{:?}-{}", binary.kind, binary.version).to_lowercase();
        format!("{kind}::{server}")
    }

    fn run(&self, case: &Case) {
        let mut runtime = match self {
            Self::Embedded => Builder::new_current_thread(),
            _ => Builder::new_multi_thread(),
        };
        let paused = matches!(self, Self::Embedded);
        let runtime = runtime.worker_threads(2).enable_all().start_paused(paused);
        runtime.build().unwrap().block_on(async {
            match case.run {
                Run::Backend(_, behaviour) => behaviour(&self.backend().await).await,
                Run::Fleet(count, behaviour) => behaviour(&self.fleet(count)).await,
            }
        });
    }

    async fn backend(&self) -> Backend {
        match self {
            Self::Embedded => Backend::embedded(),
            Self::Server(binary) => Backend::real(binary),
            Self::Cluster(binary) => Backend::cluster(binary).await,
            Self::Sentinels(binary) => Backend::sentinel(binary).await,
        }
    }

    fn fleet(&self, count: usize) -> Fleet {
        match self {
            Self::Server(binary) => Fleet::real(binary, count),
            _ => Fleet::embedded(count),
        }
    }
}
