use crate::{Exclusive, exclusive::exclusive};

/// The scripts of the plain reentrant lock.
pub static REENTRANT: Exclusive = exclusive!(
    "reentrant",
    naming: "local KIND = 'lock:1'\n",
    prelude: include_str!("../core/publish.lua"), include_str!("../reentrant/kind.lua")
);
