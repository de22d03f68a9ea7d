//! What a lock costs the server, counted by the server and on the wire.

use std::sync::Arc;

use redlatch::Client;
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, assert_nothing_left, preload, registered},
    proxy::Proxy,
    server::ServerBinary,
    split::SplitTransport,
    wait::{GENEROUS, eventually},
};

redlatch_tests::on_every_server!(
    an_uncontended_lock_costs_two_commands,
    idle_waiter_sends_nothing_between_rechecks,
    thousand_tasks_cost_few_commands_per_acquisition,
);

/// A client of which the proxy sees the commands.
async fn counted(backend: &Backend) -> (Client, Proxy) {
    let commands = Proxy::start(backend.server().address());
    let messages = Proxy::start(backend.server().address());
    let builder =
        Client::builder(&commands.url()).transport(Arc::new(SplitTransport::new(messages)));
    (builder.connect().await.unwrap(), commands)
}

// L46
async fn an_uncontended_lock_costs_two_commands(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    preload(server);
    let (client, proxy) = counted(&backend).await;
    // The check at the beginning has ended when it listens no longer.
    eventually("the check to be over", GENEROUS, async || {
        server.commandstats().contains_key("unsubscribe")
    })
    .await;
    let lock = client.lock("x");
    for _ in 0..3 {
        server.reset_stats();
        let before = proxy.requests();
        lock.lock().await.unwrap().release().await.unwrap();
        assert_eq!(proxy.requests() - before, 2);
        let mut stats = server.commandstats();
        // What the harness itself asked for.
        stats.retain(|name, _| !name.starts_with("config") && name != "info");
        assert_eq!(stats.remove("evalsha"), Some(2));
        let inner: u64 = stats.values().sum();
        for name in stats.keys() {
            assert!(
                ["time", "hmget", "hset", "hdel", "pexpire"].contains(&name.as_str()),
                "{name} was called: {stats:?}"
            );
        }
        assert!(inner <= 8, "four calls in each script: {stats:?}");
    }
    assert_nothing_left(&backend, &[&client]).await;
}

// L8
async fn idle_waiter_sends_nothing_between_rechecks(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let holder = backend.client().await;
    let (client, proxy) = counted(&backend).await;
    let guard = holder.lock("x").lock().await.unwrap();
    let waiters: Vec<_> = (0..50)
        .map(|_| {
            let lock = client.lock("x");
            tokio::spawn(async move { drop(lock.lock().await.unwrap()) })
        })
        .collect();
    registered(&backend, "x").await;
    let before = proxy.requests();
    backend.pass(1_200 * MS).await;
    assert_eq!(
        proxy.requests() - before,
        0,
        "a look comes after 1.6 s at the earliest"
    );
    backend.pass(1_300 * MS).await;
    let looks = proxy.requests() - before;
    assert!(
        (1..=2).contains(&looks),
        "{looks} requests of 50 waiters in 2.5 s"
    );
    drop(guard);
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_nothing_left(&backend, &[&holder, &client]).await;
}

// L8
async fn thousand_tasks_cost_few_commands_per_acquisition(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    let (client, proxy) = counted(&backend).await;
    let before = proxy.requests();
    let waiters: Vec<_> = (0..1_000)
        .map(|_| {
            let lock = client.lock("x");
            tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                guard.release().await.unwrap();
            })
        })
        .collect();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    let each = f64::from(u32::try_from(proxy.requests() - before).unwrap()) / 1_000.0;
    println!("{binary}: {each:.3} commands per acquisition of 1,000 local tasks");
    assert!(each <= 3.0, "{each}");
    assert_nothing_left(&backend, &[&client]).await;
}
