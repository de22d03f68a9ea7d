//! The transport of redlatch over the simulated network.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use redlatch_core::runtime::{
    Address, Command, Conn, Dial, DialError, DialErrorKind, Dialed, Outcome, Protocol, Purpose,
    Push, Pushes, Transport,
};
use tokio::sync::{mpsc, oneshot};

use super::{
    ConnId, Net, Upward,
    link::Link,
    masters::{HOST, PORT, Seat},
};
use crate::exec::{ProcId, lock};

/// The transport of one process.
#[derive(Clone, Debug)]
pub struct SimTransport {
    net: Arc<Mutex<Net>>,
    proc: ProcId,
    client: usize,
}

impl SimTransport {
    /// Creates the transport of `proc`, a life of client number `client`.
    pub const fn new(net: Arc<Mutex<Net>>, proc: ProcId, client: usize) -> Self {
        Self { net, proc, client }
    }
}

#[async_trait]
impl Transport for SimTransport {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let (accept, accepted) = oneshot::channel();
        let (pushes, receiver) = mpsc::unbounded_channel();
        let master = seat_of(&dial.address);
        let link = Link {
            master,
            proc: self.proc,
            client: self.client,
            pubsub: dial.purpose == Purpose::PubSub,
            open: true,
            accept: Some(accept),
            pushes: Some(pushes),
            ..Link::default()
        };
        let net = Arc::clone(&self.net);
        let id = lock(&net).connect(link);
        let conn = Arc::new(SimConn { net, id });
        let answer = accepted.await.unwrap_or_else(|_| Err("reset".to_owned()));
        match answer {
            Ok(()) => Ok(Dialed {
                conn,
                pushes: Box::new(SimPushes(receiver)),
                protocol: Protocol::Resp3,
            }),
            refused => Err(DialError {
                kind: DialErrorKind::Unreachable,
                message: format!("the server cannot be reached: {refused:?}"),
            }),
        }
    }
}

/// Returns the address of a server.
pub fn address_of(seat: Seat) -> Address {
    Address::Tcp {
        host: HOST.to_owned(),
        port: u16::try_from(PORT + seat).unwrap_or(u16::MAX),
    }
}

fn seat_of(address: &Address) -> Seat {
    match address {
        Address::Tcp { port, .. } => usize::from(*port) - PORT,
        _ => 0,
    }
}

/// Returns the addresses of these servers or sentinels.
pub fn addresses(seats: Range<usize>) -> Vec<String> {
    seats.map(|seat| address_of(seat).to_string()).collect()
}

/// The client's end of a connection.
#[derive(Debug)]
struct SimConn {
    net: Arc<Mutex<Net>>,
    id: ConnId,
}

#[async_trait]
impl Conn for SimConn {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        let len = batch.len();
        let sent = lock(&self.net).send(self.id, batch);
        let Some(answer) = sent else {
            return vec![Outcome::NotSent("the connection is gone".to_owned()); len];
        };
        answer
            .await
            .unwrap_or_else(|_| vec![Outcome::Unknown("the connection broke".to_owned()); len])
    }
}

impl Net {
    /// Begins a connection.
    fn connect(&mut self, mut link: Link) -> ConnId {
        let group = self.group;
        // The masters of a cluster without replicas share one server.
        link.node = match (group.replicas, group.shards) {
            (0, 2..) => 0,
            _ => link.master,
        };
        if let Some(until) = self.cut_off_until(&link) {
            link.hold(until);
        }
        self.conns.push(link);
        let id = self.conns.len() - 1;
        self.post_up(id, Upward::Hello);
        id
    }

    /// Sends a pipeline over an open connection. Returns what will get the outcomes.
    fn send(&mut self, id: ConnId, batch: Vec<Command>) -> Option<oneshot::Receiver<Vec<Outcome>>> {
        let link = &mut self.conns[id];
        if !link.open {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        link.requests += 1;
        let request = link.requests;
        link.pending.insert(request, sender);
        let message = Upward::Request(request, batch, self.exec.now());
        self.post_up(id, message);
        Some(answer)
    }
}

impl Drop for SimConn {
    fn drop(&mut self) {
        lock(&self.net).close(self.id);
    }
}

#[derive(Debug)]
struct SimPushes(mpsc::UnboundedReceiver<Push>);

#[async_trait]
impl Pushes for SimPushes {
    async fn next(&mut self) -> Option<Push> {
        self.0.recv().await
    }
}
