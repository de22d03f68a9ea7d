//! The server over TCP, for other processes of this machine.

mod outlet;
pub(crate) mod reply;
pub(crate) mod request;
mod run;

use std::{fmt, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream, ToSocketAddrs,
        tcp::{ReadHalf, WriteHalf},
    },
    select,
    sync::watch,
};

pub(crate) use self::outlet::Outlet;
use self::{outlet::Outflow, request::RequestParser, run::Submitted};
use crate::{
    EmbeddedServer,
    engine::{SessionId, SessionKind},
    shared::Pusher,
};

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
        let runtime = Arc::clone(&self.state().runtime);
        let task = Box::pin(accept(self.clone(), listener, closing));
        runtime.spawn("embedded server listens", task);
        Ok(Listening {
            local_addr,
            _open: open,
        })
    }
}

async fn accept(server: EmbeddedServer, listener: TcpListener, mut closing: watch::Receiver<()>) {
    let runtime = Arc::clone(&server.state().runtime);
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
        let (server, mut closing) = (server.clone(), closing.clone());
        let task = Box::pin(async move {
            select! {
                _ = closing.changed() => {}
                () = serve(server, stream) => {}
            }
        });
        runtime.spawn("embedded server's connection", task);
    }
}

/// Serves a client until the client or the server ends the connection.
async fn serve(server: EmbeddedServer, mut stream: TcpStream) {
    // Replies are small and a client waits for each. Without the option the socket still works, but
    // slower.
    let _ = stream.set_nodelay(true);
    let (outlet, outflow) = outlet::pair();
    let pusher = Pusher::Wire(outlet);
    let Some(session) = server.connect(SessionKind::Command, None, pusher).await else {
        return;
    };
    let session = Session { server, session };
    let (reader, writer) = stream.split();
    let mut write = pin!(write(&outflow, writer));
    select! {
        biased;
        () = &mut write => return,
        () = read(&session, &outflow, reader) => {}
    }
    // The client will send no more, but it may still read the replies to its requests.
    session.server.state().finish(session.session);
    write.await;
}

/// A session of the server. Dropping it ends the connection.
struct Session {
    server: EmbeddedServer,
    session: SessionId,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.server.state().cut(self.session);
    }
}

/// Passes requests on, one at a time and in order, until the client or the server ends the
/// connection.
async fn read(session: &Session, outflow: &Outflow, mut reader: ReadHalf<'_>) {
    let Session { server, session } = session;
    let mut parser = RequestParser::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        // A failure of the socket ends the requests of the client, as an orderly end does.
        let Ok(count @ 1..) = reader.read(&mut chunk).await else {
            return;
        };
        parser.feed(&chunk[..count]);
        loop {
            let command = match parser.next() {
                Ok(None) => break,
                Ok(Some(command)) => command,
                Err(error) => return server.refuse(*session, error),
            };
            match server.submit_in_order(*session, command) {
                Submitted::Ran => outflow.room().await,
                // The remaining bytes stay in the socket, as with a stopped process.
                Submitted::Waits => server.running().await,
                Submitted::Closed => return,
            }
        }
    }
}

/// Writes what is queued until the end of the connection. If the server cuts the connection, it
/// does not wait for the client.
async fn write(outflow: &Outflow, mut writer: WriteHalf<'_>) {
    while let Some(bytes) = outflow.next().await {
        select! {
            biased;
            written = writer.write_all(&bytes) => if written.is_err() {
                return;
            },
            () = outflow.cut() => return,
        }
    }
}

/// The number of bytes of one read.
const CHUNK: usize = 16 << 10;

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);
