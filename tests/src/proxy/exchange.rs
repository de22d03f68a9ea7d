//! Requests that were taken out of the stream, and what can still be done with them.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

use super::{
    Request, Then,
    frame::{Frame, Framer, is_push},
};

/// A copy of a request, to be delivered whenever a test wants it to arrive.
#[derive(Clone, Debug)]
pub struct RequestCopy {
    request: Request,
    /// What shaped the request's connection before it: user, protocol, database.
    session: Vec<Request>,
    upstream: SocketAddr,
}

/// The order to hold a request.
#[derive(Debug)]
#[must_use = "dropping it withdraws the order"]
pub struct Hold {
    caught: oneshot::Receiver<Held>,
}

/// A request that the proxy keeps.
///
/// Its connection is open, and what the client sends after it waits behind it, even the end of the
/// connection. Dropping this value resets the connection: the request is lost.
#[derive(Debug)]
pub struct Held {
    copy: RequestCopy,
    release: oneshot::Sender<Tap>,
}

/// The order to look at a request's reply.
#[derive(Debug)]
pub struct Answered {
    answer: oneshot::Receiver<Exchange>,
}

/// A request and the reply that the server gave.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exchange {
    copy: RequestCopy,
    reply: Vec<u8>,
}

/// What to do with the reply to a forwarded request.
#[derive(Debug)]
pub(super) struct Tap {
    /// Keep it from the client, and then?
    pub(super) drop: Option<Then>,
    /// What the client is told instead.
    pub(super) told: Option<Told>,
    /// Whom to give a copy.
    pub(super) answer: oneshot::Sender<Exchange>,
}

/// What a client is told instead of what the server says.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) reply: Vec<u8>,
    /// Whether the server gets the request all the same.
    pub(super) executed: bool,
}

impl RequestCopy {
    pub(super) const fn new(request: Request, session: Vec<Request>, upstream: SocketAddr) -> Self {
        Self {
            request,
            session,
            upstream,
        }
    }

    /// Returns the request.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// Delivers a copy over a connection of its own and returns the server's raw reply.
    ///
    /// The copy is preceded by what its first connection began with (`AUTH`, `HELLO`, `SELECT`), so
    /// that it means the same.
    pub async fn deliver(&self) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.upstream).await?;
        let mut framer = Framer::default();
        for request in &self.session {
            ask(&mut stream, &mut framer, request).await?;
        }
        ask(&mut stream, &mut framer, &self.request).await
    }
}

impl Hold {
    pub(super) const fn new(caught: oneshot::Receiver<Held>) -> Self {
        Self { caught }
    }

    /// Waits until the request has come.
    ///
    /// # Panics
    ///
    /// When the order was withdrawn or the proxy is gone.
    pub async fn caught(self) -> Held {
        self.caught
            .await
            .expect("the proxy lives and the order stands")
    }
}

impl Held {
    pub(super) const fn new(copy: RequestCopy, release: oneshot::Sender<Tap>) -> Self {
        Self { copy, release }
    }

    /// Returns a copy of the request, to deliver it again, elsewhere too.
    pub const fn copy(&self) -> &RequestCopy {
        &self.copy
    }

    /// Delivers it on a connection of its own and returns the server's raw reply; the original
    /// stays held.
    ///
    /// This is the request of an attempt that everyone has given up: its bytes were under way all
    /// the time.
    pub async fn deliver(&self) -> io::Result<Vec<u8>> {
        self.copy.deliver().await
    }

    /// Lets it go on, on its own connection, with all that waits behind it. Returns the server's
    /// raw reply.
    ///
    /// The reply goes to the client too, if it is still there. An error means that the connection
    /// to the server is gone.
    pub async fn let_go(self) -> io::Result<Vec<u8>> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let (answer, answered) = oneshot::channel();
        self.release
            .send(Tap {
                drop: None,
                told: None,
                answer,
            })
            .map_err(|_| gone())?;
        answered
            .await
            .map(|exchange| exchange.reply)
            .map_err(|_| gone())
    }
}

impl Answered {
    pub(super) const fn new(answer: oneshot::Receiver<Exchange>) -> Self {
        Self { answer }
    }

    /// Waits until the server has answered: until then it has executed the request.
    ///
    /// # Panics
    ///
    /// When the connection went before the server answered, or the order was withdrawn.
    pub async fn answered(self) -> Exchange {
        self.answered_or_gone()
            .await
            .expect("the connection lives and the order stands")
    }

    /// Waits until the server has answered; `None` when the connection went before it did, or the
    /// order was withdrawn.
    pub async fn answered_or_gone(self) -> Option<Exchange> {
        self.answer.await.ok()
    }
}

impl Exchange {
    /// Returns the request.
    pub const fn request(&self) -> &Request {
        self.copy.request()
    }

    /// Returns the server's raw reply.
    pub fn reply(&self) -> &[u8] {
        &self.reply
    }

    /// Returns a copy of the request, to deliver it again.
    pub const fn copy(&self) -> &RequestCopy {
        &self.copy
    }
}

impl Tap {
    /// Hands out the copy.
    pub(super) fn answer(self, copy: RequestCopy, reply: &[u8]) {
        // Whoever gave the order need not be interested in the answer.
        let _ = self.answer.send(Exchange {
            copy,
            reply: reply.to_vec(),
        });
    }
}

async fn ask(
    stream: &mut TcpStream,
    framer: &mut Framer,
    request: &Request,
) -> io::Result<Vec<u8>> {
    stream.write_all(request.bytes()).await?;
    let mut buffer = [0; 4096];
    loop {
        match framer.next() {
            Some(Frame::Value(reply)) if is_push(&reply) => {}
            Some(Frame::Value(reply)) => return Ok(reply),
            Some(Frame::Opaque(_)) => return Err(io::ErrorKind::InvalidData.into()),
            None => match stream.read(&mut buffer).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => framer.push(&buffer[..n]),
            },
        }
    }
}
