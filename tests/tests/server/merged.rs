//! Common calls where only a real server tells: without memory, with missing rights, as a node of a
//! cluster, with a connection that ends.

use futures_util::future::join;

use crate::prelude::*;

redlatch_tests::on_every_server!(
    full_server_refuses_acquisitions_that_are_ready_with_releases,
    name_without_rights_fails_alone,
    node_of_a_cluster_that_is_used_as_a_single_server_serves_single_calls,
    common_call_whose_answer_is_lost_counts_once,
);

fn names(what: &str) -> Vec<String> {
    (0..NAMES).map(|n| format!("{what}{n}")).collect()
}

/// Tries to take all names together.
async fn try_all(client: &Client, names: &[String]) -> Vec<Result<Option<LockGuard>, Error>> {
    let tries = names
        .iter()
        .map(|name| client.lock(name).try_lock().into_future());
    join_all(tries).await
}

async fn take_all(client: &Client, names: &[String]) -> Vec<LockGuard> {
    let taken = try_all(client, names).await.into_iter();
    taken.map(|taken| taken.unwrap().unwrap()).collect()
}

async fn release_all(guards: Vec<LockGuard>) {
    for released in join_all(guards.into_iter().map(LockGuard::release)).await {
        assert_eq!(released.unwrap(), Released::Free);
    }
}

/// Releases go in calls of their own: behind a release, a full server would grant.
async fn full_server_refuses_acquisitions_that_are_ready_with_releases(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    preload(server);
    let client = backend.client().await;
    let (held, free) = (names("held"), names("free"));
    for _ in 0..20 {
        let guards = take_all(&client, &held).await;
        server.config_set("maxmemory", "1");
        let before = backend.script_calls();
        let ((), tried) = join(release_all(guards), try_all(&client, &free)).await;
        for tried in tried {
            let error = tried.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ServerFull, "{error:?}");
            assert!(error.is_not_executed());
        }
        let again = backend.script_calls() - before;
        assert!(again < 3 * NAMES as u64, "{again} calls");
        server.config_set("maxmemory", "0");
        for name in &free {
            assert!(!client.lock(name).is_locked().await.unwrap());
        }
    }
    assert_nothing_left(&backend, &[&client]).await;
}

async fn name_without_rights_fails_alone(binary: ServerBinary) {
    let backend = server_with(&binary, "~redlatch:{ok* &* +@all");
    preload(backend.server());
    let builder = as_app(&backend).self_check(false);
    let client = builder.connect().await.unwrap();
    let mut names = names("ok");
    names[7] = "secret".to_owned();
    for _ in 0..20 {
        let mut tried = try_all(&client, &names).await;
        let error = tried.remove(7).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Permission, "{error:?}");
        let guards = tried.into_iter().map(|tried| tried.unwrap().unwrap());
        release_all(guards.collect()).await;
    }
    // Without that name, the others go together.
    sleep(Duration::from_millis(1_100)).await;
    names.remove(7);
    let before = backend.script_calls();
    release_all(take_all(&client, &names).await).await;
    let ran = backend.script_calls() - before;
    assert!(ran < 2 * names.len() as u64, "{ran} scripts");
}

async fn node_of_a_cluster_that_is_used_as_a_single_server_serves_single_calls(
    binary: ServerBinary,
) {
    let backend = Backend::Real(Server::start(&binary, ServerOptions::new().cluster()));
    let server = backend.server();
    let all: Vec<_> = (0..16_384).map(|slot: u16| slot.to_string()).collect();
    let mut assign = vec!["CLUSTER", "ADDSLOTS"];
    assign.extend(all.iter().map(String::as_str));
    server.command(&assign).unwrap();
    wait_for("the slots", async || {
        let info = server.command(&["CLUSTER", "INFO"]).text();
        info.contains("cluster_state:ok")
    })
    .await;
    preload(server);
    let builder = Client::builder(&server.url()).self_check(false);
    let Ok(client) = builder.connect().await else {
        panic!("a client that checks nothing connects");
    };
    for _ in 0..20 {
        release_all(take_all(&client, &names("slot")).await).await;
    }
    let tagged: Vec<_> = names("slot")
        .iter()
        .map(|name| format!("{{tag}}{name}"))
        .collect();
    let before = backend.script_calls();
    release_all(take_all(&client, &tagged).await).await;
    let ran = backend.script_calls() - before;
    assert!(ran < 2 * tagged.len() as u64, "{ran} scripts");
}

async fn common_call_whose_answer_is_lost_counts_once(binary: ServerBinary) {
    for then in [Then::Cut, Then::Stall] {
        counts_once(&binary, then).await;
    }
}

async fn counts_once(binary: &ServerBinary, then: Then) {
    let backend = Backend::real(binary);
    let server = backend.server();
    preload(server);
    let proxy = Proxy::start(server.address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    let names = names("lost");
    // The first use sends the text of the scripts.
    release_all(take_all(&client, &names).await).await;
    let lost = proxy.drop_reply(call(server, &REENTRANT.acquire, &names[9]), then);
    let guards = take_all(&client, &names).await;
    let first = lost.answered().await;
    let reply = String::from_utf8_lossy(first.reply());
    assert!(reply.contains("granted"), "{reply}");
    for guard in &guards {
        let lock = client.lock(guard.name());
        assert_eq!(lock.hold_count(guard.owner()).await.unwrap(), 1);
        guard.check().unwrap();
    }
    release_all(guards).await;
    // A copy of the acquisitions acts no more.
    let copy = first.copy().deliver().await.unwrap();
    let copy = String::from_utf8_lossy(&copy);
    assert!(!copy.contains("granted"), "{copy}");

    let others = self::names("other");
    // A new connection sends the text of the scripts again.
    release_all(take_all(&client, &others).await).await;
    let guards = take_all(&client, &others).await;
    let text = REENTRANT.release.text;
    let digest = server.command(&["SCRIPT", "LOAD", text]).text();
    let lost = proxy.drop_reply(Pick::containing(digest), then);
    release_all(guards).await;
    let reply = lost.answered().await;
    let reply = String::from_utf8_lossy(reply.reply());
    assert!(reply.contains("released"), "{reply}");
    for name in names.iter().chain(&others) {
        assert!(!client.lock(name).is_locked().await.unwrap(), "{name}");
    }
    assert_nothing_left(&backend, &[&client]).await;
}

const NAMES: usize = 16;
