//! Servers that answer, and take no writes: who looks needs none.

use crate::{server::on_every, support::World};

#[tokio::test(flavor = "multi_thread")]
async fn looks_are_answered_while_writes_are_refused() {
    on_every(looks_are_answered).await;
}

async fn looks_are_answered(world: World) {
    let words = |line: &'static str| line.split(' ').collect::<Vec<_>>();
    let held = world.ends(0, "hold a --for 1h").await.stdout;
    let token = held.split('@').next().unwrap();
    for (refuse, take) in [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        (
            "CONFIG SET min-replicas-to-write 1",
            "CONFIG SET min-replicas-to-write 0",
        ),
        // A replica whose master is away.
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    ] {
        println!("{refuse}");
        world.server.command(&words(refuse));
        world.ends(0, "ls").await.shows("redlatch hold");
        world.ends(0, "show a").await.shows("redlatch hold");
        world.ends(0, "wait -w 1s b").await;
        world.ends(75, "wait -w 1s a").await.says("redlatch hold");
        world.server.command(&words(take));
    }
    world.server.command(&words("CONFIG SET maxmemory 1"));
    let broken = format!("break a --token {token} --note why");
    let told = "others will not see who breaks it, and why: ";
    world.ends(0, &broken).await.says(told).says("memory");
    let release = format!("release {held}");
    world.ends(0, &release).await.is_silent();
}
