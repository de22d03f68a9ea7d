//! A transport with separate ways for messages and commands, so that a test can disturb one without
//! the other.

use async_trait::async_trait;
use redlatch::runtime::{Address, Dial, DialError, Dialed, Purpose, Transport};
use redlatch_core::transport::RedisTransport;

use crate::proxy::Proxy;

/// The production transport, with a separate proxy for pub/sub connections.
#[derive(Debug)]
pub struct SplitTransport {
    inner: RedisTransport,
    messages: Proxy,
}

impl SplitTransport {
    /// Sends pub/sub connections through `messages`, whatever their address.
    pub const fn new(messages: Proxy) -> Self {
        Self {
            inner: RedisTransport::new(),
            messages,
        }
    }
}

#[async_trait]
impl Transport for SplitTransport {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let mut dial = dial.clone();
        if dial.purpose == Purpose::PubSub {
            dial.address = Address::Tcp {
                host: self.messages.address().ip().to_string(),
                port: self.messages.port(),
            };
        }
        self.inner.dial(&dial).await
    }
}
