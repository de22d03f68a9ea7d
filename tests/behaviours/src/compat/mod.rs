//! Locks in the layouts of other libraries.

pub mod redisson;
pub mod set_nx;

modules! { compat:
    redisson as compat_redisson,
    set_nx as compat_set_nx,
}
