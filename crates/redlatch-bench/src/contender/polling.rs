//! A lock as users write it themselves: `SET NX PX`, a loop that retries after a pause, and a
//! script that deletes the key if it still has the own value.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{Client, Script, Value, aio::MultiplexedConnection};
use tokio::time::sleep;

use super::{
    Failure, LEASE, Lock, Session,
    raw::{connection, rand},
};

struct PollingLock {
    connection: MultiplexedConnection,
    unlock: Arc<Script>,
    name: String,
    owner: String,
}

/// Connects to one server.
pub(super) async fn session(url: &str) -> Result<Session, Failure> {
    let connection = connection(&Client::open(url)?).await?;
    let unlock = Arc::new(Script::new(UNLOCK));
    let verbs = &["set", "evalsha", "eval", "script|load"];
    Ok(Session::new(verbs, move |name| PollingLock {
        connection: connection.clone(),
        unlock: Arc::clone(&unlock),
        name: name.to_owned(),
        owner: format!("{:016x}", rand()),
    }))
}

#[async_trait]
impl Lock for PollingLock {
    async fn acquire(&mut self) -> Result<(), Failure> {
        loop {
            let mut set = redis::cmd("SET");
            set.arg(&self.name).arg(&self.owner).arg("NX");
            set.arg("PX").arg(LEASE.as_millis() as u64);
            let answer: Value = set.query_async(&mut self.connection).await?;
            if answer == Value::Okay {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let mut call = self.unlock.key(&self.name);
        call.arg(&self.owner);
        let deleted: u8 = call.invoke_async(&mut self.connection).await?;
        if deleted == 1 {
            Ok(())
        } else {
            Err("the name had another holder".into())
        }
    }
}

const UNLOCK: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// The pause between two attempts, as short as users dare to set it.
const PAUSE: Duration = Duration::from_millis(10);
