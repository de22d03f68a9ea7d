//! Sockets: TCP, TLS over TCP, and unix.

use std::{io, time::Duration};

use futures_util::future::select_ok;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};

use super::error;
use crate::runtime::{Address, DialError, DialErrorKind};

/// A connected socket.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to `address`.
pub(super) async fn connect(address: &Address) -> Result<Box<dyn Stream>, DialError> {
    match address {
        Address::Tcp { host, port } => Ok(Box::new(tcp(host, *port).await?)),
        #[cfg(feature = "tls")]
        Address::Tls {
            host,
            port,
            options,
        } => {
            let secured = super::tls::secure(host, options, tcp(host, *port));
            Ok(Box::new(secured.await?))
        }
        #[cfg(not(feature = "tls"))]
        Address::Tls { .. } => Err(unsupported(
            "this build has no TLS: enable the feature `tls-ring` of the crate redlatch",
        )),
        #[cfg(unix)]
        Address::Unix(path) => {
            let connected = tokio::net::UnixStream::connect(path).await;
            Ok(Box::new(connected.map_err(error::failure)?))
        }
        #[cfg(not(unix))]
        Address::Unix(_) => Err(unsupported("no unix sockets on this platform")),
        Address::Embedded(name) => Err(unsupported(&format!(
            "an embedded engine (`{name}`) cannot be reached over a socket"
        ))),
    }
}

/// Connects to all addresses of a host at the same time, and uses the first that answers.
async fn tcp(host: &str, port: u16) -> Result<TcpStream, DialError> {
    let found = lookup_host((host, port)).await;
    let found: Vec<_> = found.map_err(error::failure)?.collect();
    if found.is_empty() {
        let why = format!("no address found for {host}");
        return Err(error::dial(DialErrorKind::Unreachable, why));
    }
    let connected = select_ok(found.into_iter().map(|at| Box::pin(TcpStream::connect(at)))).await;
    let set_up = connected.and_then(|(stream, _)| set_up(&stream).map(|()| stream));
    set_up.map_err(error::failure)
}

fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_AFTER))?;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    Ok(())
}

fn unsupported(message: &str) -> DialError {
    error::dial(DialErrorKind::Unsupported, message.to_owned())
}

const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);

/// Time for which sent bytes may stay unacknowledged before the kernel closes the connection.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const USER_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    async fn kind(address: Address) -> (DialErrorKind, String) {
        let failed = connect(&address).await.map(|_| ()).unwrap_err();
        (failed.kind, failed.message)
    }

    #[tokio::test]
    async fn addresses_without_a_socket_are_refused() {
        use DialErrorKind::{Unreachable, Unsupported};
        let tcp = |host: &str| Address::Tcp {
            host: host.into(),
            port: 1,
        };
        for (address, expected) in [
            (Address::Embedded("x".into()), Unsupported),
            (tcp(""), Unreachable),
            (tcp("no such host"), Unreachable),
            (tcp("\0"), Unreachable),
        ] {
            let (kind, message) = kind(address.clone()).await;
            assert_eq!(kind, expected, "{address:?}: {message}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[tokio::test]
    async fn tls_without_the_feature_is_unsupported_and_says_what_to_do() {
        let address = Address::Tls {
            host: "h".into(),
            port: 1,
            options: Default::default(),
        };
        let (kind, message) = kind(address).await;
        assert_eq!(kind, DialErrorKind::Unsupported);
        assert!(message.contains("`tls-ring`"), "{message}");
    }

    #[tokio::test]
    async fn sockets_do_not_wait_for_more_bytes() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = tcp("127.0.0.1", port).await.unwrap();
        assert!(stream.nodelay().unwrap());
        assert!(SockRef::from(&stream).keepalive().unwrap());
    }
}
