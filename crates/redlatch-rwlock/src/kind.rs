//! What one hold of a read-write lock is.

use std::sync::Arc;

use redlatch_core::{
    Token,
    family::{AttemptId, Key, Side},
};

/// One way to hold one lock.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) key: Key,
    pub(crate) class: Arc<str>,
    pub(crate) way: Way,
}

/// How it is held.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Read,
    Upgradable,
    Write,
    /// As writer, by the owner of the upgradable hold with this serial.
    Upgrade(u64),
    /// As reader, by the writer whose attempt this ends. Has the last server time at which a copy
    /// of that may act, if copies may be under way.
    Downgrade(AttemptId, Token, Option<u64>),
}

impl Way {
    pub(crate) const fn side(&self) -> Side {
        match self {
            Self::Read | Self::Upgradable | Self::Downgrade(..) => Side::Shared,
            Self::Write | Self::Upgrade(_) => Side::Exclusive,
        }
    }
}
