//! One file per kind, and the table of them.

mod fair;
mod latch;
mod lock;
mod multi;
mod once;
mod permits;
mod red;
mod rwlock;
mod semaphore;
mod striped;

use super::kind::AnyKind;

/// All kinds.
pub(super) static KINDS: &[AnyKind] = &[
    // First, since its waiters leave no trace on the server: they look while the others queue.
    &latch::Latch,
    &lock::Lock,
    &fair::Fair,
    &rwlock::Writer,
    &rwlock::Reader,
    &semaphore::Semaphore,
    &permits::Permits,
    &once::Jobs,
    &multi::Multi,
    &striped::Striped,
    &red::Red,
];

/// Lists the kinds that live on one server, or on several that stand for one.
pub(super) fn on_one() -> Vec<AnyKind> {
    let kinds = KINDS.iter().copied();
    kinds.filter(|kind| kind.servers() == 1).collect()
}
