//! Nodes of a cluster that fail, are replaced, restart or stand still.

use std::time::{Duration, Instant};

use redlatch::{Client, HoldState, LossCause, Released};
use redlatch_core::family::slot_of;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    fixture::{MS, SECOND, key, waiting},
    server::{Cluster, ClusterOptions, Server, ServerBinary, ServerOptions},
    wait::{GENEROUS, eventually},
};

use super::support::{registered, take_and_free, three_and_three};

redlatch_tests::on_every_server!(
    scripts_are_loaded_again_after_a_failover,
    one_stopped_shard_holds_up_no_other,
    notifications_arrive_over_another_node_when_one_dies,
    unserved_slot_is_retried_with_pauses,
);

fn three(binary: &ServerBinary, node: ServerOptions) -> Cluster {
    let options = ClusterOptions {
        node,
        ..ClusterOptions::default()
    };
    Cluster::start(binary, &options)
}

// L44
async fn scripts_are_loaded_again_after_a_failover(binary: ServerBinary) {
    let cluster = three_and_three(&binary);
    let client = Client::connect(&cluster.url()).await.unwrap();
    take_and_free(&client.lock("x"), 1).await;
    let before = cluster.owner(&key("x"));
    cluster.fail_over_to(cluster.replicas_of(before)[0]);
    cluster.await_agreement();
    let after = cluster.owner(&key("x"));
    after.script_flush();
    after.reset_stats();
    take_and_free(&client.lock("x"), 2).await;
    let stats = after.commandstats();
    // Acquire and release, once each; and a look at the queue, if the connection was made while the
    // name was asked for.
    let evals = stats.get("eval").copied().unwrap_or(0);
    assert!((2..=3).contains(&evals), "{stats:?}");
    let guard = client.lock("x").lock().await.unwrap();
    after.script_flush();
    guard.extend(60 * SECOND).await.unwrap();
    after.script_flush();
    drop(guard);
    assert_tables_empty(&client).await;
    assert!(client.lock("x").try_lock().await.unwrap().is_some());
}

// L11
async fn one_stopped_shard_holds_up_no_other(binary: ServerBinary) {
    let cluster = three(&binary, ServerOptions::new());
    let client = Client::connect(&cluster.url()).await.unwrap();
    let mut guards = Vec::new();
    for n in 0..60 {
        let name = format!("n{n}");
        let port = cluster.owner(&key(&name)).port();
        let guard = client
            .lock(&name)
            .lock()
            .renewed_lease(LEASE)
            .await
            .unwrap();
        guards.push((port, guard));
    }
    let masters = cluster.masters();
    let (stopped, others) = masters.split_first().unwrap();
    let names = [0, 1].map(|at| spare_name(&cluster, others[at]));
    let on_stopped = |port: u16| port == stopped.port();
    let before = pairs_within(&client, &names).await;
    stopped.stop();
    // A release that nobody answers holds up no other release.
    let at = guards
        .iter()
        .position(|(port, _)| on_stopped(*port))
        .unwrap();
    drop(guards.swap_remove(at));
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
    tokio::time::sleep(LEASE).await;
    for (port, guard) in &guards {
        let lost = matches!(guard.state(), HoldState::Lost(_));
        assert_eq!(lost, on_stopped(*port), "{guard:?}");
    }
    stopped.cont();
    drop(guards);
    assert_tables_empty(&client).await;
}

async fn notifications_arrive_over_another_node_when_one_dies(binary: ServerBinary) {
    let cluster = three_and_three(&binary);
    let client = Client::connect(&cluster.url()).await.unwrap();
    let other = Client::connect(&cluster.url()).await.unwrap();
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
    let name = spare_name(&cluster, subscribed);
    let replicas = cluster.replicas_of(subscribed);
    subscribed.kill();
    cluster.await_successor(&replicas);
    eventually("others to know of it", GENEROUS, async || {
        cluster.owner(&key(&name)).port() != subscribed.port()
    })
    .await;
    eventually("another node to be listened to", GENEROUS, async || {
        cluster.nodes().iter().any(&hears)
    })
    .await;
    let guard = client.lock(&name).lock().await.unwrap();
    let waiter = waiting(other.lock(&name));
    registered(|| cluster.owner(&key(&name)), &name).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
    assert_tables_empty(&client).await;
    assert_tables_empty(&other).await;
}

// L45
async fn unserved_slot_is_retried_with_pauses(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let Backend::Shared(servers) = &backend else {
        panic!("it is shared")
    };
    let (a, b) = (backend.client().await, backend.client().await);
    let c = backend.client().await;
    let guard = a.lock("x").lock().await.unwrap();
    let waiter = waiting(b.lock("x"));
    let owner = servers.owner(&key("x"));
    registered(|| owner, "x").await;
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
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    waiter.await.unwrap().release().await.unwrap();
    assert_tables_empty(&a).await;
    assert_tables_empty(&b).await;
    servers.as_cluster().await_agreement();
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

/// Returns a name that `node` is in charge of and nothing else uses.
fn spare_name(cluster: &Cluster, node: &Server) -> String {
    let mut names = (0..).map(|n| format!("spare{n}"));
    names
        .find(|name| cluster.owner(&key(name)).port() == node.port())
        .unwrap()
}

const LEASE: Duration = Duration::from_secs(2);

const SPAN: Duration = Duration::from_millis(1_500);
