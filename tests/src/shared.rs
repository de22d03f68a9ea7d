//! Clusters and sentinels that take too long to start for each test. There is one of each per
//! server program, and one test at a time uses it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, LazyLock, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Mutex, OnceCell, OwnedMutexGuard};

use crate::server::{Cluster, ClusterOptions, SentinelGroup, Server, ServerBinary, ServerOptions};

/// Servers that belong to one test until this value is dropped. They are empty at first.
#[derive(Debug)]
pub struct Shared(OwnedMutexGuard<Group>);

#[derive(Debug)]
enum Group {
    Cluster(Cluster),
    Sentinel(SentinelGroup),
}

type Pool = LazyLock<std::sync::Mutex<BTreeMap<PathBuf, Arc<OnceCell<Arc<Mutex<Group>>>>>>>;

static CLUSTERS: Pool = LazyLock::new(Default::default);
static SENTINELS: Pool = LazyLock::new(Default::default);

impl Shared {
    /// Takes the cluster of three masters, once no other test has it.
    pub async fn cluster(binary: &ServerBinary) -> Self {
        Self::take(&CLUSTERS, binary, |binary| {
            let options = ClusterOptions {
                node: ServerOptions::new().shared(),
                ..ClusterOptions::default()
            };
            Group::Cluster(Cluster::start(binary, &options))
        })
        .await
    }

    /// Takes the sentinels, once no other test has them.
    pub async fn sentinel(binary: &ServerBinary) -> Self {
        Self::take(&SENTINELS, binary, |binary| {
            // No server fails here: the long time-out is for machines that stall for a while.
            let (down_after, options) = (Duration::from_secs(20), ServerOptions::new().shared());
            Group::Sentinel(SentinelGroup::start(binary, 1, down_after, &options))
        })
        .await
    }

    /// Returns the URL of the group.
    pub fn url(&self) -> String {
        match &*self.0 {
            Group::Cluster(cluster) => cluster.url(),
            Group::Sentinel(group) => group.url(),
        }
    }

    /// Returns all servers except sentinels.
    pub fn servers(&self) -> &[Server] {
        match &*self.0 {
            Group::Cluster(cluster) => cluster.nodes(),
            Group::Sentinel(group) => group.replicated().servers(),
        }
    }

    /// Returns the masters.
    pub fn masters(&self) -> Vec<&Server> {
        match &*self.0 {
            Group::Cluster(cluster) => cluster.masters(),
            Group::Sentinel(group) => vec![group.master()],
        }
    }

    /// Returns the master of `key`.
    pub fn owner(&self, key: &str) -> &Server {
        match &*self.0 {
            Group::Cluster(cluster) => cluster.owner(key),
            Group::Sentinel(group) => group.master(),
        }
    }

    /// Returns the cluster.
    ///
    /// # Panics
    ///
    /// Panics if the group is not a cluster.
    pub fn as_cluster(&self) -> &Cluster {
        match &*self.0 {
            Group::Cluster(cluster) => cluster,
            Group::Sentinel(_) => panic!("this needs a cluster"),
        }
    }

    async fn take(
        pool: &Pool,
        binary: &ServerBinary,
        start: impl FnOnce(&ServerBinary) -> Group + Send + 'static,
    ) -> Self {
        let cell = {
            let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(pool.entry(binary.path.clone()).or_default())
        };
        let group = cell.get_or_init(|| async {
            let binary = binary.clone();
            // Other futures of this task must make progress meanwhile.
            let starting = tokio::task::spawn_blocking(move || {
                let began = Instant::now();
                let group = start(&binary);
                let took = began.elapsed();
                println!("{binary}: a shared group of servers is up after {took:?}");
                group
            });
            Arc::new(Mutex::new(starting.await.unwrap()))
        });
        let group = Arc::clone(group.await);
        let shared = Self(group.lock_owned().await);
        for server in shared.servers() {
            // The clients of the test before may still send releases, which would write after the
            // flush.
            server.part_from_clients();
        }
        for server in shared.masters() {
            server.flushall();
            server.reset_stats();
        }
        shared
    }
}
