//! Leading with work that may fail or has a result.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use redlatch_core::{
    Error, LossCause,
    family::{Internals, TermEvent, invalid},
};

use crate::{Election, ScopedTerm, Term, election::Plan};

/// The action of a leader whose work has failed. The choice has no default. With `Resign` as the
/// default, a leader would give up its place after every hiccup. With `Retry`, a broken leader
/// would keep the other candidates from trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Gives the name back, pauses, and campaigns again. Another candidate may lead in the
    /// meantime.
    Resign {
        /// From the release to the next campaign: 10 ms to 365 days.
        pause: Duration,
    },
    /// Stays the leader, pauses, and runs the work again in the same term.
    Retry {
        /// From the end of the work to its next run: 10 ms to 365 days. The term is renewed in the
        /// meantime, and may be lost.
        pause: Duration,
    },
}

/// An [`Election`] with a choice for failed work. See [`Election::on_error`].
#[derive(Clone, Debug)]
#[must_use = "nobody leads until `lead` is called and awaited"]
pub struct FallibleElection {
    pub(crate) election: Election,
    pub(crate) on_error: OnError,
}

impl FallibleElection {
    /// Campaigns, and runs `work` while this candidate leads. Returns the value of the work.
    ///
    /// As [`Election::lead`], except that an `Err` leads to the choice of
    /// [`on_error`](Election::on_error). The event `work_failed` reports an error of the work.
    /// Where a return leads to the next campaign, the value of `Ok` is dropped. Work whose value
    /// counts also at the end of a term calls [`Term::resign`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    /// use redlatch::OnError;
    ///
    /// let mut attempts = 0;
    /// let pause = Duration::from_secs(5);
    /// let election = client.election("importer").on_error(OnError::Retry { pause });
    /// let rows = election.lead(async |_term| {
    ///     attempts += 1;
    ///     if attempts < 3 { Err("the file is not there yet") } else { Ok(1_000) }
    /// }).await?;
    /// assert_eq!((rows, attempts), (1_000, 3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Election::lead`], and `InvalidOption` for a pause that is out of bounds. Never an error
    /// of the work.
    ///
    /// # Cancel safety
    ///
    /// As [`Election::lead`].
    pub fn lead<T, E, F>(
        &self,
        mut work: F,
    ) -> impl Future<Output = Result<T, Error>> + use<T, E, F>
    where
        F: AsyncFnMut(&Term) -> Result<T, E>,
        E: fmt::Display,
    {
        let this = self.clone();
        async move {
            let plan = this.plan()?;
            loop {
                let mut term = plan.term().await?;
                let next = loop {
                    let ran = term.run(work(&term)).await;
                    let next = this.next(&term, ran);
                    let Next::Retry(pause) = next else {
                        break next;
                    };
                    if term.pause(pause).await.is_err() {
                        break Next::Campaign(None);
                    }
                };
                if let Some(value) = next.after(term, &plan).await {
                    return Ok(value);
                }
            }
        }
    }

    /// The same as [`lead`](Self::lead), for work that borrows local data inside a spawned task.
    /// See [`Election::lead_boxed`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let pause = std::time::Duration::from_secs(5);
    /// # let election = client.election("importer").on_error(redlatch::OnError::Retry { pause });
    /// let importing = tokio::spawn(async move {
    ///     let tenant = String::from("tenant 7");
    ///     let tenant = &tenant;
    ///     election.lead_boxed(|term| Box::pin(async move {
    ///         Ok::<_, String>(format!("{tenant}, with token {}", term.token()))
    ///     })).await
    /// });
    /// println!("imported for {}", importing.await.expect("no panic")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`lead`](Self::lead).
    ///
    /// # Cancel safety
    ///
    /// As [`lead`](Self::lead).
    pub async fn lead_boxed<'env, T, E: fmt::Display, F>(&self, mut work: F) -> Result<T, Error>
    where
        F: for<'a> FnMut(
            &'a ScopedTerm<'env>,
        ) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>,
    {
        let plan = self.plan()?;
        loop {
            let mut term = ScopedTerm::new(plan.term().await?);
            let next = loop {
                let ran = term.run(work(&term)).await;
                let next = self.next(&term, ran);
                let Next::Retry(pause) = next else {
                    break next;
                };
                if term.term.pause(pause).await.is_err() {
                    break Next::Campaign(None);
                }
            };
            if let Some(value) = next.after(term.term, &plan).await {
                return Ok(value);
            }
        }
    }

    fn plan(&self) -> Result<Arc<Plan>, Error> {
        let (OnError::Resign { pause } | OnError::Retry { pause }) = self.on_error;
        if pause < MIN_PAUSE || pause > MAX_PAUSE {
            let name = self.election.name().unwrap_or_default();
            return Err(invalid(format!(
                "the election {name:?} has a pause of {pause:?} after failed work; it is 10 ms to 365 days"
            )));
        }
        self.election.plan()
    }

    fn next<T, E: fmt::Display>(
        &self,
        term: &Term,
        ran: Result<Result<T, E>, LossCause>,
    ) -> Next<T> {
        match ran {
            Ok(Ok(value)) if term.is_resigned() => Next::Done(value),
            Ok(Err(error)) => {
                term.report(TermEvent::WorkFailed(error.to_string()));
                match self.on_error {
                    OnError::Resign { pause } => Next::Campaign(Some(pause)),
                    OnError::Retry { pause } => Next::Retry(pause),
                }
            }
            _ => Next::Campaign(None),
        }
    }
}

/// The step that follows a run of the work.
enum Next<T> {
    Done(T),
    /// Runs the work again after this pause.
    Retry(Duration),
    /// Ends the term, and campaigns again after this pause.
    Campaign(Option<Duration>),
}

impl<T> Next<T> {
    /// Ends the term. Returns the value that ends the candidacy, if there is one.
    async fn after(self, term: Term, plan: &Plan) -> Option<T> {
        term.end().await;
        match self {
            Self::Done(value) => Some(value),
            Self::Campaign(Some(pause)) => {
                plan.election.client.pause(pause).await;
                None
            }
            _ => None,
        }
    }
}

/// Shortest pause after failed work. Without one, work that fails at once would load the server.
const MIN_PAUSE: Duration = Duration::from_millis(10);

/// Longest pause after failed work.
const MAX_PAUSE: Duration = Duration::from_secs(365 * 24 * 60 * 60);
