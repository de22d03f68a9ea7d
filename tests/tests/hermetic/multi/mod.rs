//! Locks over several: of one server or more, and over a quorum of servers.

mod cancel;
mod mixes;
mod multi_lock;
mod red_lock;
#[cfg(all(unix, feature = "servers"))]
mod servers;
mod striped;

use std::time::Duration;

use redlatch::Client;
use redlatch_tests::backend::{Backend, assert_tables_empty};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Several servers that know nothing of each other.
struct Fleet(Vec<Backend>);

impl Fleet {
    fn embedded(count: usize) -> Self {
        Self((0..count).map(|_| Backend::embedded()).collect())
    }

    #[cfg(all(unix, feature = "servers"))]
    fn real(binary: &redlatch_tests::server::ServerBinary, count: usize) -> Self {
        Self((0..count).map(|_| Backend::real(binary)).collect())
    }

    async fn clients(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        for backend in &self.0 {
            clients.push(backend.client().await);
        }
        clients
    }

    async fn pass(&self, span: Duration) {
        self.0[0].pass(span).await;
    }

    /// Checks that nobody holds anything anywhere, and that these clients know of nothing.
    async fn assert_nothing_left(&self, clients: &[Client]) {
        for client in clients {
            assert_tables_empty(client).await;
        }
        for backend in &self.0 {
            backend.assert_only_counters_left();
        }
    }
}

/// Makes a test of each behaviour of so many servers, an `async fn(&Fleet)`, embedded and, with the feature `servers`, real.
macro_rules! fleet_behaviours {
    ($count:literal: $($behaviour:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test(start_paused = true)]
            async fn $behaviour() {
                super::$behaviour(&super::Fleet::embedded($count)).await;
            })+
        }

        #[cfg(all(unix, feature = "servers"))]
        mod real {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                for binary in redlatch_tests::server::ServerBinary::all() {
                    super::$behaviour(&super::Fleet::real(&binary, $count)).await;
                }
            })+
        }
    };
}
use fleet_behaviours;
