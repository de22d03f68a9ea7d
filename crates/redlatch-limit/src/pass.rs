//! What a rate limiter answers.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use redlatch_core::{
    Error,
    family::{About, Internals},
};

use crate::{
    ask::{call, received},
    limiter::{KIND, Limiter},
    lines::{Request, Settlement},
    rate::{Rate, Terms},
    scripts::Mark,
};

/// The answer of a rate limiter to a call that does not wait for ever.
#[derive(Debug)]
#[must_use = "a refused call must not do the work"]
pub enum Admission {
    /// You may go on.
    Pass(Pass),
    /// The rate is used up.
    Refused(Refused),
}

impl Admission {
    /// Returns the pass, if there is one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let mails = client.rate_limiter("mails").rate(1, Duration::from_secs(60));
    /// assert!(mails.try_acquire(1).await?.pass().is_some());
    /// assert!(mails.try_acquire(1).await?.pass().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn pass(self) -> Option<Pass> {
        match self {
            Self::Pass(pass) => Some(pass),
            Self::Refused(_) => None,
        }
    }

    /// Returns how many have passed, and how many were refused.
    pub(crate) const fn tally(&self) -> (usize, usize) {
        match self {
            Self::Pass(_) => (1, 0),
            Self::Refused(_) => (0, 1),
        }
    }
}

/// A permission that was taken from a rate limiter. Its tokens are used, whether you keep or drop
/// it. See [`settle`](Self::settle) for a cost that you know only afterwards.
#[derive(Debug)]
pub struct Pass {
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) terms: Terms,
    pub(crate) debt: u64,
    pub(crate) at: u64,
    pub(crate) mark: Option<Mark>,
}

impl Pass {
    /// Returns the tokens that were taken.
    pub const fn cost(&self) -> u64 {
        self.terms.cost
    }

    /// Returns the tokens that the next call could take at once.
    pub fn remaining(&self) -> u64 {
        self.terms.rate.left(self.debt)
    }

    /// Returns the time until the whole burst is free again, if nothing more is taken.
    pub const fn reset_after(&self) -> Duration {
        Duration::from_micros(self.debt)
    }

    /// Returns the time at which the pass counts, by the server's clock.
    pub fn counts_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.at)
    }

    /// Sets the cost to `actual` tokens, which may be 0 or more than the burst. Use it if you knew
    /// only an estimate, such as for the tokens of a language model.
    ///
    /// More tokens are a debt at once, which delays later calls, by two years at most. Fewer are
    /// given back as far as they are still unpaid: the limiter forgets what the rate has paid
    /// already, and what later passes got back counts as paid. Nothing is given back if the rate
    /// has changed, or if the answer to the request of this pass was lost. While passes are taken
    /// ahead, by [`reserve`](crate::RateLimiter::reserve) or by waiters, only the last of them can
    /// be given back, as a whole. Costs one command, and none if `actual` is the cost. Works on a
    /// full server.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let tokens = client.rate_limiter("model").rate(60_000, Duration::from_secs(60));
    /// let pass = tokens.acquire(4_000).await?; // the prompt and the longest answer
    /// pass.settle(1_200).await?; // what the model has reported
    /// assert_eq!(tokens.peek().await?.remaining(), 58_800);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call). The first cost counts then, or the actual
    /// one.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the cost changes or not.
    pub async fn settle(self, actual: u64) -> Result<(), Error> {
        if actual == self.terms.cost {
            return Ok(());
        }
        let (limiter, request) = self.settlement(actual);
        let (of, name) = (KIND, limiter.key.name());
        // In a fork, no task would ask.
        limiter.client.check_process().about(of, name)?;
        let (call, answer) = call(request, limiter.client.now());
        limiter.ask_at_once(call);
        received(answer).await.map(drop).about(of, name)
    }

    /// Returns the request that sets the cost to `actual`.
    pub(crate) fn settlement(self, actual: u64) -> (Arc<Limiter>, Request) {
        let request = Request::Settle(Settlement {
            terms: self.terms,
            // A cost has 53 bits.
            tokens: actual.min(1 << 53).cast_signed() - self.terms.cost.cast_signed(),
            mark: self.mark,
        });
        (self.limiter, request)
    }
}

/// The refusal of a rate limiter. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The time until the same call would pass, if nothing else is taken before.
    pub retry_after: Duration,
    /// The time until the whole burst is free again, if nothing is taken before.
    pub reset_after: Duration,
    /// The tokens that a smaller call could take at once.
    pub remaining: u64,
}

impl Refused {
    pub(crate) fn new(Terms { rate, cost }: Terms, debt: u64, wait: Duration) -> Self {
        let retry_after = rate.retry_after(debt, cost);
        // A new rate may begin later than the debt says, and passes nothing before.
        let begins = wait <= retry_after;
        Self {
            retry_after: retry_after.max(wait),
            reset_after: Duration::from_micros(debt),
            remaining: if begins { rate.left(debt) } else { 0 },
        }
    }
}

/// What the server knows of a rate limiter, without the burst, which each call brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitInfo {
    /// The tokens that are taken and not paid yet, without those of passes that were taken ahead
    /// with a former rate.
    pub owed: u64,
    /// The time until all of them are paid, if nothing more is taken.
    pub reset_after: Duration,
    /// The rate of the last call: tokens, and the time in which they pass, without a common
    /// divisor. `None` if nothing is owed.
    pub rate: Option<(u64, Duration)>,
}

/// The state of a rate limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub(crate) rate: Rate,
    /// With this rate, in µs.
    pub(crate) debt: u64,
    /// The µs until the last rate begins. Nothing passes before.
    pub(crate) ahead: u64,
}

impl Level {
    /// Returns the tokens that a call could take at once.
    pub fn remaining(&self) -> u64 {
        match self.ahead {
            0 => self.rate.left(self.debt),
            _ => 0,
        }
    }

    /// Returns the time until the whole burst is free again, if nothing is taken before.
    pub const fn reset_after(&self) -> Duration {
        Duration::from_micros(self.debt)
    }

    /// Returns the time until `cost` tokens pass; `None` if the cost is above the burst.
    pub fn retry_after(&self, cost: u64) -> Option<Duration> {
        let begins = Duration::from_micros(self.ahead);
        let free = (cost <= self.rate.burst).then(|| self.rate.retry_after(self.debt, cost));
        free.map(|free| free.max(begins))
    }
}
