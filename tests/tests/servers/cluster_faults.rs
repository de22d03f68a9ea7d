//! Nodes of a cluster that fail, are replaced, restart or stand still.

use std::time::Instant;

use redlatch_core::family::Internals;

use crate::prelude::*;

redlatch_tests::on_every_server!(
    one_stopped_shard_holds_up_no_other,
    only_names_of_the_stopped_shard_are_refused,
    notifications_arrive_over_another_node_when_one_dies,
    unserved_slot_is_retried_with_pauses,
    dead_master_keeps_no_new_client_away,
    slots_without_a_server_keep_no_new_client_away,
    walk_before_the_first_request_finds_all,
);

// L11
async fn one_stopped_shard_holds_up_no_other(binary: ServerBinary) {
    let cluster = three(&binary, ServerOptions::new());
    let client = Client::connect(&cluster.url()).await.unwrap();
    let mut guards = Vec::new();
    for n in 0..60 {
        let name = format!("n{n}");
        let port = cluster.owner(&key(&name)).port();
        let locking = client.lock(&name).lock().renewed_lease(LEASE);
        let guard = locking.await.unwrap();
        guards.push((port, guard));
    }
    let masters = cluster.masters();
    let (stopped, others) = masters.split_first().unwrap();
    let names = [0, 1].map(|at| name_on(&cluster, others[at], "spare"));
    let on_stopped = |port: u16| port == stopped.port();
    let before = pairs_within(&client, &names).await;
    stopped.stop();
    // A release that nobody answers holds up no other release.
    let at = guards.iter().position(|(port, _)| on_stopped(*port));
    drop(guards.swap_remove(at.unwrap()));
    let meanwhile = pairs_within(&client, &names).await;
    println!(
        "{binary}: {before:?} pairs in {SPAN:?} on the two others before, {meanwhile:?} while one is stopped"
    );
    for (before, meanwhile) in before.into_iter().zip(meanwhile) {
        // Held up for seconds it would be none or a few, however slow the machine is.
        assert!(meanwhile >= before / 20, "{before}, then {meanwhile}");
    }
    drop(client.lock(&names[0]).lock().await.unwrap());
    let again = client.lock(&names[0]).lock().await.unwrap();
    again.release().await.unwrap();
    // Those on the stopped shard are told, the others are renewed.
    for (port, guard) in &guards {
        if on_stopped(*port) {
            let cause = guard.lost().await;
            // Which of the two depends on whether a renewal was under way when it was stopped.
            let told = [LossCause::Unreachable, LossCause::Expired];
            assert!(told.contains(&cause), "{cause}");
        }
    }
    sleep(LEASE).await;
    for (port, guard) in &guards {
        let lost = matches!(guard.state(), HoldState::Lost(_));
        assert_eq!(lost, on_stopped(*port), "{guard:?}");
    }
    stopped.cont();
    drop(guards);
    assert_tables_empty(&client).await;
}

async fn only_names_of_the_stopped_shard_are_refused(binary: ServerBinary) {
    let cluster = three(&binary, ServerOptions::new());
    let builder = Client::builder(&cluster.url()).fail_fast(SECOND);
    let client = builder.connect().await.unwrap();
    let names: Vec<_> = (0..30).map(|n| format!("n{n}")).collect();
    for name in &names {
        take_and_free(&client.lock(name), 1).await;
    }
    let stopped = cluster.masters()[0];
    let is_there = |name: &str| cluster.owner(&key(name)).port() == stopped.port();
    let (there, elsewhere): (Vec<_>, Vec<_>) = names.iter().partition(|name| is_there(name));
    stopped.stop();
    wait_for("a refusal", async || {
        let refused = client.lock(there[0]).try_lock_for(MS).await;
        refused.is_err_and(|error| error.to_string().contains("fail_fast"))
    })
    .await;
    for name in &there {
        let error = client.lock(name).lock().await.unwrap_err();
        assert!(error.to_string().contains("fail_fast"), "{error}");
    }
    for name in elsewhere {
        assert!(client.lock(name).try_lock().await.unwrap().is_some());
    }
    client.ping().await.unwrap();
    stopped.cont();
    let served = async || client.lock(there[0]).try_lock().await.is_ok();
    wait_for("the shard", served).await;
}

async fn notifications_arrive_over_another_node_when_one_dies(binary: ServerBinary) {
    let cluster = three_and_three(&binary);
    let [client, other] = pair(&cluster.url()).await;
    let channels = format!("redlatch:w:{}*", other.id());
    let hears = |node: &Server| {
        // The one is a channel of the whole cluster, the other of a shard, which 6.2 does not know.
        ["CHANNELS", "SHARDCHANNELS"].iter().any(|which| {
            let order = ["PUBSUB", which, &channels];
            let reply = node
                .connect()
                .and_then(|mut connection| connection.command(&order));
            reply.is_ok_and(|reply| reply.error().is_none() && !reply.array().is_empty())
        })
    };
    let subscribed = cluster.nodes().iter().find(|node| hears(node)).unwrap();
    // By shard, it is this one's waiters that are told by another node then; else those of all.
    let name = name_on(&cluster, subscribed, "spare");
    let replicas = cluster.replicas_of(subscribed);
    subscribed.kill();
    cluster.await_successor(&replicas);
    let known = async || cluster.owner(&key(&name)).port() != subscribed.port();
    wait_for("others to know of it", known).await;
    let heard = async || cluster.nodes().iter().any(&hears);
    wait_for("another node to be listened to", heard).await;
    let (guard, waiter) = contended(&cluster, [&client, &other], &name).await;
    hand_over(guard, waiter).await;
    assert_all_empty([&client, &other]).await;
}

// L45
async fn unserved_slot_is_retried_with_pauses(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let cluster = backend.as_cluster();
    let (a, b) = (backend.client().await, backend.client().await);
    let c = backend.client().await;
    let (guard, waiter) = contended(cluster, [&a, &b], "x").await;
    let owner = cluster.owner(&key("x"));
    let slot = slot_of(key("x").as_bytes()).to_string();
    owner.command(&["CLUSTER", "DELSLOTS", &slot]).unwrap();
    owner.reset_stats();
    let short = c.lock("x").try_lock_for(500 * MS).await;
    let error = short.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let refused = owner.info("errorstats")["errorstat_CLUSTERDOWN"].clone();
    let refused: u64 = refused.strip_prefix("count=").unwrap().parse().unwrap();
    assert!((1..60).contains(&refused), "{refused} in half a second");
    guard.check().unwrap();
    owner.command(&["CLUSTER", "ADDSLOTS", &slot]).unwrap();
    hand_over(guard, waiter).await;
    assert_all_empty([&a, &b]).await;
    cluster.await_agreement();
}

/// Takes and frees each of two names for a while, beside each other; returns how often.
async fn pairs_within(client: &Client, names: &[String; 2]) -> [usize; 2] {
    let end = Instant::now() + SPAN;
    let [one, other] = names.each_ref().map(async |name| {
        let mut pairs = 0;
        while Instant::now() < end {
            take_and_free(&client.lock(name), 1).await;
            pairs += 1;
        }
        pairs
    });
    let (one, other) = tokio::join!(one, other);
    [one, other]
}

const LEASE: Duration = Duration::from_secs(2);

const SPAN: Duration = Duration::from_millis(1_500);

/// Takes one lock on each master. Returns the names, and a client that keeps them.
async fn taken(cluster: &Cluster) -> (Vec<String>, Vec<LockGuard>) {
    let client = Client::connect(&cluster.url()).await.unwrap();
    let (mut names, mut guards) = (Vec::new(), Vec::new());
    for master in cluster.masters() {
        let name = name_on(cluster, master, "spare");
        guards.push(client.lock(&name).lock().lease(600 * SECOND).await.unwrap());
        names.push(name);
    }
    (names, guards)
}

/// Walks over all objects. Returns the names, and the error at the end.
async fn walk(client: &Client) -> (Vec<String>, Option<Error>) {
    let (mut names, mut objects) = (Vec::new(), client.objects("*"));
    while let Some(object) = objects.next().await {
        match object {
            Ok(object) => names.push(object.name),
            Err(error) => return (names, Some(error)),
        }
    }
    (names, None)
}

async fn walk_before_the_first_request_finds_all(binary: ServerBinary) {
    let cluster = three(&binary, ServerOptions::new());
    let (mut names, _guards) = taken(&cluster).await;
    names.sort();
    for _ in 0..2 {
        let client = Client::builder(&cluster.url()).connect_lazy().unwrap();
        let (mut found, error) = walk(&client).await;
        found.sort();
        assert_eq!((found, error.is_none()), (names.clone(), true));
        let client = Client::builder(&cluster.url()).connect_lazy().unwrap();
        let (mut locks, mut found) = (client.locks("*"), 0);
        while let Some(lock) = locks.next().await {
            lock.unwrap();
            found += 1;
        }
        assert_eq!(found, names.len());
    }
}

async fn dead_master_keeps_no_new_client_away(binary: ServerBinary) {
    for stops in [Server::kill, Server::stop] {
        let cluster = three(&binary, ServerOptions::new());
        let (names, _guards) = taken(&cluster).await;
        let masters = cluster.masters();
        let dead = masters[0];
        let living = name_on(&cluster, masters[1], "free");
        stops(dead);
        for self_check in [true, false] {
            let began = Instant::now();
            let builder = Client::builder(&cluster.url()).self_check(self_check);
            let client = builder.connect().await.unwrap();
            assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
            take_and_free(&client.lock(&living), 2).await;
            let (found, error) = walk(&client).await;
            let error = error.expect("a part is missing").to_string();
            assert!(error.contains(&dead.address().to_string()), "{error}");
            let all_found = names[1..].iter().all(|name| found.contains(name));
            assert!(all_found, "{found:?}");
            let answers = client.ask_servers().await.unwrap();
            let failed: Vec<_> = answers.iter().filter(|one| one.failed.is_some()).collect();
            assert_eq!((answers.len(), failed.len()), (3, 1));
            assert!(failed[0].address.contains(&dead.port().to_string()));
        }
    }
}

async fn slots_without_a_server_keep_no_new_client_away(binary: ServerBinary) {
    let cluster = three(&binary, ServerOptions::new());
    let (_, _guards) = taken(&cluster).await;
    for node in cluster.nodes() {
        node.command(&["CLUSTER", "DELSLOTS", "5", "6"]).unwrap();
    }
    let client = Client::connect(&cluster.url()).await.unwrap();
    let (found, error) = walk(&client).await;
    assert!(!found.is_empty() && error.unwrap().to_string().contains("slots 5-6"));
    let answers = client.ask_servers().await.unwrap();
    assert_eq!(answers[3].address, "slots 5-6");
}
