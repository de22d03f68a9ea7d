//! Scripts through the client crate that redlatch uses.

use std::sync::Arc;

use redis::{
    AsyncConnectionConfig, Client, FromRedisValue, RedisResult, Script, ToRedisArgs,
    aio::{ConnectionLike, MultiplexedConnection},
};

use super::Failure;

/// A connection and scripts, which all handles of a library share.
#[derive(Clone)]
pub(super) struct Scripted<C = MultiplexedConnection> {
    pub(super) connection: C,
    scripts: Arc<[Script]>,
}

impl Scripted {
    /// Connects to one server.
    pub(super) async fn connect(url: &str, scripts: &[&str]) -> Result<Self, Failure> {
        let connection = connection(&Client::open(url)?).await?;
        Ok(Self::new(connection, scripts))
    }
}

impl<C: ConnectionLike> Scripted<C> {
    pub(super) fn new(connection: C, scripts: &[&str]) -> Self {
        let scripts = scripts.iter().map(|script| Script::new(script)).collect();
        Self {
            connection,
            scripts,
        }
    }

    /// Calls the script at this index.
    pub(super) async fn call<T: FromRedisValue>(
        &mut self,
        script: usize,
        keys: impl ToRedisArgs,
        arguments: impl ToRedisArgs,
    ) -> RedisResult<T> {
        let mut call = self.scripts[script].key(keys);
        call.arg(arguments);
        call.invoke_async(&mut self.connection).await
    }
}

/// Opens a connection with no timeout, however busy the machine is.
pub(super) async fn connection(client: &Client) -> RedisResult<MultiplexedConnection> {
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    client
        .get_multiplexed_async_connection_with_config(&patient)
        .await
}

/// Fails with `otherwise` unless a script has released one hold.
pub(super) fn given(count: u8, otherwise: &'static str) -> Result<(), Failure> {
    (count == 1).then_some(()).ok_or_else(|| otherwise.into())
}

/// Returns a random number. The owners of this process need not be secret.
pub(super) fn rand() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
