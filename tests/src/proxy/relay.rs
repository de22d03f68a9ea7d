//! One connection, from its acceptance to its end.

use std::{
    collections::VecDeque,
    future::{Future, pending},
    pin::pin,
    sync::Mutex,
};

use tokio::{
    io::AsyncReadExt,
    net::{TcpStream, tcp::ReadHalf},
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    Direction, RequestCopy,
    control::{Signals, Ticket},
    exchange::Tap,
    writer::{Ending, Writer},
};
use crate::resp::{Frame, Framer};

/// Data that arrived, and its time.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) at: Instant,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Piece(Frame),
    End,
}

/// The actions on the replies to the pending requests, oldest first.
pub(super) type Expected = VecDeque<Option<(Tap, RequestCopy)>>;

/// Connects a client with the server until one of them, or the test, ends the connection.
///
/// One task does all of it. Nothing is forwarded between the moment it sees a signal and the moment
/// it obeys.
pub(super) async fn relay(mut client: TcpStream, ticket: Ticket) {
    let upstream = ticket.shared.state().upstream;
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        // Without a server there is no connection. A reset is the closest to a refused connection.
        reset(&client);
        return;
    };
    // Nagle's algorithm would add unwanted delays. Without the option the proxy is slower but still
    // correct.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let before = ticket.at_accept;
    let ending = tokio::select! {
        biased;
        () = until(ticket.signals.clone(), |now| now.resets != before.resets) => Ending::Reset,
        () = until(ticket.signals.clone(), |now| now.closes != before.closes) => Ending::Close,
        ending = exchange(&mut client, &mut server, &ticket) => ending,
    };
    if ending == Ending::Reset {
        reset(&client);
        reset(&server);
    }
}

async fn exchange(client: &mut TcpStream, server: &mut TcpStream, ticket: &Ticket) -> Ending {
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    let (from_client, requests) = mpsc::unbounded_channel();
    let (from_server, replies) = mpsc::unbounded_channel();
    let expected = Mutex::new(Expected::new());
    let to_server = Writer::new(Direction::ToServer, server_write, ticket, &expected);
    let to_client = Writer::new(Direction::ToClient, client_write, ticket, &expected);
    let requests = async {
        match until_written(read(client_read, from_client), to_server.run(requests)).await {
            // The client will send no more, but the server may still answer.
            Ending::SourceEnded => pending().await,
            ending => ending,
        }
    };
    let replies = until_written(read(server_read, from_server), to_client.run(replies));
    tokio::select! { ending = requests => ending, ending = replies => ending }
}

/// Reads until the data that was read is of no more use.
async fn until_written(
    reading: impl Future<Output = ()>,
    writing: impl Future<Output = Ending>,
) -> Ending {
    let mut writing = pin!(writing);
    tokio::select! {
        ending = &mut writing => ending,
        () = reading => writing.await,
    }
}

/// Reads until the end of the stream. A stream that breaks has ended, too.
async fn read(mut source: ReadHalf<'_>, arrived: mpsc::UnboundedSender<Arrived>) {
    let mut framer = Framer::default();
    let mut buffer = vec![0; 16 * 1024];
    let pass_on = |what| {
        arrived.send(Arrived {
            at: Instant::now(),
            what,
        })
    };
    while let Ok(n @ 1..) = source.read(&mut buffer).await {
        framer.push(&buffer[..n]);
        while let Some(frame) = framer.next() {
            if pass_on(What::Piece(frame)).is_err() {
                return;
            }
        }
    }
    // The channel has no receiver once the connection is over.
    let _ = framer.rest().map(|frame| pass_on(What::Piece(frame)));
    let _ = pass_on(What::End);
}

/// Waits until `such` is true for the signals. It waits for ever if no sender is left.
async fn until(mut signals: watch::Receiver<Signals>, such: impl FnMut(&Signals) -> bool) {
    if signals.wait_for(such).await.is_err() {
        pending().await
    }
}

/// Turns the coming close into a reset.
fn reset(stream: &TcpStream) {
    // A connection that is closed already cannot be reset.
    let _ = stream.set_zero_linger();
}
