//! Pub/sub connections over RESP2.

use std::{
    collections::VecDeque,
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures_util::{
    FutureExt, StreamExt,
    future::{self, Shared},
    stream::FuturesOrdered,
};
use redis::{
    Msg,
    aio::{PubSub, PubSubSink, PubSubStream},
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::{
    error,
    exchange::answer,
    pubsub::{Request, changed},
    pushes::Gone,
    value,
};
use crate::{
    base::sync::lock,
    runtime::{BoxFuture, Command, Conn, Outcome, Push, Pushes, ServerError, Value},
};

/// Splits a RESP2 connection into a sending and a receiving half.
///
/// The crate does not deliver confirmations, so the receiving half reports them when the command
/// has succeeded. A dropped `send` loses no confirmation. A confirmation precedes every message
/// that arrived after it, because messages that arrive during a command wait for its answer.
pub(super) fn split(pubsub: PubSub) -> (PubSub2Conn, PubSub2Pushes) {
    let (sink, stream) = pubsub.split();
    let socket = Socket(Arc::new(Mutex::new(Some(stream))));
    let (sender, receiver) = mpsc::unbounded_channel();
    let gone = Gone::default();
    let pushes = PubSub2Pushes {
        socket: socket.clone(),
        gone: gone.clone(),
        incoming: receiver,
        changes: FuturesOrdered::new(),
        ready: VecDeque::new(),
        held: VecDeque::new(),
        ended: false,
    };
    (
        PubSub2Conn {
            sink,
            socket,
            gone,
            changes: sender,
        },
        pushes,
    )
}

/// The sending half.
#[derive(Debug)]
pub(super) struct PubSub2Conn {
    sink: PubSubSink,
    socket: Socket,
    gone: Gone,
    changes: UnboundedSender<Change>,
}

impl PubSub2Conn {
    fn start(&self, command: &Command) -> Change {
        let request = match Request::parse(command) {
            _ if self.gone.is() => return settled(error::closed()),
            // The crate has no method for sharded pub/sub. The answer is that of a server without
            // the command.
            Ok(Request::Sharded(verb, _)) => {
                let refusal = format!("ERR unknown command {verb}, over RESP2");
                return settled(Outcome::Replied(Err(ServerError::parse(&refusal))));
            }
            Err(why) => return settled(Outcome::NotSent(why.to_owned())),
            Ok(request) => request,
        };
        let change: BoxFuture<_> = Box::pin(run(self.sink.clone(), self.gone.clone(), request));
        let change = change.shared();
        // The lock makes sending and reporting atomic. Otherwise the receiving half might see a
        // message first.
        let _locked = self.socket.lock();
        // The first poll queues the command. If `send` is dropped, the receiving half completes the
        // command.
        let _ = change.clone().now_or_never();
        // An error says that the receiving half is gone, and then the confirmation is not needed.
        let _ = self.changes.send(change.clone());
        change
    }
}

#[async_trait]
impl Conn for PubSub2Conn {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        let changes: Vec<Change> = batch.iter().map(|command| self.start(command)).collect();
        drop(batch);
        future::join_all(changes)
            .await
            .into_iter()
            .map(|told| told.outcome)
            .collect()
    }
}

impl Drop for PubSub2Conn {
    fn drop(&mut self) {
        self.socket.close();
    }
}

/// The receiving half.
pub(super) struct PubSub2Pushes {
    socket: Socket,
    gone: Gone,
    incoming: UnboundedReceiver<Change>,
    changes: FuturesOrdered<Change>,
    ready: VecDeque<Push>,
    held: VecDeque<Push>,
    ended: bool,
}

impl PubSub2Pushes {
    fn poll_push(&mut self, cx: &mut Context<'_>) -> Poll<Option<Push>> {
        let mut stream = self.socket.lock();
        loop {
            if let Some(push) = self.ready.pop_front() {
                return Poll::Ready(Some(push));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            while let Poll::Ready(Some(change)) = self.incoming.poll_recv(cx) {
                self.changes.push_back(change);
            }
            // Confirmations come first, and messages that arrived during a command follow them.
            match self.changes.poll_next_unpin(cx) {
                Poll::Ready(Some(told)) => {
                    self.ready.extend(told.pushes);
                    continue;
                }
                Poll::Ready(None) if !self.held.is_empty() => {
                    self.ready.append(&mut self.held);
                    continue;
                }
                Poll::Ready(None) | Poll::Pending => {}
            }
            let message = stream.as_mut().map(|stream| stream.poll_next_unpin(cx));
            match message.unwrap_or(Poll::Ready(None)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(message)) => self.held.extend(to_push(&message)),
                Poll::Ready(None) => {
                    self.gone.mark();
                    self.ended = true;
                    self.ready.append(&mut self.held);
                }
            }
        }
    }
}

#[async_trait]
impl Pushes for PubSub2Pushes {
    async fn next(&mut self) -> Option<Push> {
        future::poll_fn(|cx| self.poll_push(cx)).await
    }
}

impl Drop for PubSub2Pushes {
    fn drop(&mut self) {
        // Without a reader the crate would queue messages without limit.
        self.gone.mark();
        self.socket.close();
    }
}

impl fmt::Debug for PubSub2Pushes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PubSub2Pushes")
            .field("gone", &self.gone.is())
            .finish_non_exhaustive()
    }
}

/// A command under way. Both halves drive it, and the remaining one completes it.
type Change = Shared<BoxFuture<Told>>;

#[derive(Clone, Debug)]
struct Told {
    outcome: Outcome,
    pushes: Vec<Push>,
}

async fn run(mut sink: PubSubSink, gone: Gone, request: Request) -> Told {
    let (outcome, pushes) = match request {
        Request::Subscribe(channels) => {
            let outcome = changed(answer(&gone, pin!(sink.subscribe(&channels))).await);
            let pushes = channels.into_iter().map(Push::Subscribed);
            (outcome, pushes.collect())
        }
        Request::Unsubscribe(channels) => {
            let outcome = changed(answer(&gone, pin!(sink.unsubscribe(&channels))).await);
            let pushes = channels.into_iter().map(Push::Unsubscribed);
            (outcome, pushes.collect())
        }
        Request::Ping | Request::Sharded(..) => (ping(&mut sink, &gone).await, Vec::new()),
    };
    let confirmed = matches!(outcome, Outcome::Replied(Ok(_)));
    Told {
        outcome,
        pushes: if confirmed { pushes } else { Vec::new() },
    }
}

async fn ping(sink: &mut PubSubSink, gone: &Gone) -> Outcome {
    let call = pin!(sink.ping::<redis::Value>());
    match answer(gone, call).await.map(value::reply) {
        // The format of the answer on a RESP2 connection with subscriptions.
        Ok(Ok(Value::Array(_))) => Outcome::Replied(Ok(Value::Status("PONG".to_owned()))),
        Ok(reply) => Outcome::Replied(reply),
        Err(outcome) => outcome,
    }
}

fn settled(outcome: Outcome) -> Change {
    let told: BoxFuture<_> = Box::pin(future::ready(Told {
        outcome,
        pushes: Vec::new(),
    }));
    told.shared()
}

fn to_push(message: &Msg) -> Option<Push> {
    let channel = message.get_channel().ok()?;
    Some(Push::Message {
        channel,
        payload: message.get_payload_bytes().to_vec(),
    })
}

/// The stream that keeps the socket open. Either half closes it.
#[derive(Clone)]
struct Socket(Arc<Mutex<Option<PubSubStream>>>);

impl Socket {
    fn close(&self) {
        let stream = self.lock().take();
        drop(stream);
    }

    fn lock(&self) -> MutexGuard<'_, Option<PubSubStream>> {
        lock(&self.0)
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Socket")
    }
}
