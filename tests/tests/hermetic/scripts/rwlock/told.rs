//! Whoever may come in because of what a script did has been told, or will be by a message that it
//! has not acted on yet (P8). What time alone opens, waiters know from their last answer.

use std::collections::BTreeSet;

use super::model::Waiting;
use crate::scripts::prelude::*;

/// The channel of the message to all waiting readers of the lock `x`.
pub(super) const BROADCAST: &str = "p:{t}x:b";

/// Which waiters have been told something since they last asked.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeSet<String>);

impl Told {
    /// The waiter has asked.
    pub(super) fn asked(&mut self, member: &str) {
        self.0.remove(address(member));
    }

    /// The waiter has failed, and knows so until it asks again.
    pub(super) fn refused(&mut self, member: &str) {
        self.0.insert(address(member).to_owned());
    }

    /// These messages went out; `waiting` is who waited for them.
    pub(super) fn hear(&mut self, messages: &[(String, String)], waiting: &Waiting) {
        for (channel, payload) in messages {
            if channel == BROADCAST {
                let readers = waiting.readers.members.iter();
                self.0
                    .extend(readers.map(|(member, _)| address(member).to_owned()));
                continue;
            }
            let n = payload.strip_prefix(&key("x")).unwrap();
            let told = format!("PUBLISH {channel}{n}");
            self.0.insert(address(&told).to_owned());
        }
    }

    /// Tells whether a message to this waiter is still to be acted on.
    pub(super) fn knows(&self, member: &str) -> bool {
        self.0.contains(address(member))
    }

    /// Returns one of those who may come in now, could not before, and know nothing of it.
    pub(super) fn left_alone(
        &self,
        before: &BTreeSet<String>,
        now: &BTreeSet<String>,
    ) -> Option<String> {
        let mut newly = now.difference(before);
        newly.find(|member| !self.knows(member)).cloned()
    }
}

/// Returns the address in a member of a queue: `<verb> <channel> <n>`.
fn address(member: &str) -> &str {
    let ends = member.match_indices(' ').nth(2);
    ends.map_or(member, |(at, _)| &member[..at])
}
