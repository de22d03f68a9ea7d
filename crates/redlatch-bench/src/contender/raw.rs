//! The limit: a frozen, minimal, unfenced pair of hash scripts through the client crate that
//! redlatch uses. It supports no waiters, no tokens and no repeated requests. It is not for
//! production use.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{
    AsyncConnectionConfig, Client, RedisResult, Script,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
};
use tokio::time::sleep;

use super::{Failure, LEASE, Lock, SCRIPTED, Session};

/// Acquires a name unless another owner holds it.
pub(crate) const ACQUIRE: &str = "\
local owner = redis.call('HGET', KEYS[1], 'o')
if owner and owner ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'o', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

/// Releases the name.
pub(crate) const RELEASE: &str = "\
if redis.call('HGET', KEYS[1], 'o') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1";

struct RawLock<C> {
    connection: C,
    scripts: Arc<[Script; 2]>,
    name: String,
    owner: String,
}

/// Connects to one server, or to a cluster if the URL is that of a cluster.
pub(super) async fn session(url: &str) -> Result<Session, Failure> {
    if let Some(nodes) = url.strip_prefix("redis+cluster://") {
        let nodes = nodes.split(',').map(|node| format!("redis://{node}"));
        let client = ClusterClient::builder(nodes)
            .response_timeout(PATIENCE)
            .build()?;
        return Ok(through(client.get_async_connection().await?));
    }
    Ok(through(connection(&Client::open(url)?).await?))
}

fn through<C: ConnectionLike + Clone + Send + Sync + 'static>(connection: C) -> Session {
    let scripts = Arc::new([Script::new(ACQUIRE), Script::new(RELEASE)]);
    Session::new(SCRIPTED, move |name| RawLock {
        connection: connection.clone(),
        scripts: Arc::clone(&scripts),
        name: name.to_owned(),
        owner: format!("{:016x}", rand()),
    })
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

/// Opens a connection with no timeout, however busy the machine is.
pub(super) async fn connection(client: &Client) -> RedisResult<MultiplexedConnection> {
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    client
        .get_multiplexed_async_connection_with_config(&patient)
        .await
}

/// Returns a random number. The owners of this process need not be secret.
pub(super) fn rand() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

const POLL: Duration = Duration::from_millis(10);

/// The timeout of a connection to a cluster, which cannot be disabled.
const PATIENCE: Duration = Duration::from_secs(600);
