//! Grants that a release makes ahead: the waiter holds by a message, without a request of its own.

use std::{future::IntoFuture, pin::pin, task::Poll, time::Duration};

use futures_util::poll;
use redlatch::{FairLockGuard, HoldState, LossCause, Released, runtime::Command};
use redlatch_behaviours::fair::support::{clients, queued};
use redlatch_embedded::{LostReply, calls};
use redlatch_lua::FAIR;
use redlatch_tests::backend::{Backend, assert_tables_empty};
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "redlatch:{x}";

/// Returns the words of the first waiter's entry.
fn first_entry(backend: &Backend) -> Vec<String> {
    let range = Command::new("ZRANGE").arg(format!("{KEY}:q"));
    let reply = backend.embedded_server().execute(&range.arg("0").arg("0"));
    let reply = reply.unwrap();
    let member = reply.as_array().unwrap()[0].as_str().unwrap().to_owned();
    member.split(' ').map(str::to_owned).collect()
}

fn publish(backend: &Backend, channel: &str, message: &str) {
    backend.command(&["PUBLISH", channel, message]);
}

/// Returns the message about the present hold to the waiter with this entry.
fn message(backend: &Backend, entry: &[String]) -> String {
    let hold = backend.hash(KEY);
    let nonce = entry[4].rsplit('.').next().unwrap();
    format!("{KEY} {} g{nonce}.{}.{}.0", entry[2], hold["t"], hold["u"])
}

/// Returns the milliseconds that the present hold lasts on the server.
fn lasts(backend: &Backend) -> u64 {
    let ends: u64 = backend.hash(KEY)["u"].parse().unwrap();
    ends - backend.embedded_server().now().millis()
}

#[tokio::test(start_paused = true)]
async fn hand_over_costs_no_request_of_the_next_holder() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 2).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let waiter = queued(&clients[1].fair_lock("x")).await;
    let before = backend.script_calls();
    let token = guard.token();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    let next = waiter.await.unwrap();
    assert_eq!(backend.script_calls() - before, 1, "only the release");
    assert!(next.token() > token && !next.is_after_abandonment());
    assert!(next.remaining() <= 5 * SECOND && next.remaining() > 4 * SECOND);
    // A release before the confirmation is the only other request.
    assert_eq!(next.release().await.unwrap(), Released::Free);
    backend.pass(2 * SECOND).await;
    assert_eq!(backend.script_calls() - before, 2);
    assert_tables_empty(&clients[1]).await;
}

#[tokio::test(start_paused = true)]
async fn first_renewal_makes_a_granted_hold_whole() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 2).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let waiter = queued(&clients[1].fair_lock("x")).await;
    guard.release().await.unwrap();
    let next = waiter.await.unwrap();
    assert!(lasts(&backend) <= 5_000);
    assert!(backend.hash(KEY).contains_key("p"));
    // A time that is longer than the first lease does not end the work before the first renewal.
    let ending = tokio::spawn(next.ending(10 * SECOND));
    backend.pass(510 * MS).await;
    assert!(!ending.is_finished());
    assert!(lasts(&backend) > 29_000);
    assert!(!backend.hash(KEY).contains_key("p"));
    assert!(next.remaining() > 28 * SECOND);
    assert_eq!(next.state(), HoldState::Held);
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn granted_hold_with_a_fixed_lease_is_renewed_once() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 2).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let lock = clients[1].fair_lock("x");
    let waiting = tokio::spawn(lock.lock().lease(10 * SECOND).into_future());
    backend.pass(50 * MS).await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    let before = backend.script_calls();
    backend.pass(SECOND).await;
    assert_eq!(backend.script_calls() - before, 1);
    assert!((9_000..=10_600).contains(&lasts(&backend)));
    backend.pass(7 * SECOND).await;
    assert_eq!(
        backend.script_calls() - before,
        1,
        "a fixed lease is not renewed"
    );
    assert_eq!(next.state(), HoldState::Held);
    backend.pass(3 * SECOND).await;
    assert_eq!(next.state(), HoldState::Lost(LossCause::Expired));
}

/// Nobody becomes a holder by a message to the waiter's channel.
#[tokio::test(start_paused = true)]
async fn message_without_the_nonce_makes_no_holder() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 2).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let waiter = queued(&clients[1].fair_lock("x")).await;
    let entry = first_entry(&backend);
    let (channel, n) = (&entry[1], &entry[2]);
    let now = backend.embedded_server().now().millis();
    let token = guard.token().as_u64() + 1;
    for forged in [
        format!("{KEY} {n}"),
        format!("{KEY} {n} g{:016x}.{token}.{}.0", 7, now + 5_000),
        format!("{KEY} {n} g.{token}.{}.0", now + 5_000),
        format!("{KEY} {n} g{:016x}.{token}", 7),
    ] {
        publish(&backend, channel, &forged);
        backend.pass(20 * MS).await;
        assert!(!waiter.is_finished(), "{forged}");
    }
    assert!(
        clients[0]
            .fair_lock("x")
            .is_held_by(guard.owner())
            .await
            .unwrap()
    );
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
}

/// The message about a grant that has lapsed comes when another has the name.
#[tokio::test(start_paused = true)]
async fn message_about_a_lapsed_grant_makes_no_holder() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let mut slow = pin!(clients[1].fair_lock("x").lock().into_future());
    while backend.members(&format!("{KEY}:q")) == 0 {
        assert!(poll!(&mut slow).is_pending());
        backend.pass(MS).await;
    }
    let entry = first_entry(&backend);
    let next = queued(&clients[2].fair_lock("x")).await;
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
    publish(&backend, &entry[1], &late);
    for _ in 0..20 {
        assert!(poll!(&mut slow).is_pending());
        backend.pass(5 * MS).await;
    }
    assert_eq!(next.state(), HoldState::Held);
    next.release().await.unwrap();
    let guard = slow.await.unwrap();
    guard.release().await.unwrap();
}

/// A second copy of the message finds no waiter. It ends nothing.
#[tokio::test(start_paused = true)]
async fn copy_of_the_message_leaves_the_hold() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let waiter = queued(&clients[1].fair_lock("x")).await;
    let entry = first_entry(&backend);
    let _behind = queued(&clients[2].fair_lock("x")).await;
    guard.release().await.unwrap();
    let copy = message(&backend, &entry);
    let next = waiter.await.unwrap();
    publish(&backend, &entry[1], &copy);
    backend.pass(100 * MS).await;
    assert!(backend.hash(KEY).contains_key("p"), "not confirmed yet");
    assert_eq!(backend.hash(KEY)["t"], next.token().as_u64().to_string());
    assert_eq!(next.release().await.unwrap(), Released::Free);
}

/// A grant whose message was lost, and whose waiter then gave up, goes to the next at once.
#[tokio::test(start_paused = true)]
async fn waiter_that_leaves_before_it_hears_passes_the_grant_on() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let owner = clients[1].owner();
    let lock = clients[1].fair_lock("x");
    let leaves = tokio::spawn(lock.lock().owner(&owner).into_future());
    while lock.position(&owner).await.unwrap().is_none() {
        backend.pass(MS).await;
    }
    let next = queued(&clients[2].fair_lock("x")).await;
    backend.embedded_server().drop_messages(1);
    guard.release().await.unwrap();
    let start = Instant::now();
    leaves.abort();
    let next = next.await.unwrap();
    assert!(start.elapsed() < 50 * MS, "{:?}", start.elapsed());
    assert!(!next.is_after_abandonment());
    next.release().await.unwrap();
    assert_tables_empty(&clients[1]).await;
}

/// The holder before the grant had not finished. Whoever gets in then learns that, although one
/// waiter came in between and left.
#[tokio::test(start_paused = true)]
async fn grant_that_nobody_heard_of_passes_the_abandonment_on() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let owner = clients[1].owner();
    let lock = clients[1].fair_lock("x");
    let leaves = tokio::spawn(lock.lock().owner(&owner).into_future());
    while lock.position(&owner).await.unwrap().is_none() {
        backend.pass(MS).await;
    }
    let next = queued(&clients[2].fair_lock("x")).await;
    backend.embedded_server().drop_messages(1);
    assert!(clients[2].fair_lock("x").force_release().await.unwrap());
    assert!(backend.hash(KEY)["p"].contains(" 1 "));
    leaves.abort();
    let next = next.await.unwrap();
    assert!(next.is_after_abandonment());
    assert_eq!(guard.release().await.unwrap(), Released::Revoked);
    next.release().await.unwrap();
}

/// The server stops right after it has granted. The holder knows of the loss before the grant
/// lapses.
#[tokio::test(start_paused = true)]
async fn silent_server_ends_a_granted_hold_before_it_lapses() {
    for stops in [true, false] {
        let backend = Backend::embedded();
        backend.preload();
        let clients = clients(&backend, 2).await;
        let server = backend.embedded_server();
        let guard = clients[0].fair_lock("x").lock().await.unwrap();
        let waiter = queued(&clients[1].fair_lock("x")).await;
        guard.release().await.unwrap();
        let next = waiter.await.unwrap();
        let ends: u64 = backend.hash(KEY)["u"].parse().unwrap();
        if stops {
            server.stop();
        } else {
            server.drop_replies(100, LostReply::Hangs);
        }
        let cause = next.lost().await;
        assert_eq!(cause, LossCause::Unreachable);
        if stops {
            let now = server.now().millis();
            assert!(now < ends && now + 400 > ends, "{now} {ends}");
        }
        assert!(matches!(next.state(), HoldState::Lost(_)));
        server.clear_trouble();
        server.resume();
    }
}

/// The reply that dates the server's clock lay in the socket for 3 s. It gives no second more.
#[tokio::test(start_paused = true)]
async fn delayed_reply_does_not_prolong_a_granted_hold() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 2).await;
    let server = backend.embedded_server();
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let lock = clients[1].fair_lock("x");
    let waiting = tokio::spawn(lock.lock().lease(20 * SECOND).into_future());
    while backend.members(&format!("{KEY}:q")) == 0 {
        backend.pass(MS).await;
    }
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    let left = next.remaining();
    assert!(left <= Duration::from_millis(lasts(&backend)));
    server.stop_for(20 * SECOND);
    let ends: u64 = backend.hash(KEY)["u"].parse().unwrap();
    next.lost().await;
    assert!(server.now().millis() < ends);
}

/// Waiters that need the whole lease, or that nobody can tell, are called and ask.
#[tokio::test(start_paused = true)]
async fn waiter_without_an_order_is_called() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 2).await;
    let lock = clients[1].fair_lock("x");
    for variant in 0..3 {
        let guard = clients[0].fair_lock("x").lock().await.unwrap();
        let acquire = lock.lock();
        let acquire = match variant {
            0 => acquire.whole_lease(),
            1 => acquire.lease(900 * MS),
            _ => acquire.strategy(redlatch::WaitStrategy::Poll(redlatch::Backoff::constant(
                100 * MS,
            ))),
        };
        let waiting = tokio::spawn(acquire.into_future());
        while backend.members(&format!("{KEY}:q")) == 0 {
            backend.pass(MS).await;
        }
        assert_eq!(first_entry(&backend).len(), 4, "{variant}");
        guard.release().await.unwrap();
        assert!(backend.hash(KEY).contains_key("y"), "{variant}");
        let next: FairLockGuard = waiting.await.unwrap().unwrap();
        if variant == 0 {
            assert!(lasts(&backend) > 29_000);
        }
        next.release().await.unwrap();
    }
}

/// The registration's reply is lost, and its copy comes when the hold that a release granted is
/// over.
#[tokio::test(start_paused = true)]
async fn lost_reply_to_the_registration_leaves_one_hold_and_no_entry() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 3).await;
    let server = backend.embedded_server();
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let acquire = FAIR.exclusive.acquire.text;
    server.drop_reply(calls::of_script(acquire), LostReply::Cuts);
    let waiter = queued(&clients[1].fair_lock("x")).await;
    guard.release().await.unwrap();
    let next = waiter.await.unwrap();
    assert_eq!(next.release().await.unwrap(), Released::Free);
    clients[1].settled().await;
    assert_eq!(backend.members(&format!("{KEY}:q")), 0);
    assert!(
        clients[2]
            .fair_lock("x")
            .try_lock()
            .await
            .unwrap()
            .is_some()
    );
}

/// The future is polled again after the grant has lapsed. It waits for its turn once more.
#[tokio::test(start_paused = true)]
async fn waiter_that_is_polled_too_late_asks() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend, 2).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let lock = clients[1].fair_lock("x");
    let mut waiting = pin!(lock.lock().into_future());
    while backend.members(&format!("{KEY}:q")) == 0 {
        assert!(poll!(&mut waiting).is_pending());
        backend.pass(MS).await;
    }
    guard.release().await.unwrap();
    backend.pass(6 * SECOND).await;
    let next = match poll!(&mut waiting) {
        Poll::Ready(_) => panic!("the grant has lapsed"),
        Poll::Pending => waiting.await.unwrap(),
    };
    assert!(lasts(&backend) > 29_000, "it has asked for its whole lease");
    assert!(next.is_after_abandonment());
    next.release().await.unwrap();
}
