use crate::Source;

/// The scripts of a pool of leased permits, for the semaphores.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Gives out permits, or queues a waiter.
    pub acquire: Source,
    /// Gives out permits of several pools, each for itself.
    pub acquire_each: Source,
    /// Gives out permits of one contended pool to several waiters.
    pub acquire_some: Source,
    /// Moves the end of holds.
    pub renew: Source,
    /// Moves the end of holds of several pools.
    pub renew_each: Source,
    /// Takes permits back.
    pub release: Source,
    /// Takes back all permits of holds of several pools, each for itself.
    pub release_each: Source,
    /// Takes back all permits of several holds of one contended pool.
    pub release_some: Source,
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

/// Makes a script that follows the parts of the pool and each `$part`.
macro_rules! shared {
    ($name:literal $(, $part:literal)*) => {
        source!(
            $name follows
            "core/publish", "core/queue", "core/marks", "pool/shared" $(, $part)*
        )
    };
}

/// The scripts of a pool of leased permits, for the semaphores.
pub static POOL: Pool = Pool {
    acquire: shared!("pool/acquire", "core/queue_join", "core/act_before"),
    acquire_each: source!("pool/acquire_each" follows "core/act_before_each"),
    acquire_some: source!(
        "pool/acquire_some" follows
        "core/publish", "core/queue", "core/queue_join", "pool/shared", "core/act_before_each"
    ),
    renew: source!("pool/renew"),
    renew_each: source!("pool/renew_each"),
    release: shared!("pool/release"),
    release_each: source!("pool/release_each"),
    release_some: source!(
        "pool/release_some" follows "core/publish", "core/queue", "pool/shared"
    ),
    change: shared!("pool/change", "core/act_before"),
    inspect: shared!("pool/inspect"),
    holds: source!("pool/holds"),
    look: source!("pool/look"),
    withdraw: source!(
        "pool/withdraw" follows
        "core/publish", "core/queue", "core/marks", "pool/shared", "core/withdraw"
    ),
};

impl Pool {
    pub(crate) const fn all(&'static self) -> [&'static Source; 13] {
        [
            &self.acquire,
            &self.acquire_each,
            &self.acquire_some,
            &self.renew,
            &self.renew_each,
            &self.release,
            &self.release_each,
            &self.release_some,
            &self.change,
            &self.inspect,
            &self.holds,
            &self.look,
            &self.withdraw,
        ]
    }
}
