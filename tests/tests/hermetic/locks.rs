//! The locks that are acquired alike, in one table.

use redlatch::{Client, Lockable, compat::Redisson};

/// Makes a lock of a client and a name.
pub(crate) type Make = fn(&Client, &str) -> Box<dyn Lockable>;

/// Each kind, or one side of one.
pub(crate) const LOCKS: [(&str, Make); 5] = [
    ("lock", |client, name| Box::new(client.lock(name))),
    ("fair", |client, name| Box::new(client.fair_lock(name))),
    ("write", |client, name| {
        Box::new(client.read_write_lock(name).write_side())
    }),
    ("read", |client, name| {
        Box::new(client.read_write_lock(name).read_side())
    }),
    ("redisson", |client, name| {
        Box::new(Redisson::new(client, name))
    }),
];
