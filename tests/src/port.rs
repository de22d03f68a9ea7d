//! Ports that stay reserved while nobody listens on them.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::net::{TcpListener, TcpSocket};

/// A free port of 127.0.0.1, reserved for this process.
///
/// On Linux a bound socket that does not listen reserves the port. The system gives the port to no
/// other process, and refuses connections to it. A listener with `SO_REUSEADDR`, which servers and
/// tokio set, may still take it.
///
/// A killed server can thus return to its port after any time. On other systems the port was only
/// free when it was taken.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    port: u16,
    _placeholder: Option<TcpSocket>,
    /// Reserves the port of a cluster's bus.
    _bus: Option<Box<Self>>,
}

impl ReservedPort {
    /// Takes a free port.
    pub(crate) fn take() -> io::Result<Self> {
        Self::bind(0)
    }

    /// Takes a free port for a node of a cluster, together with the port 10,000 above it. That one
    /// is for the bus between the nodes.
    pub(crate) fn take_for_cluster() -> io::Result<Self> {
        for _ in 0..TRIES {
            let port = Self::take()?;
            if let Some(Ok(bus)) = port.port.checked_add(BUS).map(Self::bind) {
                let _bus = Some(Box::new(bus));
                return Ok(Self { _bus, ..port });
            }
        }
        Err(io::Error::other("no two free ports for a cluster's node"))
    }

    /// Binds a port that nobody else has bound, even without listening, or any for 0. Afterwards a
    /// listener may take it.
    fn bind(port: u16) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        socket.set_reuseaddr(true)?;
        Ok(Self {
            port: socket.local_addr()?.port(),
            _placeholder: cfg!(target_os = "linux").then_some(socket),
            _bus: None,
        })
    }

    /// Listens on the port.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))?;
        socket.listen(BACKLOG)
    }

    /// Returns the port's number.
    pub(crate) const fn number(&self) -> u16 {
        self.port
    }
}

/// The distance from a node's port to the port of its bus.
pub(crate) const BUS: u16 = 10_000;

const TRIES: u32 = 200;

const BACKLOG: u32 = 512;
