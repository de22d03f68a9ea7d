//! What all other folders use: errors, identities, script calls, what a
//! primitive is, the life of a client, time limits.

pub(crate) mod error;
pub(crate) mod life;
pub(crate) mod observe;
pub(crate) mod owner;
pub(crate) mod primitive;
pub(crate) mod rules;
pub(crate) mod script;
pub(crate) mod sync;
pub(crate) mod timeouts;
pub(crate) mod watched;
