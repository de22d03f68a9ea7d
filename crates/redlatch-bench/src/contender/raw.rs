//! Two locks without waiters, tokens and repeated requests, through the client crate that redlatch
//! uses: the limit, which is a frozen, minimal pair of hash scripts, and polling. They are not for
//! production use.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{
    AsyncConnectionConfig, Client, RedisResult, Script, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
};
use tokio::time::sleep;

use super::{Failure, LEASE, Lock, SCRIPTED, SETTING, Session};

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

/// Deletes a name that was set to the owner.
const UNLOCK: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// A lock that asks again after a pause.
struct Asking<C> {
    connection: C,
    scripts: Arc<Scripts>,
    name: String,
    owner: String,
}

/// The script that acquires, or nothing for `SET NX PX`, and the script that releases.
type Scripts = (Option<Script>, Script);

/// Connects the raw pair to one server, or to a cluster if the URL is that of a cluster.
pub(super) async fn session(url: &str) -> Result<Session, Failure> {
    let scripts = (Some(Script::new(ACQUIRE)), Script::new(RELEASE));
    if let Some(nodes) = url.strip_prefix("redis+cluster://") {
        let nodes = nodes.split(',').map(|node| format!("redis://{node}"));
        let client = ClusterClient::builder(nodes).response_timeout(PATIENCE);
        let connection = client.build()?.get_async_connection().await?;
        return Ok(asking(connection, SCRIPTED, scripts));
    }
    let connection = connection(&Client::open(url)?).await?;
    Ok(asking(connection, SCRIPTED, scripts))
}

/// Connects a lock as users write it themselves: `SET NX PX`, a loop that retries after a pause as
/// short as users dare to set it, and a script that deletes the key if it still has the own value.
pub(super) async fn polling(url: &str) -> Result<Session, Failure> {
    let connection = connection(&Client::open(url)?).await?;
    Ok(asking(connection, SETTING, (None, Script::new(UNLOCK))))
}

fn asking<C: ConnectionLike + Clone + Send + Sync + 'static>(
    connection: C,
    verbs: &'static str,
    scripts: Scripts,
) -> Session {
    let scripts = Arc::new(scripts);
    Session::new(verbs, move |name| Asking {
        connection: connection.clone(),
        scripts: Arc::clone(&scripts),
        name: name.to_owned(),
        owner: format!("{:016x}", rand()),
    })
}

#[async_trait]
impl<C: ConnectionLike + Clone + Send + Sync> Lock for Asking<C> {
    async fn acquire(&mut self) -> Result<(), Failure> {
        let lease = LEASE.as_millis() as u64;
        loop {
            let taken = if let Some(script) = &self.scripts.0 {
                let mut call = script.key(&self.name);
                call.arg(&self.owner).arg(lease);
                let taken: u8 = call.invoke_async(&mut self.connection).await?;
                taken == 1
            } else {
                let mut set = redis::cmd("SET");
                set.arg(&self.name).arg(&self.owner).arg("NX");
                set.arg("PX").arg(lease);
                let answer: Value = set.query_async(&mut self.connection).await?;
                answer == Value::Okay
            };
            if taken {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let mut call = self.scripts.1.key(&self.name);
        call.arg(&self.owner);
        let count = call.invoke_async(&mut self.connection).await?;
        given(count, "the name had another holder")
    }
}

/// Fails with `otherwise` unless a script has released one hold.
pub(super) fn given(count: u8, otherwise: &'static str) -> Result<(), Failure> {
    (count == 1).then_some(()).ok_or_else(|| otherwise.into())
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

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// The timeout of a connection to a cluster, which cannot be disabled.
const PATIENCE: Duration = Duration::from_secs(600);
