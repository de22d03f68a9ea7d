//! Red-locks over real nodes that stop, hang and forget, and multi-locks under load.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use redlatch::{Client, ErrorKind, Lock, Lockable, NodeOutcome, RedGuard, RedLock, RedLockBuilder};
use redlatch_behaviours::prelude::SECOND;
use redlatch_tests::{
    backend::assert_tables_empty,
    proxy::{Pick, Proxy},
    server::{Server, ServerBinary, ServerOptions},
    wait::{GENEROUS, eventually},
};

redlatch_tests::on_every_server!(
    quorum_of_five_holds_while_two_nodes_are_stopped,
    quorum_of_five_holds_while_two_nodes_answer_late,
    wiped_node_makes_two_holders_only_where_young_nodes_count,
    split_vote_of_four_nodes_resolves,
    databases_of_one_server_hold_apart_and_make_no_quorum,
    multi_locks_in_opposite_orders_under_load_do_not_deadlock,
);

fn start(binary: &ServerBinary, count: usize) -> Vec<Server> {
    let start = |_| Server::start(binary, ServerOptions::new());
    (0..count).map(start).collect()
}

async fn connect(urls: impl IntoIterator<Item = String>) -> Vec<Client> {
    let mut clients = Vec::new();
    for url in urls {
        clients.push(Client::connect(&url).await.unwrap());
    }
    clients
}

async fn directly(servers: &[Server]) -> Vec<Client> {
    connect(servers.iter().map(Server::url)).await
}

/// A red-lock over nodes that were just started and have nothing to forget. Nodes that hang cost 4
/// s, those that live have as long.
fn red(clients: &[Client]) -> RedLockBuilder {
    let locks: Vec<Lock> = clients.iter().map(|client| client.lock("x")).collect();
    let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    let red = RedLock::builder(&nodes).node_timeout(4 * SECOND);
    red.durable_nodes()
}

fn outcomes(guard: &RedGuard) -> Vec<NodeOutcome> {
    let outcomes = guard.outcomes().iter();
    outcomes.map(|(_, outcome)| outcome.clone()).collect()
}

/// Waits until nobody holds anywhere.
async fn free_everywhere(servers: &[Server]) {
    for client in directly(servers).await {
        let lock = client.lock("x");
        eventually("nobody to hold", GENEROUS, async || {
            !lock.is_locked().await.unwrap()
        })
        .await;
    }
}

/// Six seconds.
// L42
async fn quorum_of_five_holds_while_two_nodes_are_stopped(binary: ServerBinary) {
    let servers = start(&binary, 5);
    let clients = directly(&servers).await;
    let lock = red(&clients).build().unwrap();
    for server in &servers[..2] {
        server.stop();
    }
    let guard = lock.try_lock().await.unwrap().unwrap();
    assert_eq!(guard.nodes_held(), 3);
    let late = outcomes(&guard);
    let unanswered =
        |outcome: &NodeOutcome| matches!(outcome, NodeOutcome::NotAwaited | NodeOutcome::Late);
    assert!(late[..2].iter().all(unanswered), "{late:?}");
    servers[2].stop();
    let released = tokio::spawn(guard.release());
    let error = lock.try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for server in &servers[..3] {
        server.cont();
    }
    released.await.unwrap().unwrap();
    // What they were sent while they stood still is done now, and undone.
    for client in &clients {
        assert_tables_empty(client).await;
    }
    free_everywhere(&servers).await;
    let guard = lock.lock().await.unwrap();
    guard.release().await.unwrap();
}

/// Three seconds.
// L42
async fn quorum_of_five_holds_while_two_nodes_answer_late(binary: ServerBinary) {
    let servers = start(&binary, 5);
    let proxies: Vec<_> = servers[..2]
        .iter()
        .map(|server| Proxy::start(server.address()))
        .collect();
    let urls = proxies.iter().map(Proxy::url);
    let urls: Vec<_> = urls.chain(servers[2..].iter().map(Server::url)).collect();
    let clients = connect(urls).await;
    let lock = red(&clients).build().unwrap();
    lock.lock().await.unwrap().release().await.unwrap();
    for proxy in &proxies {
        proxy.stall();
    }
    let guard = lock.lock().renewed_lease(30 * SECOND).await.unwrap();
    assert_eq!(guard.nodes_held(), 3);
    // Their requests arrive now, when nobody waits for them any more.
    for proxy in &proxies {
        proxy.pass();
    }
    for client in directly(&servers[..2]).await {
        let lock = client.lock("x");
        eventually("a late grant to be undone", GENEROUS, async || {
            !lock.is_locked().await.unwrap()
        })
        .await;
    }
    assert!(guard.check().is_ok());
    // Nodes that never answer again: what they may have granted ends with its lease.
    for proxy in &proxies {
        proxy.black_hole();
    }
    guard.release().await.unwrap();
    let guard = lock.lock().lease(10 * SECOND).await.unwrap();
    assert_eq!(guard.nodes_held(), 3);
    guard.release().await.unwrap();
    for proxy in &proxies {
        proxy.cut();
        proxy.pass();
    }
    free_everywhere(&servers).await;
}

/// The documented limit: a node that forgets what it granted must not count for a lease. Fifteen
/// seconds, most of them for nodes to grow old.
async fn wiped_node_makes_two_holders_only_where_young_nodes_count(binary: ServerBinary) {
    let servers = start(&binary, 3);
    let (mine, theirs) = (directly(&servers).await, directly(&servers).await);
    // Of three nodes one was held by somebody else when the first came, so that it holds the other
    // two.
    let hold = async |lock: &RedLock, lease: Duration| {
        let beside = theirs[2].lock("x").lock().await.unwrap();
        let guard = lock.lock().renewed_lease(lease).await.unwrap();
        assert_eq!(guard.nodes_held(), 2);
        beside.release().await.unwrap();
        guard
    };

    // Nodes are said to be durable, and are not.
    let (first, second) = (red(&mine).build().unwrap(), red(&theirs).build().unwrap());
    let guard = hold(&first, 60 * SECOND).await;
    servers[1].restart();
    let other = second.lock().lease(60 * SECOND).await.unwrap();
    assert!(
        guard.check().is_ok() && other.check().is_ok(),
        "two hold it"
    );
    guard.release().await.unwrap();
    other.release().await.unwrap();

    // Nothing is said of them.
    let lease = 5 * SECOND;
    let careful = |clients: &[Client]| {
        let locks: Vec<Lock> = clients.iter().map(|client| client.lock("x")).collect();
        let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
        let red = RedLock::builder(&nodes).node_timeout(4 * SECOND);
        red.longest_lease(lease).build().unwrap()
    };
    let (first, second) = (careful(&mine), careful(&theirs));
    // Until all nodes have been running for a lease.
    second
        .lock()
        .lease(lease)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    eventually("all nodes to count", GENEROUS, async || {
        let guard = second.lock().lease(lease).await.unwrap();
        let all = guard.nodes_held() == 3;
        guard.release().await.unwrap();
        all
    })
    .await;
    let guard = hold(&first, lease).await;
    servers[1].restart();
    let wiped = Instant::now();
    let next = second.lock().lease(lease).await.unwrap();
    assert!(guard.check().is_err(), "one holds it");
    assert!(wiped.elapsed() > 3 * SECOND, "{:?}", wiped.elapsed());
    next.release().await.unwrap();
}

/// Two contenders have two of four votes each; then both give back, and go on after pauses drawn by
/// lot. A second.
// L42
async fn split_vote_of_four_nodes_resolves(binary: ServerBinary) {
    let servers = start(&binary, 4);
    let mut contenders = Vec::new();
    for far in [2..4, 0..2] {
        let proxies: Vec<_> = servers
            .iter()
            .map(|server| Proxy::start(server.address()))
            .collect();
        let clients = connect(proxies.iter().map(Proxy::url)).await;
        let lock = red(&clients).node_timeout(20 * SECOND).build().unwrap();
        lock.lock().await.unwrap().release().await.unwrap();
        contenders.push((proxies, far, lock));
    }
    let mut held = Vec::new();
    let mut tasks = Vec::new();
    for (proxies, far, lock) in &contenders {
        for proxy in &proxies[far.clone()] {
            let acquire = Pick::matching(|request| {
                request.contains("EVALSHA") && request.contains("redlatch:{x}")
            });
            held.push(proxy.hold_request(acquire));
        }
        let lock = lock.clone();
        tasks.push(tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            assert!(guard.nodes_held() >= 3);
            guard.release().await.unwrap();
        }));
    }
    // What asks for the far nodes waits until the near ones have granted.
    let mut caught = Vec::new();
    for held in held {
        caught.push(held.caught().await);
    }
    for client in directly(&servers).await {
        let lock = client.lock("x");
        eventually("all nodes to have granted", GENEROUS, async || {
            lock.is_locked().await.unwrap()
        })
        .await;
    }
    for held in caught {
        // Or its connection was given up, and the request has come again on another.
        let _ = held.let_go().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    free_everywhere(&servers).await;
}

async fn databases_of_one_server_hold_apart_and_make_no_quorum(binary: ServerBinary) {
    let servers = start(&binary, 1);
    let urls = [0, 1, 2].map(|database| format!("{}/{database}", servers[0].url()));
    let clients = connect(urls).await;
    let locks: Vec<_> = clients.iter().map(|client| client.lock("x")).collect();
    let members: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    let all = clients[0].multi_lock(&members);
    assert_eq!(all.len(), 3);
    let guard = all.lock().await.unwrap();
    for lock in &locks {
        assert!(lock.is_locked().await.unwrap());
    }
    guard.release().await.unwrap();
    let error = RedLock::builder(&members).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

/// Tasks of several clients take plain, fair and read-write locks on two servers as one, in any
/// order. `REDLATCH_MULTI_SECONDS` says for how long, 3 by default.
async fn multi_locks_in_opposite_orders_under_load_do_not_deadlock(binary: ServerBinary) {
    let seconds = std::env::var("REDLATCH_MULTI_SECONDS").ok();
    let seconds = seconds.map_or(3, |seconds| seconds.parse().unwrap());
    let servers = start(&binary, 2);
    let over = Instant::now() + Duration::from_secs(seconds);
    let inside: Arc<Vec<AtomicBool>> = Arc::new((0..6).map(|_| AtomicBool::new(false)).collect());
    let mut tasks = Vec::new();
    for client in 0..4_u64 {
        let clients = directly(&servers).await;
        for worker in 0..4_u64 {
            let (clients, inside) = (clients.clone(), Arc::clone(&inside));
            let mut dice = 1 + client * 4 + worker;
            tasks.push(tokio::spawn(async move {
                let mut grants = 0_u64;
                let mut worst = Duration::ZERO;
                while Instant::now() < over {
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let asked = Instant::now();
                    work(&clients, &inside, dice >> 33).await;
                    worst = worst.max(asked.elapsed());
                    grants += 1;
                }
                (grants, worst)
            }));
        }
    }
    let (mut grants, mut worst, mut least) = (0, Duration::ZERO, u64::MAX);
    for task in tasks {
        let (own, longest) = task.await.unwrap();
        grants += own;
        least = least.min(own);
        worst = worst.max(longest);
    }
    println!(
        "{binary}: {grants} grants of 2 or 3 locks as one in {seconds} s by 16 tasks, each {least} or more, the longest after {worst:?}"
    );
    assert!(least > 0);
}

/// Takes two or three of the names in one of their orders.
async fn work(clients: &[Client], inside: &[AtomicBool], dice: u64) {
    let first = (dice % 6) as usize;
    let step = 1 + (dice / 6 % 5) as usize;
    let mut names: Vec<_> = (0..2 + (dice / 30 % 2) as usize)
        .map(|at| (first + at * step) % 6)
        .collect();
    names.sort_unstable();
    names.dedup();
    if (dice / 60).is_multiple_of(2) {
        names.reverse();
    }
    let member = |&name: &usize| -> Box<dyn Lockable> {
        let (client, text) = (&clients[name % 2], format!("name-{name}"));
        match name / 2 {
            0 => Box::new(client.lock(&text)),
            1 => Box::new(client.fair_lock(&text)),
            _ => Box::new(client.read_write_lock(&text).write_side()),
        }
    };
    let members: Vec<_> = names.iter().map(member).collect();
    let members: Vec<_> = members.iter().map(AsRef::as_ref).collect();
    let all = clients[0].multi_lock(&members);
    let guard = all.try_lock_for(120 * SECOND).await.unwrap();
    let guard = guard.expect("nobody waits in a circle");
    for &name in &names {
        assert!(
            !inside[name].swap(true, Ordering::Relaxed),
            "two are inside"
        );
    }
    tokio::task::yield_now().await;
    for &name in &names {
        inside[name].store(false, Ordering::Relaxed);
    }
    for (name, released) in guard.release().await.unwrap() {
        assert!(released.is_clean(), "{name}");
    }
}
