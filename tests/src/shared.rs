//! Clusters and sentinels that take too long to start for each test: one of each and for each
//! server program, used by one test at a time.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, LazyLock, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Mutex, OnceCell, OwnedMutexGuard};

use crate::server::{Cluster, ClusterOptions, SentinelGroup, Server, ServerBinary, ServerOptions};

/// Servers that are this test's until it is dropped. Nothing is on them at first.
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
    /// Takes the cluster of three masters, once nobody else has it.
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

    /// Takes the sentinels, once nobody else has them.
    pub async fn sentinel(binary: &ServerBinary) -> Self {
        Self::take(&SENTINELS, binary, |binary| {
            // Nothing fails here: the time is for machines that do not run for a while.
            let (down_after, options) = (Duration::from_secs(20), ServerOptions::new().shared());
            Group::Sentinel(SentinelGroup::start(binary, 1, down_after, &options))
        })
        .await
    }

    /// Returns the address of all of them.
    pub fn url(&self) -> String {
        match &*self.0 {
            Group::Cluster(cluster) => cluster.url(),
            Group::Sentinel(group) => group.url(),
        }
    }

    /// Returns all servers but sentinels.
    pub fn servers(&self) -> &[Server] {
        match &*self.0 {
            Group::Cluster(cluster) => cluster.nodes(),
            Group::Sentinel(group) => group.replicated().servers(),
        }
    }

    /// Returns the servers in charge.
    pub fn masters(&self) -> Vec<&Server> {
        match &*self.0 {
            Group::Cluster(cluster) => cluster.masters(),
            Group::Sentinel(group) => vec![group.master()],
        }
    }

    /// Returns the server in charge of `key`.
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
    /// If this is something else.
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
            // Others of this task have to go on meanwhile.
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
        for server in shared.masters() {
            server.flushall();
            server.reset_stats();
        }
        shared
    }
}
