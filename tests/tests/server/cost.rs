//! What a lock costs the server, counted by the server and on the wire.

use redlatch_tests::split::SplitTransport;

use crate::prelude::*;

redlatch_tests::on_every_server!(an_uncontended_lock_costs_two_commands);

// L46
async fn an_uncontended_lock_costs_two_commands(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    preload(server);
    // This proxy sees the commands, and no messages.
    let proxy = Proxy::start(server.address());
    let messages = Arc::new(SplitTransport::new(Proxy::start(server.address())));
    let builder = Client::builder(&proxy.url()).transport(messages);
    let client = builder.connect().await.unwrap();
    // The check at the beginning has ended when it listens no longer.
    let over = async || server.commandstats().contains_key("unsubscribe");
    wait_for("the check to be over", over).await;
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
        let known = ["time", "hmget", "hset", "hdel", "pexpire"];
        let all_known = stats.keys().all(|name| known.contains(&name.as_str()));
        assert!(all_known, "another was called: {stats:?}");
        assert!(inner <= 8, "four calls in each script: {stats:?}");
    }
    assert_nothing_left(&backend, &[&client]).await;
}
