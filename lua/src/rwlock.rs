use crate::Source;

/// The scripts of the read-write lock.
#[derive(Clone, Copy, Debug)]
pub struct Rwlock {
    /// Admits a reader, or queues a waiter.
    pub read: Source,
    /// Admits a writer, or queues a waiter.
    pub write: Source,
    /// Turns a writer into a reader.
    pub downgrade: Source,
    /// Moves the end of a hold.
    pub renew: Source,
    /// Ends everything that an attempt has.
    pub release: Source,
    /// Shows one lock.
    pub inspect: Source,
    /// Lists readers.
    pub holders: Source,
    /// Ends a hold by force.
    pub force: Source,
    /// Removes entries of waiters that no longer wait.
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
