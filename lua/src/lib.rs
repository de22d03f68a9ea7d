#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod core;
mod exclusive;
mod fair;
mod latch;
mod pool;
mod reentrant;
mod rwlock;

pub use self::core::{CORE, Core};
pub use exclusive::Exclusive;
pub use fair::{FAIR, Fair};
pub use latch::{LATCH, Latch};
pub use pool::{POOL, Pool};
pub use reentrant::REENTRANT;
pub use rwlock::{RWLOCK, Rwlock};

/// One Lua script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name in traces, `<primitive>/<file>`.
    pub name: &'static str,
    /// The text that is sent to the server, comments included.
    pub text: &'static str,
}

/// Lists every script of the family.
pub fn all() -> impl Iterator<Item = &'static Source> {
    CORE.all()
        .into_iter()
        .chain(REENTRANT.all())
        .chain(FAIR.all())
        .chain(RWLOCK.all())
        .chain(LATCH.all())
        .chain(POOL.all())
}
