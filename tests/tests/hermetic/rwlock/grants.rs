//! Grants of the write lock by a release: the waiter holds by a message, without a request of its
//! own.

use std::{future::IntoFuture, pin::pin, time::Duration};

use futures_util::poll;
use redlatch::{Client, HoldState, LossCause, Released, WriteGuard, runtime::Command};
use redlatch_embedded::LostReply;
use redlatch_tests::backend::{Backend, assert_tables_empty};
use tokio::{task::JoinHandle, time::Instant};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "redlatch:{x}";

async fn clients(n: usize) -> (Backend, Vec<Client>) {
    let backend = Backend::embedded();
    backend.preload();
    let mut clients = Vec::new();
    for _ in 0..n {
        clients.push(backend.client().await);
    }
    (backend, clients)
}

/// Starts a task that waits to write, and returns when it is in the queue.
async fn queued(backend: &Backend, client: &Client) -> JoinHandle<WriteGuard> {
    let before = backend.members(&format!("{KEY}:q"));
    let write = client.read_write_lock("x").write();
    let task = tokio::spawn(async move { write.await.unwrap() });
    while backend.members(&format!("{KEY}:q")) == before {
        backend.pass(MS).await;
    }
    task
}

/// Returns the words of the first waiter's entry.
fn first_entry(backend: &Backend) -> Vec<String> {
    let range = Command::new("ZRANGE").arg(format!("{KEY}:q"));
    let reply = backend.embedded_server().execute(&range.arg("0").arg("0"));
    let reply = reply.unwrap();
    let member = reply.as_array().unwrap()[0].as_str().unwrap().to_owned();
    member.split(' ').map(str::to_owned).collect()
}

/// Returns the message about the present hold to the waiter with this entry.
fn message(backend: &Backend, entry: &[String]) -> String {
    let hold = backend.hash(KEY);
    let nonce = entry[4].rsplit('.').next().unwrap();
    format!("{KEY} {} g{nonce}.{}.{}.0", entry[2], hold["t"], hold["u"])
}

#[tokio::test(start_paused = true)]
async fn end_of_a_write_or_of_the_last_read_gives_the_lock_to_the_next_writer() {
    let (backend, clients) = clients(2).await;
    let lock = clients[0].read_write_lock("x");
    for reads in [0, 1, 2] {
        let mut readers = Vec::new();
        for _ in 0..reads {
            let reader = lock.read().owner(&clients[0].owner());
            readers.push(reader.await.unwrap());
        }
        let writer = if reads == 0 {
            Some(lock.write().await.unwrap())
        } else {
            None
        };
        let waiter = queued(&backend, &clients[1]).await;
        let before = backend.script_calls();
        if let Some(writer) = writer {
            assert_eq!(writer.release().await.unwrap(), Released::Free);
        }
        for reader in readers {
            assert!(!waiter.is_finished());
            reader.release().await.unwrap();
        }
        let next = waiter.await.unwrap();
        let releases = u64::max(reads, 1);
        assert_eq!(backend.script_calls() - before, releases, "only the ends");
        assert!(next.remaining() <= 5 * SECOND && next.remaining() > 4 * SECOND);
        assert!(!next.is_after_abandonment());
        // A release before the confirmation is the only other request.
        assert_eq!(next.release().await.unwrap(), Released::Free);
        backend.pass(2 * SECOND).await;
        assert_eq!(backend.script_calls() - before, releases + 1);
        assert_eq!(backend.members(&format!("{KEY}:q")), 0);
    }
    assert_tables_empty(&clients[1]).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_readers_go_before_the_next_writer() {
    let (backend, clients) = clients(3).await;
    let lock = clients[0].read_write_lock("x");
    let first = lock.write().await.unwrap();
    let writer = queued(&backend, &clients[1]).await;
    let read = clients[2].read_write_lock("x").read();
    let reader = tokio::spawn(async move { read.await.unwrap() });
    while backend.members(&format!("{KEY}:r")) == 0 {
        backend.pass(MS).await;
    }
    first.release().await.unwrap();
    let reader = reader.await.unwrap();
    backend.pass(100 * MS).await;
    assert!(!writer.is_finished());
    let before = backend.script_calls();
    reader.release().await.unwrap();
    let writer = writer.await.unwrap();
    assert_eq!(backend.script_calls() - before, 1);
    writer.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn first_renewal_makes_a_granted_write_whole() {
    let (backend, clients) = clients(2).await;
    let guard = clients[0].read_write_lock("x").write().await.unwrap();
    let waiter = queued(&backend, &clients[1]).await;
    guard.release().await.unwrap();
    let next = waiter.await.unwrap();
    assert!(backend.hash(KEY).contains_key("p"));
    backend.pass(510 * MS).await;
    assert!(!backend.hash(KEY).contains_key("p"));
    assert!(next.remaining() > 28 * SECOND);
    backend.pass(60 * SECOND).await;
    assert_eq!(next.state(), HoldState::Held);
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn granted_write_is_downgraded_before_it_is_confirmed() {
    let (backend, clients) = clients(2).await;
    let guard = clients[0].read_write_lock("x").write().await.unwrap();
    let waiter = queued(&backend, &clients[1]).await;
    guard.release().await.unwrap();
    let token = backend.hash(KEY)["t"].clone();
    let read = waiter.await.unwrap().downgrade().await.unwrap();
    assert_eq!(read.token().as_u64().to_string(), token);
    assert!(!backend.hash(KEY).contains_key("p"));
    assert!(read.remaining() > 28 * SECOND);
    read.release().await.unwrap();
}

/// Nobody becomes a holder by a message to the waiter's channel.
#[tokio::test(start_paused = true)]
async fn message_without_the_nonce_makes_no_writer() {
    let (backend, clients) = clients(2).await;
    let guard = clients[0].read_write_lock("x").write().await.unwrap();
    let waiter = queued(&backend, &clients[1]).await;
    let entry = first_entry(&backend);
    let (channel, n) = (&entry[1], &entry[2]);
    let ends = backend.embedded_server().now().millis() + 5_000;
    let token = guard.token().as_u64() + 1;
    for forged in [
        format!("{KEY} {n}"),
        format!("{KEY} {n} g{:016x}.{token}.{ends}.0", 7),
        format!("{KEY} {n} g.{token}.{ends}.0"),
    ] {
        backend.command(&["PUBLISH", channel, &forged]);
        backend.pass(20 * MS).await;
        assert!(!waiter.is_finished(), "{forged}");
    }
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
}

/// The message about a grant that has lapsed comes when another writes.
#[tokio::test(start_paused = true)]
async fn message_about_a_lapsed_grant_makes_no_writer() {
    let (backend, clients) = clients(3).await;
    let guard = clients[0].read_write_lock("x").write().await.unwrap();
    let slow_lock = clients[1].read_write_lock("x");
    let mut slow = pin!(slow_lock.write().into_future());
    while backend.members(&format!("{KEY}:q")) == 0 {
        assert!(poll!(&mut slow).is_pending());
        backend.pass(MS).await;
    }
    let entry = first_entry(&backend);
    let next = queued(&backend, &clients[2]).await;
    backend.embedded_server().drop_messages(1);
    let start = Instant::now();
    guard.release().await.unwrap();
    let late = message(&backend, &entry);
    // Nobody polls the first waiter, so its grant lapses. That costs the others 5 s.
    let next = next.await.unwrap();
    assert!(start.elapsed() >= 5 * SECOND && start.elapsed() < 5_100 * MS);
    assert!(
        next.is_after_abandonment(),
        "nobody knows what the first one did"
    );
    backend.command(&["PUBLISH", &entry[1], &late]);
    for _ in 0..20 {
        assert!(poll!(&mut slow).is_pending());
        backend.pass(5 * MS).await;
    }
    assert_eq!(next.state(), HoldState::Held);
    next.release().await.unwrap();
    slow.await.unwrap().release().await.unwrap();
}

/// A grant whose message was lost, and whose waiter then gave up, goes to the next at once. If the
/// holder before had not finished, the next one is told so.
#[tokio::test(start_paused = true)]
async fn writer_that_leaves_before_it_hears_passes_the_grant_on() {
    for forced in [false, true] {
        let (backend, clients) = clients(3).await;
        let lock = clients[0].read_write_lock("x");
        let guard = lock.write().await.unwrap();
        let leaves = queued(&backend, &clients[1]).await;
        let next = queued(&backend, &clients[2]).await;
        backend.embedded_server().drop_messages(1);
        if forced {
            assert_eq!(lock.force_release().await.unwrap(), 1);
        }
        let released = guard.release().await.unwrap();
        assert_eq!(released == Released::Revoked, forced, "{released:?}");
        let start = Instant::now();
        leaves.abort();
        let next = next.await.unwrap();
        assert!(start.elapsed() < 50 * MS, "{:?}", start.elapsed());
        assert_eq!(next.is_after_abandonment(), forced);
        next.release().await.unwrap();
        assert_tables_empty(&clients[1]).await;
    }
}

/// Nobody follows: a reader comes after the undo, and is told how the last writer ended.
#[tokio::test(start_paused = true)]
async fn reader_after_an_undone_grant_is_told_of_the_abandonment() {
    let (backend, clients) = clients(2).await;
    let lock = clients[0].read_write_lock("x");
    let guard = lock.write().await.unwrap();
    let leaves = queued(&backend, &clients[1]).await;
    backend.embedded_server().drop_messages(1);
    assert_eq!(lock.force_release().await.unwrap(), 1);
    leaves.abort();
    clients[1].settled().await;
    let start = Instant::now();
    let read = lock.read().owner(&clients[0].owner()).await.unwrap();
    assert!(start.elapsed() < 50 * MS);
    assert!(read.is_after_abandonment());
    assert_eq!(guard.release().await.unwrap(), Released::Revoked);
    read.release().await.unwrap();
}

/// The waiter asks again as it would for any lost message, and learns that it holds.
#[tokio::test(start_paused = true)]
async fn lost_message_costs_a_re_check_and_no_turn() {
    let (backend, clients) = clients(2).await;
    let guard = clients[0].read_write_lock("x").write().await.unwrap();
    let first = queued(&backend, &clients[1]).await;
    let second = queued(&backend, &clients[1]).await;
    backend.embedded_server().drop_messages(1);
    guard.release().await.unwrap();
    let start = Instant::now();
    let guard = first.await.unwrap();
    assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
    assert!(guard.remaining() > 25 * SECOND, "it has asked");
    assert!(!second.is_finished());
    guard.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}

/// The server stops right after it has granted. The holder knows of the loss before the grant
/// lapses.
#[tokio::test(start_paused = true)]
async fn silent_server_ends_a_granted_write_before_it_lapses() {
    let (backend, clients) = clients(2).await;
    let server = backend.embedded_server();
    let guard = clients[0].read_write_lock("x").write().await.unwrap();
    let waiter = queued(&backend, &clients[1]).await;
    guard.release().await.unwrap();
    let next = waiter.await.unwrap();
    let ends: u64 = backend.hash(KEY)["u"].parse().unwrap();
    server.drop_replies(100, LostReply::Hangs);
    server.stop();
    assert_eq!(next.lost().await, LossCause::Unreachable);
    let now = server.now().millis();
    assert!(now < ends && now + 400 > ends, "{now} {ends}");
    server.clear_trouble();
    server.resume();
}

/// A client that hears of a grant for an attempt that it does not have gives it back.
#[tokio::test(start_paused = true)]
async fn grant_for_an_attempt_that_nobody_has_is_withdrawn() {
    let (backend, clients) = clients(3).await;
    let guard = clients[0].read_write_lock("x").write().await.unwrap();
    let waiter = queued(&backend, &clients[1]).await;
    let entry = first_entry(&backend);
    // An entry of the same client, as a server that came back with old data may have.
    let stray = format!("{} {} 9999 9 {}", entry[0], entry[1], entry[4]);
    backend.command(&["ZADD", &format!("{KEY}:q"), "1", &stray]);
    let start = Instant::now();
    guard.release().await.unwrap();
    let next = waiter.await.unwrap();
    assert!(start.elapsed() < 200 * MS, "{:?}", start.elapsed());
    next.release().await.unwrap();
    assert_eq!(backend.members(&format!("{KEY}:q")), 0);
}

/// Waiters that need the whole lease, or that nobody can tell, are called and ask.
#[tokio::test(start_paused = true)]
async fn writer_without_an_order_is_called() {
    let (backend, clients) = clients(2).await;
    let lock = clients[1].read_write_lock("x");
    for variant in 0..2 {
        let guard = clients[0].read_write_lock("x").write().await.unwrap();
        let write =
            match variant {
                0 => lock.write().lease(900 * MS),
                _ => lock.write().strategy(redlatch::WaitStrategy::Poll(
                    redlatch::Backoff::constant(100 * MS),
                )),
            };
        let waiting = tokio::spawn(write.into_future());
        while backend.members(&format!("{KEY}:q")) == 0 {
            backend.pass(MS).await;
        }
        assert_eq!(first_entry(&backend).len(), 3, "{variant}");
        guard.release().await.unwrap();
        assert!(backend.hash(KEY).contains_key("y"), "{variant}");
        let next = waiting.await.unwrap().unwrap();
        next.release().await.unwrap();
    }
}

/// An owner that waits to write, and holds the upgradable read by then, is not in the queue. A
/// release gives the lock to the writer behind it only when the upgrade is over.
#[tokio::test(start_paused = true)]
async fn upgrade_goes_before_a_writer_in_the_queue() {
    let (backend, clients) = clients(3).await;
    let upgradable = clients[0].read_write_lock("x").upgradable_read();
    let upgradable = upgradable.await.unwrap();
    let reader = clients[2].read_write_lock("x").read().await.unwrap();
    let writer = queued(&backend, &clients[1]).await;
    let mut upgrade = pin!(upgradable.upgrade().into_future());
    for _ in 0..5 {
        assert!(poll!(&mut upgrade).is_pending());
        backend.pass(MS).await;
    }
    reader.release().await.unwrap();
    let write = upgrade.await.unwrap();
    assert!(!writer.is_finished());
    write.release().await.unwrap();
    backend.pass(50 * MS).await;
    assert!(!writer.is_finished(), "the upgradable read goes on");
    upgradable.release().await.unwrap();
    writer.await.unwrap().release().await.unwrap();
}
