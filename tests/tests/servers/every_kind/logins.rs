//! Users that change, on a server that cuts the connections of each user that has gone.

use redlatch::Client;
use redlatch_tests::{
    fixture::SECOND,
    server::{Server, ServerBinary, ServerOptions},
    wait::{GENEROUS, eventually},
};

use super::{
    connect,
    kinds::KINDS,
    scene::{Leases, Scene},
    standalone::Bed,
};

redlatch_tests::on_every_server!(
    every_kind_outlives_twenty_logins,
    every_kind_outlives_twenty_logins_with_resp2,
);

async fn every_kind_outlives_twenty_logins(binary: ServerBinary) {
    let (server, before) = outlive(&binary, "+@all").await;
    let after = connections(&server.server, "app20");
    assert!(
        before.iter().all(|id| after.contains(id)),
        "{before:?} {after:?}"
    );
}

/// The connections for messages are replaced, since no server takes a login there.
async fn every_kind_outlives_twenty_logins_with_resp2(binary: ServerBinary) {
    outlive(&binary, "+@all -hello").await;
}

/// Changes the user twenty times while all kinds are held and awaited. Returns the server, and the
/// connections from the beginning.
async fn outlive(binary: &ServerBinary, rights: &str) -> (Bed, Vec<String>) {
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
        eventually("the connections to log in", GENEROUS, async || {
            connections(&bed.server, &old).is_empty()
        })
        .await;
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
    eventually("the logins to be refused", GENEROUS, async || {
        logins() >= refused + 2
    })
    .await;
    assert_eq!(connections(&bed.server, "app20"), present);
    clients[0].set_credentials(Some("app20"), Some("secret20"));
    scene.renewed().await;
    println!("{binary}, {rights}: {}", scene.hand_over().await);
    bed.end(scene).await;
    (bed, before)
}

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
    of_user
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect()
}
