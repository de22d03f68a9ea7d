use crate::Source;

/// The scripts of the read-write lock.
#[derive(Clone, Copy, Debug)]
pub struct Rwlock {
    /// Lets a reader in, or registers a waiter.
    pub read: Source,
    /// Lets a writer in, or registers a waiter.
    pub write: Source,
    /// Makes a reader of a writer.
    pub downgrade: Source,
    /// Moves the end of a hold.
    pub renew: Source,
    /// Ends what an attempt has.
    pub release: Source,
    /// Shows one lock.
    pub inspect: Source,
    /// Lists readers.
    pub holders: Source,
    /// Ends a hold whoever has it.
    pub force: Source,
    /// Strikes out waiters that wait no longer.
    pub withdraw: Source,
}

macro_rules! source {
    ($name:literal) => {
        Source {
            name: concat!("rwlock/", $name),
            text: concat!(
                include_str!("../core/publish.lua"),
                include_str!("../core/queue.lua"),
                include_str!("../core/marks.lua"),
                include_str!("../rwlock/state.lua"),
                include_str!(concat!("../rwlock/", $name, ".lua"))
            ),
        }
    };
}

/// The scripts of the read-write lock.
pub static RWLOCK: Rwlock = Rwlock {
    read: source!("read"),
    write: source!("write"),
    downgrade: source!("downgrade"),
    renew: source!("renew"),
    release: source!("release"),
    inspect: source!("inspect"),
    holders: source!("holders"),
    force: source!("force"),
    withdraw: Source {
        name: "rwlock/withdraw",
        text: concat!(
            include_str!("../core/publish.lua"),
            include_str!("../core/queue.lua"),
            include_str!("../core/marks.lua"),
            include_str!("../rwlock/state.lua"),
            include_str!("../core/withdraw.lua"),
            include_str!("../rwlock/withdraw.lua")
        ),
    },
};

impl Rwlock {
    pub(crate) const fn all(&'static self) -> [&'static Source; 9] {
        [
            &self.read,
            &self.write,
            &self.downgrade,
            &self.renew,
            &self.release,
            &self.inspect,
            &self.holders,
            &self.force,
            &self.withdraw,
        ]
    }
}
