//! Finds the masters: asks the nodes of a cluster, the sentinels, or a master and its replicas.

use std::{sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::select;

use super::{
    Access, Router, Servers, Topology, World, query,
    replies::{self, Watched},
    routes::Shard,
    sentinel,
    servers::Sentinels,
    session::replicas_of_master,
    survey,
};
use crate::{
    Error,
    base::timeouts,
    protocol::slot::SLOTS,
    runtime::{Address, Command},
};

/// Creates the router of a client, and starts to look for the servers unless the one server is
/// configured.
pub(crate) fn start_router(
    world: &World,
    mut servers: Servers,
    connect_timeout: Duration,
) -> Arc<Router> {
    let access = Access::new(servers.login.clone(), servers.provider.as_ref());
    if let Some(provider) = servers.provider.take() {
        let keep = access.clone().keep(provider, world.clone());
        world.life.spawn("credentials", keep);
    }
    let router = Router::new(world, servers, access, connect_timeout);
    if !router.is_fixed() {
        start(&router);
    }
    router
}

/// Starts the tasks that look for the servers until shutdown.
fn start(router: &Arc<Router>) {
    let life = &router.world.life;
    let run = run(Arc::clone(router));
    life.spawn("discovery", when_wanted(Arc::clone(router), run));
    let survey = survey::run(Arc::clone(router));
    life.spawn("clocks", when_wanted(Arc::clone(router), survey));
    if let Topology::Sentinel(sentinels) = &router.servers.topology {
        for address in &sentinels.addresses {
            let watch = sentinel::watch(Arc::clone(router), sentinels.clone(), address.clone());
            life.spawn("sentinel", when_wanted(Arc::clone(router), watch));
        }
    }
}

/// Runs `task` from the first use of the servers on. A lazy client has not used them yet.
async fn when_wanted(router: Arc<Router>, task: impl Future<Output = ()> + Send) {
    select! {
        biased;
        () = router.world.ended() => return,
        () = router.wanted() => {}
    }
    task.await;
}

/// Looks for the servers once, and again at each sign of a change; without a sign too, while not
/// all servers are connected. Pauses for about a tenth of a second between two looks.
async fn run(router: Arc<Router>) {
    let world = router.world.clone();
    let mut discovery = Discovery {
        router: Arc::clone(&router),
        round: world.runtime.random(),
        epoch: 0,
    };
    let mut failures = 0;
    loop {
        router.looks.begin();
        let found = select! {
            biased;
            () = world.ended() => return,
            found = discovery.look() => found,
        };
        match found {
            Ok(shards) => router.found(&shards),
            Err(error) => router.found_nothing(error),
        }
        router.looks.end();
        failures = if router.is_sound() { 0 } else { failures + 1 };
        let pause = async |failures| {
            let pause = timeouts::TOPOLOGY_LOOK.delay(failures, world.runtime.random());
            world.runtime.sleep_until(world.now() + pause).await;
        };
        let next = async {
            pause(1).await;
            let sound = router.is_sound();
            select! {
                biased;
                () = router.looks.wanted() => {}
                () = pause(failures), if !sound => {}
            }
        };
        select! {
            biased;
            () = world.ended() => return,
            () = next => {}
        }
    }
}

struct Discovery {
    router: Arc<Router>,
    /// The number of looks. Each look starts at another node.
    round: u64,
    /// The epoch of the latest failover that any sentinel reported.
    epoch: u64,
}

impl Discovery {
    async fn look(&mut self) -> Result<Vec<Shard>, Error> {
        self.round = self.round.wrapping_add(1);
        match self.router.servers.topology.clone() {
            Topology::Single(address) => Ok(vec![all_slots(address, 0)]),
            Topology::Cluster(seeds) => self.ask_cluster(&seeds).await,
            Topology::Sentinel(sentinels) => self.ask_sentinels(&sentinels).await,
            Topology::Replicas(addresses) => self.ask_roles(&addresses).await,
        }
    }

    /// Asks several nodes at a time and uses the first answer.
    async fn ask_cluster(&self, seeds: &[Address]) -> Result<Vec<Shard>, Error> {
        let candidates = self.candidates(seeds);
        let mut trouble = None;
        for few in candidates.chunks(AT_A_TIME) {
            let mut asked: FuturesUnordered<_> =
                few.iter().map(|address| self.slots(address)).collect();
            while let Some(answer) = asked.next().await {
                match answer {
                    Ok((shards, replicas)) => {
                        self.router.may_take_over(replicas);
                        return Ok(shards);
                    }
                    Err(error) => prefer(&mut trouble, error),
                }
            }
        }
        Err(trouble.unwrap_or_else(|| Error::unavailable("no node of the cluster is named")))
    }

    /// Returns the nodes to ask, without duplicates: the node of the last redirection, connected
    /// nodes, present masters, and configured nodes.
    fn candidates(&self, seeds: &[Address]) -> Vec<Address> {
        let mut candidates: Vec<Address> = self.router.take_hint().into_iter().collect();
        let up = self.router.sessions();
        let up: Vec<_> = up.iter().map(|session| session.address().clone()).collect();
        for mut group in [up, self.router.masters(), seeds.to_vec()] {
            if !group.is_empty() {
                let start = self.round % group.len() as u64;
                group.rotate_left(usize::try_from(start).unwrap_or(0));
            }
            for address in group {
                if !candidates.contains(&address) {
                    candidates.push(address);
                }
            }
        }
        candidates
    }

    /// Asks one node for its shards and their replicas. Uses the link if that is up.
    async fn slots(&self, address: &Address) -> Result<(Vec<Shard>, Vec<Address>), Error> {
        let command = Command::new("CLUSTER").arg("SLOTS");
        let world = &self.router.world;
        let sessions = self.router.sessions();
        let session = sessions.iter().find(|session| session.address() == address);
        let reply = match session {
            Some(session) => {
                session
                    .ask(command, world.now() + timeouts::TOPOLOGY_QUERY)
                    .await?
            }
            None => query::send(
                world,
                address,
                &self.router.access,
                vec![command],
                self.router.connect_timeout,
            )
            .await?
            .swap_remove(0)?,
        };
        let address_of = |host: &str, port| {
            let asked = match address {
                Address::Tcp { host, .. } | Address::Tls { host, .. } => host.as_str(),
                Address::Unix(_) | Address::Embedded(_) => return None,
            };
            let host = match host {
                "" | "?" => asked,
                host => host,
            };
            self.router.servers.address(address, host, port)
        };
        let shards = replies::slots(&reply, address_of).filter(|shards| !shards.is_empty());
        let shards =
            shards.ok_or_else(|| Error::unavailable(format!("{address} knows of no slots")))?;
        Ok((shards, replies::replicas(&reply, address_of)))
    }

    /// Waits for the answers of all servers. Once more than half have answered, the others have
    /// [`timeouts::LAST_ANSWERS`].
    async fn most<T>(
        &self,
        asked: impl ExactSizeIterator<Item = impl Future<Output = Result<T, Error>>>,
    ) -> Vec<Result<T, Error>> {
        let half = asked.len() / 2;
        let mut asked: FuturesUnordered<_> = asked.collect();
        let mut all = Vec::new();
        let mut answers = 0;
        while answers <= half
            && let Some(answer) = asked.next().await
        {
            answers += usize::from(answer.is_ok());
            all.push(answer);
        }
        let world = &self.router.world;
        let end = world.now() + timeouts::LAST_ANSWERS;
        let others = asked.take_until(world.runtime.sleep_until(end));
        all.extend(others.collect::<Vec<_>>().await);
        all
    }

    /// Asks the sentinels and uses the answer with the latest failover.
    async fn ask_sentinels(&mut self, sentinels: &Sentinels) -> Result<Vec<Shard>, Error> {
        let asked = sentinels
            .addresses
            .iter()
            .map(|address| sentinel::ask(&self.router, sentinels, address));
        let mut best: Option<Watched> = None;
        let mut trouble = None;
        let mut answers = 0;
        for answer in self.most(asked).await {
            match answer {
                Ok(watched) => {
                    answers += 1;
                    if best.as_ref().is_none_or(|best| watched.epoch > best.epoch) {
                        best = Some(watched);
                    }
                }
                Err(error) => prefer(&mut trouble, error),
            }
        }
        let Some(watched) = best else {
            return Err(trouble.unwrap_or_else(|| Error::unavailable("no sentinel is named")));
        };
        // The epoch falls if sentinels are set up anew. A lower epoch counts only if more than half
        // of them have answered.
        if watched.epoch < self.epoch && answers <= sentinels.addresses.len() / 2 {
            // The better informed sentinels do not answer. Their earlier answer stays valid.
            return Err(Error::unavailable(
                "the sentinels that answer have not heard of the latest failover",
            ));
        }
        self.epoch = watched.epoch;
        let (host, port) = &watched.master;
        let master = self.router.servers.watched(sentinels, host, *port);
        let replicas = watched.followers.iter();
        let servers = &self.router.servers;
        let replicas = replicas.map(|(host, port)| servers.watched(sentinels, host, *port));
        self.router.may_take_over(replicas.collect());
        Ok(vec![all_slots(master, watched.replicas)])
    }

    /// Asks the servers for their role. Exactly one of them has to be a master.
    async fn ask_roles(&self, addresses: &[Address]) -> Result<Vec<Shard>, Error> {
        let asked = addresses.iter().map(|address| self.role(address));
        let mut masters = Vec::new();
        let mut trouble = None;
        for answer in self.most(asked).await {
            match answer {
                Ok(Some(master)) => masters.push(master),
                Ok(None) => {}
                Err(error) => prefer(&mut trouble, error),
            }
        }
        // A former master that has restarted has no replicas, because they follow another master by
        // now.
        if masters.len() > 1 {
            masters.retain(|(_, replicas)| *replicas > 0);
        }
        match masters.as_slice() {
            [(master, _)] => {
                let others = addresses.iter().filter(|&address| address != master);
                self.router.may_take_over(others.cloned().collect());
                Ok(vec![all_slots(
                    master.clone(),
                    u32::try_from(addresses.len() - 1).unwrap_or(u32::MAX),
                )])
            }
            [] => {
                Err(trouble
                    .unwrap_or_else(|| Error::unavailable("none of the servers is the master")))
            }
            _ => Err(Error::unavailable(
                "several of the servers say that they are the master",
            )),
        }
    }

    /// Returns a master with the number of its replicas, or `None` for any other server.
    async fn role(&self, address: &Address) -> Result<Option<(Address, u32)>, Error> {
        let ask = vec![Command::new("ROLE")];
        let reply = survey::ask_and_read_clock(&self.router, address, ask)
            .await?
            .swap_remove(0)?;
        Ok(replicas_of_master(&reply).map(|replicas| (address.clone(), replicas)))
    }
}

/// Keeps the more informative error. A permanent error takes precedence.
fn prefer(kept: &mut Option<Error>, error: Error) {
    if kept.as_ref().is_none_or(|kept| kept.is_transient()) {
        *kept = Some(error);
    }
}

const fn all_slots(master: Address, replicas: u32) -> Shard {
    Shard {
        first: 0,
        last: SLOTS - 1,
        master,
        replicas,
    }
}

/// Maximum number of nodes that are asked at the same time.
const AT_A_TIME: usize = 3;
