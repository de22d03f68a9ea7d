//! One connection: a task that reads requests and writes replies and pushes.

use std::pin::pin;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    select,
};

use super::{
    outlet::{self, Outflow},
    request::RequestParser,
    run::Submitted,
};
use crate::{
    EmbeddedServer,
    engine::{SessionId, SessionKind},
    shared::Pusher,
};

/// Serves a client until the client or the server ends the connection.
pub(super) async fn serve(server: EmbeddedServer, mut stream: TcpStream) {
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
