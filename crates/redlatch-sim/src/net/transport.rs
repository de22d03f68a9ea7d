//! The transport of redlatch over the simulated network.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use async_trait::async_trait;
use redlatch_core::runtime::{
    Address, Command, Conn, Dial, DialError, DialErrorKind, Dialed, Outcome, Protocol, Push,
    Pushes, Transport,
};
use tokio::sync::{mpsc, oneshot};

use super::{
    ConnId, Net, Upward,
    link::{Link, Way},
    masters::{HOST, PORT},
};
use crate::exec::ProcId;

/// The transport of one process.
#[derive(Clone, Debug)]
pub struct SimTransport {
    net: Arc<Net>,
    proc: ProcId,
    client: usize,
}

impl SimTransport {
    /// Creates the transport of `proc`, a life of client number `client`.
    pub const fn new(net: Arc<Net>, proc: ProcId, client: usize) -> Self {
        Self { net, proc, client }
    }
}

#[async_trait]
impl Transport for SimTransport {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let (conn, accepted, receiver) = {
            let mut state = self.net.state();
            let (accept, accepted) = oneshot::channel();
            let (pushes, receiver) = mpsc::unbounded_channel();
            let master = master_of(&dial.address);
            let node = match state.masters.group.replicas {
                0 => node_of(&dial.address),
                _ => master,
            };
            let mut way = Way::default();
            let now = self.net.exec.now();
            if let Some(until) = state.cut_off_until(self.client, master, now) {
                way.hold(until);
            }
            state.conns.push(Link {
                node,
                master,
                proc: self.proc,
                client: self.client,
                purpose: dial.purpose,
                session: None,
                open: true,
                severed: false,
                accept: Some(accept),
                pending: BTreeMap::new(),
                pushes: Some(pushes),
                upward: way,
                downward: way,
                requests: 0,
                written: 0,
                waiting: None,
                asking: false,
                shards: BTreeSet::new(),
            });
            let id = state.conns.len() - 1;
            self.net.post_up(&mut state, id, Upward::Hello);
            let conn = SimConn {
                net: Arc::clone(&self.net),
                id,
            };
            (conn, accepted, receiver)
        };
        let answer = accepted.await.unwrap_or_else(|_| Err("reset".to_owned()));
        match answer {
            Ok(()) => Ok(Dialed {
                conn: Arc::new(conn),
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
pub fn address_of(node: usize) -> Address {
    Address::Embedded(format!("sim-{node}"))
}

fn node_of(address: &Address) -> usize {
    let Address::Embedded(name) = address else {
        return 0;
    };
    let node = name.strip_prefix("sim-");
    node.and_then(|node| node.parse().ok()).unwrap_or(0)
}

/// Returns the addresses of these servers or sentinels.
pub fn addresses(seats: Range<usize>) -> Vec<String> {
    seats
        .map(|seat| format!("{HOST}:{}", PORT + seat))
        .collect()
}

fn master_of(address: &Address) -> usize {
    match address {
        Address::Tcp { port, .. } => usize::from(*port) - PORT,
        _ => 0,
    }
}

/// The client's end of a connection.
#[derive(Debug)]
struct SimConn {
    net: Arc<Net>,
    id: ConnId,
}

#[async_trait]
impl Conn for SimConn {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        let len = batch.len();
        let answer = {
            let mut state = self.net.state();
            let link = &mut state.conns[self.id];
            if !link.open {
                return vec![Outcome::NotSent("the connection is gone".to_owned()); len];
            }
            let (sender, answer) = oneshot::channel();
            link.requests += 1;
            let request = link.requests;
            link.pending.insert(request, sender);
            let message = Upward::Request(request, batch, self.net.exec.now());
            self.net.post_up(&mut state, self.id, message);
            answer
        };
        answer
            .await
            .unwrap_or_else(|_| vec![Outcome::Unknown("the connection broke".to_owned()); len])
    }
}

impl Drop for SimConn {
    fn drop(&mut self) {
        self.net.close(self.id);
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
