//! Transports to real servers. Only the folder `redis` uses the `redis` crate.

mod redis;

pub use self::redis::RedisTransport;
