//! A cluster of which one master is dead.

use std::time::{Duration, Instant};

use redlatch_tests::{
    fixture::key,
    server::{Cluster, ClusterOptions, ServerBinary, ServerOptions},
};

use crate::{
    server::Server,
    support::{World, event, finished},
};

#[tokio::test(flavor = "multi_thread")]
async fn names_of_living_masters_are_held_and_seen_while_another_is_dead() {
    for binary in ServerBinary::all() {
        let of_files = Server::start(binary.clone(), ServerOptions::new()).await;
        let start = move || Cluster::start(&binary, &ClusterOptions::default());
        let cluster = tokio::task::spawn_blocking(start).await.unwrap();
        scene(&of_files, &cluster).await;
    }
}

async fn scene(world: &World, cluster: &Cluster) {
    let url = cluster.url();
    let dead = cluster.masters()[2];
    let names: Vec<_> = (0..30).map(|n| format!("n{n}")).collect();
    let (there, here): (Vec<_>, Vec<_>) = names
        .iter()
        .partition(|name| cluster.owner(&key(name)).port() == dead.port());
    dead.kill();
    held_when_told(world, &url, &here[..8]).await;
    let hold = ["hold", here[8], "--for", "1h"];
    world.ends_at(&url, 0, &hold).await;
    let (mut child, mut lines) = world.watch(&url, "ls --watch --json --every 100ms");
    let silent = event(&mut lines).await;
    assert_eq!(silent["event"], "unanswered");
    let error = silent["error"].as_str().unwrap();
    assert!(error.contains(&dead.address().to_string()), "{error}");
    while event(&mut lines).await["name"] != here[8].as_str() {}
    child.kill().await.unwrap();
    for (name, code) in [(here[8], 75), (here[9], 0), (there[0], 69)] {
        let began = Instant::now();
        let wait = ["wait", "-w", "2s", name];
        world.ends_at(&url, code, &wait).await;
        // Shorter than the patience of the library, for a machine that is busy.
        assert!(began.elapsed() < Duration::from_secs(8), "{name}");
    }
}

/// Some of the clients have the record of who they are on the dead master.
async fn held_when_told(world: &World, url: &str, names: &[&String]) {
    let start = |args: &[&str]| world.start_at(url, args);
    let hold = |name: &&String| start(&["hold", name, "--for", "10s"]);
    let mut releasing = Vec::new();
    for child in names.iter().map(hold).collect::<Vec<_>>() {
        let held = finished(child).await;
        assert_eq!(held.code, 0, "{held:?}");
        releasing.push(start(&["release", held.stdout.trim()]));
    }
    for child in releasing {
        let released = finished(child).await;
        assert_eq!(released.code, 0, "it was over when told: {released:?}");
    }
}
