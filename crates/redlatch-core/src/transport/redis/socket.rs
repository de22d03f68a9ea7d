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

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the server of a test is a thread"
)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        sync::mpsc,
        thread,
        time::Duration,
    };

    use futures_util::future::join;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_connection_ends_with_its_driver_and_tells_whoever_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (asked, is_asked) = oneshot::channel();
        let (closed, is_closed) = mpsc::channel();
        thread::spawn(move || {
            let (mut server, _) = listener.accept().unwrap();
            let (mut bytes, mut asked) = ([0; 4096], Some(asked));
            loop {
                let len = server.read(&mut bytes).unwrap();
                let text = String::from_utf8_lossy(&bytes[..len]);
                if len == 0 {
                    return closed.send(()).unwrap();
                } else if text.contains("PING") {
                    // It never gets an answer.
                    asked.take().unwrap().send(()).unwrap();
                } else {
                    let answers = "+OK\r\n".repeat(text.matches('*').count());
                    server.write_all(answers.as_bytes()).unwrap();
                }
            }
        });
        let client = Client::open(url).unwrap();
        let config = AsyncConnectionConfig::new();
        let connected = connect(&client, config, &Calls::default()).await;
        let (mut conn, driver) = connected.unwrap();
        let call = async move { conn.send_packed_command(&redis::cmd("PING")).await };
        let trouble = async {
            is_asked.await.unwrap();
            drop(driver);
        };
        let (answer, ()) = join(call, trouble).await;
        assert!(answer.is_err(), "{answer:?}");
        is_closed.recv_timeout(SOON).unwrap();
    }

    #[tokio::test]
    async fn who_is_not_there_is_an_error_of_the_socket() {
        for url in [
            "redis://name.invalid",
            "redis://127.0.0.1:1",
            "redis://[::1]:1",
            #[cfg(unix)]
            "unix:///no/such/socket",
        ] {
            let client = Client::open(url).unwrap();
            let config = AsyncConnectionConfig::new();
            let failed = connect(&client, config, &Calls::default()).await;
            let failed = failed.map(drop).unwrap_err();
            assert_eq!(failed.kind(), ErrorKind::Io, "{url}: {failed}");
        }
    }

    const SOON: Duration = Duration::from_secs(10);
}
