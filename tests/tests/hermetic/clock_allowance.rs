//! Leases that are longer on the server than for their holders, by what is allowed for clocks of
//! servers that take over from each other.

use redlatch::Owner;

use crate::prelude::*;

async fn allowing(backend: &Backend, allowance: Duration) -> Client {
    let builder = backend.builder().server_clock_allowance(allowance);
    builder.connect().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn name_of_a_dead_holder_is_free_later_by_the_allowance() {
    let backend = Backend::embedded();
    let (a, b) = (allowing(&backend, 2 * SECOND).await, backend.client().await);
    let guard = a.lock("x").lock().lease(SECOND).await.unwrap();
    let granted = Instant::now();
    assert!(guard.remaining() < SECOND, "the holder counts the lease");
    let left = a.lock("x").remaining().await.unwrap().unwrap();
    assert!(left <= SECOND, "{left:?}");
    let lost = tokio::spawn(guard.lost());
    std::mem::forget(guard);
    let next = b.lock("x").lock().await.unwrap();
    let waited = granted.elapsed();
    assert!(waited >= 3 * SECOND && waited < 3_100 * MS, "{waited:?}");
    assert_eq!(lost.await.unwrap(), LossCause::Expired);
    assert!(next.is_after_abandonment());
}

#[tokio::test(start_paused = true)]
async fn released_name_is_free_at_once_whatever_the_allowance() {
    let backend = Backend::embedded();
    let a = allowing(&backend, 3600 * SECOND).await;
    let b = backend.client().await;
    for _ in 0..3 {
        a.lock("x").lock().await.unwrap().release().await.unwrap();
        b.lock("x").lock().await.unwrap().release().await.unwrap();
    }
    let permits = a.permit_expirable_semaphore("p").permits_if_unset(1);
    let id = permits.acquire().lease(SECOND).await.unwrap();
    let left = permits.remaining(&id).await.unwrap().unwrap();
    assert!(left <= SECOND, "{left:?}");
    permits.extend(&id, 2 * SECOND).await.unwrap();
    let left = permits.remaining(&id).await.unwrap().unwrap();
    assert!(left > SECOND && left <= 2 * SECOND, "{left:?}");
}

/// The server counts the read for longer than its holder, and takes the write for an upgrade.
#[tokio::test(start_paused = true)]
async fn a_writer_whose_read_was_lost_queues_once_the_server_has_ended_the_read() {
    let backend = Backend::embedded();
    // It looks again in between, by the re-check.
    let (a, b) = (allowing(&backend, 5 * SECOND).await, backend.client().await);
    let (ours, theirs) = (a.read_write_lock("x"), b.read_write_lock("x"));
    let reader = theirs.read().await.unwrap();
    let look = ours.upgradable_read().lease(SECOND).await.unwrap();
    let write = |owner: Owner| {
        let lock = ours.clone();
        tokio::spawn(async move {
            let guard = lock.write().owner(&owner).await.unwrap();
            guard.release().await.unwrap();
        })
    };
    let first = write(a.owner());
    sleep(20 * MS).await;
    let second = write(look.owner().clone());
    assert_eq!(look.lost().await, LossCause::Expired);
    sleep(9 * SECOND).await;
    let waiting = backend.members("redlatch:{x}:q");
    assert_eq!(waiting, 2, "both are in the queue");
    reader.release().await.unwrap();
    timeout(10 * SECOND, first).await.unwrap().unwrap();
    timeout(10 * SECOND, second).await.unwrap().unwrap();
}
