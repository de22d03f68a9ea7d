#![doc = include_str!("../README.md")]
//!
//! # Where to begin
//!
//! [`Client`] creates every lock and lists the constructors. [`ClientBuilder`] lists all options.
//! [`Held`] describes what each guard offers, and [`ErrorKind`] how a call can fail.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
#[cfg(feature = "embedded")]
pub mod embedded;
mod objects;

/// The parts of a client that do not depend on the primitives.
///
/// [`Client`] derefs to [`common::Client`]. Guards return it, and
/// `redlatch::Client::from(guard.client().clone())` adds the constructors of the primitives.
/// [`ClientBuilder`] is [`common::ClientBuilder`] with the facade's client as its result.
pub mod common {
    #[doc(inline)]
    pub use redlatch_core::{Client, ClientBuilder};
}

/// Locks in the layouts of other libraries, for the move from them: [`SetNx`](compat::SetNx) and
/// [`Redisson`](compat::Redisson). Needs the feature `compat`.
#[cfg(feature = "compat")]
#[doc(inline)]
pub use redlatch_compat as compat;
/// Writes that refuse an outdated token: in Redis ([`Fence`](fence::Fence)), in the process
/// ([`FenceGate`](fence::FenceGate)), and in databases ([`sql`](fence::sql)). Needs the feature
/// `fence`.
#[cfg(feature = "fence")]
#[doc(inline)]
pub use redlatch_fence as fence;

#[cfg(feature = "record")]
pub use redlatch_core::record;

pub use client::{Client, ClientBuilder};
pub use objects::{Object, ObjectHolder, ObjectKind, ObjectState, Objects};
#[doc(hidden)]
pub use redlatch_core::{Member, family::ServerAnswers};
#[cfg(feature = "election")]
#[doc(inline)]
pub use redlatch_election::{
    Election, FallibleElection, Leader, Observe, OnError, ScopedTerm, Term, TermTask,
};
#[doc(inline)]
pub use {
    redlatch_core::{
        Acquire, AnyGuard, Backoff, Bundle, ClientId, Connection, Credentials, Durability, Error,
        ErrorKind, Extending, Health, Held, HoldState, Jitter, Lasting, Lockable, LossCause,
        Metadata, Moment, Owned, Owner, Released, Renewed, Tables, Token, TryAcquire,
        TryAcquireFor, WaitStrategy,
        exclusive::{Exclusive, ForceRelease, Holder, LockInfo, Locks},
        family::Forgotten,
        runtime,
        runtime::{TlsOptions, TokioRuntime},
    },
    redlatch_fair::{FairLock, FairLockGuard, Waiter, Waiters},
    redlatch_latch::{CountDownAndWait, CountDownLatch, LatchInfo, TrySetCount, Wait, WaitFor},
    redlatch_multi::{
        MultiGuard, MultiLock, NodeOutcome, NodeOutcomes, RedGuard, RedLock, RedLockBuilder,
    },
    redlatch_permits::{PermitExpirableSemaphore, PermitId},
    redlatch_reentrant::{Lock, LockGuard, StripedLock},
    redlatch_rwlock::{
        Access, ForceEnd, ReadGuard, ReadWriteHolder, ReadWriteInfo, ReadWriteLock, ReadWriteSide,
        UpgradableReadGuard, WriteGuard,
    },
    redlatch_semaphore::{Semaphore, SemaphorePermit},
};
/// The types of a rate limiter, for [`Client::rate_limiter`].
pub mod limit {
    #[doc(inline)]
    pub use redlatch_limit::{Admission, Level, LimitInfo, Pass, RateLimiter, Refused};
}
/// The types of permits with an id, for [`Client::permit_expirable_semaphore`].
pub mod permits {
    #[doc(inline)]
    pub use redlatch_permits::{
        AcquireId, AcquireIds, ParsePermitIdError, PermitHolder, PermitRelease, SetPermits, Totals,
        TryAcquireId, TryAcquireIdFor, TryAcquireIds, TryAcquireIdsFor, TrySetPermits,
    };
}
/// Jobs that run once per slot, for [`Client::once`]. Needs the feature `once`.
#[cfg(feature = "once")]
pub mod once {
    #[doc(inline)]
    pub use redlatch_once::{Job, JobError, JobHolder, JobOutcome, JobRecord, JobRun, Once, Slot};
}
/// The types of [`Semaphore`].
pub mod semaphore {
    #[doc(inline)]
    pub use redlatch_semaphore::{
        AcquirePermits, PermitHolder, SetPermits, Totals, TryAcquirePermits, TryAcquirePermitsFor,
        TrySetPermits,
    };
}
