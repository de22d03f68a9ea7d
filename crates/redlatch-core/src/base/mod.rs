//! The basis of all other folders: errors, identities, script calls, the traits of primitives, the
//! life of a client, and time limits.

pub(crate) mod credentials;
pub(crate) mod error;
pub(crate) mod items;
pub(crate) mod life;
pub(crate) mod merge;
pub(crate) mod observe;
pub(crate) mod owner;
pub(crate) mod primitive;
pub(crate) mod rules;
pub(crate) mod script;
pub(crate) mod sync;
pub(crate) mod timeouts;
