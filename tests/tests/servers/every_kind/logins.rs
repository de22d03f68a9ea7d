//! Users that change, on servers that cut the connections of each user that has gone.

use std::sync::atomic::Ordering::Relaxed;

use redlatch::Credentials;
use redlatch_behaviours::lock::registered;

use super::prelude::*;

redlatch_tests::on_every_server!(
    every_kind_outlives_twenty_logins,
    every_kind_outlives_twenty_logins_with_resp2,
    every_kind_outlives_logins_at_all_nodes_of_a_cluster,
    every_kind_outlives_logins_at_a_master_and_its_replica,
);

async fn every_kind_outlives_twenty_logins(binary: ServerBinary) {
    let [before, after] = outlive(&binary, "+@all").await;
    let all = before.iter().all(|id| after.contains(id));
    assert!(all, "{before:?} {after:?}");
}

/// The connections for messages are replaced, since no server takes a login there.
async fn every_kind_outlives_twenty_logins_with_resp2(binary: ServerBinary) {
    outlive(&binary, "+@all -hello").await;
}

/// Changes the user twenty times while all kinds are held and awaited. Returns the connections
/// before and after.
async fn outlive(binary: &ServerBinary, rights: &str) -> [Vec<String>; 2] {
    let bed = Bed::start(binary, ServerOptions::new());
    add_user(&bed.server, 0, rights);
    let url = bed.server.url().replace("://", "://app0:secret0@");
    let clients = [connect(&url).await, connect(&url).await];
    let [a, b] = clients.each_ref().map(Client::clone);
    let parties = [bed.party_of(a).await, bed.party_of(b).await];
    let mut scene = Scene::begin(KINDS, parties, "", Leases::renewed(3 * SECOND)).await;
    scene.renewed().await;
    let before = connections(&bed.server, "app0");
    // Of both commands and messages, and of the holder renewals.
    assert_eq!(before.len(), 5, "{before:?}");
    for n in 1..=20 {
        add_user(&bed.server, n, rights);
        let (user, password) = (format!("app{n}"), format!("secret{n}"));
        for client in &clients {
            client.set_credentials(Some(&user), Some(&password));
        }
        let old = format!("app{}", n - 1);
        let logged_in = async || connections(&bed.server, &old).is_empty();
        wait_for("the connections to log in", logged_in).await;
        // Cuts the connections of that user.
        bed.server.command(&["ACL", "DELUSER", &old]).unwrap();
        scene.assert_held().await;
    }
    // A refused login changes nothing.
    let logins = || {
        bed.server
            .commandstats()
            .get("auth")
            .copied()
            .unwrap_or_default()
    };
    let (present, refused) = (connections(&bed.server, "app20"), logins());
    clients[0].set_credentials(Some("app20"), Some("wrong"));
    wait_for("the logins to be refused", async || logins() >= refused + 2).await;
    assert_eq!(connections(&bed.server, "app20"), present);
    clients[0].set_credentials(Some("app20"), Some("secret20"));
    scene.renewed().await;
    println!("{binary}, {rights}: {}", scene.hand_over().await);
    bed.end(scene).await;
    [before, present]
}

async fn every_kind_outlives_logins_at_all_nodes_of_a_cluster(binary: ServerBinary) {
    let cluster = three_and_three(&binary);
    let masters = cluster.masters();
    let clients = outlive_at(cluster.nodes(), &masters, &cluster.url()).await;
    cluster.fail_over_to(cluster.replicas_of(cluster.owner(TAG))[0]);
    cluster.await_agreement();
    for client in &clients {
        durably(client).await.unwrap().release().await.unwrap();
    }
}

async fn every_kind_outlives_logins_at_a_master_and_its_replica(binary: ServerBinary) {
    let group = Replicated::start(&binary, 1, &ServerOptions::new());
    let clients = outlive_at(group.servers(), &[group.master()], &group.url()).await;
    group.promote(1);
    group.await_in_step();
    for client in &clients {
        durably(client).await.unwrap().release().await.unwrap();
    }
}

/// Connects two clients as the user 0. The user of one is set, and the other asks for the `present`
/// one.
async fn set_and_provided(url: &str, present: &Arc<AtomicUsize>) -> [Client; 2] {
    let set = builder(url).credentials(Some("app0"), Some("secret0"));
    let present = Arc::clone(present);
    let provided = builder(url).credentials_from(move || {
        let n = present.load(Relaxed);
        async move {
            Ok(Credentials {
                username: Some(format!("app{n}")),
                password: format!("secret{n}"),
                expires_in: Some(SECOND),
            })
        }
    });
    [
        set.connect().await.unwrap(),
        provided.connect().await.unwrap(),
    ]
}

/// Changes the user on all servers while all kinds are held and awaited, and one lock durably.
async fn outlive_at(servers: &[Server], masters: &[&Server], url: &str) -> [Client; 2] {
    let present = Arc::default();
    let add = |n| {
        servers
            .iter()
            .for_each(|server| add_user(server, n, "+@all"));
    };
    add(0);
    let clients = set_and_provided(url, &present).await;
    let parties = clients.clone().map(Party::alone);
    let leases = Leases::renewed(6 * SECOND);
    let mut scene = Scene::begin(&kinds::on_one(), parties, TAG, leases).await;
    let held = durably(&clients[0]).await.unwrap();
    let waiter = clients[1].clone();
    let waiter = tokio::spawn(async move { durably(&waiter).await.unwrap() });
    registered(&clients[0], DURABLE, 1).await;
    scene.renewed().await;
    let before: Vec<_> = masters.iter().map(|at| connections(at, "app0")).collect();
    for n in 1..=3 {
        add(n);
        present.store(n, Relaxed);
        clients[0].set_credentials(Some(&format!("app{n}")), Some(&format!("secret{n}")));
        let old = format!("app{}", n - 1);
        let logged_in = async || servers.iter().all(|at| connections(at, &old).is_empty());
        wait_for("the connections to log in", logged_in).await;
        for server in servers {
            server.command(&["ACL", "DELUSER", &old]).unwrap();
        }
        scene.assert_held().await;
    }
    for (master, before) in masters.iter().zip(before) {
        let after = connections(master, "app3");
        assert!(before.len() >= 2, "{before:?}");
        let all = before.iter().all(|id| after.contains(id));
        assert!(all, "{before:?} {after:?}");
    }
    scene.renewed().await;
    assert!(held.state() == HoldState::Held && !waiter.is_finished());
    hand_over(held, waiter).await;
    println!("{url}: {}", scene.hand_over().await);
    scene.end(masters).await;
    clients
}

/// Takes a lock that a replica has to confirm.
async fn durably(client: &Client) -> Result<LockGuard, Error> {
    let lock = client.lock(DURABLE);
    let lock = lock.lock().renewed_lease(6 * SECOND);
    lock.durability(Durability::Replicas(1)).await
}

const DURABLE: &str = "{s}durable";

fn add_user(server: &Server, n: usize, rights: &str) {
    let (user, password) = (format!("app{n}"), format!(">secret{n}"));
    let mut command = vec!["ACL", "SETUSER", &user, "on", &password, "~*", "&*"];
    command.extend(rights.split(' '));
    server.command(&command).unwrap();
}

/// Returns the ids of the connections of `user`.
fn connections(server: &Server, user: &str) -> Vec<String> {
    let list = server.command(&["CLIENT", "LIST"]).text();
    let user = format!(" user={user} ");
    let of_user = list.lines().filter(|line| line.contains(&user));
    let mut ids: Vec<_> = of_user
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    // A server rotates its list while it looks after its clients.
    ids.sort();
    ids
}
