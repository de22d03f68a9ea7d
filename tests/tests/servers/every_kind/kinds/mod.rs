//! One file per kind, one of all locks that one holds at a time, and the table of all.

mod latch;
mod locks;
mod multi;
mod once;
mod permits;
mod red;
mod rwlock;
mod semaphore;

use super::kind::AnyKind;

/// All kinds.
pub(super) static KINDS: &[AnyKind] = &[
    // First, since its waiters leave no trace on the server: they look while the others queue.
    &latch::Latch,
    &locks::Lock,
    &locks::Fair,
    &rwlock::Writer,
    &rwlock::Reader,
    &semaphore::Semaphore,
    &permits::Permits,
    &once::Jobs,
    &multi::Multi,
    &locks::Striped,
    &locks::SetNx,
    &locks::Redisson,
    &red::Red,
];

/// Lists the kinds that live on one server, or on several that stand for one.
pub(super) fn on_one() -> Vec<AnyKind> {
    let kinds = KINDS.iter().copied();
    kinds.filter(|kind| kind.servers() == 1).collect()
}
