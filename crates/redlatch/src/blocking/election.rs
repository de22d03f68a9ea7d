//! Leader election.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    background::Background,
    iter::Iter,
    stop::{Stop, work},
};
use crate::{Durability, Error, Leader, Observe, OnError, Term};

/// The blocking [`Election`](crate::Election): one replica at work, the others standing by.
///
/// The handle is cheap to make and to clone and does no I/O. The first call that would send a
/// request reports an invalid name or option. All calls panic in async code.
///
/// The work of a leader runs on a thread of its own. Nothing can stop a thread from outside: work
/// that does not ask its [`Stop`] goes on after the end of its term, beside the next leader. The
/// async election stops the work itself. Here the work has to ask between steps, and to pass the
/// token to what it writes.
#[derive(Clone)]
pub struct Election {
    inner: crate::Election,
    background: Arc<Background>,
}

impl Election {
    pub(super) fn new(inner: crate::Election, background: &Arc<Background>) -> Self {
        Self {
            inner,
            background: Arc::clone(background),
        }
    }

    /// Labels this handle's metrics and events with `class`.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.inner = self.inner.class(class);
        self
    }

    /// Sets the lease of a term. See [`Election::lease`](crate::Election::lease).
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.inner = self.inner.lease(lease);
        self
    }

    /// Sets the value that the leader shows to others, such as its address.
    #[must_use]
    pub fn value(mut self, value: &str) -> Self {
        self.inner = self.inner.value(value);
        self
    }

    /// Says why this candidate leads. See [`Election::note`](crate::Election::note).
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        self.inner = self.inner.note(note);
        self
    }

    /// Lets candidates lead in the order of their arrival. All candidates of a name have to do the
    /// same.
    #[must_use]
    pub fn fair(mut self) -> Self {
        self.inner = self.inner.fair();
        self
    }

    /// Sets the durability of a term's grant and renewals.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.inner = self.inner.durability(durability);
        self
    }

    /// Campaigns, and runs `work` while this candidate leads. Returns when the work has returned in
    /// a term that has not begun to end, unless it has called [`Term::step_down`]. Otherwise it
    /// campaigns again. See [`Election::lead`](crate::Election::lead).
    ///
    /// # Errors
    ///
    /// Those of [`Election::lead`](crate::Election::lead).
    ///
    /// # Panics
    ///
    /// If the work panics.
    #[track_caller]
    pub fn lead(&self, mut work: impl FnMut(&Term, Stop<'_>) + Send) -> Result<(), Error> {
        let lead = self.inner.lead(async |term: &Term| {
            let stop = Stop::from(term);
            work::run(|| work(term, stop));
            pause_after(term).await;
        });
        self.background.wait(lead)
    }

    /// The same for work that may fail, with `on_error` for failures. Returns the value of the
    /// work.
    ///
    /// # Errors
    ///
    /// Those of [`FallibleElection::lead`](crate::FallibleElection::lead).
    ///
    /// # Panics
    ///
    /// If the work panics.
    #[track_caller]
    pub fn try_lead<T, E>(
        &self,
        on_error: OnError,
        mut work: impl FnMut(&Term, Stop<'_>) -> Result<T, E> + Send,
    ) -> Result<T, Error>
    where
        T: Send,
        E: fmt::Display + Send,
    {
        let election = self.inner.clone().on_error(on_error);
        let lead = election.lead(async |term: &Term| {
            let stop = Stop::from(term);
            let value = work::run(|| work(term, stop));
            pause_after(term).await;
            value
        });
        self.background.wait(lead)
    }

    /// Returns who leads; `None` if nobody does. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `leader` of the async handle.
    #[track_caller]
    pub fn leader(&self) -> Result<Option<Leader>, Error> {
        self.background.wait(self.inner.leader())
    }

    /// Returns who leads now, and each change from then on. For display; it decides nothing.
    pub fn observe(&self) -> Iter<Observe> {
        Iter::new(self.inner.observe(), &self.background)
    }

    /// Ends the present term at once. Returns `false` if nobody leads.
    ///
    /// # Errors
    ///
    /// Those of `force_release` of the async handle.
    #[track_caller]
    pub fn force_release(&self) -> Result<bool, Error> {
        self.background.wait(self.inner.force_release())
    }

    /// Returns the name as it was given; `None` if it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.inner.name()
    }
}

/// Waits for the end of a term that is over. Otherwise work that has returned late would count as
/// work that has ended in its term.
async fn pause_after(term: &Term) {
    if term.check().is_err() {
        std::future::pending().await
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
