//! The fair lock.

mod cancel;
mod dead;
mod full;
mod load;
mod order;
mod scripts;
#[cfg(all(unix, feature = "servers"))]
mod servers;
mod support;
mod surface;
mod trouble;
