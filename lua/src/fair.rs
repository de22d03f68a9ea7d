use crate::{Exclusive, Source, exclusive::exclusive};

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
    exclusive: exclusive!(
        "fair",
        naming: "local KIND = 'fair:1'\n",
        prelude:
        include_str!("../core/publish.lua"),
        include_str!("../core/queue.lua"),
        include_str!("../core/give.lua"),
        include_str!("../fair/kind.lua")
    ),
    waiters: Source {
        name: "fair/waiters",
        text: concat!(
            "local KIND = 'fair:1'\n",
            include_str!("../core/publish.lua"),
            include_str!("../core/queue.lua"),
            include_str!("../core/give.lua"),
            include_str!("../fair/kind.lua"),
            include_str!("../fair/waiters.lua")
        ),
    },
    position: Source {
        name: "fair/position",
        text: concat!(
            "local KIND = 'fair:1'\n",
            include_str!("../fair/position.lua")
        ),
    },
};

impl Fair {
    pub(crate) fn all(&'static self) -> impl Iterator<Item = &'static Source> {
        let own = [&self.waiters, &self.position];
        self.exclusive.all().into_iter().chain(own)
    }
}
