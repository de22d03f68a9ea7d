//! The limit: a frozen, minimal, unfenced pair of hash scripts through the client crate that
//! redlatch uses. It knows no waiters, no tokens and no copies of requests; nobody should use it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{
    AsyncConnectionConfig, Client, RedisResult, Script,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
};
use tokio::time::sleep;

use super::{Failure, LEASE, Lock, Session};

/// Takes a name unless another has it.
pub(crate) const ACQUIRE: &str = "\
local owner = redis.call('HGET', KEYS[1], 'o')
if owner and owner ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'o', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

/// Gives it back.
pub(crate) const RELEASE: &str = "\
if redis.call('HGET', KEYS[1], 'o') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1";

struct Raw<C> {
    connection: C,
    scripts: Arc<[Script; 2]>,
}

struct RawLock<C> {
    connection: C,
    scripts: Arc<[Script; 2]>,
    name: String,
    owner: String,
}

/// Connects to one server, or to a cluster where the URL is one of a cluster.
pub(super) async fn session(url: &str) -> Result<Arc<dyn Session>, Failure> {
    let scripts = Arc::new([Script::new(ACQUIRE), Script::new(RELEASE)]);
    if let Some(nodes) = url.strip_prefix("redis+cluster://") {
        let nodes = nodes.split(',').map(|node| format!("redis://{node}"));
        let client = ClusterClient::builder(nodes)
            .response_timeout(PATIENCE)
            .build()?;
        let connection = client.get_async_connection().await?;
        return Ok(Arc::new(Raw {
            connection,
            scripts,
        }));
    }
    let connection = connection(&Client::open(url)?).await?;
    Ok(Arc::new(Raw {
        connection,
        scripts,
    }))
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Session for Raw<C> {
    fn lock(&self, name: &str) -> Box<dyn Lock> {
        Box::new(RawLock {
            connection: self.connection.clone(),
            scripts: Arc::clone(&self.scripts),
            name: name.to_owned(),
            owner: format!("{:016x}", rand()),
        })
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["evalsha", "eval", "script|load"]
    }
}

#[async_trait]
impl<C: ConnectionLike + Clone + Send + Sync> Lock for RawLock<C> {
    async fn acquire(&mut self) -> Result<(), Failure> {
        loop {
            let mut call = self.scripts[0].key(&self.name);
            call.arg(&self.owner).arg(LEASE.as_millis() as u64);
            let taken: u8 = call.invoke_async(&mut self.connection).await?;
            if taken == 1 {
                return Ok(());
            }
            sleep(POLL).await;
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let mut call = self.scripts[1].key(&self.name);
        call.arg(&self.owner);
        let given: u8 = call.invoke_async(&mut self.connection).await?;
        if given == 1 {
            Ok(())
        } else {
            Err("the name had another holder".into())
        }
    }
}

/// Opens a connection that waits however long a busy machine takes.
pub(super) async fn connection(client: &Client) -> RedisResult<MultiplexedConnection> {
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    client
        .get_multiplexed_async_connection_with_config(&patient)
        .await
}

/// Who the owners of this process are is nobody's secret.
pub(super) fn rand() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

const POLL: Duration = Duration::from_millis(10);

/// Of a connection to a cluster, whose timeout cannot be taken off.
const PATIENCE: Duration = Duration::from_secs(600);
