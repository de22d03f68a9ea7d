//! The same family for programs without async code. Needs the feature `blocking`.
//!
//! A [`Client`] of this module has a background thread, which renews leases and talks to the
//! server. Everything else is the async API: [`Wait::wait`] blocks the calling thread until a
//! future is done, where async code would write `.await`. [`WaitIter::wait_iter`] turns a stream
//! into an iterator.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! fn main() -> Result<(), redlatch::Error> {
//!     use redlatch::blocking::{Client, Wait, work};
//!     use std::time::Duration;
//!
//!     // Or `Client::connect("redis://localhost")`. This one needs the feature `embedded`.
//!     let client = Client::embedded()?;
//!     let lock = client.lock("orders:42");
//!
//!     let guard = lock.lock().lease(Duration::from_secs(10)).wait()?;
//!     assert!(lock.try_lock().wait()?.is_none(), "one at a time");
//!
//!     // No thread can be stopped from outside. So the work asks, between its steps.
//!     let shipped = guard.run(work(&guard, |stop| {
//!         for parcel in 0..3 {
//!             stop.check()?;
//!             println!("parcel {parcel} leaves under token {}", guard.token());
//!         }
//!         Ok::<_, redlatch::Error>(3)
//!     }));
//!     assert_eq!(shipped.wait()??, 3);
//!     guard.release().wait()?;
//!     Ok(())
//! }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # Release
//!
//! A dropped guard releases, and its drop waits for the answer for at most one second. After that,
//! and when you drop the guard in async code, the release continues in the background.
//!
//! A process that ends runs no destructors of other threads, of statics, or after
//! `std::process::exit`. The names of such guards are free when their leases have ended, 30 s by
//! default. To release all of them, end the program with `client.close(grace).wait()`.
//!
//! # In async code
//!
//! [`Wait::wait`] panics in async code of tokio, since blocking would stop a worker of the runtime.
//! The message names the remedies: `redlatch::Client`, or `tokio::task::spawn_blocking`, in which
//! all calls work. A dropped guard never panics.
//!
//! # Forks
//!
//! A fork of the process does not contain the thread of a client. In the child, each call of the
//! parent's client fails at once with [`ErrorKind::Forked`](crate::ErrorKind::Forked), guards are
//! `Lost(Forked)`, and their drop sends nothing and does not wait. The parent keeps its holds. A
//! client that the child has connected works.

mod client;
mod wait;

pub use client::Client;
pub use wait::{Iter, Stop, Wait, WaitIter, work};
