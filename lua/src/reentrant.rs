use crate::{
    Exclusive,
    exclusive::{exclusive, joined},
};

/// The scripts of the plain reentrant lock.
pub static REENTRANT: Exclusive = exclusive!("reentrant", "lock:1", first_come);
