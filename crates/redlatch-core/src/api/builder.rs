//! The builders of an acquisition, for every guard of the family. Awaiting a builder runs the
//! acquisition.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use crate::{
    Client, Durability, Error, ErrorKind, Held, Owner, WaitStrategy,
    base::primitive::Primitive,
    engine::{AcquireOptions, LONGEST_NOTE, OwnerChoice, Wait, invalid_lease},
    protocol::lease::{Lease, LeaseError},
};

/// The common part of the three builders.
struct Request<G> {
    source: Source<G>,
    options: AcquireOptions,
    wrong: Option<Error>,
    wrong_note: Option<Error>,
}

/// The object or objects to acquire.
enum Source<G> {
    One {
        client: Client,
        primitive: Result<Arc<dyn Primitive>, Error>,
        wrap: fn(Held) -> G,
    },
    Many(Arc<dyn AcquireMany<G>>),
}

/// Several objects that are acquired as one. For the crates of this family.
#[doc(hidden)]
pub trait AcquireMany<G>: fmt::Debug + Send + Sync + 'static {
    /// Acquires all of them, or none.
    fn acquire(
        self: Arc<Self>,
        options: AcquireOptions,
    ) -> Pin<Box<dyn Future<Output = Result<Option<G>, Error>> + Send>>;
}

impl<G> Request<G> {
    fn new(source: Source<G>, wait: Wait) -> Self {
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
        match &self.source {
            Source::One {
                client,
                primitive,
                wrap,
            } => {
                let primitive = primitive.as_ref().map_err(Error::clone)?;
                let held = client.acquire(primitive, &self.options).await;
                held.map(|held| held.map(wrap))
                    .map_err(|error| error.about(primitive.kind(), primitive.name()))
            }
            Source::Many(many) => Arc::clone(many).acquire(self.options.clone()).await,
        }
    }
}

impl<G> Request<G> {
    fn too_many_attempts(&self) -> Error {
        let error = Error::new(
            ErrorKind::TooManyAttempts,
            "another owner held it in every attempt that the wait strategy allows; allow more, or use try_lock_for",
        );
        match &self.source {
            Source::One {
                primitive: Ok(primitive),
                ..
            } => error.about(primitive.kind(), primitive.name()),
            _ => error,
        }
    }
}

impl<G> Source<G> {
    fn one(client: &Client, primitive: Result<Arc<dyn Primitive>, Error>) -> Self
    where
        G: From<Held>,
    {
        Self::One {
            client: client.clone(),
            primitive,
            wrap: G::from,
        }
    }
}

impl<G> Clone for Source<G> {
    fn clone(&self) -> Self {
        match self {
            Self::One {
                client,
                primitive,
                wrap,
            } => Self::One {
                client: client.clone(),
                primitive: primitive.clone(),
                wrap: *wrap,
            },
            Self::Many(many) => Self::Many(Arc::clone(many)),
        }
    }
}

impl<G> Clone for Request<G> {
    fn clone(&self) -> Self {
        Self {
            source: self.source.clone(),
            options: self.options.clone(),
            wrong: self.wrong.clone(),
            wrong_note: self.wrong_note.clone(),
        }
    }
}

impl<G> fmt::Debug for Request<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Request");
        match &self.source {
            Source::One { primitive, .. } => shown.field("primitive", primitive),
            Source::Many(many) => shown.field("all", many),
        };
        shown.field("options", &self.options).finish()
    }
}

macro_rules! acquire_options {
    ($builder:ident) => {
        impl<G> $builder<G> {
            /// Sets a lease of fixed length, counted from the grant: 50 ms to 365 days. The
            /// watchdog does not renew it; [`Held::extend`] can.
            ///
            /// A re-entry never shortens the hold. It does not end the renewal while another guard
            /// of the hold requests renewal.
            ///
            /// The lease minus the clock margin has to be longer than the round trip of a request.
            /// A later grant is given back, and the acquisition tries again while it may.
            pub fn lease(mut self, lease: Duration) -> Self {
                self.0.lease(Lease::fixed(lease));
                self
            }

            /// Sets a lease that is renewed every third of `lease` while the guard lives: 1 s to
            /// 365 days. This is the default, with the client's default lease of 30 s.
            pub fn renewed_lease(mut self, lease: Duration) -> Self {
                self.0.lease(Lease::renewed(lease));
                self
            }

            /// Stops renewing for this guard after `max`, even if the guard is alive, so that a
            /// forgotten guard frees its name. Default: never.
            ///
            /// The hold then ends with its current lease, up to one lease after `max`. Without
            /// renewal the option has no effect.
            pub const fn max_hold(mut self, max: Duration) -> Self {
                self.0.options.max_hold = Some(max);
                self
            }

            /// Sets the durability that the grant, each renewal and each [`extend`](Held::extend)
            /// need before they count. Default: [`Durability::Master`].
            ///
            /// Any other durability costs a `WAIT` per acquisition and per pipeline of renewals,
            /// over separate connections. Replicas have a sixth of the lease, at most 1 s, to
            /// confirm. If too few confirm, the acquisition fails with `NotEnoughReplicas` and is
            /// undone. A renewal with too few confirmations does not count and is tried again,
            /// until the hold is lost at its deadline.
            pub const fn durability(mut self, durability: Durability) -> Self {
                self.0.options.durability = durability;
                self
            }

            /// Makes the hold begin with its whole lease. Default: false.
            ///
            /// A waiter for a fair lock, for the write side of a read-write lock or for permits of
            /// a semaphore can get them from the release before, without a request of its own.
            /// Such a hold lasts for 5 s, or for its lease if that is less, until the first renewal
            /// is answered, which is due within 500 ms. With this option the waiter asks for its
            /// whole lease when its turn has come, as with a [`durability`](Self::durability). That
            /// costs one more round trip. The option has no effect on other kinds, whose waiters
            /// always ask.
            pub const fn whole_lease(mut self) -> Self {
                self.0.options.whole_lease = true;
                self
            }

            /// Acquires for `owner`, which re-enters if it already holds the name. Default: the
            /// owner of the scope, or a fresh owner outside of a scope.
            ///
            /// An owner of another client is an error, `ForeignOwner`. An owner has at most 1,000
            /// guards of one hold; a further one is an error, `OutOfRange`.
            pub fn owner(mut self, owner: &Owner) -> Self {
                self.0.options.owner = OwnerChoice::Given(owner.clone());
                self
            }

            /// Acquires for a fresh owner, also inside of a scope.
            pub fn fresh_owner(mut self) -> Self {
                self.0.options.owner = OwnerChoice::Fresh;
                self
            }

            /// Says why it is acquired, for others to see with the hold: 1 to 256 bytes.
            /// `holders()`, `Client::objects` and the command `redlatch` show it, and so does the
            /// event `long_wait` of those who wait. Default: no note.
            ///
            /// The note is written by one command after the grant, within a second at most; the
            /// client's first note costs a second one. Without an answer the hold has no note. A
            /// note stays on the server until a later note of the client or its
            /// [`close`](Client::close) removes it, for an hour at most after the client's end.
            /// It is not secret: everybody who may read the client's keys sees it.
            pub fn note(mut self, note: &str) -> Self {
                self.0.note(note);
                self
            }

            /// Sets how to wait. Default: the client's
            /// [`wait_strategy`](crate::ClientBuilder::wait_strategy).
            ///
            /// A [`Backoff`](crate::Backoff) with a maximum number of attempts ends the wait.
            /// [`Acquire`] then fails with `TooManyAttempts`; the other builders return `None`.
            pub const fn strategy(mut self, strategy: WaitStrategy) -> Self {
                self.0.options.strategy = Some(strategy);
                self
            }
        }
    };
}

/// An acquisition that waits. Await it. `G` is the type of its guard.
///
/// A builder is no future. `tokio::spawn`, `join!` and `timeout` take a future:
/// `tokio::spawn(lock.lock().into_future())`.
#[must_use = "nothing is acquired until this is awaited"]
pub struct Acquire<G>(Request<G>);

/// An acquisition that does not wait. Await it. Returns `None` if another owner holds the object.
///
/// Use the returned guard, `let Some(guard) = lock.try_lock().await? else { … };`. A guard that is
/// not named is dropped at once, which releases at once, and no lint of the compiler tells that of
/// an `Option`.
///
/// A builder is no future. Where one is needed, say `lock.try_lock().into_future()`.
#[must_use = "nothing is acquired until this is awaited"]
pub struct TryAcquire<G>(Request<G>);

/// An acquisition with a limited wait. Await it. Returns `None` if another owner held the object at
/// every check.
///
/// Name the returned guard, as that of [`TryAcquire`]. A builder is no future. Where one is needed,
/// say `lock.try_lock_for(wait).into_future()`.
#[must_use = "nothing is acquired until this is awaited"]
pub struct TryAcquireFor<G>(Request<G>);

macro_rules! same_whatever_the_guard {
    ($($builder:ident),*) => {$(
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
    )*};
}

same_whatever_the_guard!(Acquire, TryAcquire, TryAcquireFor);

acquire_options!(Acquire);
acquire_options!(TryAcquire);
acquire_options!(TryAcquireFor);

impl<G> Acquire<G> {
    /// Creates a builder. Awaiting it returns the error of an invalid name. For the crates of this
    /// family.
    #[doc(hidden)]
    pub fn new(client: &Client, primitive: Result<Arc<dyn Primitive>, Error>) -> Self
    where
        G: From<Held>,
    {
        Self(Request::new(Source::one(client, primitive), Wait::Forever))
    }

    /// Creates a builder for several objects at once. For the crates of this family.
    #[doc(hidden)]
    pub fn many(many: Arc<dyn AcquireMany<G>>) -> Self {
        Self(Request::new(Source::Many(many), Wait::Forever))
    }
}

impl<G> TryAcquire<G> {
    /// Creates a builder. Awaiting it returns the error of an invalid name. For the crates of this
    /// family.
    #[doc(hidden)]
    pub fn new(client: &Client, primitive: Result<Arc<dyn Primitive>, Error>) -> Self
    where
        G: From<Held>,
    {
        Self(Request::new(Source::one(client, primitive), Wait::Never))
    }

    /// Creates a builder for several objects at once. For the crates of this family.
    #[doc(hidden)]
    pub fn many(many: Arc<dyn AcquireMany<G>>) -> Self {
        Self(Request::new(Source::Many(many), Wait::Never))
    }
}

impl<G> TryAcquireFor<G> {
    /// Creates a builder. Awaiting it returns the error of an invalid name. For the crates of this
    /// family.
    #[doc(hidden)]
    pub fn new(
        client: &Client,
        primitive: Result<Arc<dyn Primitive>, Error>,
        wait: Duration,
    ) -> Self
    where
        G: From<Held>,
    {
        Self(Request::new(
            Source::one(client, primitive),
            Wait::For(wait),
        ))
    }

    /// Creates a builder for several objects at once. A `wait` of zero makes one attempt, which
    /// takes as long as the answers. For the crates of this family.
    #[doc(hidden)]
    pub fn many(many: Arc<dyn AcquireMany<G>>, wait: Duration) -> Self {
        let wait = match wait {
            Duration::ZERO => Wait::Never,
            wait => Wait::For(wait),
        };
        Self(Request::new(Source::Many(many), wait))
    }
}

impl<G: 'static> IntoFuture for Acquire<G> {
    type Output = Result<G, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let guard = self.0.run().await?;
            guard.ok_or_else(|| self.0.too_many_attempts())
        })
    }
}

impl<G: 'static> IntoFuture for TryAcquire<G> {
    type Output = Result<Option<G>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.0.run().await })
    }
}

impl<G: 'static> IntoFuture for TryAcquireFor<G> {
    type Output = Result<Option<G>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.0.run().await })
    }
}
