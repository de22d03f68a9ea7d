//! A TCP proxy that stands between a client and a server and misbehaves on request.
//!
//! It knows as much of RESP as it takes to tell one request or reply from the next: enough to keep
//! a reply back *after* the server has executed the request, or to keep a request and deliver it
//! when nobody expects it any more. Where the bytes are not RESP (TLS) it passes them on as they
//! come: delays, stalls and cuts work, what picks requests never matches.
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
mod frame;
mod pick;
mod relay;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

pub use exchange::{Answered, Exchange, Held, Hold, RequestCopy};
pub use pick::{Pick, Request};

use self::{
    control::{Action, Rule, Shared},
    exchange::{Tap, Told},
};
use crate::port::ReservedPort;

/// A proxy in front of one server. A cheap handle: clones control the same proxy.
///
/// It listens on a port of its own of 127.0.0.1. When the last handle goes, it resets its
/// connections and listens no more.
///
/// Start it inside of a tokio runtime; its tasks live there. A test that blocks its thread
/// (administration of a [`Server`](crate::server::Server) does, for moments) should have a runtime with several.
///
/// What changes while connections are alive counts for what has not been forwarded yet.
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

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flow {
    /// They go on at once.
    #[default]
    Pass,
    /// They go on so much later. Requests sent together arrive together: latency, not bandwidth.
    Delay(Duration),
    /// They wait, and go on once the flow is another: a partition that TCP survives.
    Stall,
    /// They vanish. A connection that lost bytes is mute in that direction for good: a partition it
    /// does not survive.
    BlackHole,
}

/// What happens after a reply was kept from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The connection stays open and nothing more reaches the client.
    Stall,
    /// The connection is reset.
    Cut,
}

impl Proxy {
    /// Starts a proxy in front of the server at `upstream`, which need not be there yet.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, or when there is no port left.
    pub fn start(upstream: SocketAddr) -> Self {
        let port = ReservedPort::take().expect("a free port");
        let shared = Arc::new(Shared::new(upstream));
        let proxy = Self {
            inner: Arc::new(Inner {
                port,
                shared,
                accepting: Mutex::new(None),
            }),
        };
        proxy.accept();
        proxy
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

    /// Passes everything on, from now on, in both directions.
    pub fn pass(&self) {
        self.set_both(Flow::Pass);
    }

    /// Delays everything by `delay`, each way.
    pub fn delay(&self, delay: Duration) {
        self.set_both(Flow::Delay(delay));
    }

    /// Accepts connections and bytes, and lets them wait, in both directions.
    pub fn stall(&self) {
        self.set_both(Flow::Stall);
    }

    /// Accepts connections and bytes, and never answers: they vanish, in both directions.
    pub fn black_hole(&self) {
        self.set_both(Flow::BlackHole);
    }

    /// Says what happens in one direction; with [`Flow::Stall`] or [`Flow::BlackHole`], a one-way
    /// partition.
    pub fn set_flow(&self, direction: Direction, flow: Flow) {
        self.shared()
            .signal(|signals| *signals.flow_mut(direction) = flow);
    }

    /// Resets all connections there are (the client sees "connection reset"). What was on its way
    /// is lost.
    pub fn cut(&self) {
        self.shared().signal(|signals| signals.resets += 1);
    }

    /// Closes all connections there are (both sides see the end of the stream). What was on its way
    /// is lost.
    pub fn close(&self) {
        self.shared().signal(|signals| signals.closes += 1);
    }

    /// Ends one direction of all connections there are, behind what it is forwarding; the other
    /// stays open.
    pub fn half_close(&self, direction: Direction) {
        self.shared()
            .signal(|signals| *signals.half_closes_mut(direction) += 1);
    }

    /// Closes a connection after exactly `bytes` more bytes in `direction`: of the first connection
    /// that has some to forward.
    pub fn cut_after(&self, direction: Direction, bytes: usize) {
        self.shared().arm_cut(direction, bytes);
    }

    /// Refuses new connections, and returns when it does. Those there are live on.
    pub async fn refuse(&self) {
        let accepting = self.inner.accepting().take();
        if let Some(task) = accepting {
            task.abort();
            // The error is the cancellation just asked for.
            let _ = task.await;
        }
    }

    /// Accepts connections again after [`refuse`](Self::refuse).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn accept(&self) {
        let mut accepting = self.inner.accepting();
        if accepting.is_none() {
            let listener = self.inner.port.listen().expect("the port is ours");
            *accepting = Some(tokio::spawn(accept_from(
                listener,
                Arc::clone(self.shared()),
            )));
        }
    }

    /// Sends new connections to another server. Those there are stay where they are.
    pub fn redirect(&self, upstream: SocketAddr) {
        self.shared().set_upstream(upstream);
    }

    /// Holds the next request that `pick` picks: it is not delivered, and what follows it on its
    /// connection waits behind it.
    ///
    /// Dropping the returned value unawaited withdraws the order.
    pub fn hold_request(&self, pick: Pick) -> Hold {
        let (caught, hold) = oneshot::channel();
        self.shared().add_rule(Rule {
            pick,
            action: Action::Hold(caught),
        });
        Hold::new(hold)
    }

    /// Forwards the next request that `pick` picks and keeps its reply from the client.
    ///
    /// The returned value may be dropped; the order stands.
    pub fn drop_reply(&self, pick: Pick, then: Then) -> Answered {
        self.tap(pick, Some(then), None)
    }

    /// Forwards the next request that `pick` picks, and tells the client `line` instead of the
    /// server's reply, such as `-ERR no`.
    ///
    /// The returned value may be dropped; the order stands.
    pub fn replace_reply(&self, pick: Pick, line: &str) -> Answered {
        self.tap(pick, None, Some(told(line, true)))
    }

    /// Tells the client `line`, such as `-ERR no`, in reply to the next request that `pick` picks,
    /// which the server never gets: only a `PING` in its place, so that replies keep their order.
    ///
    /// The returned value may be dropped; the order stands. What it says that the server replied is
    /// the reply to the `PING`.
    pub fn answer(&self, pick: Pick, line: &str) -> Answered {
        self.tap(pick, None, Some(told(line, false)))
    }

    /// Forwards the next request that `pick` picks, and its reply, and returns a copy of both.
    pub fn observe(&self, pick: Pick) -> Answered {
        self.tap(pick, None, None)
    }

    /// Withdraws all orders that have not been carried out: held requests, dropped replies, cuts
    /// after so many bytes.
    pub fn withdraw_orders(&self) {
        self.shared().clear_rules();
    }

    /// Returns how many connections were accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared().counts().accepted
    }

    /// Returns how many connections are open.
    pub fn open_connections(&self) -> u64 {
        self.shared().counts().open
    }

    /// Returns how many requests were forwarded so far, of all connections.
    pub fn requests(&self) -> u64 {
        self.shared().counts().requests
    }

    /// Returns how many requests, replies and messages vanished so far in a [`Flow::BlackHole`].
    pub fn vanished(&self) -> u64 {
        self.shared().counts().vanished
    }

    fn tap(&self, pick: Pick, drop: Option<Then>, told: Option<Told>) -> Answered {
        let (answer, answered) = oneshot::channel();
        self.shared().add_rule(Rule {
            pick,
            action: Action::Tap(Tap { drop, told, answer }),
        });
        Answered::new(answered)
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
    accepting: Mutex<Option<JoinHandle<()>>>,
}

impl Inner {
    fn accepting(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(task) = self.accepting().take() {
            task.abort();
        }
        self.shared.signal(|signals| signals.resets += 1);
    }
}

async fn accept_from(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(relay::relay(client, shared.open_connection()))),
            // A connection that was gone before it was accepted is no reason to stop.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}
