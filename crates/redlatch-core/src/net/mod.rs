//! Connections to servers: links, routing, script requests, and pub/sub messages.

mod alarm;
mod clocks;
mod dialer;
mod durable;
mod failure;
mod hub;
mod link;
mod locate;
mod network;
mod query;
mod redirect;
mod request;
mod router;
mod routes;
mod sender;
mod sentinel;
mod servers;
mod strays;
mod subscription_table;
mod survey;
mod topology;
mod wakes;
mod world;

pub(crate) use alarm::Alarms;
pub(crate) use clocks::Clocks;
pub(crate) use durable::{Acknowledged, Replication};
pub(crate) use hub::{Hub, Listener, MessageFilter, Reach};
pub(crate) use link::{Limit, Link, LinkClass, Session};
pub(crate) use network::{Net, is_settled};
pub(crate) use request::{Answered, Repeated, Request, Response};
pub(crate) use router::Router;
pub(crate) use servers::{Credentials, HostPort, Sentinels, Servers, Topology, host_port};
pub(crate) use strays::Strays;
pub(crate) use topology::start_router;
pub(crate) use wakes::{CalledBy, WakeRoutes, Wakes};
pub(crate) use world::World;
