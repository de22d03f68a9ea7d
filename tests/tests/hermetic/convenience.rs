//! What saves a service lines: a client that connects later, its health, and a lock around a piece
//! of work.

use std::{future::pending, mem, pin::pin};

use futures_util::poll;
use redlatch::{Connection, Lasting, Token};
use redlatch_behaviours::holds::{self, Lease};
use tokio::task::yield_now;

use crate::prelude::*;

fn lazy(backend: &Backend) -> Client {
    let builder = backend.builder().patience(SECOND);
    builder.connect_lazy().unwrap()
}

/// The look at an object asks for its kind, and then whether the key exists.
#[tokio::test(start_paused = true)]
async fn object_that_comes_between_two_commands_of_a_look_is_found() {
    let (backend, [client, other]) = embedded().await;
    let server = backend.embedded_server();
    let lock = other.lock("x");
    let mut look = pin!(client.object("x"));
    assert!(poll!(&mut look).is_pending());
    while server.command_count("HMGET") == 0 {
        yield_now().await;
    }
    let guard = lock.lock().await.unwrap();
    assert_eq!(server.command_count("PTTL"), 0, "the look has only begun");
    let object = look.await.unwrap().unwrap();
    assert_eq!(object.holders[0].token, Some(guard.token()));
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lazy_client_does_no_io_before_its_first_call() {
    let backend = Backend::embedded();
    let server = backend.embedded_server();
    let client = lazy(&backend);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(client.health().connection, Connection::Idle);
    assert_eq!(client.health().last_answer, None);
    assert_eq!(server.connection_count(), 0);
    assert!(server.command_counts().is_empty(), "nothing was sent");
    let guard = client.lock("x").lock().await.unwrap();
    assert!(client.health().is_connected());
    assert!(client.health().last_answer.is_some());
    // Others are told who holds it, also those that connect with their first call.
    let other = lazy(&backend);
    let holders = other.lock("x").holders().await.unwrap();
    assert!(holders[0].metadata.is_some());
    let waiter = tokio::spawn(other.lock("x").lock().into_future());
    sleep(500 * MS).await;
    let before = client.now();
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert!(client.now() - before < 100 * MS, "woken, not by a re-check");
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn lazy_client_reports_the_missing_server_with_each_call() {
    let backend = Backend::embedded();
    backend.embedded_server().refuse_connections(true);
    let client = lazy(&backend);
    for _ in 0..2 {
        let error = client.lock("x").lock().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().starts_with("lock \"x\": "), "{error}");
    }
    let Connection::Reconnecting { since } = client.health().connection else {
        panic!("{:?}", client.health())
    };
    assert!(client.now() - since >= 2 * SECOND, "since the first call");
    // The server comes up.
    backend.embedded_server().refuse_connections(false);
    let held = timeout(10 * SECOND, async {
        loop {
            if let Ok(guard) = client.lock("x").lock().await {
                return guard;
            }
        }
    });
    held.await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn lazy_client_refuses_wrong_options_at_once() {
    let wrong = Client::builder("redis://h:99999").connect_lazy();
    assert_fails(wrong, ErrorKind::InvalidOption);
    let error = Client::builder("redis://h?lease=10").connect_lazy();
    assert!(error.unwrap_err().to_string().contains("no span of time"));
}

#[tokio::test(start_paused = true)]
async fn health_tells_since_when_there_is_no_connection() {
    let (backend, [client]) = embedded().await;
    let server = backend.embedded_server();
    assert!(client.health().is_connected());
    let answered = client.health().last_answer.unwrap();
    sleep(SECOND).await;
    server.refuse_connections(true);
    server.cut_connections();
    let cut = client.now();
    sleep(SECOND).await;
    let health = client.health();
    let Connection::Reconnecting { since } = health.connection else {
        panic!("{health:?}")
    };
    assert!(since >= cut && since - cut < SECOND, "{:?}", since - cut);
    assert!(health.last_answer.unwrap() >= answered, "it is kept");
    server.refuse_connections(false);
    sleep(10 * SECOND).await;
    assert!(client.health().is_connected());
}

#[tokio::test(start_paused = true)]
async fn ping_measures_a_round_trip_or_fails() {
    let backend = Backend::embedded();
    let client = backend.builder().patience(SECOND).connect().await.unwrap();
    assert!(client.ping().await.unwrap() < SECOND);
    backend.embedded_server().stop();
    let error = client.ping().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    backend.embedded_server().resume();
    client.close_now().await;
    assert_fails(client.ping().await, ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn work_with_a_lock_excludes_and_releases() {
    let (_backend, [client]) = embedded().await;
    let name = format!("orders:{}", 42);
    // The future may be spawned, and borrows what is around it.
    let inside = tokio::spawn({
        let (client, name) = (client.clone(), name.clone());
        async move {
            let other = client.lock(&name);
            let work = client.with_lock(&name, async |guard| {
                assert!(other.try_lock().await.unwrap().is_none());
                guard.token()
            });
            work.await
        }
    });
    let first = inside.await.unwrap().unwrap();
    let second = client.with_lock(name, async |guard| guard.token()).await;
    assert!(second.unwrap() > first);
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn work_with_a_lock_that_is_lost_is_dropped() {
    let (backend, [client]) = embedded().await;
    let lock = client.lock("x");
    let work = client.with_lock("x", async |_| {
        assert!(lock.force_release().await.unwrap());
        pending::<()>().await;
    });
    let error = work.await.unwrap_err();
    assert_eq!(error.loss(), Some(LossCause::Revoked), "{error}");
    // The server ended the hold before the work was done, and nobody had told.
    let other = backend.client().await;
    let work = client.with_lock("x", async |_| {
        assert!(other.lock("x").force_release().await.unwrap());
    });
    let error = work.await.unwrap_err();
    assert_eq!(error.loss(), Some(LossCause::Revoked), "{error}");
    assert!(error.to_string().starts_with("lock \"x\": "), "{error}");
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn client_of_a_guard_becomes_a_client_with_all_constructors() {
    let backend = Backend::embedded();
    let guard = backend.client().await.lock("x").lock().await.unwrap();
    let client = Client::from(guard.client().clone());
    assert!(client.lock("x").try_lock().await.unwrap().is_none());
    let fair = client.fair_lock(String::from("y")).try_lock();
    assert!(fair.await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn any_lock_can_be_acquired_as_one_type() {
    let (_backend, [client]) = embedded().await;
    for (what, make) in LOCKS {
        let lock = make(&client, what);
        let guard = lock.lock().renewed_lease(SECOND).await.unwrap();
        assert!(guard.remaining() <= SECOND, "{what}");
        let (tried, waited) = (lock.try_lock().await, lock.try_lock_for(SECOND).await);
        for other in [tried, waited] {
            assert_eq!(other.unwrap().is_some(), what == "read", "{what}");
        }
        guard.release().await.unwrap();
        client.settled().await;
        drop(lock.try_lock().await.unwrap().expect("free"));
    }
    let invalid: &dyn Lockable = &client.lock("");
    assert_fails(invalid.lock().await, ErrorKind::InvalidName);
    let tried = invalid.try_lock_for(Duration::ZERO).await;
    assert_fails(tried, ErrorKind::InvalidName);
}

#[test]
fn tokens_are_numbers_of_databases() {
    let token = Token::from_u64(42);
    assert_eq!((i64::from(token), u64::from(token)), (42, 42));
    assert_eq!(i64::from(Token::from_u64(u64::MAX)), i64::MAX);
}

/// Takes a hold of each kind, and one of two names.
async fn all(client: &Client, lease: Duration) -> Vec<(&'static str, Box<dyn AnyGuard>)> {
    let mut held = holds::all(client, Lease::Fixed(lease)).await;
    let (a, b) = (client.lock("{m}a"), client.lock("{m}b"));
    let multi = client.multi_lock(&[&a, &b]).lock().lease(lease);
    held.push(("multi", multi.await.unwrap().into()));
    held
}

#[tokio::test(start_paused = true)]
async fn guards_of_all_kinds_are_kept_in_one_list() {
    let (_backend, [client]) = embedded().await;
    let held = all(&client, 60 * SECOND).await;
    let unfenced = ["semaphore", "set-nx", "redisson", "multi"];
    for (kind, guard) in &held {
        assert_eq!(guard.token().is_none(), unfenced.contains(kind), "{kind}");
        guard.check().unwrap();
        assert_eq!(guard.state(), HoldState::Held, "{guard:?}");
        assert!(!guard.is_after_abandonment(), "{guard:?}");
        assert_eq!(guard.run(async { 7 }).await.unwrap(), 7);
        guard.extend(Duration::from_secs(3600)).await.unwrap();
        assert!(guard.remaining() > Duration::from_secs(3000), "{guard:?}");
    }
    let lost: Vec<_> = held.iter().map(|(_, guard)| guard.lost()).collect();
    let mut held = held.into_iter();
    for (kind, guard) in held.by_ref().take(2) {
        assert!(guard.release().await.unwrap().is_clean(), "{kind}");
    }
    drop(held);
    client.settled().await;
    within(SECOND, "all are free", all(&client, SECOND)).await;
    drop(lost);
}

#[tokio::test(start_paused = true)]
async fn guards_of_all_kinds_end_work_at_their_loss() {
    let (backend, [dead, client]) = embedded().await;
    mem::forget(dead.lock("{m}b").lock().lease(50 * MS).await.unwrap());
    backend.pass(60 * MS).await;
    let held = all(&client, SECOND).await;
    let start = Instant::now();
    for (kind, guard) in &held {
        assert_eq!(guard.is_after_abandonment(), *kind == "multi", "{kind}");
    }
    for (_, guard) in &held {
        let error = guard.run(pending::<()>()).await.unwrap_err();
        assert_eq!(error.loss(), Some(LossCause::Expired), "{error}");
        assert_eq!(error.to_string(), guard.check().unwrap_err().to_string());
        assert_eq!(guard.state(), HoldState::Lost(LossCause::Expired));
        assert!(is_over(guard), "a box lasts as long as its guard");
    }
    assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
}

fn is_over(guard: &impl Lasting) -> bool {
    guard.remaining().is_zero()
}

/// A read guard has the token of the last write before its own grant, also in a list of all kinds.
#[tokio::test(start_paused = true)]
async fn downgraded_guard_keeps_its_token_in_a_list_of_all_kinds() {
    let client = Backend::embedded().client().await;
    let lock = client.read_write_lock("rw");
    let upgradable = lock.upgradable_read().await.unwrap();
    let write = upgradable.upgrade().await.unwrap();
    let read = write.downgrade().await.unwrap();
    assert!(read.token() > upgradable.token());
    let token = read.token();
    let any: Box<dyn AnyGuard> = read.into();
    assert_eq!(any.token(), Some(token));
}
