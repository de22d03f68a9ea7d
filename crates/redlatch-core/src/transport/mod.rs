//! Transports to real servers. Only the folder `redis` opens sockets.

pub(crate) mod redis;

pub use self::redis::RedisTransport;
#[cfg(feature = "connection-info")]
pub(crate) use self::redis::{ConnectionInfo, address_and_login};
