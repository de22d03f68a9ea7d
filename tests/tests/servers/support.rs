//! What the tests with several servers have in common.

use redlatch_tests::{
    fixture::waiting,
    server::{ServerKind, Version},
};

use crate::prelude::*;

/// Connects two clients.
pub(super) async fn pair(url: &str) -> [Client; 2] {
    let connect = || Client::connect(url);
    [connect().await.unwrap(), connect().await.unwrap()]
}

/// Starts a master with one replica, and connects a client.
pub(super) async fn with_one_replica(binary: &ServerBinary) -> (Replicated, Client) {
    let servers = Replicated::start(binary, 1, &ServerOptions::new());
    let client = Client::connect(&servers.url()).await.unwrap();
    (servers, client)
}

/// Starts a cluster of three masters.
pub(super) fn three(binary: &ServerBinary, node: ServerOptions) -> Cluster {
    let options = ClusterOptions {
        node,
        ..ClusterOptions::default()
    };
    Cluster::start(binary, &options)
}

/// Starts a cluster of three masters with a replica each, which takes over soon.
pub(crate) fn three_and_three(binary: &ServerBinary) -> Cluster {
    let options = ClusterOptions {
        replicas: 1,
        node_timeout: 1_500 * MS,
        ..ClusterOptions::default()
    };
    Cluster::start(binary, &options)
}

/// Starts three sentinels with a master and a replica, which takes over soon.
pub(crate) fn group(binary: &ServerBinary) -> SentinelGroup {
    SentinelGroup::start(binary, 1, 1_000 * MS, &ServerOptions::new())
}

/// Returns the server of the two that is not this one.
pub(crate) fn other<'a>(group: &'a SentinelGroup, than: &Server) -> &'a Server {
    let servers = group.replicated().servers();
    servers
        .iter()
        .find(|server| server.port() != than.port())
        .unwrap()
}

/// Returns names that begin with `stem` and that `node` is in charge of.
pub(super) fn names_on<'a>(
    cluster: &'a Cluster,
    node: &'a Server,
    stem: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let names = (0..).map(move |n| format!("{stem}{n}"));
    names.filter(move |name| cluster.owner(&key(name)).port() == node.port())
}

/// Returns the first of [`names_on`].
pub(super) fn name_on(cluster: &Cluster, node: &Server, stem: &str) -> String {
    let mut names = names_on(cluster, node, stem);
    names.next().expect("there is no end of names")
}

/// Returns a master other than `node`.
pub(super) fn other_master<'a>(cluster: &'a Cluster, node: &Server) -> &'a Server {
    let mut masters = cluster.masters().into_iter();
    masters.find(|master| master.port() != node.port()).unwrap()
}

/// Lets `a` hold `name`, and `b` wait for it.
pub(super) async fn contended(
    cluster: &Cluster,
    [a, b]: [&Client; 2],
    name: &str,
) -> (LockGuard, JoinHandle<LockGuard>) {
    let guard = a.lock(name).lock().await.unwrap();
    let waiter = waiting(b.lock(name));
    registered(|| cluster.owner(&key(name)), name).await;
    (guard, waiter)
}

/// Releases `guard`, and checks that the waiter gets the name.
pub(super) async fn hand_over(guard: LockGuard, waiter: JoinHandle<LockGuard>) {
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    let next = waiter.await.unwrap();
    assert_eq!(next.release().await.unwrap(), Released::Free);
}

/// Waits until `clients` ask `old` for nothing any more.
pub(crate) async fn have_left(old: &Server, clients: [&Client; 2]) {
    wait_for("both clients to have left", async || {
        let before = old.script_calls();
        for client in clients {
            take_and_free(&client.lock("elsewhere"), 1).await;
        }
        old.script_calls() == before
    })
    .await;
}

/// Waits until `replica` has the hold of `name` that its master has.
pub(super) fn await_copy(replica: &Server, name: &str) {
    let mut connection = replica.connect().unwrap();
    // Only a cluster knows the command; elsewhere a replica answers unasked.
    let _ = connection.command(&["READONLY"]);
    eventually_blocking("a replica to have the hold", GENEROUS, || {
        let owner = connection.command(&["HGET", &key(name), "o"]).unwrap();
        matches!(owner, redlatch_tests::server::Reply::Bulk(_)).then_some(())
    });
}

/// Tells whether a cluster of it has channels that belong to a slot: Redis 7.0 brought them, all of
/// Valkey has them.
pub(super) fn has_shards(binary: &ServerBinary) -> bool {
    binary.kind == ServerKind::Valkey || binary.version >= Version(7, 0, 0)
}

/// Waits until the server in charge knows that somebody waits for `name`.
pub(super) async fn registered<'a>(owner: impl Fn() -> &'a Server, name: &str) {
    let queue = format!("{}:q", key(name));
    let queued = async || owner().command(&["ZCARD", &queue]).unwrap().int() > 0;
    wait_for("a waiter to register", queued).await;
}

/// Where the first waiter for `name` is to be called, by the server in charge.
pub(super) fn first_waiter(owner: &Server, name: &str) -> String {
    let queue = format!("{}:q", key(name));
    let waiters = owner.command(&["ZRANGE", &queue, "0", "0"]);
    waiters.array().remove(0).text()
}

/// Stops a replica in such a way that nothing that its master says from now on reaches it, also not
/// later: what lies in the buffers of a connection is lost with it.
pub(super) fn cut_off(master: &Server, replica: &Server) {
    replica.stop();
    master.client_kill(ClientType::Replica);
}

/// Takes and frees a lock so many times.
pub(super) async fn take_and_free(lock: &Lock, times: usize) {
    for _ in 0..times {
        lock.lock().await.unwrap().release().await.unwrap();
    }
}
