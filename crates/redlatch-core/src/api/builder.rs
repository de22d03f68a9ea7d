//! The builders of an acquisition, for every guard of the family. Awaiting a builder runs the
//! acquisition.

use std::{fmt, future::IntoFuture, sync::Arc, time::Duration};

use crate::{
    Client, Durability, Error, ErrorKind, Held, Owner, WaitStrategy,
    base::{error::About, primitive::Primitive},
    engine::{AcquireOptions, LONGEST_NOTE, Owned, OwnerChoice, Renewed, Wait, invalid_lease},
    protocol::lease::{Lease, LeaseError},
    runtime::BoxFuture,
};

/// The common part of the three builders. `S` is the [`Source`] of their guards.
#[derive(Clone, Debug)]
struct Request<S> {
    source: Result<S, Error>,
    options: AcquireOptions,
    wrong: Option<Error>,
    wrong_note: Option<Error>,
}

/// The object or objects to acquire, and what becomes the guard.
enum Source<G> {
    One(One, fn(Held) -> G),
    Many(Arc<dyn AcquireMany<G>>),
}

/// One object, and the client that acquires it.
#[derive(Clone)]
pub(crate) struct One {
    pub(crate) client: Client,
    pub(crate) primitive: Arc<dyn Primitive>,
}

/// Several objects that are acquired as one. For the crates of this family.
#[doc(hidden)]
pub trait AcquireMany<G>: fmt::Debug + Send + Sync + 'static {
    /// Acquires all of them, or none.
    fn acquire(self: Arc<Self>, options: AcquireOptions) -> BoxFuture<Result<Option<G>, Error>>;
}

impl One {
    fn of(client: &Client, primitive: Result<Arc<dyn Primitive>, Error>) -> Result<Self, Error> {
        Ok(Self {
            primitive: primitive?,
            client: client.clone(),
        })
    }
}

impl<G> Request<Source<G>> {
    fn new(source: Result<Source<G>, Error>, wait: Wait) -> Self {
        Self {
            source,
            options: AcquireOptions {
                wait,
                ..AcquireOptions::default()
            },
            wrong: None,
            wrong_note: None,
        }
    }

    /// For a fresh owner.
    fn fresh(mut self) -> Self {
        self.options.owner = OwnerChoice::Fresh;
        self
    }

    fn note(&mut self, text: &str) {
        let is_fit = !text.is_empty() && text.len() <= LONGEST_NOTE;
        self.options.note = is_fit.then(|| text.into());
        self.wrong_note = (!is_fit).then(|| {
            let message = format!(
                "a note is 1 to {LONGEST_NOTE} bytes, and this one has {}; shorten it",
                text.len()
            );
            Error::new(ErrorKind::InvalidOption, message)
        });
    }

    fn lease(&mut self, lease: Result<Lease, LeaseError>) {
        match lease {
            Ok(lease) => {
                self.options.lease = Some(lease);
                self.wrong = None;
            }
            Err(error) => self.wrong = Some(invalid_lease(error)),
        }
    }

    async fn run(&self) -> Result<Option<G>, Error>
    where
        G: 'static,
    {
        if let Some(error) = self.wrong.as_ref().or(self.wrong_note.as_ref()) {
            return Err(error.clone());
        }
        match self.source.as_ref().map_err(Error::clone)? {
            Source::One(One { client, primitive }, wrap) => {
                let held = client.acquire(primitive, &self.options).await;
                let held = held.about(primitive.kind(), primitive.name())?;
                Ok(held.map(wrap))
            }
            Source::Many(many) => Arc::clone(many).acquire(self.options.clone()).await,
        }
    }

    /// Runs an acquisition that cannot return `None`.
    async fn run_to_the_end(&self) -> Result<G, Error>
    where
        G: 'static,
    {
        let guard = self.run().await?;
        guard.ok_or_else(|| {
            let error = Error::new(
                ErrorKind::TooManyAttempts,
                "another owner held it in every attempt that the wait strategy allows; allow more, or use try_lock_for",
            );
            match &self.source {
                Ok(Source::One(One { primitive, .. }, _)) => {
                    error.about(primitive.kind(), primitive.name())
                }
                _ => error,
            }
        })
    }
}

// Whatever the guard.
impl<G> Clone for Source<G> {
    fn clone(&self) -> Self {
        match self {
            Self::One(one, wrap) => Self::One(one.clone(), *wrap),
            Self::Many(many) => Self::Many(Arc::clone(many)),
        }
    }
}

impl<G> fmt::Debug for Source<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(one, _) => one.primitive.fmt(f),
            Self::Many(many) => many.fmt(f),
        }
    }
}

/// Implements a builder: how it waits, after an argument or none, what it returns, and the method
/// that runs it.
macro_rules! builder_of_acquisitions {
    ($builder:ident($($wait:ident)?), $how_long:expr, $output:ty, $run:ident) => {
        impl<G> $builder<G> {
            /// Creates a builder. Awaiting it returns the error of an invalid name. For the crates
            /// of this family.
            #[doc(hidden)]
            pub fn new(
                client: &Client,
                primitive: Result<Arc<dyn Primitive>, Error>,
                $($wait: Duration)?
            ) -> Self
            where
                G: From<Held>,
            {
                Self::of(One::of(client, primitive), G::from, $($wait)?)
            }

            /// For a fresh owner, with any kind of result.
            #[doc(hidden)]
            pub fn fresh(
                client: &Client,
                primitive: Result<Arc<dyn Primitive>, Error>,
                wrap: fn(Held) -> G,
                $($wait: Duration)?
            ) -> Self {
                let builder = Self::of(One::of(client, primitive), wrap, $($wait)?);
                Self(builder.0.fresh())
            }

            /// Creates a builder for several objects at once. For the crates of this family.
            #[doc(hidden)]
            pub fn many(
                many: Result<Arc<dyn AcquireMany<G>>, Error>,
                $($wait: Duration)?
            ) -> Self {
                Self(Request::new(many.map(Source::Many), $how_long))
            }

            /// Creates a builder of one object, or one that fails.
            pub(crate) fn of(
                one: Result<One, Error>,
                wrap: fn(Held) -> G,
                $($wait: Duration)?
            ) -> Self {
                let source = one.map(|one| Source::One(one, wrap));
                Self(Request::new(source, $how_long))
            }

            /// Sets a lease of fixed length, counted from the grant: 50 ms to 365 days. The client
            /// does not renew the lease; [`Held::extend`] moves its end.
            ///
            /// A re-entry never shortens the hold. A re-entry does not end the renewal while
            /// another guard of the hold requests renewal.
            ///
            /// The lease minus the clock margin has to be longer than the round trip of a request.
            /// A later grant is given back, and the acquisition tries again while it may.
            ///
            /// ```no_run
            /// # use redlatch_core as redlatch;
            /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
            /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
            /// use std::time::Duration;
            ///
            /// // Free again after a minute at the latest, whatever this process does.
            /// let guard = lock.lock().lease(Duration::from_secs(60)).await?;
            /// assert!(guard.remaining() <= Duration::from_secs(60));
            /// # Ok(())
            /// # }
            /// ```
            #[doc(alias = "leaseTime")]
            #[doc(alias = "expiry")]
            pub fn lease(mut self, lease: Duration) -> Self {
                self.0.lease(Lease::fixed(lease));
                self
            }

            /// Attaches a note to the hold, for example its purpose: 1 to 256 bytes. `holders()`,
            /// `Client::objects`, the command `redlatch` and the event `long_wait` of other waiters
            /// show the note. Default: no note.
            ///
            /// The note is written by one command after the grant, within a second at most. The
            /// client's first note costs a second command. Without an answer the hold has no note.
            /// A note stays on the server until a later note of the client or its
            /// [`close`](Client::close) removes it, for an hour at most after the client's end. The
            /// note is not secret: every user who may read the client's keys can read the note.
            ///
            /// ```no_run
            /// # use redlatch_core as redlatch;
            /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
            /// # async fn example(lock: &impl Lock, order: u64) -> Result<(), redlatch::Error> {
            /// let guard = lock.lock().note(&format!("refund of order {order}")).await?;
            /// # drop(guard);
            /// # Ok(())
            /// # }
            /// ```
            pub fn note(mut self, note: &str) -> Self {
                self.0.note(note);
                self
            }

            /// Sets how to wait. Default: the client's
            /// [`wait_strategy`](crate::ClientBuilder::wait_strategy).
            ///
            /// A [`Backoff`](crate::Backoff) with a maximum number of attempts ends the wait.
            /// [`Acquire`] then fails with `TooManyAttempts`; the other builders return `None`.
            ///
            /// ```no_run
            /// # use redlatch_core as redlatch;
            /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
            /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
            /// use std::time::Duration;
            /// use redlatch::{Backoff, WaitStrategy};
            ///
            /// // Ask every 500 ms, five times, without a subscription.
            /// let backoff = Backoff::constant(Duration::from_millis(500)).max_attempts(5);
            /// let guard = lock.lock().strategy(WaitStrategy::Poll(backoff)).await?;
            /// # drop(guard);
            /// # Ok(())
            /// # }
            /// ```
            pub const fn strategy(mut self, strategy: WaitStrategy) -> Self {
                self.0.options.strategy = Some(strategy);
                self
            }
        }

        impl<G: Renewed> $builder<G> {
            /// Sets a lease that is renewed every third of `lease` while the guard lives: 1 s to
            /// 365 days. Renewal is the default, with the client's default lease of 30 s.
            ///
            /// ```no_run
            /// # use redlatch_core as redlatch;
            /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
            /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
            /// use std::time::Duration;
            ///
            /// // Held as long as the guard lives. If this process dies, free after 6 s.
            /// let guard = lock.lock().renewed_lease(Duration::from_secs(6)).await?;
            /// # drop(guard);
            /// # Ok(())
            /// # }
            /// ```
            #[doc(alias = "watchdog")]
            #[doc(alias = "auto_renewal")]
            pub fn renewed_lease(mut self, lease: Duration) -> Self {
                self.0.lease(Lease::renewed(lease));
                self
            }

            /// Stops the renewal for this guard after `max`, even if the guard is alive, so that a
            /// forgotten guard frees its name. Default: never.
            ///
            /// The hold then ends with its current lease, up to one lease after `max`. Without
            /// renewal the option has no effect.
            ///
            /// ```no_run
            /// # use redlatch_core as redlatch;
            /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
            /// # async fn import() {}
            /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
            /// use std::time::Duration;
            ///
            /// let hour = Duration::from_secs(3600);
            /// let guard = lock.lock().max_hold(hour).await?;
            /// guard.run(import()).await?; // an import that hangs loses the lock after an hour
            /// # Ok(())
            /// # }
            /// ```
            pub const fn max_hold(mut self, max: Duration) -> Self {
                self.0.options.max_hold = Some(max);
                self
            }

            /// Makes the hold begin with its whole lease. Default: false.
            ///
            /// A release can grant a fair lock, a write lock or the permits of a semaphore to a
            /// waiter, which then sends no request of its own. Such a hold lasts for 5 s, or for
            /// its lease if that is less, until the first renewal is answered, which is due within
            /// 500 ms. With this option the waiter asks for its whole lease when its turn has come,
            /// as with a [`durability`](Self::durability). That costs one more round trip. Waiters
            /// of other kinds always ask, so the option has no effect on them.
            ///
            /// ```no_run
            /// # use redlatch_core as redlatch;
            /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
            /// # fn rebuild_index() {}
            /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
            /// let guard = lock.lock().whole_lease().await?;
            /// rebuild_index(); // blocks the only thread for 10 s, without a renewal
            /// guard.check()?;
            /// # Ok(())
            /// # }
            /// ```
            pub const fn whole_lease(mut self) -> Self {
                self.0.options.whole_lease = true;
                self
            }
        }

        impl<G: Owned> $builder<G> {
            /// Sets the durability that the grant, each renewal and each [`extend`](Held::extend)
            /// need before they count. Default: [`Durability::Master`].
            ///
            /// Any other durability costs a `WAIT` per acquisition and per pipeline of renewals,
            /// over separate connections. Replicas have a sixth of the lease, at most 1 s, to
            /// confirm. If too few confirm, the acquisition fails with `NotEnoughReplicas` and is
            /// undone. A renewal with too few confirmations does not count and is tried again,
            /// until the hold is lost at its deadline.
            ///
            /// ```no_run
            /// # use redlatch_core as redlatch;
            /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
            /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
            /// use redlatch::Durability;
            ///
            /// let guard = lock.lock().durability(Durability::Replicas(1)).await?;
            /// assert!(guard.acknowledged() >= 1, "a replica has the hold");
            /// # Ok(())
            /// # }
            /// ```
            pub const fn durability(mut self, durability: Durability) -> Self {
                self.0.options.durability = durability;
                self
            }

            /// Acquires for `owner`, which re-enters if it already holds the name. Default: the
            /// owner of the scope, or a fresh owner outside of a scope.
            ///
            /// An owner of another client is an error, `ForeignOwner`. An owner has at most 1,000
            /// guards of one hold; a further guard is an error, `OutOfRange`.
            ///
            /// ```no_run
            /// # use redlatch_core as redlatch;
            /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
            /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
            /// let outer = lock.lock().await?;
            /// let inner = lock.lock().owner(outer.owner()).await?; // does not wait
            /// assert_eq!(inner.token(), outer.token());
            /// drop(outer);
            /// assert!(inner.check().is_ok(), "held until the last guard is dropped");
            /// # Ok(())
            /// # }
            /// ```
            #[doc(alias = "reentrant")]
            pub fn owner(mut self, owner: &Owner) -> Self {
                self.0.options.owner = OwnerChoice::Given(owner.clone());
                self
            }

            /// Acquires for a fresh owner, also inside a scope.
            ///
            /// ```no_run
            /// # use redlatch_core as redlatch;
            /// # trait Lock {
            /// #     fn lock(&self) -> redlatch::Acquire<redlatch::Held>;
            /// #     fn try_lock(&self) -> redlatch::TryAcquire<redlatch::Held>;
            /// # }
            /// # use redlatch::{Client, Error};
            /// # async fn example(lock: &impl Lock, client: Client) -> Result<(), Error> {
            /// client.owner().scope(async {
            ///     let guard = lock.lock().await?;
            ///     let second = lock.try_lock().fresh_owner().await?;
            ///     assert!(second.is_none(), "not a re-entry");
            ///     guard.release().await
            /// }).await?;
            /// # Ok(())
            /// # }
            /// ```
            pub fn fresh_owner(self) -> Self {
                Self(self.0.fresh())
            }
        }

        impl<G: 'static> IntoFuture for $builder<G> {
            type Output = Result<$output, Error>;
            type IntoFuture = BoxFuture<Self::Output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(async move { self.0.$run().await })
            }
        }

        // Whatever the guard.
        impl<G> Clone for $builder<G> {
            fn clone(&self) -> Self {
                Self(self.0.clone())
            }
        }

        impl<G> fmt::Debug for $builder<G> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($builder)).field(&self.0).finish()
            }
        }
    };
}

/// An acquisition that waits. Await the builder to run it. `G` is the type of its guard.
///
/// A builder implements `IntoFuture` and not `Future`. `.await`, `tokio::time::timeout`,
/// `tokio::join!` and `tokio::select!` take the builder as it is. `tokio::spawn` takes
/// `lock.lock().into_future()`.
#[must_use = "nothing is acquired until this is awaited"]
pub struct Acquire<G>(Request<Source<G>>);

/// An acquisition that does not wait. Await the builder to run it. Returns `None` if another owner
/// holds the object.
///
/// Name the returned guard: `let Some(guard) = lock.try_lock().await? else { … };`. A guard without
/// a name is dropped at once, which releases at once. The compiler does not warn about an unused
/// `Option`.
///
/// A builder is not a future; see [`Acquire`].
#[must_use = "nothing is acquired until this is awaited"]
pub struct TryAcquire<G>(Request<Source<G>>);

/// An acquisition with a limited wait. Await the builder to run it. Returns `None` if another owner
/// held the object at every check.
///
/// Name the returned guard, as with [`TryAcquire`]. A builder is not a future; see [`Acquire`].
#[must_use = "nothing is acquired until this is awaited"]
pub struct TryAcquireFor<G>(Request<Source<G>>);

builder_of_acquisitions!(Acquire(), Wait::Forever, G, run_to_the_end);
builder_of_acquisitions!(TryAcquire(), Wait::Never, Option<G>, run);
builder_of_acquisitions!(TryAcquireFor(wait), once_or_for(wait), Option<G>, run);

/// A `wait` of zero makes one attempt. One of several objects takes as long as the answers.
const fn once_or_for(wait: Duration) -> Wait {
    match wait {
        Duration::ZERO => Wait::Never,
        wait => Wait::For(wait),
    }
}
