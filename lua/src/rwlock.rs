use crate::Source;

/// The scripts of the read-write lock.
#[derive(Clone, Copy, Debug)]
pub struct Rwlock {
    /// Admits a reader, or queues a waiter.
    pub read: Source,
    /// Admits readers to several locks, each for itself.
    pub read_each: Source,
    /// Admits a writer, or queues a waiter.
    pub write: Source,
    /// Admits writers to several locks, each for itself.
    pub write_each: Source,
    /// Turns a writer into a reader.
    pub downgrade: Source,
    /// Moves the end of a hold.
    pub renew: Source,
    /// Moves the end of holds of several owners.
    pub renew_each: Source,
    /// Ends everything that an attempt has.
    pub release: Source,
    /// Ends read holds of several owners, each for itself.
    pub read_release_each: Source,
    /// Ends write holds of several owners, each for itself.
    pub write_release_each: Source,
    /// Shows one lock.
    pub inspect: Source,
    /// Lists readers.
    pub holders: Source,
    /// Ends a hold by force.
    pub force: Source,
    /// Removes entries of waiters that no longer wait.
    pub withdraw: Source,
}

/// Makes a script that follows the parts of the lock and each `$part`. Those of `first` stand in
/// front of them.
macro_rules! shared {
    ($name:literal $(, first: $($first:literal),+;)? $($part:literal),* $(,)?) => {
        source!(
            $name follows
            $($($first,)+)?
            "core/publish", "core/queue", "core/unconfirmed", "core/marks", "rwlock/state"
            $(, $part)*
        )
    };
}

/// The scripts of the read-write lock.
pub static RWLOCK: Rwlock = Rwlock {
    read: shared!(
        "rwlock/read",
        first: "rwlock/counter", "rwlock/fields", "rwlock/plain_read", "core/begin",
        "rwlock/read_plain";
        "core/queue_join", "rwlock/join", "rwlock/let_read", "core/give", "rwlock/go_on"
    ),
    read_each: source!(
        "rwlock/read_each" follows
        "rwlock/counter", "rwlock/plain_read", "core/act_before_each"
    ),
    write: shared!(
        "rwlock/write",
        first: "rwlock/kind", "rwlock/counter", "rwlock/fields", "exclusive/plain_take",
        "core/begin", "rwlock/write_plain";
        "core/queue_join", "rwlock/join"
    ),
    write_each: source!(
        "rwlock/write_each" follows
        "rwlock/kind", "rwlock/counter", "exclusive/plain_take", "core/act_before_each"
    ),
    downgrade: shared!(
        "rwlock/downgrade",
        first: "rwlock/fields";
        "rwlock/let_read", "rwlock/ends", "core/give", "rwlock/go_on", "core/act_before"
    ),
    renew: source!("rwlock/renew" follows "rwlock/renewal"),
    renew_each: source!("rwlock/renew_each" follows "rwlock/renewal"),
    release: shared!(
        "rwlock/release",
        first: "rwlock/counter", "rwlock/fields", "rwlock/plain_leave", "exclusive/plain_free",
        "rwlock/release_plain";
        "rwlock/ends", "core/give", "rwlock/go_on"
    ),
    read_release_each: source!(
        "rwlock/read_release_each" follows "rwlock/counter", "rwlock/plain_leave"
    ),
    write_release_each: source!(
        "rwlock/write_release_each" follows "rwlock/counter", "exclusive/plain_free"
    ),
    inspect: shared!("rwlock/inspect", first: "rwlock/fields";),
    holders: shared!("rwlock/holders",),
    force: shared!("rwlock/force", first: "rwlock/fields"; "core/give", "rwlock/go_on"),
    withdraw: shared!(
        "rwlock/withdraw",
        first: "rwlock/fields";
        "rwlock/ends", "core/give", "rwlock/go_on", "core/withdraw"
    ),
};

impl Rwlock {
    pub(crate) const fn all(&'static self) -> [&'static Source; 14] {
        [
            &self.read,
            &self.read_each,
            &self.write,
            &self.write_each,
            &self.downgrade,
            &self.renew,
            &self.renew_each,
            &self.release,
            &self.read_release_each,
            &self.write_release_each,
            &self.inspect,
            &self.holders,
            &self.force,
            &self.withdraw,
        ]
    }
}
