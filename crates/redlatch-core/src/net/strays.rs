//! Texts that a background task handles: notifications for waiters that this client does not have,
//! and changed keys.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::Notify;

use crate::base::sync::{Mutex, lock};

/// Messages without a listener in this client, or changed keys. Each text is stored once, until a
/// task takes it.
///
/// A server sends a message without a listener if it still has a waiter that has gone. Either the
/// waiter's undo is under way, or the server has lost it.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    state: Mutex<State>,
    nudge: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: BTreeSet<Arc<str>>,
    /// Whether a connection was made since the last [`taken`](Strays::taken).
    connected: bool,
}

impl Strays {
    /// Adds a text. Drops it if very many texts are stored, and returns `false` then. For a message
    /// without a listener, another re-check causes another notification.
    pub(crate) fn add(&self, text: Arc<str>) -> bool {
        let mut state = lock(&self.state);
        let has_room = state.messages.len() < MOST;
        if has_room {
            state.messages.insert(text);
            drop(state);
            self.nudge.notify_one();
        }
        has_room
    }

    /// Records a new connection. The server's state may be older than this client's.
    pub(super) fn connected(&self) {
        lock(&self.state).connected = true;
        self.nudge.notify_one();
    }

    /// Waits for messages or a connection. Returns all messages, and whether a connection was made.
    pub(crate) async fn taken(&self) -> (BTreeSet<Arc<str>>, bool) {
        loop {
            let state = std::mem::take(&mut *lock(&self.state));
            if state.connected || !state.messages.is_empty() {
                return (state.messages, state.connected);
            }
            self.nudge.notified().await;
        }
    }
}

/// Maximum number of stored messages.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_room_is_refused_until_the_others_are_taken() {
        let strays = Strays::default();
        for number in 0..MOST {
            assert!(strays.add(number.to_string().into()));
        }
        assert!(!strays.add("one more".into()));
        lock(&strays.state).messages.clear();
        assert!(strays.add("one more".into()));
    }
}
