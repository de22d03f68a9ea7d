//! Connections to servers: links, routing, script requests, and pub/sub messages.
//!
//! The way of a call to the socket:
//!
//! | module | does |
//! |---|---|
//! | `network` | sends the call, and `insist` repeats the call until its script has replied |
//! | `router`, `link` | keep the session with the node of the slot |
//! | `sender` | writes the call as a command, or lets the call join a list |
//! | `batcher` | joins the calls of several tasks, and sends the lists |
//! | `session` | passes commands to `transport`, and waits for the answers |
//! | `redirect` | sends the call to another node that an answer names |

mod access;
mod batcher;
mod bell;
mod dialer;
mod failure;
mod health;
mod hub;
mod link;
mod looks;
mod network;
mod redirect;
mod router;
pub(crate) mod routes;
mod sender;
pub(crate) mod sentinel;
mod servers;
mod session;
pub(crate) mod subscription_table;
mod topology;
mod wakes;
mod world;

pub(crate) use access::Access;
pub(crate) use bell::Bell;
pub use health::{Connection, Health};
pub(crate) use hub::{Callees, Hub, Listener, Reach};
pub(crate) use link::{Link, LinkClass};
pub(crate) use network::{Answered, Net, Repeated, is_settled};
pub(crate) use router::Router;
pub(crate) use sender::{Acknowledged, Dispatch, Replication, Request, Response};
pub(crate) use servers::{HostPort, Sentinels, Servers, Topology, host_port};
pub(crate) use session::{Checked, Limit, Session};
pub(crate) use topology::start_router;
pub(crate) use wakes::{CalledBy, WakeRoutes, Wakes};
pub(crate) use world::{Clocks, Strays, World};
