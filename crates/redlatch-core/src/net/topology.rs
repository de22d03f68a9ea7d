//! Finds the masters: asks the nodes of a cluster, the sentinels, or a master and its replicas.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{
    future::join_all,
    stream::{self, FuturesUnordered, StreamExt},
};

use super::{
    Access, Router, Servers, Topology, World, dialer,
    routes::{self, Shard},
    sentinel,
    servers::{HostPort, Sentinels},
    session::{replicas_of_master, time_millis},
};
use crate::{
    Error,
    base::timeouts,
    protocol::time::Moment,
    runtime::{Address, Command, Value},
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
        world.spawn("credentials", keep);
    }
    let router = Router::new(world, servers, access, connect_timeout);
    if router.is_fixed() {
        return router;
    }
    let this = || Arc::clone(&router);
    begin(&router, "discovery", run(this()));
    begin(&router, "clocks", compare_clocks(this()));
    if let Topology::Sentinel(sentinels) = &router.servers.topology {
        for address in &sentinels.addresses {
            let watch = sentinel::watch(this(), sentinels.clone(), address.clone());
            begin(&router, "sentinel", watch);
        }
    }
    router
}

/// Runs `task` from the first use of the servers until shutdown. A lazy client has not used them
/// yet.
fn begin(
    router: &Arc<Router>,
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let this = Arc::clone(router);
    router.world.spawn(name, async move {
        this.wanted().await;
        task.await;
    });
}

/// Looks for the servers once, and again at each sign of a change; without a sign too, while not
/// all servers are connected. Pauses for about a tenth of a second between two looks.
async fn run(router: Arc<Router>) {
    let world = &router.world;
    let mut discovery = Discovery {
        router: &router,
        round: world.runtime.random(),
        epoch: 0,
    };
    let mut failures = 0;
    loop {
        router.looks.begin();
        match discovery.look().await {
            Ok(shards) => router.found(&shards),
            Err(error) => router.found_nothing(error),
        }
        router.looks.end();
        failures = if router.is_sound() { 0 } else { failures + 1 };
        let pause = |failures| timeouts::TOPOLOGY_LOOK.delay(failures, world.runtime.random());
        world.runtime.sleep_until(world.now() + pause(1)).await;
        let next = if router.is_sound() {
            Moment::FAR_FUTURE
        } else {
            world.now() + pause(failures)
        };
        world.until(next, router.looks.wanted()).await;
    }
}

struct Discovery<'a> {
    router: &'a Router,
    /// The number of looks. Each look starts at another node.
    round: u64,
    /// The epoch of the latest failover that any sentinel reported.
    epoch: u64,
}

impl Discovery<'_> {
    async fn look(&mut self) -> Result<Vec<Shard>, Error> {
        self.round = self.round.wrapping_add(1);
        let router = self.router;
        match &router.servers.topology {
            Topology::Single(address) => Ok(vec![Shard::whole(address.clone(), Vec::new())]),
            Topology::Cluster(seeds) => self.ask_cluster(seeds).await,
            Topology::Sentinel(sentinels) => self.ask_sentinels(sentinels).await,
            Topology::Replicas(addresses) => self.ask_roles(addresses).await,
        }
    }

    /// Asks several nodes at a time and uses the first answer.
    async fn ask_cluster(&self, seeds: &[Address]) -> Result<Vec<Shard>, Error> {
        let candidates = self.candidates(seeds);
        let asked = candidates.iter().map(|address| self.slots(address));
        let asked: Vec<_> = asked.collect();
        let mut answers = stream::iter(asked).buffer_unordered(AT_A_TIME);
        let mut trouble = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(shards) => return Ok(shards),
                Err(error) => prefer(&mut trouble, error),
            }
        }
        Err(trouble.unwrap_or_else(|| Error::unavailable("no node of the cluster is named")))
    }

    /// Returns the nodes to ask, without duplicates: the node of the last redirection, connected
    /// nodes, present masters, and configured nodes.
    fn candidates(&self, seeds: &[Address]) -> Vec<Address> {
        let hint = self.router.routes().hint.take();
        let mut candidates: Vec<Address> = hint.into_iter().collect();
        let up = self.router.sessions(None);
        let up: Vec<_> = up.iter().map(|session| session.address.clone()).collect();
        for mut group in [up, self.router.masters(), seeds.to_vec()] {
            let start = self.round.checked_rem(group.len() as u64).unwrap_or(0);
            group.rotate_left(usize::try_from(start).unwrap_or(0));
            candidates.extend(group);
        }
        let mut seen = BTreeSet::new();
        candidates.retain(|address| seen.insert(address.clone()));
        candidates
    }

    /// Asks one node for its shards. Uses the link if that is up.
    async fn slots(&self, address: &Address) -> Result<Vec<Shard>, Error> {
        let command = Command::new("CLUSTER").arg("SLOTS");
        let (world, access) = (&self.router.world, &self.router.access);
        let reply = if let Some(session) = self.router.sessions(Some(address)).first() {
            let deadline = world.now() + timeouts::TOPOLOGY_QUERY;
            session.ask(command, deadline).await?
        } else {
            let timeout = self.router.connect_timeout;
            let asked = dialer::ask(world, address, access, vec![command], timeout);
            asked.await?.swap_remove(0)?
        };
        let servers = &self.router.servers;
        let address_of = |host: &str, port| servers.address(address, host, port);
        let shards = routes::slots(&reply, address_of).filter(|shards| !shards.is_empty());
        shards.ok_or_else(|| Error::unavailable(format!("{address} knows of no slots")))
    }

    /// Returns the answers of all servers, and the most informative error. Once more than half have
    /// answered, the others have [`timeouts::LAST_ANSWERS`].
    async fn most<T>(
        &self,
        asked: impl ExactSizeIterator<Item = impl Future<Output = Result<T, Error>>>,
    ) -> (Vec<T>, Option<Error>) {
        let (world, half) = (&self.router.world, asked.len() / 2);
        let mut asked: FuturesUnordered<_> = asked.collect();
        let (mut answers, mut trouble, mut end) = (Vec::new(), None, Moment::FAR_FUTURE);
        while let Some(Some(answer)) = world.until(end, asked.next()).await {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(error) => prefer(&mut trouble, error),
            }
            if answers.len() > half {
                end = end.min(world.now() + timeouts::LAST_ANSWERS);
            }
        }
        (answers, trouble)
    }

    /// Asks the sentinels and uses the answer with the latest failover.
    async fn ask_sentinels(&mut self, sentinels: &Sentinels) -> Result<Vec<Shard>, Error> {
        let asked = sentinels
            .addresses
            .iter()
            .map(|address| sentinel::ask(self.router, sentinels, address));
        let (answers, trouble) = self.most(asked).await;
        let most = answers.len() > sentinels.addresses.len() / 2;
        // The first of several with the latest epoch counts.
        let best = answers
            .into_iter()
            .rev()
            .max_by_key(|watched| watched.epoch);
        let Some(watched) = best else {
            return Err(trouble.unwrap_or_else(|| Error::unavailable("no sentinel is named")));
        };
        // The epoch falls if sentinels are set up anew. A lower epoch counts only if more than half
        // of them have answered.
        if watched.epoch < self.epoch && !most {
            // The better informed sentinels do not answer. Their earlier answer stays valid.
            return Err(Error::unavailable(
                "the sentinels that answer have not heard of the latest failover",
            ));
        }
        self.epoch = watched.epoch;
        let servers = &self.router.servers;
        let tls = sentinels.server_tls.as_ref();
        let address = |(host, port): &HostPort| servers.reached(tls, host, *port);
        let followers = watched.followers.iter().map(address);
        Ok(vec![Shard {
            replicas: watched.replicas,
            ..Shard::whole(address(&watched.master), followers.collect())
        }])
    }

    /// Asks the servers for their role. Exactly one of them has to be a master.
    async fn ask_roles(&self, addresses: &[Address]) -> Result<Vec<Shard>, Error> {
        let asked = addresses.iter().map(|address| self.role(address));
        let (answers, trouble) = self.most(asked).await;
        let mut masters: Vec<_> = answers.into_iter().flatten().collect();
        // A former master that has restarted has no replicas, because they follow another master by
        // now.
        if masters.len() > 1 {
            masters.retain(|(_, replicas)| *replicas > 0);
        }
        match masters.as_slice() {
            [(master, _)] => {
                let others = addresses.iter().filter(|&address| address != master);
                let others = others.cloned().collect();
                Ok(vec![Shard::whole(master.clone(), others)])
            }
            [] => {
                let none = || Error::unavailable("none of the servers is the master");
                Err(trouble.unwrap_or_else(none))
            }
            _ => Err(Error::unavailable(
                "several of the servers say that they are the master",
            )),
        }
    }

    /// Returns a master with the number of its replicas, or `None` for any other server.
    async fn role(&self, address: &Address) -> Result<Option<(Address, u32)>, Error> {
        let ask = vec![Command::new("ROLE")];
        let mut answers = ask_and_read_clock(self.router, address, ask).await?;
        let reply = answers.swap_remove(0)?;
        Ok(replicas_of_master(&reply).map(|replicas| (address.clone(), replicas)))
    }
}

/// Keeps the more informative error. A permanent error takes precedence.
fn prefer(kept: &mut Option<Error>, error: Error) {
    if kept.as_ref().is_none_or(|kept| kept.is_transient()) {
        *kept = Some(error);
    }
}

/// Compares the clocks of servers that may replace each other, before a failover: when the servers
/// are known, after changes, and at regular intervals.
async fn compare_clocks(router: Arc<Router>) {
    let world = &router.world;
    let mut others: Vec<Address> = Vec::new();
    loop {
        let changed = |now: &Vec<Address>| (*now != others).then(|| now.clone());
        let next = world.now() + timeouts::CLOCK_COMPARISON;
        let found = world.until(next, router.others.find(changed)).await;
        others = found.unwrap_or(others);
        read_clocks(&router, &others).await;
        let next = world.now() + timeouts::CLOCK_COMPARISON_MIN;
        world.runtime.sleep_until(next).await;
    }
}

/// Reads the clocks of all servers at about the same time. Ignores a server that does not answer.
async fn read_clocks(router: &Router, others: &[Address]) {
    let deadline = router.world.now() + timeouts::CLOCK_READING;
    let sessions = router.sessions(None);
    join_all(sessions.iter().map(|session| session.time(deadline))).await;
    for few in others.chunks(CLOCKS_AT_A_TIME) {
        let asked = few.iter();
        let asked = asked.map(|address| ask_and_read_clock(router, address, Vec::new()));
        join_all(asked).await;
    }
}

/// Sends commands over a new connection, and records the server's clock. Returns the answers.
async fn ask_and_read_clock(
    router: &Router,
    address: &Address,
    mut commands: Vec<Command>,
) -> Result<Vec<Result<Value, Error>>, Error> {
    let (world, timeout) = (&router.world, router.connect_timeout);
    commands.push(Command::new("TIME"));
    let sent = world.now();
    let mut answers = dialer::ask(world, address, &router.access, commands, timeout).await?;
    if let Some(millis) = answers.pop().and_then(|time| time_millis(&time.ok()?)) {
        world.clocks.read(address, sent, world.now(), millis);
    }
    Ok(answers)
}

/// Maximum number of servers that are dialled at the same time for their clocks.
const CLOCKS_AT_A_TIME: usize = 4;

/// Maximum number of nodes that are asked at the same time.
const AT_A_TIME: usize = 3;
