//! Ports that stay ours while nobody listens on them.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::net::{TcpListener, TcpSocket};

/// A free port of 127.0.0.1, kept from others.
///
/// On Linux a bound socket that does not listen keeps the port: nobody else is given it by the system, a connection to it
/// is refused, and a listener with `SO_REUSEADDR` (servers and tokio set it) may still take it. So a server can be killed
/// and come back on its port, however long that takes. Elsewhere the port is only known to have been free.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    port: u16,
    _placeholder: Option<TcpSocket>,
}

impl ReservedPort {
    /// Takes a port that was free.
    pub(crate) fn take() -> io::Result<Self> {
        let socket = reusable_socket(0)?;
        let port = socket.local_addr()?.port();
        let placeholder = cfg!(target_os = "linux").then_some(socket);
        Ok(Self {
            port,
            _placeholder: placeholder,
        })
    }

    /// Listens on the port.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        reusable_socket(self.port)?.listen(BACKLOG)
    }

    /// Returns the port's number.
    pub(crate) const fn number(&self) -> u16 {
        self.port
    }
}

fn reusable_socket(port: u16) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(socket)
}

const BACKLOG: u32 = 512;
