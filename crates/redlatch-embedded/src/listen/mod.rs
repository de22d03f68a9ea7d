//! The server over TCP, for other processes of this machine.

mod connection;
mod outlet;
pub(crate) mod reply;
pub(crate) mod request;
mod run;

use std::{fmt, io, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream, ToSocketAddrs},
    select,
    sync::watch,
};

pub(crate) use self::outlet::Outlet;
use crate::EmbeddedServer;

/// A listening server. Dropping this value ends the listener and closes its connections.
///
/// Requests that clients have sent by then may still run. Clients in this process and the data are
/// not affected.
#[must_use = "dropping it stops listening"]
pub struct Listening {
    local_addr: SocketAddr,
    /// Dropping the sender ends all tasks.
    _open: watch::Sender<()>,
}

impl Listening {
    /// Returns the address on which the server listens. If port 0 was requested, it has the port
    /// that the system chose.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns the URL for a client of this machine, such as `redis://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.local_addr)
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening")
            .field("local_addr", &self.local_addr)
            .finish_non_exhaustive()
    }
}

impl EmbeddedServer {
    /// Listens on a TCP address, for several processes of one machine. `127.0.0.1:0` takes a free
    /// port.
    ///
    /// The listener speaks RESP2 to any client, with inline requests and pub/sub. It refuses
    /// `HELLO` and sharded pub/sub. Trouble that is caused through this handle affects these
    /// connections too.
    ///
    /// There is no password and no encryption: every client that reaches the address can do
    /// everything. Listen on the loopback only. A client that sends faster than it reads must wait.
    /// A subscriber that falls 8 MiB behind is disconnected.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future listens nowhere.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with I/O enabled.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use redlatch_core::{runtime::{TokioRuntime}};
    /// # use redlatch_embedded::EmbeddedServer;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let runtime = TokioRuntime::current().expect("a tokio runtime");
    /// let server = EmbeddedServer::new(Arc::new(runtime));
    /// let listening = server.listen("127.0.0.1:0").await?;
    /// println!("other processes: {}", listening.url());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn listen(&self, address: impl ToSocketAddrs) -> io::Result<Listening> {
        let listener = TcpListener::bind(address).await?;
        let local_addr = listener.local_addr()?;
        let (open, closing) = watch::channel(());
        let (server, runtime) = (self.clone(), self.runtime());
        let task = Box::pin(accept(server, listener, closing));
        runtime.spawn("embedded server listens", task);
        Ok(Listening {
            local_addr,
            _open: open,
        })
    }
}

async fn accept(server: EmbeddedServer, listener: TcpListener, mut closing: watch::Receiver<()>) {
    let runtime = server.runtime();
    loop {
        let accepted = select! {
            _ = closing.changed() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // The lasting error is a lack of file descriptors, which only time can resolve.
            runtime.sleep_until(runtime.now() + PAUSE).await;
            continue;
        };
        let task = serve(server.clone(), stream, closing.clone());
        runtime.spawn("embedded server's connection", Box::pin(task));
    }
}

async fn serve(server: EmbeddedServer, stream: TcpStream, mut closing: watch::Receiver<()>) {
    select! {
        _ = closing.changed() => {}
        () = connection::serve(server, stream) => {}
    }
}

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);
