//! Who may connect and do what, told when connecting, with nothing half done.

use std::time::Instant;

use futures_util::future::try_join;
use redlatch_lua::REDISSON;
use redlatch_tests::calls::{self, Call, Wait};

use crate::prelude::*;

redlatch_tests::on_every_server!(
    missing_rights_are_reported_when_connecting,
    optional_rights_can_be_missing,
    the_minimal_user_can_do_everything,
    waiters_without_channel_rights_recheck_by_the_clock,
    clients_that_poll_need_no_channels,
    a_user_without_hello_speaks_resp2,
    permit_comes_back_though_a_right_is_missing_half_way,
    count_of_another_library_ends_though_a_right_is_missing_half_way,
    copy_that_cannot_move_the_end_leaves_the_hold,
);

/// All that the plain lock needs, and the self-check, and finding locks.
fn minimal() -> String {
    format!("{} +hello", documented_rights())
}

/// A server with a user `app`.
pub(crate) fn server_with(binary: &ServerBinary, rights: &str) -> Backend {
    let options = ServerOptions::new().user(format!("app on >secret {rights}"));
    Backend::Real(Server::start(binary, options))
}

pub(crate) fn as_app(backend: &Backend) -> ClientBuilder {
    let address = backend.server().address();
    Client::builder(&format!("redis://app:secret@{address}"))
}

async fn missing_rights_are_reported_when_connecting(binary: ServerBinary) {
    let backend = server_with(&binary, &minimal());
    let needed = "-evalsha -eval -time -hset -hget -get -del -hmget -hdel -pexpire -zadd -zrem \
         -zcount -zcard -zrange -zrank -zscore -pttl -zpopmin -zrangebyscore -persist \
         -zremrangebyscore -publish -subscribe -set resetkeys resetchannels";
    // One client's channel, and not those of names.
    let one_channel = "resetchannels, &redlatch:w:*";
    for missing in needed.split(' ').chain([one_channel]) {
        let admin = |rule: &str| {
            let command = ["ACL", "SETUSER", "app"].into_iter().chain(rule.split(' '));
            let command: Vec<_> = command.collect();
            backend.server().command(&command).unwrap();
        };
        missing.split(", ").for_each(admin);
        // Whether or not somebody has loaded the scripts before.
        for _ in 0..2 {
            let error = as_app(&backend).connect().await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Permission, "{missing}: {error:?}");
            let rule = missing.replace('-', "+");
            let said = !rule.starts_with('+') || error.to_string().contains(&rule);
            assert!(said, "{error}");
            backend.server().script_flush();
        }
        let expired = async || backend.server().keys().is_empty();
        wait_for("the probe to expire", expired).await;
        assert_untouched(backend.server()).await;
        admin(&minimal());
    }
    as_app(&backend).connect().await.unwrap();
}

async fn optional_rights_can_be_missing(binary: ServerBinary) {
    let missed = "-info -ping -client|setname -scan -unsubscribe";
    for missing in missed.split(' ') {
        let backend = server_with(&binary, &minimal().replace(&missing.replace('-', "+"), ""));
        let client = as_app(&backend).connect().await.unwrap();
        let guard = client.lock("x").lock().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Free, "{missing}");
        assert_nothing_left(&backend, &[&client]).await;
    }
}

async fn the_minimal_user_can_do_everything(binary: ServerBinary) {
    everything_works(&binary, &minimal()).await;
}

async fn a_user_without_hello_speaks_resp2(binary: ServerBinary) {
    everything_works(&binary, "~* &* +@all -hello").await;
}

async fn everything_works(binary: &ServerBinary, rights: &str) {
    let backends = [(); 3].map(|()| server_with(binary, rights));
    let backend = &backends[0];
    let a = as_app(backend).connect().await.unwrap();
    let b = as_app(backend).connect().await.unwrap();
    let lock = a.lock("x");
    let outer = lock.lock().renewed_lease(SECOND).await.unwrap();
    let inner = lock.lock().owner(outer.owner()).await.unwrap();
    outer.extend(2 * SECOND).await.unwrap();
    let waiter = waiting(b.lock("x"));
    registered(backend, "x").await;
    assert_eq!(lock.info().await.unwrap().unwrap().waiters, 1);
    assert!(b.lock("x").holders().await.unwrap()[0].metadata.is_some());
    let mut found = b.locks("*");
    assert_eq!(found.next().await.unwrap().unwrap().info.name, "x");
    backend.pass(1_500 * MS).await;
    outer.check().unwrap();
    assert_eq!(inner.release().await.unwrap(), Released::StillHeld(1));
    assert_eq!(outer.release().await.unwrap(), Released::Free);
    let released = Instant::now();
    let next = waiter.await.unwrap();
    assert!(released.elapsed() < SECOND, "{:?}", released.elapsed());
    assert!(lock.force_release().await.unwrap());
    assert_eq!(next.release().await.unwrap(), Released::Revoked);
    assert_nothing_left(backend, &[&a, &b]).await;
    a.close_now().await;
    b.close_now().await;
    every_call_works(&backends).await;
}

/// Runs each call of each kind, and each call that waits until it need not. Who waits for a latch
/// is told by a message.
async fn every_call_works(backends: &[Backend]) {
    let connect = async || {
        let clients = backends.iter().map(|backend| as_app(backend).connect());
        try_join_all(clients).await.unwrap()
    };
    let (clients, others) = (connect().await, connect().await);
    for kind in calls::KINDS {
        let (clients, others) = (&clients[..kind.servers()], &others[..kind.servers()]);
        for Call { what, run, .. } in kind.calls(clients).await {
            let outcome = timeout(GENEROUS, run).await;
            let outcome = outcome.unwrap_or_else(|_| panic!("{kind:?}, {what} hangs"));
            outcome.unwrap_or_else(|error| panic!("{kind:?}, {what}: {error:?}"));
        }
        for Wait { what, call, free } in kind.waits(others, clients).await {
            let free = async {
                let waits =
                    || async { clients[0].tables().waiters + clients[0].tables().listeners > 0 };
                wait_for("the call to wait", waits).await;
                free.await.map(|()| Instant::now())
            };
            let outcome = timeout(GENEROUS, try_join(call, free)).await;
            let outcome = outcome.unwrap_or_else(|_| panic!("{kind:?}, {what} hangs"));
            let ended = outcome.unwrap_or_else(|error| panic!("{kind:?}, {what}: {error:?}"));
            let told = ended.1.elapsed();
            let is_latch = format!("{kind:?}") == "Latch";
            assert!(!is_latch || told < SECOND, "{what}: {told:?}");
        }
    }
}

/// The self-check passes, and there is one connection per client.
async fn clients_that_poll_need_no_channels(binary: ServerBinary) {
    let rights = minimal()
        .replace(" &redlatch:*", "")
        .replace(" +subscribe", "")
        .replace(" +unsubscribe", "");
    let backend = server_with(&binary, &rights);
    let poll = WaitStrategy::Poll(Backoff::constant(5 * MS));
    let connect = || as_app(&backend).wait_strategy(poll).connect();
    let (a, b) = (connect().await.unwrap(), connect().await.unwrap());
    let guard = a.lock("x").lock().await.unwrap();
    let waiter = waiting(b.lock("x"));
    backend.pass(50 * MS).await;
    // Two clients, and the one that asks.
    assert_eq!(backend.server().info("clients")["connected_clients"], "3");
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
    assert_nothing_left(&backend, &[&a, &b]).await;
}

// L6, L7
async fn waiters_without_channel_rights_recheck_by_the_clock(binary: ServerBinary) {
    let backend = server_with(&binary, &minimal().replace(" &redlatch:*", ""));
    let connect = || as_app(&backend).self_check(false).connect();
    let (a, b) = (connect().await.unwrap(), connect().await.unwrap());
    for _ in 0..2 {
        let guard = a.lock("x").lock().await.unwrap();
        let waiter = waiting(b.lock("x"));
        backend.pass(300 * MS).await;
        let (evals, began) = (backend.script_calls(), Instant::now());
        backend.pass(SECOND).await;
        let looks = backend.script_calls() - evals;
        // Every 250 ms at the soonest, and later on a busy machine.
        let most = began.elapsed().as_millis() as u64 / 250 + 2;
        assert!((1..=most).contains(&looks), "{looks} looks, {most} at most");
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        let released = Instant::now();
        let next = waiter.await.unwrap();
        let took = released.elapsed();
        println!("{binary}: without channels, served {took:?} after the release");
        assert!(took < 3 * SECOND);
        next.release().await.unwrap();
    }
    assert_nothing_left(&backend, &[&a, &b]).await;
}

/// A server, a client of a user `app` that may do everything, and one of another user.
async fn server_with_all(binary: &ServerBinary) -> (Backend, Client, Client) {
    let backend = server_with(binary, "~* &* +@all");
    let client = as_app(&backend).default_lease(SECOND).connect();
    let (client, other) = (client.await.unwrap(), backend.client().await);
    (backend, client, other)
}

/// Takes a right from the user `app`, or gives it back.
fn set_right(backend: &Backend, right: &str) {
    let server = backend.server();
    server.command(&["ACL", "SETUSER", "app", right]).unwrap();
}

/// Whatever command of a release is refused, its permit is out no more once the lease is over.
async fn permit_comes_back_though_a_right_is_missing_half_way(binary: ServerBinary) {
    let (backend, client, other) = server_with_all(&binary).await;
    for right in [
        "hset", "hdel", "hget", "zadd", "zrem", "zscore", "zrange", "publish",
    ] {
        let semaphore = client.semaphore(right).permits_if_unset(1);
        let permit = semaphore.acquire().await.unwrap();
        let waiter = tokio::spawn(semaphore.try_acquire_for(SECOND).into_future());
        registered(&backend, right).await;
        set_right(&backend, &format!("-{right}"));
        drop(permit.release().await);
        drop(waiter.await.unwrap());
        set_right(&backend, &format!("+{right}"));
        let again = other.semaphore(right).try_acquire_for(GENEROUS).await;
        assert!(again.unwrap().is_some(), "{right}");
    }
}

/// A hold in the layout of another library has an end, or is taken back.
async fn count_of_another_library_ends_though_a_right_is_missing_half_way(binary: ServerBinary) {
    let (backend, client, other) = server_with_all(&binary).await;
    for right in ["pttl", "pexpire", "hset", "hdel"] {
        set_right(&backend, &format!("-{right}"));
        let refused = Redisson::new(&client, right).try_lock().await;
        set_right(&backend, &format!("+{right}"));
        drop(refused);
        let again = Redisson::new(&other, right).try_lock_for(GENEROUS).await;
        assert!(again.unwrap().is_some(), "{right}");
    }
}

async fn copy_that_cannot_move_the_end_leaves_the_hold(binary: ServerBinary) {
    let (backend, _, other) = server_with_all(&binary).await;
    let server = backend.server();
    let proxy = Proxy::start(server.address());
    let url = format!("redis://app:secret@{}", proxy.address());
    let client = Client::connect(&url).await.unwrap();
    let digest = server.command(&["SCRIPT", "LOAD", REDISSON.acquire.text]);
    let lost = proxy.drop_reply(Pick::containing(digest.text()), Then::Cut);
    let guard = Redisson::new(&client, "x").try_lock().await.unwrap();
    let first = lost.answered().await;
    backend.pass(10 * MS).await;
    set_right(&backend, "-pexpire");
    let copy = first.copy().deliver().await.unwrap();
    let copy = String::from_utf8_lossy(&copy).to_lowercase();
    assert!(copy.starts_with('-'), "{copy}");
    set_right(&backend, "+pexpire");
    let taken = Redisson::new(&other, "x").try_lock().await.unwrap();
    assert!(taken.is_none(), "the hold is there");
    assert_eq!(guard.unwrap().release().await.unwrap(), Released::Free);
}
