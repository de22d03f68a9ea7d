//! Finds the masters: asks the nodes of a cluster, the sentinels, or a master and its replicas.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::select;

use super::{
    Router, Servers, Topology, World, query,
    routes::Shard,
    sentinel::{self, Watched},
    servers::Sentinels,
    survey,
};
use crate::{
    Error,
    base::timeouts,
    protocol::slot::SLOTS,
    runtime::{Address, Command, Login, Value},
};

/// Creates the router of a client, and starts to look for the servers unless the one server is
/// configured.
pub(crate) fn start_router(
    world: &World,
    servers: Servers,
    connect_timeout: Duration,
) -> Arc<Router> {
    let router = Router::new(world, servers, connect_timeout);
    if !router.is_fixed() {
        start(&router);
    }
    router
}

/// Starts the tasks that look for the servers until shutdown.
fn start(router: &Arc<Router>) {
    let life = &router.world.life;
    life.spawn("discovery", run(Arc::clone(router)));
    life.spawn("clocks", survey::run(Arc::clone(router)));
    if let Topology::Sentinel(sentinels) = &router.servers.topology {
        for address in &sentinels.addresses {
            let watch = sentinel::watch(Arc::clone(router), sentinels.clone(), address.clone());
            life.spawn("sentinel", watch);
        }
    }
}

/// Looks for the servers once, and again at each sign of a change. Pauses for about a tenth of a
/// second between two looks, and longer after failures.
async fn run(router: Arc<Router>) {
    let world = router.world.clone();
    let mut discovery = Discovery {
        router: Arc::clone(&router),
        round: world.runtime.random(),
        epoch: 0,
    };
    let mut failures = 0;
    loop {
        let found = select! {
            biased;
            () = world.ended() => return,
            found = discovery.look() => found,
        };
        match found {
            Ok(shards) => router.found(&shards),
            Err(error) => router.found_nothing(error),
        }
        failures = if router.is_sound() { 0 } else { failures + 1 };
        let pause = timeouts::TOPOLOGY_LOOK.delay(failures.max(1), world.runtime.random());
        select! {
            biased;
            () = world.ended() => return,
            () = world.runtime.sleep_until(world.now() + pause) => {}
        }
        if router.is_sound() {
            select! {
                biased;
                () = world.ended() => return,
                () = router.stale.notified() => {}
            }
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
            None => {
                let login = self.router.credentials.login();
                query::send(
                    world,
                    address,
                    &login,
                    vec![command],
                    self.router.connect_timeout,
                )
                .await?
                .swap_remove(0)?
            }
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
        let shards = read_slots(&reply, address_of).filter(|shards| !shards.is_empty());
        let shards =
            shards.ok_or_else(|| Error::unavailable(format!("{address} knows of no slots")))?;
        Ok((shards, read_replicas(&reply, address_of)))
    }

    /// Asks all sentinels and uses the answer with the latest failover.
    async fn ask_sentinels(&mut self, sentinels: &Sentinels) -> Result<Vec<Shard>, Error> {
        let asked = sentinels
            .addresses
            .iter()
            .map(|address| sentinel::ask(&self.router, sentinels, address));
        let mut best: Option<Watched> = None;
        let mut trouble = None;
        let mut answers = 0;
        for answer in join_all(asked).await {
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

    /// Asks all servers for their role. Exactly one of them has to be a master.
    async fn ask_roles(&self, addresses: &[Address]) -> Result<Vec<Shard>, Error> {
        let login = self.router.credentials.login();
        let asked = addresses.iter().map(|address| self.role(address, &login));
        let mut masters = Vec::new();
        let mut trouble = None;
        for (address, answer) in addresses.iter().zip(join_all(asked).await) {
            match answer {
                Ok(Some(replicas)) => masters.push((address.clone(), replicas)),
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

    /// Returns the number of replicas of a master, or `None` for any other server.
    async fn role(&self, address: &Address, login: &Login) -> Result<Option<usize>, Error> {
        let ask = vec![Command::new("ROLE")];
        let reply = survey::ask_and_read_clock(&self.router, address, login, ask)
            .await?
            .swap_remove(0)?;
        Ok(match reply.as_array() {
            Some([role, _, replicas]) if role.as_str() == Some("master") => {
                Some(replicas.as_array().map_or(0, <[Value]>::len))
            }
            _ => None,
        })
    }
}

/// Keeps the more informative error. A permanent error takes precedence.
fn prefer(kept: &mut Option<Error>, error: Error) {
    if kept.as_ref().is_none_or(|kept| kept.is_transient()) {
        *kept = Some(error);
    }
}

/// Reads the reply to `CLUSTER SLOTS`. Returns `None` for any other reply. Skips nodes without a
/// usable address.
fn read_slots(reply: &Value, address: impl Fn(&str, u16) -> Option<Address>) -> Option<Vec<Shard>> {
    let mut shards = Vec::new();
    for range in reply.as_array()? {
        let [first, last, nodes @ ..] = range.as_array()? else {
            return None;
        };
        let slot = |value: &Value| {
            let slot = u16::try_from(value.as_int()?).ok()?;
            (slot < SLOTS).then_some(slot)
        };
        let (first, last) = (slot(first)?, slot(last)?);
        let [host, port, ..] = nodes.first()?.as_array()? else {
            return None;
        };
        let port = u16::try_from(port.as_int()?).ok()?;
        // An empty host means the node that was asked.
        if let Some(master) = address(host.as_str().unwrap_or_default(), port)
            && first <= last
        {
            shards.push(Shard {
                first,
                last,
                master,
                replicas: u32::try_from(nodes.len() - 1).unwrap_or(u32::MAX),
            });
        }
    }
    shards.sort_by_key(|shard| shard.first);
    let overlap = shards.windows(2).any(|pair| pair[1].first <= pair[0].last);
    (!overlap).then_some(shards)
}

/// Reads the replicas in the reply to `CLUSTER SLOTS`, without duplicates.
fn read_replicas(reply: &Value, address: impl Fn(&str, u16) -> Option<Address>) -> Vec<Address> {
    let ranges = reply.as_array().unwrap_or_default().iter();
    let nodes = ranges.flat_map(|range| range.as_array().unwrap_or_default().iter().skip(3));
    let replicas: BTreeSet<Address> = nodes
        .filter_map(|node| {
            let [host, port, ..] = node.as_array()? else {
                return None;
            };
            let port = u16::try_from(port.as_int()?).ok()?;
            address(host.as_str().unwrap_or_default(), port)
        })
        .collect();
    replicas.into_iter().collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), bulk("id")])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        let mut items = vec![Value::Int(first), Value::Int(last)];
        items.extend(nodes);
        Value::Array(items)
    }

    fn read(ranges: Vec<Value>) -> Option<Vec<(u16, u16, String, u32)>> {
        let shards = read_slots(&Value::Array(ranges), |host, port| {
            Some(Address::Tcp {
                host: if host.is_empty() { "asked" } else { host }.to_owned(),
                port,
            })
        })?;
        let shards = shards.into_iter();
        Some(
            shards
                .map(|shard| {
                    (
                        shard.first,
                        shard.last,
                        shard.master.to_string(),
                        shard.replicas,
                    )
                })
                .collect(),
        )
    }

    #[test]
    fn slots_are_read() {
        let reply = vec![
            range(5461, 16383, vec![node(bulk("b"), 2)]),
            range(0, 5460, vec![node(Value::Nil, 1), node(bulk("c"), 3)]),
        ];
        assert_eq!(
            read(reply).unwrap(),
            [
                (0, 5460, "asked:1".to_owned(), 1),
                (5461, 16383, "b:2".to_owned(), 0)
            ]
        );
    }

    #[test]
    fn replicas_are_read() {
        let nodes = vec![node(bulk("a"), 1), node(bulk("b"), 2), node(bulk("c"), 3)];
        let more = vec![node(bulk("d"), 4), node(bulk("b"), 2)];
        let reply = Value::Array(vec![range(0, 9, nodes), range(10, 19, more)]);
        let replicas = read_replicas(&reply, |host, port| {
            let host = host.to_owned();
            Some(Address::Tcp { host, port })
        });
        let replicas: Vec<_> = replicas.iter().map(ToString::to_string).collect();
        assert_eq!(replicas, ["b:2", "c:3"]);
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_none() {
        let a = || vec![node(bulk("a"), 1)];
        for ranges in [
            vec![range(0, 16384, a())],
            vec![range(-1, 5, a())],
            vec![range(0, 10, a()), range(10, 20, a())],
            vec![range(0, 10, vec![])],
            vec![bulk("x")],
            vec![range(0, 10, vec![node(bulk("a"), 70_000)])],
        ] {
            assert_eq!(read(ranges.clone()), None, "{ranges:?}");
        }
    }
}
