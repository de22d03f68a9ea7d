//! The builders of an acquisition, for every guard of the family. Awaiting one runs it.

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
    engine::{AcquireOptions, OwnerChoice, Wait, invalid_lease},
    protocol::lease::{Lease, LeaseError},
};

/// What the three builders have in common.
struct Request<G> {
    source: Source<G>,
    options: AcquireOptions,
    wrong: Option<Error>,
}

/// What is acquired.
enum Source<G> {
    One {
        client: Client,
        primitive: Result<Arc<dyn Primitive>, Error>,
        wrap: fn(Held) -> G,
    },
    Many(Arc<dyn AcquireMany<G>>),
}

/// Several things that are acquired as one. For the crates of this family.
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
        }
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
        if let Some(error) = &self.wrong {
            return Err(error.clone());
        }
        match &self.source {
            Source::One {
                client,
                primitive,
                wrap,
            } => {
                let primitive = primitive.as_ref().map_err(Error::clone)?;
                let held = client.acquire(primitive, &self.options).await?;
                Ok(held.map(wrap))
            }
            Source::Many(many) => Arc::clone(many).acquire(self.options.clone()).await,
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
            /// Holds for `lease` from the grant and no longer: 50 ms to 365 days. Nothing renews
            /// it; [`Held::extend`] may.
            ///
            /// A re-entry never shortens the hold, and does not end its renewal while a guard lives
            /// that wants it.
            ///
            /// A lease has to be longer than a request and its answer take, by the margin at least:
            /// what is granted later than that is given back, and the acquisition tries again for
            /// as long as it may.
            pub fn lease(mut self, lease: Duration) -> Self {
                self.0.lease(Lease::fixed(lease));
                self
            }

            /// Holds with a lease of `lease` that is renewed every third of it while the guard
            /// lives: 1 s to 365 days. The default, with the client's default lease of 30 s.
            pub fn renewed_lease(mut self, lease: Duration) -> Self {
                self.0.lease(Lease::renewed(lease));
                self
            }

            /// Stops renewing for this guard after `max`, although it lives: a guard that was
            /// forgotten frees its name. Default: never.
            ///
            /// The hold then ends with the lease that runs, up to one lease after `max`. Without
            /// renewal it changes nothing.
            pub const fn max_hold(mut self, max: Duration) -> Self {
                self.0.options.max_hold = Some(max);
                self
            }

            /// Sets who has to have the grant, each renewal and each [`extend`](Held::extend) before it counts.
            /// Default: [`Durability::Master`].
            ///
            /// Anything else costs a `WAIT` per acquisition and per renewed pipeline, over
            /// connections of their own. Where too few replicas confirm within a sixth of the
            /// lease, at most a second, the acquisition fails with `NotEnoughReplicas` and is
            /// undone; a renewal then counts for nothing and is tried again, until the hold is lost
            /// at its deadline.
            pub const fn durability(mut self, durability: Durability) -> Self {
                self.0.options.durability = durability;
                self
            }

            /// Acquires for `owner`, which re-enters if it holds already. Default: the owner of the
            /// scope, outside of any a fresh one.
            ///
            /// An owner of another client is an error, `ForeignOwner`.
            pub fn owner(mut self, owner: &Owner) -> Self {
                self.0.options.owner = OwnerChoice::Given(owner.clone());
                self
            }

            /// Acquires for a fresh owner, whatever scope this is called in.
            pub fn fresh_owner(mut self) -> Self {
                self.0.options.owner = OwnerChoice::Fresh;
                self
            }

            /// Sets how to wait. Default: the client's, [`ClientBuilder::wait_strategy`](crate::ClientBuilder::wait_strategy).
            ///
            /// A [`Backoff`](crate::Backoff) with a greatest number of attempts ends a waiting acquisition with
            /// `TooManyAttempts`, and one that may give up with `None`.
            pub const fn strategy(mut self, strategy: WaitStrategy) -> Self {
                self.0.options.strategy = Some(strategy);
                self
            }
        }
    };
}

/// An acquisition that waits; await it. `G` is the guard it gives.
#[must_use = "nothing is acquired until this is awaited"]
pub struct Acquire<G>(Request<G>);

/// An acquisition that does not wait; await it. `None` if another has it.
#[must_use = "nothing is acquired until this is awaited"]
pub struct TryAcquire<G>(Request<G>);

/// An acquisition that waits for a while; await it. `None` if another had it whenever this looked.
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
    /// Starts a builder; for the crates of this family. A wrong name is told when it is awaited.
    #[doc(hidden)]
    pub fn new(client: &Client, primitive: Result<Arc<dyn Primitive>, Error>) -> Self
    where
        G: From<Held>,
    {
        Self(Request::new(Source::one(client, primitive), Wait::Forever))
    }

    /// Starts a builder for several things at once; for the crates of this family.
    #[doc(hidden)]
    pub fn many(many: Arc<dyn AcquireMany<G>>) -> Self {
        Self(Request::new(Source::Many(many), Wait::Forever))
    }
}

impl<G> TryAcquire<G> {
    /// Starts a builder; for the crates of this family. A wrong name is told when it is awaited.
    #[doc(hidden)]
    pub fn new(client: &Client, primitive: Result<Arc<dyn Primitive>, Error>) -> Self
    where
        G: From<Held>,
    {
        Self(Request::new(Source::one(client, primitive), Wait::Never))
    }

    /// Starts a builder for several things at once; for the crates of this family.
    #[doc(hidden)]
    pub fn many(many: Arc<dyn AcquireMany<G>>) -> Self {
        Self(Request::new(Source::Many(many), Wait::Never))
    }
}

impl<G> TryAcquireFor<G> {
    /// Starts a builder; for the crates of this family. A wrong name is told when it is awaited.
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

    /// Starts a builder for several things at once; for the crates of this family. No wait at all
    /// is one try, which takes the time that answers need.
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
            guard.ok_or_else(|| {
                Error::new(
                    ErrorKind::TooManyAttempts,
                    "another held it in every attempt that the wait strategy allows",
                )
            })
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
