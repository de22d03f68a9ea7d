//! The kinds, and the table of all.

mod latch;
mod locks;
mod once;
mod pools;
mod several;

use super::kind::AnyKind;

/// All kinds.
pub(super) static KINDS: &[AnyKind] = &[
    // First, since its waiters leave no trace on the server: they look while the others queue.
    &latch::Latch,
    &locks::Lock,
    &locks::Fair,
    &several::Side::Writer,
    &several::Side::Reader,
    &pools::Semaphore,
    &pools::Permits,
    &once::Jobs,
    &several::Multi,
    &locks::Striped,
    &locks::SetNx,
    &locks::Redisson,
    &several::Red,
];

/// Lists the kinds that live on one server, or on several that stand for one.
pub(super) fn on_one() -> Vec<AnyKind> {
    let kinds = KINDS.iter().copied();
    kinds.filter(|kind| kind.servers() == 1).collect()
}
