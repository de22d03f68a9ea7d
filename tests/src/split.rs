//! A transport that sends messages another way than commands, so that one can be tormented without
//! the other.

use async_trait::async_trait;
use redlatch::runtime::{Address, Dial, DialError, Dialed, Purpose, Transport};
use redlatch_core::transport::RedisTransport;

use crate::proxy::Proxy;

/// The production transport, with pub/sub connections going through a proxy of their own.
#[derive(Debug)]
pub struct SplitTransport {
    inner: RedisTransport,
    messages: Proxy,
}

impl SplitTransport {
    /// Sends pub/sub connections through `messages`, whatever address they are for.
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
