//! Transports to real servers. Only the folder `redis` uses the `redis` crate.

mod redis;

pub use self::redis::RedisTransport;
#[cfg(feature = "connection-info")]
pub(crate) use self::redis::{ConnectionInfo, address_and_login};
