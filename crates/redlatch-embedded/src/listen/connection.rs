//! One connection: a task that reads requests and writes what becomes of them.

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
    outlet::{self, Next, Outflow},
    request::RequestParser,
    run::Submitted,
};
use crate::{
    EmbeddedServer,
    engine::{SessionId, SessionKind},
    shared::Pusher,
};

/// Serves a client until either side has had enough.
pub(super) async fn serve(server: EmbeddedServer, mut stream: TcpStream) {
    // Replies are small and somebody waits for them; without it the socket works as well, only
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
    // The client will send no more, but may still read what it has asked for.
    session.server.finish(session.session);
    write.await;
}

/// A connection of the server; dropping it ends that.
struct Session {
    server: EmbeddedServer,
    session: SessionId,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.server.disconnect(self.session);
    }
}

/// Hands requests over, one at a time and in order, until the client or the server ends that.
async fn read(session: &Session, outflow: &Outflow, mut reader: ReadHalf<'_>) {
    let Session { server, session } = session;
    let mut parser = RequestParser::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        // A failure of the socket is the end of what the client says, as much as an orderly one.
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
                // The rest stays in the socket, as before a process that is stopped.
                Submitted::Waits => server.running().await,
                Submitted::Closed => return,
            }
        }
    }
}

/// Writes what comes until the end, which does not wait for a client if the connection is cut.
async fn write(outflow: &Outflow, mut writer: WriteHalf<'_>) {
    while let Next::Write(bytes) = outflow.next().await {
        select! {
            biased;
            written = writer.write_all(&bytes) => if written.is_err() {
                return;
            },
            () = outflow.cut() => return,
        }
    }
}

/// How much is read at once.
const CHUNK: usize = 16 << 10;
