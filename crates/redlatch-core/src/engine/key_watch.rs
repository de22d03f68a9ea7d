//! Looks at the keys of holds that another program may have changed.

use std::sync::{Arc, Weak};

use futures_util::stream::{self, StreamExt};
use tokio::select;

use super::{Hold, Holds};
use crate::{
    ErrorKind,
    base::timeouts,
    net::{Net, Strays},
    protocol::name::{Key, Prefix},
    runtime::{Command, Value},
};

/// The task that reads the key of each new hold, and of each hold whose key has changed.
///
/// The server reports one change of a key to the connection that has read the key, so each report
/// needs another read. If the key is gone, or is a value of another program, the hold is renewed at
/// once, and the answer decides. Pools are left aside: other holders change their keys all the
/// time.
#[derive(Debug)]
pub(crate) struct KeyWatch {
    pub(crate) prefix: Prefix,
    pub(crate) holds: Arc<Holds>,
    pub(crate) changed: Arc<Strays>,
}

impl KeyWatch {
    /// Reads keys until shutdown.
    pub(crate) async fn run(self, net: Arc<Net>) {
        loop {
            let (keys, all) = select! {
                biased;
                () = net.world.ended() => return,
                taken = self.changed.taken() => taken,
            };
            let holds = if all {
                self.holds.all().iter().filter_map(Weak::upgrade).collect()
            } else {
                let keys = keys.iter().filter_map(|key| self.key(key));
                keys.flat_map(|key| self.holds.of(&key)).collect()
            };
            self.read(&net, holds).await;
        }
    }

    fn key(&self, key: &str) -> Option<Key> {
        let name = Key::decode(&self.prefix, key)?;
        Some(Key::new(&self.prefix, &name))
    }

    /// Reads the keys of `holds`, and renews the holds whose keys are not theirs any more.
    async fn read(&self, net: &Net, holds: Vec<Arc<Hold>>) {
        let of_one = holds.into_iter().filter(|hold| hold.has_own_key());
        let reads = stream::iter(of_one).map(|hold| async move {
            let key = hold.primitive().key();
            let read = Command::new("HGET").arg(key.as_str()).arg("k");
            let deadline = net.world.now() + timeouts::REQUEST;
            let gone = match net.ask(key.slot(), read, deadline).await {
                Ok(kind) => kind == Value::Nil,
                Err(error) => error.kind() == ErrorKind::WrongKind,
            };
            if gone {
                hold.hurry(net.world.now());
            }
        });
        reads.buffer_unordered(AT_A_TIME).collect().await
    }
}

/// The maximum number of keys that are read concurrently.
const AT_A_TIME: usize = 64;
