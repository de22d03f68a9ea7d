//! Calls to waiters that this client does not have.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use tokio::sync::Notify;

use crate::sync::lock;

/// Messages that nobody of this client listened for, each once, until somebody takes them.
///
/// A server sends such a message when it remembers a waiter that has gone: its undo is under way, or
/// the server has forgotten it.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    messages: Mutex<BTreeSet<Arc<str>>>,
    nudge: Notify,
}

impl Strays {
    /// Takes in a message. While very many wait to be taken it is dropped: another look calls again.
    pub(crate) fn add(&self, message: Arc<str>) {
        let mut messages = lock(&self.messages);
        if messages.len() < MOST {
            messages.insert(message);
            drop(messages);
            self.nudge.notify_one();
        }
    }

    /// Waits for messages and takes all of them.
    pub(crate) async fn taken(&self) -> BTreeSet<Arc<str>> {
        loop {
            let messages = std::mem::take(&mut *lock(&self.messages));
            if !messages.is_empty() {
                return messages;
            }
            self.nudge.notified().await;
        }
    }
}

/// Messages kept at a time.
const MOST: usize = 4096;
