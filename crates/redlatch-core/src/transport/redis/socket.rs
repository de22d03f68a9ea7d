//! Sockets that are opened here and driven by the crate.

use std::io;

use futures_util::future::select_ok;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, RedisError, RedisResult,
    aio::MultiplexedConnection,
    io::tcp::{TcpSettings, socket2::SockRef},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    task::JoinHandle,
};

use super::gather::{Calls, Gathering};

/// The task that drives a connection. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects like the crate does, and lets requests gather where the socket is opened here: everywhere but over TLS. (Messages over RESP2 go over
/// a connection of the crate's own, see `pubsub2`.)
pub(super) async fn connect(
    client: &Client,
    config: AsyncConnectionConfig,
    calls: &Calls,
) -> RedisResult<(MultiplexedConnection, Option<Driver>)> {
    let info = client.get_connection_info();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let stream = connect_tcp(host, *port, info.tcp_settings()).await?;
            drive(client, config, Gathering::new(stream, calls.clone())).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await?;
            drive(client, config, Gathering::new(stream, calls.clone())).await
        }
        _ => {
            let conn = client
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            Ok((conn, None))
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what drives a socket belongs to tokio's runtime like the socket, not to the seam's"
)]
async fn drive<S>(
    client: &Client,
    config: AsyncConnectionConfig,
    stream: S,
) -> RedisResult<(MultiplexedConnection, Option<Driver>)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let settings = client.get_connection_info().redis_settings();
    let (conn, driver) = MultiplexedConnection::new_with_config(settings, stream, config).await?;
    Ok((conn, Some(Driver(tokio::spawn(driver)))))
}

/// Tries all addresses of the name at once and takes the first that answers.
async fn connect_tcp(host: &str, port: u16, settings: &TcpSettings) -> RedisResult<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        let nobody = (ErrorKind::InvalidClientConfig, "the name has no address");
        return Err(RedisError::from(nobody));
    }
    let tries = addresses
        .into_iter()
        .map(|address| Box::pin(TcpStream::connect(address)));
    let (stream, _) = select_ok(tries).await?;
    set(&stream, settings)?;
    Ok(stream)
}

fn set(stream: &TcpStream, settings: &TcpSettings) -> io::Result<()> {
    stream.set_nodelay(settings.nodelay())?;
    let socket = SockRef::from(stream);
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(())
}
