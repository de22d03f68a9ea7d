//! Transports to real servers. Only the folder `redis` names the `redis` crate.

mod redis;

pub use self::redis::RedisTransport;
