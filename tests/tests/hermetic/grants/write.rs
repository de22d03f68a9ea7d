//! Grants of the write lock, where readers matter.

use super::*;

#[tokio::test(start_paused = true)]
async fn end_of_the_last_read_gives_the_lock_to_the_next_writer() {
    let (backend, clients) = preloaded::<2>().await;
    let lock = clients[0].read_write_lock("x");
    for reads in [1, 2] {
        let mut readers = Vec::new();
        for _ in 0..reads {
            let reader = lock.read().owner(&clients[0].owner());
            readers.push(reader.await.unwrap());
        }
        let waiter = queued(&backend, &clients[1], Kind::Write).await;
        let before = backend.script_calls();
        for reader in readers {
            assert!(!waiter.is_finished());
            reader.release().await.unwrap();
        }
        let next = waiter.await.unwrap();
        assert_eq!(backend.script_calls() - before, reads, "only the ends");
        assert!(!next.is_after_abandonment());
        assert_eq!(next.release().await.unwrap(), Released::Free);
        backend.pass(2 * SECOND).await;
        assert_eq!(backend.script_calls() - before, reads + 1);
        assert_eq!(backend.members(QUEUE), 0);
    }
    assert_tables_empty(&clients[1]).await;
}

#[tokio::test(start_paused = true)]
async fn granted_write_is_downgraded_before_it_is_confirmed() {
    let (backend, clients) = preloaded::<2>().await;
    let guard = clients[0].read_write_lock("x").write().await.unwrap();
    let write = clients[1].read_write_lock("x").write();
    let waiter = queues(&backend, write.into_future()).await;
    guard.release().await.unwrap();
    let token = backend.hash(KEY)["t"].clone();
    let read = waiter.await.unwrap().downgrade().await.unwrap();
    assert_eq!(read.token().as_u64().to_string(), token);
    assert!(!backend.hash(KEY).contains_key("p"));
    assert!(read.remaining() > 28 * SECOND);
    read.release().await.unwrap();
}

/// Nobody follows: a reader comes after the undo, and is told how the last writer ended.
#[tokio::test(start_paused = true)]
async fn reader_after_an_undone_grant_is_told_of_the_abandonment() {
    let (backend, clients) = preloaded::<2>().await;
    let lock = clients[0].read_write_lock("x");
    let guard = lock.write().await.unwrap();
    let leaves = queued(&backend, &clients[1], Kind::Write).await;
    // The messages for the holder and for the waiter.
    backend.embedded_server().drop_messages(2);
    assert_eq!(lock.force_release().await.unwrap(), 1);
    leaves.abort();
    clients[1].settled().await;
    let read = lock.read().owner(&clients[0].owner());
    let read = within(50 * MS, "the reader", read).await.unwrap();
    assert!(read.is_after_abandonment());
    assert_eq!(guard.release().await.unwrap(), Released::Revoked);
    read.release().await.unwrap();
}

/// A client that hears of a grant for an attempt that it does not have gives it back.
#[tokio::test(start_paused = true)]
async fn grant_for_an_attempt_that_nobody_has_is_withdrawn() {
    let (backend, clients) = preloaded::<3>().await;
    let guard = clients[0].read_write_lock("x").write().await.unwrap();
    let waiter = queued(&backend, &clients[1], Kind::Write).await;
    let entry = first_entry(&backend);
    // An entry of the same client, as a server that came back with old data may have.
    let stray = format!("{} {} 9999 9 {}", entry[0], entry[1], entry[4]);
    backend.command(&["ZADD", QUEUE, "1", &stray]);
    guard.release().await.unwrap();
    let next = within(200 * MS, "the waiter", waiter).await.unwrap();
    next.release().await.unwrap();
    assert_eq!(backend.members(QUEUE), 0);
}

/// An owner that waits to write, and holds the upgradable read by then, is not in the queue. A
/// release gives the lock to the writer behind it only when the upgrade is over.
#[tokio::test(start_paused = true)]
async fn upgrade_goes_before_a_writer_in_the_queue() {
    let (backend, clients) = preloaded::<3>().await;
    let upgradable = clients[0].read_write_lock("x").upgradable_read();
    let upgradable = upgradable.await.unwrap();
    let reader = clients[2].read_write_lock("x").read().await.unwrap();
    let writer = queued(&backend, &clients[1], Kind::Write).await;
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
