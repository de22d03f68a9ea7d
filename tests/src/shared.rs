//! Clusters and sentinels that take too long to start for each test. There are a few of each per
//! server program, and each serves one test at a time.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::server::{Cluster, ClusterOptions, SentinelGroup, Server, ServerBinary, ServerOptions};

/// Servers that belong to one test until this value is dropped. They are empty at first.
#[derive(Debug)]
pub struct Shared {
    /// Present until the drop.
    group: Option<Group>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum Group {
    Cluster(Cluster),
    Sentinel(SentinelGroup),
}

/// The groups of one program that no test has, and permits for all that there may be.
#[derive(Debug)]
struct Pool {
    idle: Mutex<Vec<Group>>,
    permits: Arc<Semaphore>,
}

/// So many groups of one program are up at most. Tests mostly wait for leases, so more groups than
/// cores are busy.
const GROUPS: usize = 4;

type Pools = LazyLock<Mutex<BTreeMap<PathBuf, Arc<Pool>>>>;

static CLUSTERS: Pools = LazyLock::new(Default::default);
static SENTINELS: Pools = LazyLock::new(Default::default);

impl Default for Pool {
    fn default() -> Self {
        Self {
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(GROUPS)),
        }
    }
}

impl Shared {
    /// Takes a cluster of three masters, once one is free.
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

    /// Takes sentinels with a master and a replica, once they are free.
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
        match self.group() {
            Group::Cluster(cluster) => cluster.url(),
            Group::Sentinel(group) => group.url(),
        }
    }

    /// Returns all servers except sentinels.
    pub fn servers(&self) -> &[Server] {
        match self.group() {
            Group::Cluster(cluster) => cluster.nodes(),
            Group::Sentinel(group) => group.replicated().servers(),
        }
    }

    /// Returns the masters.
    pub fn masters(&self) -> Vec<&Server> {
        match self.group() {
            Group::Cluster(cluster) => cluster.masters(),
            Group::Sentinel(group) => vec![group.master()],
        }
    }

    /// Returns the master of `key`.
    pub fn owner(&self, key: &str) -> &Server {
        match self.group() {
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
        match self.group() {
            Group::Cluster(cluster) => cluster,
            Group::Sentinel(_) => panic!("this needs a cluster"),
        }
    }

    fn group(&self) -> &Group {
        self.group.as_ref().unwrap()
    }

    async fn take(
        pools: &Pools,
        binary: &ServerBinary,
        start: impl FnOnce(&ServerBinary) -> Group + Send + 'static,
    ) -> Self {
        let program = binary.path.clone();
        let pool = Arc::clone(pools.lock().unwrap().entry(program).or_default());
        let permit = Arc::clone(&pool.permits).acquire_owned().await.unwrap();
        let idle = pool.idle.lock().unwrap().pop();
        let group = match idle {
            Some(group) => group,
            None => started(binary.clone(), start).await,
        };
        let shared = Self {
            group: Some(group),
            pool,
            _permit: permit,
        };
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

/// Starts a group, while other futures of the task make progress.
async fn started(
    binary: ServerBinary,
    start: impl FnOnce(&ServerBinary) -> Group + Send + 'static,
) -> Group {
    let starting = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let group = start(&binary);
        let took = began.elapsed();
        println!("{binary}: a shared group of servers is up after {took:?}");
        group
    });
    starting.await.unwrap()
}

/// Gives the group back. The permit is dropped after it.
impl Drop for Shared {
    fn drop(&mut self) {
        let group = self.group.take().unwrap();
        self.pool.idle.lock().unwrap().push(group);
    }
}
