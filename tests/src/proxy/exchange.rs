//! Requests that were taken out of the stream, and the actions on them.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

use super::{Request, Then};
use crate::resp::{Frame, Framer, is_push};

/// A copy of a request, which a test can deliver at any time.
#[derive(Clone, Debug)]
pub struct RequestCopy {
    pub(super) request: Request,
    /// The earlier requests that set up the connection: user, protocol, database.
    pub(super) session: Vec<Request>,
    pub(super) upstream: SocketAddr,
}

/// An order to observe the reply to a request.
#[derive(Debug)]
pub struct Answered {
    pub(super) answer: oneshot::Receiver<Exchange>,
}

/// A request and the server's reply.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exchange {
    copy: RequestCopy,
    reply: Vec<u8>,
}

/// The action on the reply to a forwarded request.
#[derive(Debug)]
pub(super) struct Tap {
    /// The action after the reply is kept from the client; `None` if the reply is passed on.
    pub(super) drop: Option<Then>,
    /// The reply that the client gets instead.
    pub(super) told: Option<Told>,
    /// The receiver of a copy.
    pub(super) answer: oneshot::Sender<Exchange>,
}

/// A substitute for the server's reply.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) reply: Vec<u8>,
    /// Whether the server still gets the request.
    pub(super) executed: bool,
}

impl RequestCopy {
    /// Delivers a copy over a new connection and returns the server's raw reply.
    ///
    /// The requests that set up its first connection (`AUTH`, `HELLO`, `SELECT`) precede the copy,
    /// so that it has the same meaning.
    pub async fn deliver(&self) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.upstream).await?;
        let mut framer = Framer::default();
        for request in &self.session {
            ask(&mut stream, &mut framer, request).await?;
        }
        ask(&mut stream, &mut framer, &self.request).await
    }
}

impl Answered {
    /// Waits until the server has answered. By then it has executed the request.
    ///
    /// # Panics
    ///
    /// Panics if the connection closed before the server answered, or if the order was withdrawn.
    pub async fn answered(self) -> Exchange {
        self.answered_or_gone()
            .await
            .expect("the connection lives and the order stands")
    }

    /// Waits until the server has answered; `None` if the connection closed before, or if the order
    /// was withdrawn.
    pub async fn answered_or_gone(self) -> Option<Exchange> {
        self.answer.await.ok()
    }
}

impl Exchange {
    /// Returns the request.
    pub const fn request(&self) -> &Request {
        &self.copy.request
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
    /// Creates the action that answers in the place of the server.
    pub(super) fn instead(reply: Vec<u8>) -> Self {
        let executed = false;
        Self {
            drop: None,
            told: Some(Told { reply, executed }),
            answer: oneshot::channel().0,
        }
    }

    /// Sends the copy and the reply to the receiver.
    pub(super) fn answer(self, copy: RequestCopy, reply: &[u8]) {
        // The caller may have dropped the receiver.
        let reply = reply.to_vec();
        let _ = self.answer.send(Exchange { copy, reply });
    }
}

async fn ask(
    stream: &mut TcpStream,
    framer: &mut Framer,
    request: &Request,
) -> io::Result<Vec<u8>> {
    stream.write_all(request.bytes()).await?;
    loop {
        match read(stream, framer).await? {
            Frame::Value(reply) if is_push(&reply) => {}
            Frame::Value(reply) => return Ok(reply),
            Frame::Opaque(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Reads the next piece of a stream.
pub(super) async fn read(stream: &mut TcpStream, framer: &mut Framer) -> io::Result<Frame> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(frame) = framer.next() {
            return Ok(frame);
        }
        match stream.read(&mut buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => framer.push(&buffer[..n]),
        }
    }
}
