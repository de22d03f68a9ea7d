//! The handle of a rate limiter.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use redlatch_core::{
    Client, Error, ErrorKind,
    family::{About, Internals, Key, Lease, Name, NameError, Rule, invalid_name},
};
use tokio::select;

use crate::{
    Admission, Level, LimitInfo, Pass,
    ask::{Answer, Reply, call, gone, received},
    lines::{Lines, Request, Until},
    rate::{Options, Terms},
    scripts::{self, Debt},
};

/// The kind in events, metrics and errors.
pub(crate) const KIND: &str = "limit";

/// A rate limiter under one name, shared by all processes that use the same server and prefix.
///
/// `Client::rate_limiter` creates a handle. Set its [`rate`](Self::rate), and its
/// [`burst`](Self::burst) if it is not the count of the rate. In any window of time, the costs of
/// all passes together are at most rate × window + burst. So with the default burst, twice the
/// count can pass in the first period.
///
/// * **Once**: a call counts once, however often its request is sent, duplicated or delayed.
/// * **Clock**: only the server's clock counts. A clock that is set back delays passes by as much,
///   and by no more than the time since the last call.
/// * **Rate and burst** are not stored: each call brings its own. A rate that has changed takes
///   effect with the first call that brings it, or when all passes count that were taken ahead: no
///   other pass counts before. No debt is forgiven: as many tokens are owed as before. A rate by
///   which they take longer than 365 days passes nothing. If processes use different rates and
///   bursts for one name, the highest of them bound the passes.
/// * **Order**: calls that wait pass in order of arrival within one client, and take turns with
///   those of other clients. So calls that do not wait get what waiting ones leave.
/// * **Failover**: a server that forgets the limiter, in a failover or a restart without
///   persistence, lets one more burst pass, besides the passes that were taken ahead.
/// * **Life**: the limiter uses no memory a second after its debt is paid, and 31 s after the last
///   call.
///
/// The algorithm is the generic cell rate algorithm of [ITU-T I.371], as [throttled] uses it for
/// requests.
///
/// [ITU-T I.371]: https://www.itu.int/rec/T-REC-I.371
/// [throttled]: https://github.com/throttled/throttled
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// use std::time::Duration;
/// use redlatch::limit::Admission;
///
/// let api = client.rate_limiter("api").rate(100, Duration::from_secs(1)).burst(20);
/// match api.key("tenant-7").try_acquire(1).await? {
///     Admission::Pass(_) => println!("200"),
///     Admission::Refused(refused) => println!("429, Retry-After {:?}", refused.retry_after),
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias("RRateLimiter", "getRateLimiter", "throttle", "GCRA"))]
#[derive(Clone, Debug)]
#[must_use = "nothing passes until a method is awaited"]
pub struct RateLimiter {
    limiter: Result<Arc<Limiter>, NameError>,
    options: Options,
}

/// One key of a client, and the lines of the client's calls.
#[derive(Clone)]
pub(crate) struct Limiter {
    pub(crate) client: Client,
    pub(crate) key: Key,
    class: Arc<str>,
    pub(crate) lines: Arc<Lines>,
}

impl RateLimiter {
    /// Creates a handle of the rate limiter called `name`, as `Client::rate_limiter` does.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let limiter = Name::parse(name.as_ref()).map(|name| {
            Arc::new(Limiter {
                client: client.clone(),
                key: client.key(&name),
                class: "".into(),
                lines: client.table(),
            })
        });
        Self {
            limiter,
            options: Options::default(),
        }
    }

    /// Lets `count` tokens pass in each `per`. Without a rate, calls fail with `InvalidOption`.
    ///
    /// 1 to 2^53 - 1 tokens, per 1 µs to 365 days. Fractions of a µs are cut off. The rate is exact
    /// otherwise: `rate(3, 7 s)` gives 3,000,000 tokens in 7,000,000 s.
    pub const fn rate(mut self, count: u64, per: Duration) -> Self {
        self.options.rate = Some((count, per));
        self
    }

    /// Returns the rate as it was given: tokens, and the time in which they pass.
    pub const fn quota(&self) -> Option<(u64, Duration)> {
        self.options.rate
    }

    /// Lets at most `tokens` pass at once, after a pause. Default: the count of the rate.
    ///
    /// 1 or more, and no more than the rate gives in 365 days.
    pub const fn burst(mut self, tokens: u64) -> Self {
        self.options.burst = Some(tokens);
        self
    }

    /// Labels the metrics and events of this handle with `class`. Names are never used as labels.
    pub fn class(mut self, class: &str) -> Self {
        if let Ok(limiter) = &mut self.limiter {
            Arc::make_mut(limiter).class = class.into();
        }
        self
    }

    /// Returns the limiter of `id` in the family of this name, with the same options. Its name is
    /// this name, a colon and `id`, and it shares nothing with other ids of this name. `a` with the
    /// id `b:c` is `a:b` with the id `c`. Does no I/O.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::embedded().await?;
    /// let tenants = client.rate_limiter("tenant").rate(5, std::time::Duration::from_secs(1));
    /// assert_eq!(tenants.key("42").name(), Some("tenant:42"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn key(&self, id: impl fmt::Display) -> Self {
        let limiter = self.limiter.clone().and_then(|mut limiter| {
            let name = Name::parse(&format!("{}:{id}", limiter.key.name()))?;
            Arc::make_mut(&mut limiter).key = limiter.client.key(&name);
            Ok(limiter)
        });
        Self { limiter, ..*self }
    }

    /// Takes `cost` tokens if they may pass now. Costs one command. Calls for one name that are
    /// made at the same time share a command.
    ///
    /// # Errors
    ///
    /// `OutOfRange` if `cost` is above the burst, and `InvalidOption` for a cost of 0 or without a
    /// valid rate. `TooManyWaiters` if the client has as many calls as its `max_waiters`. Otherwise
    /// those of [every call](Error#errors-of-every-call). After `OutcomeUnknown`, the tokens may be
    /// taken.
    ///
    /// # Cancel safety
    ///
    /// After a drop, nothing is taken, unless the answer is lost, too: an unsent request is not
    /// sent, and what a sent one takes is given back in the background, as [`Pass::settle`] does. A
    /// client that closes gives nothing back.
    #[doc(alias = "tryAcquire")]
    pub async fn try_acquire(&self, cost: u64) -> Result<Admission, Error> {
        let (limiter, terms) = self.checked(cost)?;
        let asked = limiter.try_acquire(terms);
        limiter.passing(asked, Admission::tally).await
    }

    /// The same as [`try_acquire`](Self::try_acquire) for several [keys](Self::key), each by
    /// itself. Returns an answer for each, in order. Keys of one server, or one slot in a cluster,
    /// share a command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let senders = client.rate_limiter("sender").rate(1, std::time::Duration::from_secs(60));
    /// let answers = senders.try_acquire_each(["ann", "bob", "ann"], 1).await?;
    /// let passed: Vec<_> = answers.into_iter().map(|answer| answer.pass().is_some()).collect();
    /// assert_eq!(passed, [true, true, false]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire). After an error, the passes of the other keys are given
    /// back.
    ///
    /// # Cancel safety
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_each<I: fmt::Display>(
        &self,
        ids: impl IntoIterator<Item = I, IntoIter: Send> + Send,
        cost: u64,
    ) -> Result<Vec<Admission>, Error> {
        let (family, _) = self.checked(cost)?;
        let keys = ids.into_iter().map(|id| self.key(id).checked(cost));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let all = async {
            let ask = |(limiter, terms): &(Arc<Limiter>, Terms)| limiter.ask(*terms, Until::Now);
            let asked: Vec<_> = keys.iter().map(ask).collect();
            let mut answers = Vec::with_capacity(asked.len());
            for answer in asked {
                answers.push(received(answer).await?);
            }
            answers.into_iter().map(Answer::admission).collect()
        };
        let tally = |all: &Vec<_>| {
            let passed = all.iter().filter(|one| Admission::tally(one).0 > 0).count();
            (passed, all.len() - passed)
        };
        family.passing(all, tally).await
    }

    /// Waits until `cost` tokens have passed.
    ///
    /// Calls of one client for one name pass in order of arrival, and only the first of them asks:
    /// its pass is taken ahead, and the call returns when the pass counts. So a wait costs one
    /// command, however long it is.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let crawler = client.rate_limiter("example.org").rate(2, Duration::from_secs(1)).burst(1);
    /// for page in ["/", "/about", "/news"] {
    ///     crawler.acquire(1).await?; // every half second
    ///     println!("fetch {page}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire), and `OutOfRange` if more than 365 days of the rate are
    /// taken ahead.
    ///
    /// # Cancel safety
    ///
    /// A dropped waiter takes nothing. If it was the first of its client, its pass is given back.
    /// If later passes are taken ahead, its turn is for the next waiter with the same rate and no
    /// greater cost. Without such a waiter, the turn stays unused.
    pub async fn acquire(&self, cost: u64) -> Result<Pass, Error> {
        let (limiter, terms) = self.checked(cost)?;
        let waited = async {
            let admission = limiter.wait(terms, None).await?;
            admission.pass().ok_or_else(too_far)
        };
        limiter.passing(waited, |_| (1, 0)).await
    }

    /// Waits until `cost` tokens have passed, at most for `wait`. Returns at once if the server
    /// says that the time is too short. Otherwise as [`acquire`](Self::acquire).
    ///
    /// A waiter behind others of its client asks once more at the end of `wait`, in front of them.
    /// If the server does not answer, the call fails with the client's patience, or with twice the
    /// patience behind a request that is under way.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_for(&self, cost: u64, wait: Duration) -> Result<Admission, Error> {
        if wait.is_zero() {
            return self.try_acquire(cost).await;
        }
        let (limiter, terms) = self.checked(cost)?;
        let waited = limiter.wait(terms, Some(wait));
        limiter.passing(waited, Admission::tally).await
    }

    /// Takes `cost` tokens now or ahead, without waiting for its turn. Returns the pass, and the
    /// time after which you may use it. Costs one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let sms = client.rate_limiter("sms").rate(1, Duration::from_secs(10));
    /// let (_, wait) = sms.reserve(1).await?;
    /// assert_eq!(wait, Duration::ZERO);
    /// let (_, wait) = sms.reserve(1).await?; // schedule the message
    /// assert!(wait > Duration::from_secs(9));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire), and `OutOfRange` if more than 365 days of the rate are
    /// taken ahead.
    ///
    /// # Cancel safety
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn reserve(&self, cost: u64) -> Result<(Pass, Duration), Error> {
        let (limiter, terms) = self.checked(cost)?;
        let reserved = async {
            match received(limiter.ask(terms, Until::Whenever)).await? {
                Answer::Taken(taken) => {
                    let wait = taken.wait;
                    Ok((taken.keep()?, wait))
                }
                _ => Err(too_far()),
            }
        };
        limiter.passing(reserved, |_| (1, 0)).await
    }

    /// Returns the state, without taking anything. Costs one command. The result may be outdated on
    /// arrival.
    ///
    /// # Errors
    ///
    /// `InvalidOption` without a valid rate. Otherwise those of [every
    /// call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn peek(&self) -> Result<Level, Error> {
        let (limiter, Terms { rate, .. }) = self.checked(1)?;
        let found = limiter.look().await?;
        let (debt, ahead) = found.map_or((0, 0), |debt| {
            if (debt.rate.count, debt.rate.period) == (rate.count, rate.period) {
                return (debt.micros, debt.ahead);
            }
            // The new rate begins when all passes count that were taken ahead.
            let after = rate.time(debt.owed(debt.turn));
            (debt.turn.saturating_add(after), debt.turn)
        });
        Ok(Level { rate, debt, ahead })
    }

    /// Returns what is owed at which rate, without a rate of your own. Costs one command. The
    /// result may be outdated on arrival.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// client.rate_limiter("api").rate(10, Duration::from_secs(1)).try_acquire(4).await?;
    /// let info = client.rate_limiter("api").info().await?;
    /// assert_eq!((info.owed, info.reset_after), (4, Duration::from_millis(400)));
    /// assert_eq!(info.rate, Some((1, Duration::from_millis(100))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn info(&self) -> Result<LimitInfo, Error> {
        let debt = self.named()?.look().await?;
        Ok(LimitInfo {
            owed: debt.map_or(0, |debt| debt.owed(debt.ahead)),
            reset_after: Duration::from_micros(debt.map_or(0, |debt| debt.micros)),
            rate: debt.map(|Debt { rate, .. }| (rate.count, Duration::from_micros(rate.period))),
        })
    }

    /// Returns the name as it was given. Returns `None` if the name is invalid.
    pub fn name(&self) -> Option<&str> {
        self.limiter.as_ref().ok().map(|limiter| limiter.key.name())
    }

    /// Checks the name, the options and the cost.
    fn checked(&self, cost: u64) -> Result<(Arc<Limiter>, Terms), Error> {
        let limiter = self.named()?;
        let terms = self.options.rate().and_then(|rate| rate.terms(cost));
        Ok((Arc::clone(limiter), terms.about(KIND, limiter.key.name())?))
    }

    fn named(&self) -> Result<&Arc<Limiter>, Error> {
        self.limiter.as_ref().map_err(|&error| invalid_name(error))
    }
}

/// How much later than its caller's time a pass may count: the time of an answer.
const LATE: Duration = Duration::from_secs(1);

/// The error of a call that would pass in more than a year.
fn too_far() -> Error {
    let why = "more than 365 days of the rate are taken ahead";
    Error::new(ErrorKind::OutOfRange, why)
}

impl Limiter {
    /// Returns what is owed; `None` if nothing is.
    async fn look(&self) -> Result<Option<Debt>, Error> {
        let call = scripts::look(&self.key);
        let debt = self.client.query(&call, scripts::looked).await;
        debt.about(KIND, self.key.name())
    }

    /// Asks as soon as possible.
    fn ask(self: &Arc<Self>, terms: Terms, until: Until) -> Reply {
        let (call, answer) = call(Request::Take { terms, until }, self.client.now());
        self.ask_at_once(call);
        answer
    }

    async fn try_acquire(self: &Arc<Self>, terms: Terms) -> Result<Admission, Error> {
        received(self.ask(terms, Until::Now)).await?.admission()
    }

    /// Asks in turn, and waits until the pass counts.
    async fn wait(
        self: &Arc<Self>,
        terms: Terms,
        wait: Option<Duration>,
    ) -> Result<Admission, Error> {
        let until = wait.map_or(Until::Whenever, |wait| Until::At(self.client.now() + wait));
        let (call, answer) = call(Request::Take { terms, until }, self.client.now());
        let mut answer = pin!(received(answer));
        let place = self.ask_in_turn(call);
        let late = self.client.pause(wait.unwrap_or(Lease::MAX));
        let answered = select! {
            biased;
            answered = &mut answer => answered,
            () = late => {
                if place.leave() {
                    return self.try_acquire(terms).await;
                }
                answer.await
            }
        };
        let taken = match answered? {
            Answer::Taken(taken) => taken,
            other => return other.admission(),
        };
        // The server counts the time of a request that it gets late from then on.
        if matches!(until, Until::At(at) if taken.due > at + LATE) {
            return taken.refuse();
        }
        let rest = taken.due.since(self.client.now());
        if !rest.is_zero() && self.client.keeps(Rule::WaitUntilItCounts) {
            self.client.pause(rest).await;
            // The alarms of a client fire at once when its runtime ends.
            if self.client.now() < taken.due {
                return Err(gone());
            }
        }
        taken.keep().map(Admission::Pass)
    }

    /// Runs a call, and reports its outcome.
    async fn passing<R: Send>(
        &self,
        call: impl Future<Output = Result<R, Error>> + Send,
        tally: fn(&R) -> (usize, usize),
    ) -> Result<R, Error> {
        let of = (KIND, &self.class, self.key.name());
        self.client.passing(of, call, tally).await
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key.name())
    }
}
