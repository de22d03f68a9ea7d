//! The same family for programs without async code. Needs the feature `blocking`.
//!
//! A [`Client`] of this module has a thread of its own, which renews leases and talks to the
//! server. Its calls block the calling thread until they are done. All types are `Send` and `Sync`,
//! so threads can share them.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! fn main() -> Result<(), redlatch::Error> {
//!     // Or `Client::connect("redis://localhost")`. This one needs the feature `embedded`.
//!     let client = redlatch::blocking::Client::embedded()?;
//!     let lock = client.lock("orders:42");
//!
//!     let guard = lock.lock()?;
//!     assert!(lock.try_lock()?.is_none(), "one at a time");
//!     // Nothing can stop a thread from outside. So the work asks, between its steps.
//!     let shipped = guard.run(|stop| {
//!         for parcel in 0..3 {
//!             stop.check()?;
//!             println!("parcel {parcel} leaves under token {}", guard.token());
//!         }
//!         Ok::<_, redlatch::Error>(3)
//!     })??;
//!     assert_eq!(shipped, 3);
//!     guard.release()?;
//!     Ok(())
//! }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # Options
//!
//! In the async API each acquisition has options. Here the handle has them, and each acquisition
//! through it uses them:
//!
//! ```no_run
//! # use std::time::Duration;
//! # fn example(client: redlatch::blocking::Client) -> Result<(), redlatch::Error> {
//! let lock = client.lock("report").renewed_lease(Duration::from_secs(6));
//! let guard = lock.try_lock_for(Duration::from_secs(1))?;
//! # Ok(())
//! # }
//! ```
//!
//! # Release
//!
//! A dropped guard releases, and waits for the answer for at most one second. After that, and when
//! it is dropped in async code, the release goes on in the background. When the last handle and
//! guard of a client has gone, the client's thread finishes outstanding releases for at most one
//! second and ends.
//!
//! A process that ends runs no destructors of other threads, of statics, or after
//! `std::process::exit`. The names of such guards are free when their leases have ended, 30 s by
//! default. [`Client::close`] before the end releases all of them.
//!
//! # Inside of async code
//!
//! All calls that talk to the server panic in async code of tokio, since they would block a worker
//! of its runtime. The message names the remedies: `redlatch::Client`, or
//! `tokio::task::spawn_blocking`, in which all calls work. A dropped guard never panics.
//!
//! # Errors
//!
//! Errors are those of the async methods of the same name.
//!
//! # Forks
//!
//! The thread of a client is not part of a fork of the process. So in the child every call of the
//! parent's client fails at once with [`ErrorKind::Forked`](crate::ErrorKind::Forked), guards are
//! `Lost(Forked)`, and their drop sends nothing and does not wait. The parent keeps its holds. A
//! client that the child has connected itself works.

mod background;
mod client;
#[cfg(feature = "election")]
mod election;
#[cfg(feature = "fence")]
mod fence;
mod guard;
mod iter;
mod latch;
mod lock;
mod multi;
#[cfg(feature = "once")]
mod once;
mod options;
mod permits;
mod rwlock;
mod semaphore;
mod stop;

pub use client::Client;
#[cfg(feature = "election")]
pub use election::Election;
#[cfg(feature = "fence")]
pub use fence::Fence;
pub use guard::{
    FairLockGuard, LockGuard, MultiGuard, ReadGuard, RedGuard, SemaphorePermit,
    UpgradableReadGuard, WriteGuard,
};
pub use iter::{Iter, Stream};
pub use latch::CountDownLatch;
pub use lock::{FairLock, Lock, StripedLock};
#[doc(hidden)]
pub use multi::Thread;
pub use multi::{Lockable, MultiLock, RedLock};
#[cfg(feature = "once")]
pub use once::Job;
pub use permits::PermitExpirableSemaphore;
pub use rwlock::{ReadWriteLock, ReadWriteSide};
pub use semaphore::Semaphore;
pub use stop::Stop;
