//! One connection and its messages.

use std::collections::{BTreeMap, BTreeSet};

use redlatch_core::runtime::{Command, Outcome, Push};
use redlatch_embedded::engine::SessionId;
use tokio::sync::{mpsc, oneshot};

use super::{masters::Seat, replicas::Waiting};
use crate::exec::ProcId;

/// The number of a connection.
pub type ConnId = usize;

/// One connection.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The server of the connection.
    pub(super) node: usize,
    /// The server that the client has dialled: a master of a cluster may be a door to the server.
    pub(super) master: Seat,
    pub(super) proc: ProcId,
    /// The number of the client.
    pub(super) client: usize,
    /// Whether it is for subscriptions.
    pub(super) pubsub: bool,
    pub(super) session: Option<SessionId>,
    /// Whether the client's end is open.
    pub(super) open: bool,
    /// Whether messages that are sent from now on are lost.
    pub(super) severed: bool,
    pub(super) accept: Option<oneshot::Sender<Result<(), String>>>,
    pub(super) pending: BTreeMap<u64, oneshot::Sender<Vec<Outcome>>>,
    pub(super) pushes: Option<mpsc::UnboundedSender<Push>>,
    pub(super) upward: Way,
    pub(super) downward: Way,
    pub(super) requests: u64,
    /// The effects on the server that replicas have to confirm to a `WAIT`.
    pub(super) written: u64,
    /// The wait for replicas under way.
    pub(super) waiting: Option<Waiting>,
    /// Whether an `ASKING` came right before.
    pub(super) asking: bool,
    /// The channels of shards to which it was subscribed.
    pub(super) shards: BTreeSet<Vec<u8>>,
}

impl Link {
    /// Holds up all data until then.
    pub(super) fn hold(&mut self, until: u64) {
        self.upward.hold(until);
        self.downward.hold(until);
    }
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    /// The arrival time of the last message.
    pub(super) last: u64,
    /// The time before which no message arrives.
    pub(super) held_until: u64,
    pub(super) sent: u64,
    pub(super) arrived: u64,
    /// The number of messages that still arrive. Later ones are lost.
    pub(super) limit: Option<u64>,
}

/// A message to the server.
#[derive(Debug)]
pub enum Upward {
    /// A client asks for a connection.
    Hello,
    /// A pipeline: its number, its commands and the time at which it was sent.
    Request(u64, Vec<Command>, u64),
    /// The client's end is closed.
    Bye,
}

/// A message to a client.
#[derive(Debug)]
pub enum Downward {
    /// The connection is accepted or refused.
    Accepted(Result<(), String>),
    /// The replies to a pipeline.
    Reply(u64, Vec<Outcome>),
    /// A push.
    Push(Push),
    /// The connection is closed.
    Closed,
}

impl Way {
    /// Returns the arrival time of a message whose delay ends at `at`. It arrives after all earlier
    /// messages.
    pub(super) fn post(&mut self, at: u64) -> u64 {
        self.sent += 1;
        self.last = (self.last + 1).max(at);
        self.last
    }

    pub(super) fn hold(&mut self, until: u64) {
        self.held_until = self.held_until.max(until);
        self.last = self.last.max(self.held_until);
    }
}
