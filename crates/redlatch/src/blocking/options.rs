//! The options of acquisitions, which handles keep.

use std::time::Duration;

use crate::{Acquire, Durability, Owner, TryAcquire, TryAcquireFor, WaitStrategy, semaphore};

/// The options that a handle sets for its acquisitions. Everything else is the client's default.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) lease: Option<Lease>,
    pub(super) max_hold: Option<Duration>,
    pub(super) durability: Option<Durability>,
    pub(super) whole_lease: bool,
    pub(super) owner: Option<Owner>,
    pub(super) strategy: Option<WaitStrategy>,
    pub(super) note: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Lease {
    Fixed(Duration),
    Renewed(Duration),
}

/// A builder of an acquisition that takes all options.
pub(super) trait Tuned: Sized {
    /// Sets the options of the handle.
    fn tuned(self, options: &Options) -> Self;
}

macro_rules! tuned {
    ($($builder:ident),*) => {$(
        impl<G> Tuned for $builder<G> {
            fn tuned(mut self, options: &Options) -> Self {
                self = match options.lease {
                    Some(Lease::Fixed(lease)) => self.lease(lease),
                    Some(Lease::Renewed(lease)) => self.renewed_lease(lease),
                    None => self,
                };
                if let Some(max) = options.max_hold {
                    self = self.max_hold(max);
                }
                if let Some(durability) = options.durability {
                    self = self.durability(durability);
                }
                if options.whole_lease {
                    self = self.whole_lease();
                }
                if let Some(owner) = &options.owner {
                    self = self.owner(owner);
                }
                if let Some(strategy) = options.strategy {
                    self = self.strategy(strategy);
                }
                if let Some(note) = &options.note {
                    self = self.note(note);
                }
                self
            }
        }
    )*};
}

tuned!(Acquire, TryAcquire, TryAcquireFor);

macro_rules! tuned_permits {
    ($($builder:ident),*) => {$(
        impl Tuned for semaphore::$builder<crate::SemaphorePermit> {
            fn tuned(mut self, options: &Options) -> Self {
                self = match options.lease {
                    Some(Lease::Fixed(lease)) => self.lease(lease),
                    Some(Lease::Renewed(lease)) => self.renewed_lease(lease),
                    None => self,
                };
                if let Some(max) = options.max_hold {
                    self = self.max_hold(max);
                }
                if options.whole_lease {
                    self = self.whole_lease();
                }
                if let Some(strategy) = options.strategy {
                    self = self.strategy(strategy);
                }
                if let Some(note) = &options.note {
                    self = self.note(note);
                }
                self
            }
        }
    )*};
}

tuned_permits!(AcquirePermits, TryAcquirePermits, TryAcquirePermitsFor);

/// Writes the options of leases and waiting into the `impl` of a handle.
macro_rules! lease_options {
    () => {
        /// Gives each acquisition a lease of fixed length, which is not renewed: 50 ms to 365 days.
        /// The guard can extend it. A length out of bounds is the error `InvalidLease` of the
        /// acquisition.
        #[must_use]
        pub fn lease(mut self, lease: Duration) -> Self {
            self.options.lease = Some(Lease::Fixed(lease));
            self
        }

        /// Gives each acquisition a lease that is renewed every third of `lease` while the guard
        /// lives: 1 s to 365 days. This is the default, with the client's default lease of 30 s. A
        /// length out of bounds is the error `InvalidLease` of the acquisition.
        #[must_use]
        pub fn renewed_lease(mut self, lease: Duration) -> Self {
            self.options.lease = Some(Lease::Renewed(lease));
            self
        }

        /// Stops renewing a hold after `max`, so that a forgotten guard frees its name. Default:
        /// never.
        #[must_use]
        pub const fn max_hold(mut self, max: Duration) -> Self {
            self.options.max_hold = Some(max);
            self
        }

        /// Makes each hold begin with its whole lease; see
        /// [`Acquire::whole_lease`](crate::Acquire::whole_lease).
        #[must_use]
        pub const fn whole_lease(mut self) -> Self {
            self.options.whole_lease = true;
            self
        }

        /// Says why this handle acquires, for others to see with its holds: 1 to 256 bytes. See
        /// [`Acquire::note`](crate::Acquire::note).
        #[must_use]
        pub fn note(mut self, note: &str) -> Self {
            self.options.note = Some(note.to_owned());
            self
        }

        /// Sets how acquisitions wait. Default: the client's
        /// [`wait_strategy`](crate::ClientBuilder::wait_strategy).
        #[must_use]
        pub const fn strategy(mut self, strategy: WaitStrategy) -> Self {
            self.options.strategy = Some(strategy);
            self
        }
    };
}

/// Writes the options that only locks have into the `impl` of a handle.
macro_rules! lock_options {
    () => {
        /// Sets the durability that a grant, a renewal and an extension need before they count.
        /// Default: [`Durability::Master`].
        #[must_use]
        pub const fn durability(mut self, durability: Durability) -> Self {
            self.options.durability = Some(durability);
            self
        }

        /// Lets all acquisitions through this handle have the owner `owner`, which re-enters if it
        /// holds the name already. Default: each acquisition has a fresh owner.
        #[must_use]
        pub fn owner(mut self, owner: &Owner) -> Self {
            self.options.owner = Some(owner.clone());
            self
        }
    };
}

/// Writes a handle of three fields. The async handle is dropped before the thread below it.
macro_rules! handle {
    ($(#[$about:meta])* $handle:ident) => {
        $(#[$about])*
        #[derive(Clone)]
        pub struct $handle {
            inner: crate::$handle,
            options: Options,
            background: Arc<Background>,
        }

        impl $handle {
            pub(super) fn new(inner: crate::$handle, background: &Arc<Background>) -> Self {
                Self {
                    inner,
                    options: Options::default(),
                    background: Arc::clone(background),
                }
            }
        }

        impl fmt::Debug for $handle {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }
    };
}

pub(super) use {handle, lease_options, lock_options};
