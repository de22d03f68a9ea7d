//! Locks over several: of one server or more, and over a quorum of servers.

mod cancel;
mod red_lock;
