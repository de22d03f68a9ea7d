//! Ports that stay ours while nobody listens on them.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::net::{TcpListener, TcpSocket};

/// A free port of 127.0.0.1, kept from others.
///
/// On Linux a bound socket that does not listen keeps the port: nobody else is given it by the
/// system, a connection to it is refused, and a listener with `SO_REUSEADDR` (servers and tokio set
/// it) may still take it. So a server can be killed and come back on its port, however long that
/// takes. Elsewhere the port is only known to have been free.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    port: u16,
    _placeholder: Option<TcpSocket>,
    /// Keeps the port of a cluster's bus.
    _bus: Option<Box<Self>>,
}

impl ReservedPort {
    /// Takes a port that was free.
    pub(crate) fn take() -> io::Result<Self> {
        let socket = placeholder(0)?;
        let port = socket.local_addr()?.port();
        let placeholder = cfg!(target_os = "linux").then_some(socket);
        Ok(Self {
            port,
            _placeholder: placeholder,
            _bus: None,
        })
    }

    /// Takes a port that was free for a node of a cluster, together with the one 10,000 above it,
    /// on which nodes talk to each other.
    pub(crate) fn take_for_cluster() -> io::Result<Self> {
        for _ in 0..TRIES {
            let port = Self::take()?;
            let Some(bus) = port.port.checked_add(BUS) else {
                continue;
            };
            if let Ok(socket) = placeholder(bus) {
                let bus = Self {
                    port: bus,
                    _placeholder: Some(socket).filter(|_| cfg!(target_os = "linux")),
                    _bus: None,
                };
                return Ok(Self {
                    _bus: Some(Box::new(bus)),
                    ..port
                });
            }
        }
        Err(io::Error::other("no two free ports for a cluster's node"))
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

/// Binds a port that nobody else has, not even one who does not listen on it, and lets who listens
/// have it after that.
fn placeholder(port: u16) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

fn reusable_socket(port: u16) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(socket)
}

/// A node's bus is on the port so much above its own.
pub(crate) const BUS: u16 = 10_000;

const TRIES: u32 = 200;

const BACKLOG: u32 = 512;
