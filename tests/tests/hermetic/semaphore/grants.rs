//! Permits that a release gives to waiters: they hold by a message, without a request of their own.

use std::{future::IntoFuture, pin::pin, time::Duration};

use futures_util::poll;
use redlatch::{Client, HoldState, LossCause, Semaphore, SemaphorePermit, runtime::Command};
use redlatch_behaviours::semaphore::{KEY, assert_all_back};
use redlatch_embedded::LostReply;
use redlatch_tests::backend::{Backend, assert_tables_empty};
use tokio::{task::JoinHandle, time::Instant};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A backend with a semaphore of `permits`, and one handle of it for each of `n` clients.
async fn handles(permits: u32, n: usize) -> (Backend, Vec<Client>, Vec<Semaphore>) {
    let backend = Backend::embedded();
    backend.preload();
    let mut clients = Vec::new();
    for _ in 0..n {
        clients.push(backend.client().await);
    }
    let handles: Vec<_> = clients.iter().map(|client| client.semaphore("x")).collect();
    handles[0].set_permits(permits).await.unwrap();
    (backend, clients, handles)
}

/// Starts a task that waits for permits, and returns when it is in the queue.
async fn waiting(
    backend: &Backend,
    semaphore: &Semaphore,
    permits: u32,
) -> JoinHandle<SemaphorePermit> {
    let before = queue(backend).len();
    let acquire = semaphore.acquire_many(permits);
    let task = tokio::spawn(async move { acquire.await.unwrap() });
    while queue(backend).len() == before {
        backend.pass(MS).await;
    }
    task
}

/// Returns the entries of the waiters in order.
fn queue(backend: &Backend) -> Vec<String> {
    let range = Command::new("ZRANGE").arg(format!("{KEY}:q"));
    let reply = backend.embedded_server().execute(&range.arg("0").arg("-1"));
    let reply = reply.unwrap();
    let entries = reply.as_array().unwrap().iter();
    entries
        .map(|entry| entry.as_str().unwrap().to_owned())
        .collect()
}

/// Returns the holds as the server has them, by attempt.
fn holds(backend: &Backend) -> Vec<(String, String)> {
    let fields = backend.hash(KEY).into_iter();
    let holds =
        fields.filter_map(|(field, hold)| Some((field.strip_prefix("h:")?.to_owned(), hold)));
    holds.collect()
}

/// Returns the message about the hold of the waiter with this entry, and its channel.
fn message(backend: &Backend, entry: &str, number: &str) -> (String, String) {
    let words: Vec<_> = entry.split(' ').collect();
    let nonce = words[4].rsplit('.').next().unwrap();
    let own = format!(":{}", words[2]);
    let holds = holds(backend);
    let (_, hold) = holds.iter().find(|(id, _)| id.ends_with(&own)).unwrap();
    let ends = hold.split(' ').next().unwrap();
    let message = format!("{KEY} {} g{nonce}.{number}.{ends}.0", words[2]);
    (words[1].to_owned(), message)
}

#[tokio::test(start_paused = true)]
async fn one_release_serves_all_who_fit_without_a_request_of_theirs() {
    let (backend, clients, handles) = handles(5, 2).await;
    let all = handles[0].acquire_many(5).await.unwrap();
    let mut waiters = Vec::new();
    for need in [1, 3, 2, 1] {
        waiters.push(waiting(&backend, &handles[1], need).await);
    }
    let before = backend.script_calls();
    assert!(all.release().await.unwrap().is_clean());
    let rest = waiters.split_off(2);
    let mut guards = Vec::new();
    for waiter in waiters {
        guards.push(waiter.await.unwrap());
    }
    backend.pass(100 * MS).await;
    assert_eq!(backend.script_calls() - before, 1, "only the release");
    assert!(
        !rest.iter().any(JoinHandle::is_finished),
        "the third needs 2"
    );
    assert_eq!([guards[0].num_permits(), guards[1].num_permits()], [1, 3]);
    for guard in &guards {
        assert!(guard.remaining() <= 5 * SECOND && guard.remaining() > 4 * SECOND);
    }
    let totals = handles[0].totals().await.unwrap();
    assert_eq!((totals.acquired, totals.waiters), (4, 2));
    for guard in guards {
        assert!(guard.release().await.unwrap().is_clean());
    }
    for waiter in rest {
        waiter.await.unwrap().release().await.unwrap();
    }
    assert_tables_empty(&clients[1]).await;
    assert_all_back(&backend, &clients[0], &handles[0]).await;
}

#[tokio::test(start_paused = true)]
async fn first_renewal_makes_granted_permits_whole() {
    let (backend, _clients, handles) = handles(2, 2).await;
    let all = handles[0].acquire_many(2).await.unwrap();
    let waiter = waiting(&backend, &handles[1], 2).await;
    all.release().await.unwrap();
    let guard = waiter.await.unwrap();
    assert!(holds(&backend)[0].1.ends_with(" 2 0 g"));
    backend.pass(510 * MS).await;
    let hold = holds(&backend)[0].1.clone();
    assert!(hold.ends_with(" 2 0"), "{hold}");
    assert!(guard.remaining() > 28 * SECOND);
    backend.pass(60 * SECOND).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert!(guard.release().await.unwrap().is_clean());
}

#[tokio::test(start_paused = true)]
async fn granted_permits_are_split_and_come_back_in_parts() {
    let (backend, clients, handles) = handles(3, 2).await;
    let all = handles[0].acquire_many(3).await.unwrap();
    let waiter = waiting(&backend, &handles[1], 3).await;
    all.release().await.unwrap();
    let mut guard = waiter.await.unwrap();
    let part = guard.split(2).unwrap();
    assert!(part.release().await.unwrap().is_clean());
    assert_eq!(handles[0].available_permits().await.unwrap(), 2);
    guard.forget().await.unwrap();
    assert_eq!(handles[0].permits().await.unwrap(), 2);
    assert_all_back(&backend, &clients[0], &handles[0]).await;
}

/// Nobody becomes a holder by a message to the waiter's channel.
#[tokio::test(start_paused = true)]
async fn message_without_the_nonce_makes_no_holder() {
    let (backend, _clients, handles) = handles(1, 2).await;
    let guard = handles[0].acquire().await.unwrap();
    let waiter = waiting(&backend, &handles[1], 1).await;
    let entry = queue(&backend).remove(0);
    let words: Vec<_> = entry.split(' ').collect();
    let (channel, n) = (words[1], words[2]);
    let ends = backend.embedded_server().now().millis() + 5_000;
    let number = u64::MAX >> 1;
    for forged in [
        format!("{KEY} {n}"),
        format!("{KEY} {n} g{:016x}.{number}.{ends}.0", 7),
        format!("{KEY} {n} g.{number}.{ends}.0"),
        format!("{KEY} {n} g{:016x}.{number}", 7),
    ] {
        backend.command(&["PUBLISH", channel, &forged]);
        backend.pass(20 * MS).await;
        assert!(!waiter.is_finished(), "{forged}");
    }
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
}

/// The message about a grant that has lapsed comes when another has the permit.
#[tokio::test(start_paused = true)]
async fn message_about_a_lapsed_grant_makes_no_holder() {
    let (backend, _clients, handles) = handles(1, 3).await;
    let guard = handles[0].acquire().await.unwrap();
    let mut slow = pin!(handles[1].acquire().into_future());
    while queue(&backend).is_empty() {
        assert!(poll!(&mut slow).is_pending());
        backend.pass(MS).await;
    }
    let entry = queue(&backend).remove(0);
    let next = waiting(&backend, &handles[2], 1).await;
    backend.embedded_server().drop_messages(1);
    let start = Instant::now();
    let number = backend.embedded_server().now().micros().to_string();
    guard.release().await.unwrap();
    let (channel, late) = message(&backend, &entry, &number);
    // Nobody polls the first waiter, so its grant lapses. That costs the others 5 s.
    let next = next.await.unwrap();
    assert!(start.elapsed() >= 5 * SECOND && start.elapsed() < 5_100 * MS);
    backend.command(&["PUBLISH", &channel, &late]);
    for _ in 0..20 {
        assert!(poll!(&mut slow).is_pending());
        backend.pass(5 * MS).await;
    }
    assert_eq!(next.state(), HoldState::Held);
    next.release().await.unwrap();
    slow.await.unwrap().release().await.unwrap();
}

/// A grant whose message was lost, and whose waiter then gave up, goes to the next at once.
#[tokio::test(start_paused = true)]
async fn waiter_that_leaves_before_it_hears_passes_its_permits_on() {
    let (backend, clients, handles) = handles(2, 3).await;
    let all = handles[0].acquire_many(2).await.unwrap();
    let leaves = waiting(&backend, &handles[1], 2).await;
    let next = waiting(&backend, &handles[2], 1).await;
    backend.embedded_server().drop_messages(1);
    all.release().await.unwrap();
    let start = Instant::now();
    leaves.abort();
    let next = next.await.unwrap();
    assert!(start.elapsed() < 50 * MS, "{:?}", start.elapsed());
    next.release().await.unwrap();
    clients[1].settled().await;
    assert_all_back(&backend, &clients[1], &handles[0]).await;
}

/// The waiter asks again as it would for any lost message, and learns that it holds.
#[tokio::test(start_paused = true)]
async fn lost_message_costs_a_re_check_and_no_permit() {
    let (backend, _clients, handles) = handles(1, 2).await;
    let guard = handles[0].acquire().await.unwrap();
    let first = waiting(&backend, &handles[1], 1).await;
    let second = waiting(&backend, &handles[1], 1).await;
    backend.embedded_server().drop_messages(1);
    guard.release().await.unwrap();
    let start = Instant::now();
    let guard = first.await.unwrap();
    assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
    assert!(
        guard.remaining() > 25 * SECOND,
        "it has asked for its lease"
    );
    assert!(!second.is_finished());
    guard.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}

/// The server stops right after it has granted. The holder knows of the loss before the grant
/// lapses.
#[tokio::test(start_paused = true)]
async fn silent_server_ends_granted_permits_before_they_lapse() {
    let (backend, _clients, handles) = handles(1, 2).await;
    let server = backend.embedded_server();
    let guard = handles[0].acquire().await.unwrap();
    let waiter = waiting(&backend, &handles[1], 1).await;
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap();
    let ends: u64 = holds(&backend)[0]
        .1
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    server.drop_replies(100, LostReply::Hangs);
    server.stop();
    assert_eq!(guard.lost().await, LossCause::Unreachable);
    let now = server.now().millis();
    assert!(now < ends && now + 400 > ends, "{now} {ends}");
    server.clear_trouble();
    server.resume();
}

/// An id may be in another process before its grant is confirmed.
#[tokio::test(start_paused = true)]
async fn waiter_for_a_permit_with_an_id_is_called() {
    let backend = Backend::embedded();
    backend.preload();
    let clients = [backend.client().await, backend.client().await];
    let permits = clients[0].permit_expirable_semaphore("x");
    permits.set_permits(1).await.unwrap();
    let lease = 30 * SECOND;
    let first = permits.acquire().lease(lease).await.unwrap();
    let other = clients[1].permit_expirable_semaphore("x");
    let waiter = tokio::spawn(async move { other.acquire().lease(lease).await.unwrap() });
    while queue(&backend).is_empty() {
        backend.pass(MS).await;
    }
    assert_eq!(queue(&backend)[0].split(' ').count(), 4, "it has no order");
    let before = backend.script_calls();
    permits.release(&first).await.unwrap();
    waiter.await.unwrap();
    assert_eq!(backend.script_calls() - before, 2);
}
