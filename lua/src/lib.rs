#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

/// Makes the script `$name`, with the text of each `$part` in front of its own. Names and parts are
/// files without their suffix.
macro_rules! source {
    ($name:literal $(follows $($part:literal),+)?) => {
        crate::Source {
            name: $name,
            text: concat!(
                $($(include_str!(concat!("../", $part, ".lua")),)+)?
                include_str!(concat!("../", $name, ".lua"))
            ),
        }
    };
}

mod core;
mod election;
mod exclusive;
mod fair;
mod fence;
mod latch;
mod once;
mod pool;
mod redisson;
mod reentrant;
mod rwlock;
mod setnx;

pub use exclusive::Exclusive;

/// Exports the scripts of each folder, and lists them in `all`.
///
/// The `mod` lines stand outside, since rustfmt does not find modules that a macro declares.
macro_rules! folders {
    ($($folder:ident: $scripts:ident $(, $type:ident)?;)*) => {
        $(pub use self::$folder::{$scripts $(, $type)?};)*

        /// Lists every script of the family.
        pub fn all() -> impl Iterator<Item = &'static Source> {
            std::iter::empty()$(.chain($scripts.all()))*
        }
    };
}

folders! {
    core: CORE, Core;
    reentrant: REENTRANT;
    fair: FAIR, Fair;
    rwlock: RWLOCK, Rwlock;
    latch: LATCH, Latch;
    once: ONCE, Once;
    pool: POOL, Pool;
    election: ELECTION, Election;
    fence: FENCE, Fence;
    setnx: SETNX, SetNx;
    redisson: REDISSON, Redisson;
}

/// One Lua script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name in traces, `<primitive>/<file>`.
    pub name: &'static str,
    /// The text that is sent to the server, comments included.
    pub text: &'static str,
}
