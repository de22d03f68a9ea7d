//! Grants of permits.

use redlatch::Semaphore;
use redlatch_behaviours::semaphore::{assert_all_back, queued};

use super::*;

/// Returns a semaphore of `permits`: its backend, two clients, and a handle of each.
async fn handles(permits: u32) -> (Backend, [Client; 2], [Semaphore; 2]) {
    let (backend, clients) = preloaded().await;
    let handles = clients.each_ref().map(|client| client.semaphore("x"));
    handles[0].set_permits(permits).await.unwrap();
    (backend, clients, handles)
}

#[tokio::test(start_paused = true)]
async fn one_release_serves_all_who_fit_without_a_request_of_theirs() {
    let (backend, clients, handles) = handles(5).await;
    let all = handles[0].acquire_many(5).await.unwrap();
    let mut waiters = Vec::new();
    for need in [1, 3, 2, 1] {
        waiters.push(queues(&backend, handles[1].acquire_many(need).into_future()).await);
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
    let served = rest.iter().any(JoinHandle::is_finished);
    assert!(!served, "the third needs 2");
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

/// One call serves 256 at most. The others wait for no re-check.
#[tokio::test(start_paused = true)]
async fn release_for_three_hundred_waiters_serves_all_at_once() {
    let (backend, clients) = preloaded::<31>().await;
    let semaphore = clients[0].semaphore("x");
    semaphore.set_permits(300).await.unwrap();
    let all = semaphore.acquire_many(300).await.unwrap();
    let waits = clients[1..].iter().flat_map(|client| {
        let acquire = || tokio::spawn(client.semaphore("x").acquire().into_future());
        std::iter::repeat_with(acquire).take(10)
    });
    let waiters: Vec<_> = waits.collect();
    queued(&semaphore, 300).await;
    all.release().await.unwrap();
    backend.pass(100 * MS).await;
    let served = waiters.iter().filter(|waiter| waiter.is_finished());
    assert_eq!(served.count(), 300);
}

#[tokio::test(start_paused = true)]
async fn granted_permits_are_split_and_come_back_in_parts() {
    let (backend, clients, handles) = handles(3).await;
    let all = handles[0].acquire_many(3).await.unwrap();
    let waiter = queues(&backend, handles[1].acquire_many(3).into_future()).await;
    all.release().await.unwrap();
    let mut guard = waiter.await.unwrap();
    let part = guard.split(2).unwrap();
    assert!(part.release().await.unwrap().is_clean());
    assert_eq!(handles[0].available_permits().await.unwrap(), 2);
    guard.forget().await.unwrap();
    assert_eq!(handles[0].permits().await.unwrap(), 2);
    assert_all_back(&backend, &clients[0], &handles[0]).await;
}

/// An id may be in another process before its grant is confirmed.
#[tokio::test(start_paused = true)]
async fn waiter_for_a_permit_with_an_id_is_called() {
    let (backend, clients) = preloaded::<2>().await;
    let permits = clients[0].permit_expirable_semaphore("x");
    permits.set_permits(1).await.unwrap();
    let lease = 30 * SECOND;
    let first = permits.acquire().lease(lease).await.unwrap();
    let other = clients[1].permit_expirable_semaphore("x");
    let waiter = queues(&backend, other.acquire().lease(lease).into_future()).await;
    assert_eq!(first_entry(&backend).len(), 4, "it has no order");
    let before = backend.script_calls();
    permits.release(&first).await.unwrap();
    waiter.await.unwrap();
    assert_eq!(backend.script_calls() - before, 2);
}
