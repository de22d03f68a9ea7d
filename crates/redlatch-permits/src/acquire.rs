//! The acquisitions of permits with ids. Await a builder to run it.

use redlatch_core::{Acquire, Held, TryAcquire, TryAcquireFor};

use crate::PermitId;

/// An acquisition of one permit that waits; await it. Gives its id.
pub type AcquireId = Acquire<PermitId>;

/// An acquisition of one permit that does not wait; await it. Gives `None` if none is available, or
/// others wait for it.
pub type TryAcquireId = TryAcquire<PermitId>;

/// An acquisition of one permit with a bounded wait; await it. Gives `None` if none was available
/// at each look.
pub type TryAcquireIdFor = TryAcquireFor<PermitId>;

/// An acquisition that waits; await it. Gives an id for each requested permit.
pub type AcquireIds = Acquire<Vec<PermitId>>;

/// An acquisition that does not wait; await it. Gives `None` if there are too few permits, or
/// others wait for them.
pub type TryAcquireIds = TryAcquire<Vec<PermitId>>;

/// An acquisition with a bounded wait; await it. Gives `None` if there were too few permits at each
/// look.
pub type TryAcquireIdsFor = TryAcquireFor<Vec<PermitId>>;

/// Returns the id of the one permit that was acquired.
pub(crate) fn id(held: Held) -> PermitId {
    let (attempt, void_by) = held.hand_over();
    PermitId::new(&attempt, 0, void_by)
}

/// Returns the ids of the permits that were acquired.
pub(crate) fn ids(held: Held) -> Vec<PermitId> {
    let units = held.units();
    let (attempt, void_by) = held.hand_over();
    let ids = (0..units).map(|at| PermitId::new(&attempt, at, void_by));
    ids.collect()
}
