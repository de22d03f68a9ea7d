use crate::{
    Exclusive, Source,
    exclusive::{exclusive, joined},
};

/// The scripts of the fair lock.
#[derive(Clone, Copy, Debug)]
pub struct Fair {
    /// The scripts that it shares with other locks of one owner.
    pub exclusive: Exclusive,
    /// Lists waiters in order.
    pub waiters: Source,
    /// Returns the number of waiters before one.
    pub position: Source,
}

/// The scripts of the fair lock.
pub static FAIR: Fair = Fair {
    exclusive: exclusive!("fair", "fair:1", in_order),
    waiters: joined!(
        "fair",
        "waiters",
        "local KIND = 'fair:1'\n",
        "core/publish",
        "core/queue",
        "fair/waiters"
    ),
    position: joined!(
        "fair",
        "position",
        "local KIND = 'fair:1'\n",
        "fair/position"
    ),
};

impl Fair {
    pub(crate) fn all(&'static self) -> impl Iterator<Item = &'static Source> {
        let own = [&self.waiters, &self.position];
        self.exclusive.all().into_iter().chain(own)
    }
}
