//! A TCP proxy between a client and a server, with faults on request.
//!
//! It parses RESP only to find the boundaries of requests and replies. This is enough to keep a
//! reply back *after* the server has executed the request, and to deliver the request once more,
//! late. Bytes that are not RESP (TLS) pass through unchanged: delays, stalls and cuts work, but a
//! [`Pick`] never matches.
//!
//! ```no_run
//! # async fn example(server: std::net::SocketAddr) -> std::io::Result<()> {
//! use redlatch_tests::proxy::{Pick, Proxy, Then};
//!
//! let proxy = Proxy::start(server);
//! // … connect a client to `proxy.url()` …
//! let lost = proxy.drop_reply(Pick::command("EVALSHA"), Then::Cut);
//! // … let it acquire: the server executes the script, the client never sees the reply …
//! let exchange = lost.answered().await;
//! // … and long after, a copy of the same request arrives once more.
//! exchange.copy().deliver().await?;
//! # Ok(())
//! # }
//! ```

mod control;
mod exchange;
mod pick;
mod relay;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, MutexGuard},
    time::Duration,
};

use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

pub use exchange::{Answered, Exchange, RequestCopy};
pub use pick::{Pick, Request};

use self::{
    control::{Action, Rule, Shared, State},
    exchange::{Tap, Told},
};
use crate::port::ReservedPort;

/// A proxy in front of one server. It is a cheap handle: clones control the same proxy.
///
/// It listens on its own port of 127.0.0.1. When the last handle is dropped, it resets its
/// connections and stops listening.
///
/// Start it inside of a tokio runtime, which runs its tasks. A test that blocks its thread should
/// have a runtime with several threads. The administration of a [`Server`](crate::server::Server)
/// blocks for moments.
///
/// A change of the settings affects live connections too, for all data that is not forwarded yet.
#[derive(Clone)]
pub struct Proxy {
    inner: Arc<Inner>,
}

/// A direction of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Replies and messages.
    ToClient,
}

/// The treatment of the bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flow {
    /// The bytes pass at once.
    #[default]
    Pass,
    /// The bytes pass after this delay. Requests that are sent together arrive together: the delay
    /// models latency, not bandwidth.
    Delay(Duration),
    /// The bytes wait, and pass once the flow changes. This is a partition that TCP survives.
    Stall,
    /// The bytes vanish. A connection that lost bytes stays silent in that direction for good. This
    /// is a partition that the connection does not survive.
    BlackHole,
}

/// The action after a reply was kept from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The connection stays open, and no further data reaches the client.
    Stall,
    /// The connection is reset.
    Cut,
}

impl Proxy {
    /// Starts a proxy in front of the server at `upstream`, which need not be running yet.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, or when no port is left.
    pub fn start(upstream: SocketAddr) -> Self {
        let port = ReservedPort::take().expect("a free port");
        let listener = port.listen().expect("the port is ours");
        let shared = Arc::new(Shared::new(upstream));
        let accepting = tokio::spawn(accept_from(listener, Arc::clone(&shared)));
        let inner = Arc::new(Inner {
            port,
            shared,
            accepting,
        });
        Self { inner }
    }

    /// Returns the address clients connect to.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()))
    }

    /// Returns the port clients connect to.
    pub fn port(&self) -> u16 {
        self.inner.port.number()
    }

    /// Returns `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Passes all data in both directions, from now on.
    pub fn pass(&self) {
        self.set_both(Flow::Pass);
    }

    /// Accepts connections and data, and lets the data wait, in both directions.
    pub fn stall(&self) {
        self.set_both(Flow::Stall);
    }

    /// Accepts connections and data, and never answers: the data vanish, in both directions.
    pub fn black_hole(&self) {
        self.set_both(Flow::BlackHole);
    }

    /// Sets the flow of one direction. With [`Flow::Stall`] or [`Flow::BlackHole`] it is a one-way
    /// partition.
    pub fn set_flow(&self, direction: Direction, flow: Flow) {
        self.shared()
            .signal(|signals| *signals.flow_mut(direction) = flow);
    }

    /// Resets all open connections (the client sees "connection reset"). Data on the way is lost.
    pub fn cut(&self) {
        self.shared().signal(|signals| signals.resets += 1);
    }

    /// Closes all open connections (both sides see the end of the stream). Data on the way is lost.
    pub fn close(&self) {
        self.shared().signal(|signals| signals.closes += 1);
    }

    /// Closes a connection after exactly `bytes` more bytes in `direction`. It is the first
    /// connection that has data to forward.
    pub fn cut_after(&self, direction: Direction, bytes: usize) {
        *self.state().cut(direction) = Some(bytes);
    }

    /// Leads new connections to another server, as an address does whose name has moved. Open
    /// connections stay.
    pub fn lead_to(&self, upstream: SocketAddr) {
        self.state().upstream = upstream;
    }

    /// Forwards the next request that `pick` matches and keeps its reply from the client.
    ///
    /// The returned value may be dropped; the order stays.
    pub fn drop_reply(&self, pick: Pick, then: Then) -> Answered {
        self.tap(pick, Some(then), None)
    }

    /// Forwards the next request that `pick` matches, and sends the client `line` instead of the
    /// server's reply, such as `-ERR no`.
    ///
    /// The returned value may be dropped; the order stays.
    pub fn replace_reply(&self, pick: Pick, line: &str) -> Answered {
        self.tap(pick, None, Some(told(line, true)))
    }

    /// Sends the client `line`, such as `-ERR no`, in reply to the next request that `pick`
    /// matches. The server never gets the request. It gets a `PING` instead, so that replies keep
    /// their order.
    ///
    /// The returned value may be dropped; the order stays. Its reply of the server is the reply to
    /// the `PING`.
    pub fn answer(&self, pick: Pick, line: &str) -> Answered {
        self.tap(pick, None, Some(told(line, false)))
    }

    /// Sends the client `line` in reply to each request that `pick` matches, as
    /// [`answer`](Self::answer) does for one, until all orders are withdrawn. So the proxy plays a
    /// managed service that refuses a command.
    pub fn always_answer(&self, pick: Pick, line: &str) {
        let action = Action::Always(told(line, false).reply);
        self.state().rules.push(Rule { pick, action });
    }

    /// Forwards the next request that `pick` matches and its reply, and returns a copy of both.
    pub fn observe(&self, pick: Pick) -> Answered {
        self.tap(pick, None, None)
    }

    /// Withdraws all pending orders: dropped replies, answers, cuts after a number of bytes.
    pub fn withdraw_orders(&self) {
        self.state().withdraw_orders();
    }

    /// Returns the number of connections that were accepted so far.
    pub fn connections(&self) -> u64 {
        self.state().counts.accepted
    }

    /// Returns the number of requests that were forwarded so far, over all connections.
    pub fn requests(&self) -> u64 {
        self.state().counts.requests
    }

    /// Returns the number of requests, replies and messages that vanished so far in a
    /// [`Flow::BlackHole`].
    pub fn vanished(&self) -> u64 {
        self.state().counts.vanished
    }

    fn tap(&self, pick: Pick, drop: Option<Then>, told: Option<Told>) -> Answered {
        let (answer, answered) = oneshot::channel();
        let action = Action::Tap(Tap { drop, told, answer });
        self.state().rules.push(Rule { pick, action });
        Answered { answer: answered }
    }

    fn set_both(&self, flow: Flow) {
        self.shared().signal(|signals| {
            *signals.flow_mut(Direction::ToServer) = flow;
            *signals.flow_mut(Direction::ToClient) = flow;
        });
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.shared.state()
    }
}

fn told(line: &str, executed: bool) -> Told {
    let reply = format!("{line}\r\n").into_bytes();
    Told { reply, executed }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

struct Inner {
    port: ReservedPort,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.accepting.abort();
        self.shared.signal(|signals| signals.resets += 1);
    }
}

async fn accept_from(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(relay::relay(client, shared.open_connection()))),
            // A connection that closed before it was accepted is no reason to stop.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}
