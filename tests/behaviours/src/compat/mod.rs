//! Locks in the layouts of other libraries.

pub mod redisson;
pub mod set_nx;
