//! The limit: a frozen, minimal, unfenced pair of hash scripts through the client crate that redlatch uses. It knows no waiters, no tokens and
//! no copies of requests; nobody should use it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{AsyncConnectionConfig, Client, RedisResult, Script, aio::MultiplexedConnection};
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

pub(super) struct Raw {
    connection: MultiplexedConnection,
    scripts: Arc<[Script; 2]>,
}

struct RawLock {
    connection: MultiplexedConnection,
    scripts: Arc<[Script; 2]>,
    name: String,
    owner: String,
}

impl Raw {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let client = Client::open(url)?;
        Ok(Self {
            connection: connection(&client).await?,
            scripts: Arc::new([Script::new(ACQUIRE), Script::new(RELEASE)]),
        })
    }
}

impl Session for Raw {
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
impl Lock for RawLock {
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
pub(crate) async fn connection(client: &Client) -> RedisResult<MultiplexedConnection> {
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
