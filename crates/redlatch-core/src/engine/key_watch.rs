//! Looks at the keys of holds that another program may have changed.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::select;

use super::{Hold, Holds};
use crate::{
    ErrorKind,
    base::primitive::Side,
    net::{Net, Strays},
    protocol::name::{Key, Prefix},
    runtime::{Command, Value},
};

/// The task that reads the key of each new hold, and of each hold whose key has changed.
///
/// The server reports one change of a key to the connection that has read the key, so each report
/// needs another read. If the key is gone, is a value of another program or has another hold, the
/// hold is renewed at once, and the answer decides. Pools are left aside: other holders change
/// their keys all the time.
#[derive(Debug)]
pub(crate) struct KeyWatch {
    pub(crate) prefix: Prefix,
    pub(crate) holds: Arc<Holds>,
    pub(crate) changed: Arc<Strays>,
    pub(crate) patience: Duration,
}

impl KeyWatch {
    /// Reads keys until shutdown. A node that does not answer delays no other node's keys while it
    /// has few of them.
    pub(crate) async fn run(self, net: Arc<Net>) {
        let mut reads = FuturesUnordered::new();
        let mut waiting = VecDeque::new();
        loop {
            while reads.len() < AT_A_TIME
                && let Some(hold) = waiting.pop_front()
            {
                reads.push(self.read(&net, hold));
            }
            select! {
                biased;
                () = net.world.ended() => return,
                Some(()) = reads.next(), if !reads.is_empty() => {}
                (keys, all) = self.changed.taken() => {
                    if all {
                        waiting = self.holds.all().into();
                    } else {
                        let keys = keys.iter().filter_map(|key| self.key(key));
                        let holds = keys.flat_map(|key| self.holds.of(&key));
                        waiting.extend(holds.map(|hold| Arc::downgrade(&hold)));
                    }
                }
            }
        }
    }

    fn key(&self, key: &str) -> Option<Key> {
        let name = Key::decode(&self.prefix, key)?;
        Some(Key::new(&self.prefix, &name))
    }

    /// Reads the key of a hold, and renews the hold if the key is not its own any more. Without an
    /// answer the connection is lost, too, and all keys are read on the next one.
    async fn read(&self, net: &Net, hold: Weak<Hold>) {
        let present = hold.upgrade().filter(|hold| hold.has_own_key());
        let present = present.map(|hold| (hold.primitive.key().clone(), mark(&hold)));
        let Some((key, (field, value))) = present else {
            return;
        };
        let read = Command::new("HGET").arg(key.as_str()).arg(field);
        let deadline = net.world.now() + self.patience;
        let gone = match net.ask(key.slot(), read, deadline).await {
            Ok(found) => match value {
                Some(value) => found.as_str() != Some(&value),
                None => found == Value::Nil,
            },
            Err(error) => error.kind() == ErrorKind::WrongKind,
        };
        if gone && let Some(hold) = hold.upgrade() {
            hold.hurry(net.world.now());
        }
    }
}

/// Returns the field that the key of `hold` has until another hold replaces it. Also returns the
/// value of the field, if that tells holds apart.
fn mark(hold: &Hold) -> (String, Option<String>) {
    match hold.primitive.side() {
        Side::Exclusive => ("t".to_owned(), Some(hold.token.to_string())),
        // The owner has a field, as readers have.
        Side::Shared => (format!("r{}", hold.owner), None),
    }
}

/// The maximum number of keys that are read concurrently.
const AT_A_TIME: usize = 64;
