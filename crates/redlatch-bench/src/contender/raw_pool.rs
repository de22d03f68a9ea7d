//! The limit of a contended pool of permits: one script to take a permit or to queue, one to give
//! it back, and a message to the first waiter. A lost message or reply stops a waiter for good, and
//! a waiter that leaves keeps its place. It is not for production use.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures_util::StreamExt;
use redis::Client;
use tokio::sync::oneshot;

use super::{
    Failure, LEASE, Lock, SCRIPTED, Session,
    scripted::{Scripted, given, rand},
};
use crate::job::PERMITS;

/// Takes a permit if there is one and nobody waits, or queues. A waiter that was called takes it
/// though others wait.
const ACQUIRE: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[3])
  and (ARGV[5] == '1' or redis.call('LLEN', KEYS[2]) == 0) then
  redis.call('ZADD', KEYS[1], now + ARGV[4], ARGV[1])
  return 1
end
redis.call('RPUSH', KEYS[2], ARGV[2] .. ' ' .. ARGV[1])
return 0";

/// Gives a permit back and calls the first waiter.
const RELEASE: &str = "\
local given = redis.call('ZREM', KEYS[1], ARGV[1])
local first = redis.call('LPOP', KEYS[2])
if first then
  local channel, id = string.match(first, '^(%S+) (%S+)')
  redis.call('PUBLISH', channel, id)
end
return given";

/// The waiters of this process, by number.
type Waiters = Arc<Mutex<HashMap<u64, oneshot::Sender<()>>>>;

struct Permit {
    scripted: Scripted,
    channel: String,
    waiters: Waiters,
    keys: [String; 2],
    /// The number of the acquisition under way, or of the permit that is held.
    id: u64,
}

/// Connects to one server, with a connection of its own for messages.
pub(super) async fn session(url: &str) -> Result<Session, Failure> {
    let channel = format!("raw:{:016x}", rand());
    let waiters = Waiters::default();
    let mut messages = Client::open(url)?.get_async_pubsub().await?;
    messages.subscribe(&channel).await?;
    tokio::spawn({
        let waiters = Arc::clone(&waiters);
        async move {
            let mut messages = messages.into_on_message();
            while let Some(message) = messages.next().await {
                let id = message.get_payload::<u64>().unwrap_or_default();
                if let Some(called) = table(&waiters).remove(&id) {
                    // A waiter that has left does not listen.
                    let _ = called.send(());
                }
            }
        }
    });
    let scripted = Scripted::connect(url, &[ACQUIRE, RELEASE]).await?;
    Ok(Session::new(SCRIPTED, move |name| Permit {
        scripted: scripted.clone(),
        channel: channel.clone(),
        waiters: Arc::clone(&waiters),
        keys: [name.to_owned(), format!("{name}:q")],
        id: rand(),
    }))
}

#[async_trait]
impl Lock for Permit {
    async fn acquire(&mut self) -> Result<(), Failure> {
        self.id = self.id.wrapping_add(1);
        let mut was_called = 0;
        loop {
            let (called, calls) = oneshot::channel();
            table(&self.waiters).insert(self.id, called);
            let lease = LEASE.as_millis() as u64;
            let arguments = (self.id, &self.channel, PERMITS, lease, was_called);
            let taken: u8 = self.scripted.call(0, &self.keys, arguments).await?;
            if taken == 1 {
                table(&self.waiters).remove(&self.id);
                return Ok(());
            }
            calls.await?;
            was_called = 1;
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let count = self.scripted.call(1, &self.keys, self.id).await?;
        given(count, "the permit was not held")
    }
}

fn table(waiters: &Waiters) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<()>>> {
    waiters.lock().unwrap_or_else(PoisonError::into_inner)
}
