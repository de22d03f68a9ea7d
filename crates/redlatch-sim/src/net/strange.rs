//! Answers in words that no client knows.

use redlatch_core::runtime::{Command, Reply, ServerError};

use super::{Net, State};
use crate::faults::Fault;

/// When a server answers a command in unknown words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strange {
    /// Instead of the execution.
    Before,
    /// After the execution.
    After,
}

impl Net {
    /// Draws whether a command is answered in unknown words, as a proxy before the server may.
    pub(super) fn draw_strange(&self, state: &mut State, command: &Command) -> Option<Strange> {
        let hit = state.roll(Fault::Strange);
        let strange = match hit && state.rng.chance(500) {
            true => Strange::After,
            false => Strange::Before,
        };
        hit.then(|| {
            self.watch.fault(Fault::Strange, self.exec.now(), || {
                let verb = command.args().next().unwrap_or_default();
                let verb = String::from_utf8_lossy(verb);
                match strange {
                    Strange::Before => format!("{verb} is refused in unknown words"),
                    Strange::After => format!("{verb} is executed and answered in unknown words"),
                }
            });
            strange
        })
    }
}

impl State {
    /// Returns an answer in unknown words. A planted fault gives it a code that clients know.
    pub(super) fn strange_words(&self) -> Reply {
        let code = self.spoilt.strange.unwrap_or("WEIRD");
        let line = format!("{code} the proxy is tired");
        Err(ServerError::parse(&line))
    }
}
