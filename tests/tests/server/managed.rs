//! Habits of managed services: they show a cluster as one node, limit the arguments of a request,
//! close connections, and move their name to another server. The refusals are in the tests of
//! `redlatch doctor`.

use std::sync::atomic::Ordering::Relaxed;

use redlatch_tests::{
    calls::{self, Call},
    proxy::Request,
};

use crate::prelude::*;

redlatch_tests::on_every_server!(
    cluster_that_shows_one_node_serves_all_calls,
    requests_stay_below_the_limit_of_arguments,
    service_without_wait_fails_durable_grants_only,
    closed_connections_and_spent_tokens_cost_no_hold,
    name_that_moves_is_followed,
);

/// ElastiCache Serverless shows all slots as those of one node.
async fn cluster_that_shows_one_node_serves_all_calls(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let proxy = Proxy::start(backend.server().address());
    for host in ["$9\r\n127.0.0.1", "$0\r\n"] {
        let node = format!("*2\r\n{host}\r\n:{}", proxy.port());
        let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n{node}");
        proxy.always_answer(Pick::command("CLUSTER"), &slots);
        let url = proxy.url().replace("redis:", "redis+cluster:");
        let clients = try_join_all([(); 2].map(|()| Client::connect(&url)));
        let clients = clients.await.unwrap();
        for kind in calls::KINDS {
            if kind.servers() > clients.len() {
                continue;
            }
            for Call { what, run, .. } in kind.calls(&clients[..kind.servers()]).await {
                let outcome = run.await;
                outcome.unwrap_or_else(|error| panic!("{kind:?}, {what}: {error:?}"));
            }
        }
        let guard = clients[0].lock("x").lock().await.unwrap();
        let waiter = waiting(clients[1].lock("x"));
        registered(&backend, "x").await;
        guard.release().await.unwrap();
        waiter.await.unwrap().release().await.unwrap();
        proxy.withdraw_orders();
    }
}

/// ElastiCache Serverless accepts 3,999 arguments.
async fn requests_stay_below_the_limit_of_arguments(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let proxy = Proxy::start(backend.server().address());
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let count = move |request: &Request| {
        seen.fetch_max(request.args().len(), Relaxed);
        false
    };
    proxy.always_answer(Pick::matching(count), "-ERR never");
    let client = Client::connect(&proxy.url()).await.unwrap();
    let names: Vec<_> = (0..300).map(|n| format!("n{n}")).collect();
    let locks: Vec<_> = names.iter().map(|name| client.lock(name)).collect();
    let together = locks[..90].iter().map(|lock| lock as &dyn Lockable);
    let together: Vec<_> = together.collect();
    let together = client.multi_lock(&together);
    together.lock().await.unwrap().release().await.unwrap();
    let guards = locks.iter().map(|lock| lock.lock().renewed_lease(SECOND));
    let guards = try_join_all(guards.map(IntoFuture::into_future)).await;
    let guards = guards.unwrap();
    let permits = client.permit_expirable_semaphore("p");
    let permits = permits.permits_if_unset(1_000);
    let ids = permits.acquire_many(1_000).await.unwrap();
    for id in &ids[..10] {
        permits.release(id).await.unwrap();
    }
    let semaphore = client.semaphore("s").permits_if_unset(1_000);
    drop(semaphore.acquire_many(1_000).await.unwrap());
    // Each hold is renewed.
    backend.pass(SECOND).await;
    for guard in &guards {
        guard.check().unwrap();
    }
    let mut found = client.locks("*");
    while found.next().await.transpose().unwrap().is_some() {}
    drop(guards);
    client.settled().await;
    let most = most.load(Relaxed);
    println!("{binary}: {most} arguments at most");
    assert!((100..4_000).contains(&most), "{most}");
}

async fn service_without_wait_fails_durable_grants_only(binary: ServerBinary) {
    let servers = Replicated::start(&binary, 1, &ServerOptions::new());
    let proxy = Proxy::start(servers.master().address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    for line in [
        "-ERR unknown command 'WAIT', with args beginning with: '1' '100'",
        "-ERR Command is not available: 'WAIT'.",
    ] {
        proxy.always_answer(Pick::command("WAIT"), line);
        let lock = client.lock("x");
        let durable = lock.lock().durability(Durability::Replicas(1));
        let error = durable.await.map(drop).unwrap_err();
        println!("{line}: {error}");
        assert_eq!(error.kind(), ErrorKind::UnsupportedServer, "{error:?}");
        let text = error.to_string();
        assert!(text.contains("refuses WAIT") && text.contains("Durability::Master"));
        assert!(!error.is_not_executed(), "it was taken");
        client.settled().await;
        assert!(!lock.is_locked().await.unwrap(), "it is undone");
        let guard = lock.lock().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        proxy.withdraw_orders();
    }
    assert_tables_empty(&client).await;
}

/// Idle connections are closed, and those of a token whose time is over. The next one needs the
/// next token.
async fn closed_connections_and_spent_tokens_cost_no_hold(binary: ServerBinary) {
    let options = ServerOptions::new().user("app on >old ~* &* +@all");
    let backend = Backend::Real(Server::start(&binary, options));
    let server = backend.server();
    let proxy = Proxy::start(server.address());
    let url = proxy.url().replace("//", "//app:old@");
    let client = Client::connect(&url).await.unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    let waiter = waiting(client.lock("x"));
    for _ in 0..3 {
        proxy.close();
        drop(client.lock("y").lock().await.unwrap());
    }
    let acl = |rules: &[&str]| {
        let command = [&["ACL", "SETUSER", "app"], rules].concat();
        server.command(&command).unwrap();
        proxy.close();
    };
    client.set_credentials(Some("app"), Some("next"));
    acl(&["resetpass", ">next"]);
    drop(client.lock("y").lock().await.unwrap());
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap();
    // Too late.
    acl(&["resetpass", ">last"]);
    wait_for("the spent token to be refused", async || {
        let tried = client.lock("y").try_lock().await;
        tried.is_err_and(|error| error.kind() == ErrorKind::Auth)
    })
    .await;
    guard.check().unwrap();
    client.set_credentials(Some("app"), Some("last"));
    let used = async || client.lock("y").try_lock().await.is_ok();
    wait_for("the last token to be used", used).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_nothing_left(&backend, &[&client]).await;
}

/// The old master becomes a replica, and new connections lead to it for a while.
async fn name_that_moves_is_followed(binary: ServerBinary) {
    let servers = Replicated::start(&binary, 1, &ServerOptions::new());
    let proxy = Proxy::start(servers.servers()[0].address());
    let builder = Client::builder(&proxy.url()).server_clock_allowance(SECOND);
    let client = builder.connect().await.unwrap();
    let held = client.lock("held").lock().await.unwrap();
    let waiter = waiting(client.lock("held"));
    let replicated = async || servers.servers()[1].keys().contains(&key("held"));
    wait_for("the hold to be replicated", replicated).await;
    servers.promote(1);
    let (taken, connections) = (waiting(client.lock("free")), proxy.connections());
    let dialled = async || proxy.connections() > connections + 2;
    wait_for("new connections", dialled).await;
    assert!(!taken.is_finished());
    proxy.lead_to(servers.servers()[1].address());
    let taken = taken.await.unwrap();
    assert_eq!(taken.release().await.unwrap(), Released::Free);
    held.check().unwrap();
    assert_eq!(held.release().await.unwrap(), Released::Free);
    waiter.await.unwrap().release().await.unwrap();
    assert_tables_empty(&client).await;
}
