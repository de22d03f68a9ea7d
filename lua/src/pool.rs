use crate::Source;

/// The scripts of a pool of leased permits, for the semaphores.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Gives out permits, or queues a waiter.
    pub acquire: Source,
    /// Moves the end of holds.
    pub renew: Source,
    /// Takes permits back.
    pub release: Source,
    /// Changes the number of permits.
    pub change: Source,
    /// Shows the number of permits.
    pub inspect: Source,
    /// Lists holds.
    pub holds: Source,
    /// Shows single holds.
    pub look: Source,
    /// Removes entries of waiters that no longer wait.
    pub withdraw: Source,
}

/// The scripts of a pool of leased permits, for the semaphores.
pub static POOL: Pool = Pool {
    acquire: Source {
        name: "pool/acquire",
        text: concat!(
            include_str!("../core/publish.lua"),
            include_str!("../core/queue.lua"),
            include_str!("../core/marks.lua"),
            include_str!("../pool/shared.lua"),
            include_str!("../pool/acquire.lua")
        ),
    },
    renew: Source {
        name: "pool/renew",
        text: include_str!("../pool/renew.lua"),
    },
    release: Source {
        name: "pool/release",
        text: concat!(
            include_str!("../core/publish.lua"),
            include_str!("../core/queue.lua"),
            include_str!("../core/marks.lua"),
            include_str!("../pool/shared.lua"),
            include_str!("../pool/release.lua")
        ),
    },
    change: Source {
        name: "pool/change",
        text: concat!(
            include_str!("../core/publish.lua"),
            include_str!("../core/queue.lua"),
            include_str!("../core/marks.lua"),
            include_str!("../pool/shared.lua"),
            include_str!("../pool/change.lua")
        ),
    },
    inspect: Source {
        name: "pool/inspect",
        text: concat!(
            include_str!("../core/publish.lua"),
            include_str!("../core/queue.lua"),
            include_str!("../core/marks.lua"),
            include_str!("../pool/shared.lua"),
            include_str!("../pool/inspect.lua")
        ),
    },
    holds: Source {
        name: "pool/holds",
        text: include_str!("../pool/holds.lua"),
    },
    look: Source {
        name: "pool/look",
        text: include_str!("../pool/look.lua"),
    },
    withdraw: Source {
        name: "pool/withdraw",
        text: concat!(
            include_str!("../core/publish.lua"),
            include_str!("../core/queue.lua"),
            include_str!("../pool/shared.lua"),
            include_str!("../core/withdraw.lua"),
            include_str!("../pool/withdraw.lua")
        ),
    },
};

impl Pool {
    pub(crate) const fn all(&'static self) -> [&'static Source; 8] {
        [
            &self.acquire,
            &self.renew,
            &self.release,
            &self.change,
            &self.inspect,
            &self.holds,
            &self.look,
            &self.withdraw,
        ]
    }
}
