//! Connections for commands.

use async_trait::async_trait;

use super::wire::Wire;
use crate::runtime::{Command, Conn, Outcome};

/// A connection for commands, of either protocol.
#[derive(Debug)]
pub(super) struct CommandConn {
    wire: Wire,
}

impl CommandConn {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire }
    }
}

#[async_trait]
impl Conn for CommandConn {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        if batch.iter().all(|command| command.args().len() > 0) {
            return if batch.is_empty() {
                Vec::new()
            } else {
                self.wire.exchange(batch).await
            };
        }
        // A server never answers an empty command, which would shift all later replies.
        let empty: Vec<bool> = batch
            .iter()
            .map(|command| command.args().len() == 0)
            .collect();
        let rest: Vec<Command> = batch
            .into_iter()
            .filter(|command| command.args().len() > 0)
            .collect();
        let mut outcomes = if rest.is_empty() {
            Vec::new()
        } else {
            self.wire.exchange(rest).await
        }
        .into_iter();
        let not_sent = || Outcome::NotSent("an empty command".to_owned());
        empty
            .into_iter()
            .map(|empty| {
                if empty {
                    not_sent()
                } else {
                    outcomes.next().unwrap_or_else(not_sent)
                }
            })
            .collect()
    }
}
