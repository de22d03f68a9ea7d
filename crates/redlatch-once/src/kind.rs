//! The claim of one slot: what the engine does not know of it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redlatch_core::family::Key;

use crate::{JobOutcome, decide::Intent};

/// The longest reason of a failure that is kept, in bytes.
const REASON: usize = 500;

/// The claim of one slot by one call.
///
/// The engine knows grants and contention. What else the server replies, and how the run ends, is
/// kept beside it.
#[derive(Debug)]
pub(crate) struct SlotClaim {
    pub(crate) key: Key,
    pub(crate) class: Arc<str>,
    pub(crate) intent: Intent,
    pub(crate) limit: u64,
    pub(crate) ttl: Duration,
    pub(crate) keep: Option<Duration>,
    pub(crate) process: String,
    pub(crate) state: Mutex<State>,
}

/// The part of a claim that the engine does not know.
#[derive(Debug)]
pub(crate) struct State {
    /// The number of the attempt, if the last answer is a grant.
    attempt: Option<u32>,
    /// How the run ended.
    outcome: JobOutcome,
    why: String,
}

impl Default for State {
    fn default() -> Self {
        Self {
            attempt: None,
            // A guard that goes without a word was dropped by its caller.
            outcome: JobOutcome::Dropped,
            why: String::new(),
        }
    }
}

impl SlotClaim {
    /// Records how the run ended, for the release that follows.
    pub(crate) fn end(&self, outcome: JobOutcome, why: &str) {
        let mut end = why.len().min(REASON);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        let mut state = self.state();
        state.outcome = outcome;
        why.get(..end)
            .unwrap_or_default()
            .clone_into(&mut state.why);
    }

    /// Records the last answer to the claim.
    pub(crate) fn claimed(&self, attempt: Option<u32>) {
        self.state().attempt = attempt;
    }

    /// Returns the number of the attempt, if the last answer is a grant.
    pub(crate) fn attempt(&self) -> Option<u32> {
        self.state().attempt
    }

    /// Returns how the run ended, and why.
    pub(crate) fn ended(&self) -> (&'static str, String) {
        let state = self.state();
        (state.outcome.as_str(), state.why.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
