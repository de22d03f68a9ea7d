//! The loops that acquire, renew and release. Their decisions are in `protocol`; the primitives
//! build their requests.

mod acquire;
mod any_guard;
mod attempt;
mod bundle;
mod change;
pub(crate) mod client_record;
pub(crate) mod context;
mod group;
mod guard;
mod hold;
mod holds;
mod linger;
mod local_queues;
mod options;
mod pending_release;
mod phase_watches;
mod portion;
mod release;
mod releaser;
mod watch;
mod watchdog;
pub(crate) mod withdrawals;

pub use any_guard::{AnyGuard, Extending, Lasting, Owned, Renewed};
pub use bundle::Bundle;
pub use change::REMEMBERED;
pub(crate) use client_record::LONGEST_NOTE;
pub use group::Together;
pub use guard::Held;
pub(crate) use guard::invalid_lease;
pub(crate) use hold::Hold;
pub(crate) use holds::Holds;
pub(crate) use linger::linger;
pub(crate) use local_queues::{LocalQueues, QueueSlot};
pub use options::{AcquireOptions, OwnerChoice, Wait};
pub(crate) use pending_release::PendingRelease;
pub(crate) use phase_watches::PhaseWatches;
pub use portion::Portion;
pub use release::Released;
pub(crate) use releaser::{Ahead, Releaser};
pub use watch::WatchOptions;
pub(crate) use watchdog::Watchdog;
pub(crate) use withdrawals::Withdrawals;

#[cfg(test)]
#[cfg(shuttle)]
#[path = "tests/threads.rs"]
mod threads;
