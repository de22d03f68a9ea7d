use crate::Source;

/// The scripts of the plain reentrant lock.
#[derive(Clone, Copy, Debug)]
pub struct Reentrant {
    /// Takes m locks, or registers a waiter.
    pub acquire: Source,
    /// Moves the end of m holds.
    pub renew: Source,
    /// Ends what an attempt has.
    pub release: Source,
    /// Shows one lock.
    pub inspect: Source,
    /// Ends a hold whoever has it.
    pub force: Source,
}

/// The scripts of the plain reentrant lock.
pub static REENTRANT: Reentrant = Reentrant {
    acquire: Source {
        name: "reentrant/acquire",
        text: include_str!("../reentrant/acquire.lua"),
    },
    renew: Source {
        name: "reentrant/renew",
        text: include_str!("../reentrant/renew.lua"),
    },
    release: Source {
        name: "reentrant/release",
        text: include_str!("../reentrant/release.lua"),
    },
    inspect: Source {
        name: "reentrant/inspect",
        text: include_str!("../reentrant/inspect.lua"),
    },
    force: Source {
        name: "reentrant/force",
        text: include_str!("../reentrant/force.lua"),
    },
};

impl Reentrant {
    pub(crate) const fn all(&'static self) -> [&'static Source; 5] {
        [
            &self.acquire,
            &self.renew,
            &self.release,
            &self.inspect,
            &self.force,
        ]
    }
}
