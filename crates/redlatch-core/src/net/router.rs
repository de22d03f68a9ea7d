//! Routes slots to nodes, and owns the links to them.

use std::{sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::select;

use super::{
    Access, Link, LinkClass, Servers, Session, Topology, World,
    link::LinkSettings,
    looks::Looks,
    routes::{self, Node, Routes, Shard},
    servers::{host_port, is_possible},
};
use crate::{
    Error,
    base::{
        observe,
        rules::Rule,
        sync::{MutexGuard, Watch},
        timeouts,
    },
    protocol::{
        classify::{Obstacle, Redirect},
        time::Moment,
    },
    runtime::{Address, ServerError, TlsOptions},
};

/// Routes slots to nodes. A link starts at its first use.
///
/// With one configured server the router never asks. Otherwise [`topology`](super::topology) looks
/// for the servers, once at the start and then after each sign of a change: a redirection, a broken
/// link, a server that refuses writes, a message of a sentinel.
#[derive(Debug)]
pub(crate) struct Router {
    pub(super) world: World,
    pub(super) servers: Servers,
    pub(super) access: Access,
    pub(crate) connect_timeout: Duration,
    pub(super) routes: Watch<Routes>,
    /// The looks for the servers.
    pub(super) looks: Arc<Looks>,
    /// The servers that may take over from the present masters.
    pub(super) others: Watch<Vec<Address>>,
    /// When the servers were needed first; `None` before a lazy client's first call.
    pub(super) wanted: Watch<Option<Moment>>,
}

impl Router {
    /// Creates a router that knows the configured server if there is only one, and otherwise no
    /// server yet.
    pub(super) fn new(
        world: &World,
        servers: Servers,
        access: Access,
        connect_timeout: Duration,
    ) -> Arc<Self> {
        let routes = match &servers.topology {
            Topology::Single(address) => Routes::whole(address.clone()),
            _ => Routes::default(),
        };
        Arc::new(Self {
            world: world.clone(),
            access,
            servers,
            connect_timeout,
            routes: Watch::new(routes),
            looks: Arc::default(),
            others: Watch::default(),
            wanted: Watch::default(),
        })
    }

    /// Records that the servers are needed, so that the client looks for them.
    pub(crate) fn want(&self) {
        self.wanted.change(|wanted| {
            let first = wanted.is_none();
            wanted.get_or_insert_with(|| self.world.now());
            first
        });
    }

    /// Resolves when the servers are needed.
    pub(crate) async fn wanted(&self) {
        self.wanted.when(Option::is_some).await;
    }

    /// Returns whether the one server is configured and never looked for.
    pub(crate) const fn is_fixed(&self) -> bool {
        matches!(self.servers.topology, Topology::Single(_))
    }

    /// Returns whether the servers form a cluster.
    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self.servers.topology, Topology::Cluster(_))
    }

    /// Returns the number of the database.
    pub(crate) const fn database(&self) -> u32 {
        self.servers.login.database
    }

    /// Returns the name of the user that later connections log in as.
    pub(crate) fn user(&self) -> String {
        let user = self.access.user();
        user.unwrap_or_else(|| "default".to_owned())
    }

    /// Returns the session with the node of `slot`, if it is connected.
    pub(crate) fn up(&self, slot: u16, class: LinkClass) -> Option<Arc<Session>> {
        let link = self.link(&self.routes(), slot, class);
        link?.up()
    }

    /// Waits until the node of `slot` is connected, until `deadline` at the latest. Fails at once
    /// if the node refuses the client.
    pub(crate) async fn session(
        &self,
        slot: u16,
        class: LinkClass,
        deadline: Moment,
    ) -> Result<Arc<Session>, Error> {
        if let Some(session) = self.up(slot, class) {
            return Ok(session);
        }
        self.want();
        // Renewals use the command link while the renewal link is down.
        let class = match class {
            LinkClass::Renewal => LinkClass::Command,
            class => class,
        };
        Box::pin(self.await_session(slot, class, deadline)).await
    }

    /// Returns why the last look for servers found nothing.
    pub(super) fn trouble(&self) -> Option<Error> {
        self.routes().trouble.clone()
    }

    /// Waits for a route as well as for a link, because another node may replace one that is gone.
    async fn await_session(
        &self,
        slot: u16,
        class: LinkClass,
        deadline: Moment,
    ) -> Result<Arc<Session>, Error> {
        loop {
            let find = |routes: &Routes| self.link(routes, slot, class);
            let link = self.await_route(slot, deadline, find).await?;
            let other = |routes: &Routes| find(routes).filter(|other| !Arc::ptr_eq(other, &link));
            select! {
                biased;
                result = link.session(deadline) => {
                    if result.is_err() && link.is_retired() && self.world.now() < deadline {
                        continue;
                    }
                    return result;
                }
                _ = self.routes.find(other) => {}
            }
        }
    }

    /// Waits until `find` returns a result for the routes, until `deadline` at the latest. Fails at
    /// once if the last look was refused, because a refusal is permanent.
    async fn await_route<T>(
        &self,
        slot: u16,
        deadline: Moment,
        find: impl Fn(&Routes) -> Option<T>,
    ) -> Result<T, Error> {
        let found = self.routes.find(|routes| {
            let refusal = || routes.trouble.clone().filter(|error| !error.is_transient());
            find(routes).map(Ok).or_else(|| refusal().map(Err))
        });
        let found = self.world.until(deadline, found).await;
        found.unwrap_or_else(|| Err(self.no_route(slot)))
    }

    /// Returns why no node serves `slot`.
    fn no_route(&self, slot: u16) -> Error {
        if let Err(error) = self.world.life.check_all() {
            return error;
        }
        let trouble = self.access.missing().or_else(|| self.trouble());
        trouble.unwrap_or_else(|| {
            Error::unavailable(if self.is_cluster() {
                format!("no server of the cluster is in charge of slot {slot}")
            } else {
                format!("no master of {} is known yet", self.servers.topology)
            })
        })
    }

    fn link(&self, routes: &Routes, slot: u16, class: LinkClass) -> Option<Arc<Link>> {
        Some(self.link_of(routes.node(slot)?, class))
    }

    /// Waits until the node at `address` is connected, whichever slots it serves.
    pub(super) async fn session_at(
        &self,
        address: &Address,
        class: LinkClass,
        deadline: Moment,
    ) -> Result<Arc<Session>, Error> {
        let link = self.link_of(self.routes().node_at(address), class);
        link.session(deadline).await
    }

    /// Returns the link to `node`. The caller holds the lock of the routes, so that no link starts
    /// to a removed node.
    fn link_of(&self, node: &Arc<Node>, class: LinkClass) -> Arc<Link> {
        let link = node.link(class, |address| {
            let settings = LinkSettings {
                by_slot: self.is_cluster(),
                world: self.world.clone(),
                access: self.access.clone(),
                connect_timeout: self.connect_timeout,
                // In the other topologies the dialled server is the intended one.
                asks_role: matches!(
                    self.servers.topology,
                    Topology::Sentinel(_) | Topology::Replicas(_)
                ),
                is_only: self.is_fixed(),
                looks: Arc::clone(&self.looks),
            };
            Link::start(settings, address, class, Arc::clone(&node.replicas))
        });
        Arc::clone(link)
    }

    /// Returns the address of the node that serves `slot`, if known. Calls to one node may share a
    /// pipeline.
    pub(crate) fn node(&self, slot: u16) -> Option<Address> {
        self.routes().node(slot).map(|node| node.address.clone())
    }

    /// Returns one slot of every node.
    pub(crate) fn one_slot_per_node(&self) -> Vec<u16> {
        self.routes().one_slot_per_node()
    }

    /// Returns all nodes that serve slots.
    pub(crate) fn masters(&self) -> Vec<Address> {
        self.routes().masters()
    }

    /// Returns the sessions that are up, with the node at `address` or with all nodes.
    pub(super) fn sessions(&self, address: Option<&Address>) -> Vec<Arc<Session>> {
        let routes = self.routes();
        let is_there = |node: &&Arc<Node>| address.is_none_or(|address| node.address == *address);
        let nodes = routes.nodes().filter(is_there);
        let links = nodes.flat_map(|node| node.links());
        links.filter_map(|link| link.up()).collect()
    }

    /// Returns whether every slot has a node whose link is not down.
    pub(super) fn is_sound(&self) -> bool {
        let routes = self.routes();
        let mut links = routes.nodes().flat_map(|node| node.needed_links());
        routes.is_complete() && !links.any(|link| link.is_down())
    }

    /// Waits until every slot has a node, until `deadline` at the latest. After the first third of
    /// the connect time-out, some node is enough: a cluster may have slots that no node serves.
    pub(crate) async fn known(&self, deadline: Moment) -> Result<(), Error> {
        self.want();
        let patient_until = deadline.min(self.world.now() + self.connect_timeout / 3);
        let all = |routes: &Routes| routes.is_complete().then_some(());
        let some = |routes: &Routes| (!routes.masters().is_empty()).then_some(());
        match self.await_route(0, patient_until, all).await {
            Err(error) if error.is_transient() => self.await_route(0, deadline, some).await,
            known => known,
        }
    }

    /// Waits until any node is connected, until `deadline` at the latest. Fails at once if a node
    /// refuses the client. While the first one may answer, no other one is asked.
    pub(crate) async fn any_session(&self, deadline: Moment) -> Result<Arc<Session>, Error> {
        let slots = self.one_slot_per_node();
        let session = |slot, until| self.session(slot, LinkClass::Command, until);
        let &[first, _, ..] = slots.as_slice() else {
            return session(slots.first().copied().unwrap_or_default(), deadline).await;
        };
        let mut trouble = match session(first, self.patient_until(deadline)).await {
            Err(error) if error.is_silence() => error,
            result => return result,
        };
        let others = slots.iter().map(|&slot| session(slot, deadline));
        let mut others: FuturesUnordered<_> = others.collect();
        while let Some(other) = others.next().await {
            match other {
                Err(error) if error.is_silence() => trouble = error,
                result => return result,
            }
        }
        Err(trouble)
    }

    /// Returns until when a server may be silent while another one answers, if there is time until
    /// `deadline`.
    pub(crate) fn patient_until(&self, deadline: Moment) -> Moment {
        let now = self.world.now();
        now + ((deadline - now) / 3).min(self.connect_timeout / 3)
    }

    /// Returns the slots that no node serves, as a text; `None` if there are none, or if no node is
    /// known.
    pub(crate) fn unserved(&self) -> Option<String> {
        self.routes().unserved()
    }

    /// Returns the position of the first slot in `others` that the node of `slot` serves as well.
    pub(super) fn first_beside(
        &self,
        slot: u16,
        mut others: impl Iterator<Item = u16>,
    ) -> Option<usize> {
        let routes = self.routes();
        let node = routes.node(slot)?;
        others.position(|other| routes.node(other).is_some_and(|own| Arc::ptr_eq(own, node)))
    }

    /// Changes the credentials for all connections.
    pub(crate) fn change_credentials(&self, username: Option<&str>, password: Option<&str>) {
        let (username, password) = (username.map(str::to_owned), password.map(str::to_owned));
        self.access.change(username, password);
    }

    /// Changes the TLS options for later connections.
    pub(crate) fn change_tls(&self, tls: TlsOptions) {
        if let Some(old) = self.servers.tls() {
            self.world.tls.replace(old.clone(), tls);
        }
    }

    /// Reports that the server behind `session` cannot serve a request for the moment. Starts a
    /// check of its connection or a look for the master.
    pub(super) fn doubted(&self, session: &Session, obstacle: Obstacle, error: &ServerError) {
        tracing::debug!(target: "redlatch", address = %session.address, %error, "the server cannot serve a request for the moment");
        if !self.world.rules.keeps(Rule::LeaveDemoted) {
            return;
        }
        if obstacle == Obstacle::ReadOnly {
            // The server is no master any more. Its address may lead to another server by now.
            let beside = self.sessions(Some(&session.address));
            beside.iter().for_each(|other| other.condemn());
            session.condemn();
        } else {
            session.suspect(timeouts::SUSPECTED_SILENCE);
        }
        if obstacle == Obstacle::ReadOnly || error.code == "CLUSTERDOWN" {
            self.looks.want();
        }
    }

    /// Reports that the server at `address`, or the only one, seems dead. Each connection to it is
    /// checked.
    pub(crate) fn suspect(&self, address: Option<&Address>) {
        for session in self.sessions(address) {
            session.suspect(timeouts::SUSPECTED_SILENCE);
        }
    }

    /// Returns the target of a redirection by the server behind `session`, if there is one. A
    /// permanent redirection (`MOVED`) updates the routes.
    pub(super) fn redirected(&self, session: &Session, redirect: &Redirect) -> Option<Address> {
        if !redirect.once && !self.world.rules.keeps(Rule::FollowMoved) {
            return None;
        }
        if !self.is_cluster() {
            session.suspect(timeouts::SUSPECTED_SILENCE);
            return None;
        }
        let announced = host_port(&redirect.address);
        let (host, port) = announced.filter(|&(host, port)| is_possible(host, port))?;
        let address = self.servers.address(&session.address, host, port)?;
        if !redirect.once {
            tracing::debug!(target: "redlatch", slot = redirect.slot, to = %address, "a slot has moved");
            let assign = |routes: &mut Routes| routes.assign(redirect.slot, &address);
            if self.routes.change(assign) {
                self.looks.want();
            }
        }
        Some(address)
    }

    /// Records the result of a look.
    pub(super) fn found(&self, shards: &[Shard]) {
        let (mut changed, mut gone) = (false, Vec::new());
        self.routes.change(|routes| {
            (changed, gone) = routes.replace(shards);
            routes.trouble.take().is_some() || changed
        });
        if changed {
            observe::in_charge(&self.masters());
        }
        self.others.set(routes::others(shards));
        for link in gone.iter().flat_map(|node| node.links()) {
            link.retire();
        }
    }

    /// Records why a look has found nothing. The earlier routes stay valid.
    pub(super) fn found_nothing(&self, why: Error) {
        tracing::debug!(target: "redlatch", error = %why, "nobody tells who is in charge");
        self.routes.change(|routes| {
            routes.trouble = Some(why);
            true
        });
    }

    pub(super) fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock()
    }
}
