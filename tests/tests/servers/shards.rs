//! Wakes that stay within a shard of a cluster, where the server can do that.

use crate::prelude::*;

redlatch_tests::on_every_server!(
    notifications_stay_within_their_shard,
    waiters_change_channel_when_its_slot_moves,
    waiter_of_a_moved_name_changes_to_the_channel_of_its_new_shard,
    channel_moves_with_its_shard_to_the_next_master,
    user_without_sharded_publish_publishes_to_all_nodes,
);

fn cluster(binary: &ServerBinary, replicas: usize, node: ServerOptions) -> Cluster {
    let options = ClusterOptions {
        node,
        replicas,
        node_timeout: 1_500 * MS,
        ..ClusterOptions::default()
    };
    Cluster::start(binary, &options)
}

/// A client has half of this time to find out whether wakes can go by shard.
async fn connected(url: &str) -> [Client; 2] {
    let connect = || Client::builder(url).connect_timeout(60 * SECOND).connect();
    [connect().await.unwrap(), connect().await.unwrap()]
}

/// One name on each master.
fn names(cluster: &Cluster) -> Vec<String> {
    let of = |master| name_on(cluster, master, "n");
    cluster.masters().into_iter().map(of).collect()
}

/// Lets `b` wait for what `a` holds, and returns the address it waits under once it has got it.
async fn address_of_waiter(cluster: &Cluster, a: &Client, b: &Client, name: &str) -> String {
    let (guard, waiter) = contended(cluster, [a, b], name).await;
    let address = first_waiter(cluster.owner(&key(name)), name);
    hand_over(guard, waiter).await;
    address
}

/// Returns the channel of an address.
fn channel(address: &str) -> &str {
    address.split(' ').nth(1).unwrap()
}

/// How many listen at `node` to the channel of `address`.
fn heard_at(node: &Server, address: &str) -> i64 {
    let order = ["PUBSUB", "SHARDNUMSUB", channel(address)];
    let reply = node
        .connect()
        .and_then(|mut connection| connection.command(&order));
    reply.map_or(0, |reply| reply.array().remove(1).int())
}

/// How many messages the nodes have sent each other on behalf of those who publish to everybody.
fn sent_to_everybody(cluster: &Cluster) -> u64 {
    let sent = |node: &Server| {
        let info = node.command(&["CLUSTER", "INFO"]).text();
        let mut lines = info.lines();
        let count =
            lines.find_map(|line| line.strip_prefix("cluster_stats_messages_publish_sent:"));
        count.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    cluster.nodes().iter().map(sent).sum()
}

// L47
async fn notifications_stay_within_their_shard(binary: ServerBinary) {
    let cluster = cluster(&binary, 0, ServerOptions::new());
    let [a, b] = connected(&cluster.url()).await;
    for node in cluster.nodes() {
        node.reset_stats();
    }
    let before = sent_to_everybody(&cluster);
    for name in names(&cluster) {
        for _ in 0..PAIRS {
            let address = address_of_waiter(&cluster, &a, &b, &name).await;
            let by_shard = address.starts_with("SPUBLISH ");
            assert_eq!(by_shard, has_shards(&binary), "{address}");
        }
        let stats = cluster.owner(&key(&name)).commandstats();
        let published = |verb: &str| stats.get(verb).copied().unwrap_or(0);
        let (spublish, publish) = (published("spublish"), published("publish"));
        if has_shards(&binary) {
            assert!(spublish >= PAIRS && publish == 0, "{stats:?}");
        } else {
            assert!(publish >= PAIRS && spublish == 0, "{stats:?}");
        }
    }
    let sent = sent_to_everybody(&cluster) - before;
    let wakes = 3 * PAIRS;
    println!("{binary}: {sent} messages between nodes for {wakes} wakes");
    assert_eq!(sent == 0, has_shards(&binary), "{sent} to everybody");
    assert_all_empty([&a, &b]).await;
}

/// Only the slot of the channel moves. Who waits elsewhere in the shard is not called any more and
/// looks by the clock; who comes then has another channel.
async fn waiters_change_channel_when_its_slot_moves(binary: ServerBinary) {
    let cluster = cluster(&binary, 0, ServerOptions::new());
    let [a, b] = connected(&cluster.url()).await;
    let name = names(&cluster).remove(0);
    let (guard, waiter) = contended(&cluster, [&a, &b], &name).await;
    let old = first_waiter(cluster.owner(&key(&name)), &name);
    let slot = slot_of(channel(&old).as_bytes());
    let owner = cluster.owner(&key(&name));
    if has_shards(&binary) {
        let own = slot_of(key(&name).as_bytes());
        assert_ne!(slot, own, "the name's own slot stays");
        cluster.migrate(slot, other_master(&cluster, owner), 10);
    } else {
        assert!(!old.contains('{'), "a channel for all slots: {old}");
    }
    hand_over(guard, waiter).await;
    // The client hears of the new owner when a message or a request goes astray.
    wait_for("another channel", async || {
        let new = address_of_waiter(&cluster, &a, &b, &name).await;
        (channel(&new) != channel(&old)) == has_shards(&binary)
    })
    .await;
    if has_shards(&binary) {
        let (guard, waiter) = contended(&cluster, [&a, &b], &name).await;
        let new = first_waiter(cluster.owner(&key(&name)), &name);
        let heard = async || heard_at(owner, &new) == 1;
        wait_for("the new channel to be heard", heard).await;
        hand_over(guard, waiter).await;
    }
    assert_all_empty([&a, &b]).await;
}

/// Only the slot of the name moves. Its new shard cannot publish to the old channel, so that a
/// waiter of before takes another with its next look, and is called there.
async fn waiter_of_a_moved_name_changes_to_the_channel_of_its_new_shard(binary: ServerBinary) {
    let cluster = cluster(&binary, 0, ServerOptions::new());
    let [a, b] = connected(&cluster.url()).await;
    let name = names(&cluster).remove(0);
    let (guard, waiter) = contended(&cluster, [&a, &b], &name).await;
    let owner = cluster.owner(&key(&name));
    let old = first_waiter(owner, &name);
    let other = other_master(&cluster, owner);
    cluster.migrate(slot_of(key(&name).as_bytes()), other, 10);
    if has_shards(&binary) {
        wait_for("the new channel to be heard", async || {
            let queue = format!("{}:q", key(&name));
            let waiters = other.command(&["ZRANGE", &queue, "0", "-1"]).array();
            let mut waiters = waiters.into_iter().map(redlatch_tests::server::Reply::text);
            waiters.any(|address| address != old && heard_at(other, &address) == 1)
        })
        .await;
    } else {
        assert!(!old.contains('{'), "a channel for all slots: {old}");
    }
    hand_over(guard, waiter).await;
    assert_all_empty([&a, &b]).await;
}

async fn channel_moves_with_its_shard_to_the_next_master(binary: ServerBinary) {
    let cluster = cluster(&binary, 1, ServerOptions::new());
    let [a, b] = connected(&cluster.url()).await;
    let name = names(&cluster).remove(0);
    let (guard, waiter) = contended(&cluster, [&a, &b], &name).await;
    let before = first_waiter(cluster.owner(&key(&name)), &name);
    let master = cluster.owner(&key(&name));
    let replicas = cluster.replicas_of(master);
    await_copy(replicas[0], &name);
    master.kill();
    let successor = cluster.await_successor(&replicas);
    guard.extend(60 * SECOND).await.unwrap();
    if has_shards(&binary) {
        let heard = async || heard_at(successor, &before) == 1;
        wait_for("the channel to be heard at the new master", heard).await;
    }
    hand_over(guard, waiter).await;
    let after = address_of_waiter(&cluster, &a, &b, &name).await;
    let same = channel(&after) == channel(&before);
    // Who comes then waits under the same channel.
    assert!(same, "{before}, {after}");
    assert_all_empty([&a, &b]).await;
}

async fn user_without_sharded_publish_publishes_to_all_nodes(binary: ServerBinary) {
    let everything = "app on >secret ~* &* +@all";
    let cluster = cluster(&binary, 0, ServerOptions::new().user(everything));
    let url = cluster.url().replace("://", "://app:secret@");
    let names = names(&cluster);
    let missing: &[&str] = if has_shards(&binary) {
        &["-spublish", "-ssubscribe"]
    } else {
        // It does not know them.
        &["-publish +publish"]
    };
    for rules in missing {
        let allow = |rules: &str| {
            for node in cluster.nodes() {
                let order = ["ACL", "SETUSER", "app"]
                    .into_iter()
                    .chain(rules.split(' '));
                node.command(&order.collect::<Vec<_>>()).unwrap();
            }
        };
        allow(rules);
        let [a, b] = connected(&url).await;
        for name in &names {
            let address = address_of_waiter(&cluster, &a, &b, name).await;
            assert!(address.starts_with("PUBLISH "), "{rules}: {address}");
        }
        take_and_free(&a.lock(&names[0]), 5).await;
        assert_all_empty([&a, &b]).await;
        allow("+@all");
    }
}

/// Hand-offs on each shard.
const PAIRS: u64 = 5;
