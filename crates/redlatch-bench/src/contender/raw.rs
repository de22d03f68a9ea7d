//! Two locks without waiters, tokens and repeated requests, through the client crate that redlatch
//! uses: the limit, which is a frozen, minimal pair of hash scripts, and polling. They are not for
//! production use.

use std::time::Duration;

use async_trait::async_trait;
use redis::{Value, aio::ConnectionLike, cluster::ClusterClient};
use tokio::time::sleep;

use super::{
    Failure, LEASE, Lock, SCRIPTED, SETTING, Session,
    scripted::{Scripted, given, rand},
};

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

/// A lock that asks again after a pause. Its first script releases. The second one acquires, unless
/// the verb is `SET NX PX`.
struct Asking<C> {
    scripted: Scripted<C>,
    verbs: &'static str,
    name: String,
    owner: String,
}

/// Connects the raw pair to one server, or to a cluster if the URL is that of a cluster.
pub(super) async fn session(url: &str) -> Result<Session, Failure> {
    let scripts = [RELEASE, ACQUIRE];
    if let Some(nodes) = url.strip_prefix("redis+cluster://") {
        let nodes = nodes.split(',').map(|node| format!("redis://{node}"));
        let client = ClusterClient::builder(nodes).response_timeout(PATIENCE);
        let connection = client.build()?.get_async_connection().await?;
        return Ok(asking(Scripted::new(connection, &scripts), SCRIPTED));
    }
    Ok(asking(Scripted::connect(url, &scripts).await?, SCRIPTED))
}

/// Connects a lock as users write it themselves: `SET NX PX`, a loop that retries after a pause as
/// short as users dare to set it, and a script that deletes the key if it still has the own value.
pub(super) async fn polling(url: &str) -> Result<Session, Failure> {
    Ok(asking(Scripted::connect(url, &[UNLOCK]).await?, SETTING))
}

fn asking<C>(scripted: Scripted<C>, verbs: &'static str) -> Session
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    Session::new(verbs, move |name| Asking {
        scripted: scripted.clone(),
        verbs,
        name: name.to_owned(),
        owner: format!("{:016x}", rand()),
    })
}

#[async_trait]
impl<C: ConnectionLike + Clone + Send + Sync> Lock for Asking<C> {
    async fn acquire(&mut self) -> Result<(), Failure> {
        let lease = LEASE.as_millis() as u64;
        loop {
            let taken = if self.verbs == SETTING {
                let mut set = redis::cmd("SET");
                set.arg(&self.name).arg(&self.owner).arg("NX");
                set.arg("PX").arg(lease);
                let answer: Value = set.query_async(&mut self.scripted.connection).await?;
                answer == Value::Okay
            } else {
                let arguments = (&self.owner, lease);
                let taken: u8 = self.scripted.call(1, &self.name, arguments).await?;
                taken == 1
            };
            if taken {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let count = self.scripted.call(0, &self.name, &self.owner).await?;
        given(count, "the name had another holder")
    }
}

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// The timeout of a connection to a cluster, which cannot be disabled.
const PATIENCE: Duration = Duration::from_secs(600);
