//! What all other folders use: errors, identities, script calls, the life of a client, time limits.

pub(crate) mod error;
pub(crate) mod life;
pub(crate) mod observe;
pub(crate) mod owner;
pub(crate) mod rules;
pub(crate) mod script;
pub(crate) mod sync;
pub(crate) mod timeouts;
