//! Becoming the writer out of an upgradable read.

use redlatch::{ErrorKind, HoldState, LossCause, Owner, ReadWriteInfo, Released};

use super::{Rivals, assert_quiet, reads, waiting, writes};
use crate::prelude::*;

behaviours! {
    Cluster:
        an_upgrade_waits_for_readers_and_holds_back_new_ones,
        waiting_writer_that_loses_its_read_joins_the_queue;
    Single:
        one_upgradable_reader_shares_with_plain_readers,
        timed_out_upgrade_keeps_the_read,
        upgrade_of_a_lost_hold_fails,
        an_upgrade_goes_before_waiting_writers,
        two_upgrades_of_one_owner_are_one_write,
        upgradable_reader_may_ask_to_write,
        upgrade_fails_when_its_hold_expires,
        upgrades_in_a_loop_do_not_starve_a_reader,
        an_upgraded_writer_downgrades;
}

async fn one_upgradable_reader_shares_with_plain_readers(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let (ours, theirs) = (a.read_write_lock("x"), b.read_write_lock("x"));
    let look = ours.upgradable_read().await.unwrap();
    assert!(theirs.try_upgradable_read().await.unwrap().is_none());
    assert!(theirs.try_write().await.unwrap().is_none());
    let next = tokio::spawn(theirs.upgradable_read().into_future());
    waiting(&a, "x", 1, 0).await;
    // Who waits for the right to upgrade holds nobody back.
    let reader = theirs.try_read().await.unwrap().unwrap();
    assert_eq!(look.release().await.unwrap(), Released::Free);
    let look = next.await.unwrap().unwrap();
    assert_eq!(look.token(), reader.token());
    drop((look, reader));
    b.settled().await;
    assert_quiet(backend, &a, "x").await;
}

async fn an_upgrade_waits_for_readers_and_holds_back_new_ones(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let (ours, theirs) = (a.read_write_lock("x"), b.read_write_lock("x"));
    let look = ours.upgradable_read().await.unwrap();
    let reader = theirs.read().await.unwrap();
    assert!(look.try_upgrade().await.unwrap().is_none());
    let upgrading = tokio::spawn(look.upgrade().into_future());
    waiting(&b, "x", 1, 0).await;
    let new = theirs.try_read().await.unwrap();
    assert!(new.is_none(), "it is held back");
    let late = reads(theirs.clone());
    waiting(&b, "x", 1, 1).await;
    let before = a.now();
    reader.release().await.unwrap();
    let writer = upgrading.await.unwrap().unwrap();
    // It was called.
    backend.assert_swift(a.now() - before, 100 * MS);
    assert!(writer.token() > look.token());
    assert_eq!(writer.owner(), look.owner());
    writer.release().await.unwrap();
    // Back to the upgradable read, beside the reader that waited.
    let late = late.await.unwrap();
    assert_eq!(look.state(), HoldState::Held);
    assert!(theirs.try_write().await.unwrap().is_none());
    drop(late);
    assert_eq!(look.release().await.unwrap(), Released::Free);
    b.settled().await;
    assert_quiet(backend, &a, "x").await;
}

async fn timed_out_upgrade_keeps_the_read(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let look = a.read_write_lock("x").upgradable_read().await.unwrap();
    let reader = b.read_write_lock("x").read().await.unwrap();
    assert_busy(backend, look.try_upgrade_for(300 * MS).await);
    a.settled().await;
    let another = b.read_write_lock("x").try_read().await.unwrap();
    assert!(another.is_some(), "readers are held back no longer");
    let upgrading = tokio::spawn(look.upgrade().into_future());
    waiting(&b, "x", 1, 0).await;
    upgrading.abort();
    waiting(&b, "x", 0, 0).await;
    assert!(b.read_write_lock("x").try_read().await.unwrap().is_some());
    assert_eq!(look.state(), HoldState::Held);
    let reads = a.read_write_lock("x").read_count(look.owner()).await;
    assert_eq!(reads.unwrap(), 1);
    drop((reader, another));
    b.settled().await;
    let writer = look.try_upgrade().await.unwrap().unwrap();
    drop(writer);
    drop(look);
    assert_quiet(backend, &a, "x").await;
}

async fn upgrade_of_a_lost_hold_fails(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.read_write_lock("x");
    let look = lock.upgradable_read().lease(200 * MS).await.unwrap();
    assert_eq!(look.lost().await, LossCause::Expired);
    lock.write().await.unwrap().release().await.unwrap();
    assert_fails(look.upgrade().await, ErrorKind::Lost(LossCause::Expired));
    let live = lock.upgradable_read().await.unwrap();
    let ended = live.upgrade().fresh_owner().await;
    assert_fails(ended, ErrorKind::Lost(LossCause::Expired));
    drop((look, live));
    assert_quiet(backend, &client, "x").await;
}

async fn an_upgrade_goes_before_waiting_writers(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let look = a.read_write_lock("x").upgradable_read().await.unwrap();
    let writing = writes(b.read_write_lock("x"));
    waiting(&a, "x", 1, 0).await;
    let upgraded = look.upgrade().await.unwrap();
    let token = upgraded.token();
    upgraded.release().await.unwrap();
    assert!(!writing.is_finished());
    look.release().await.unwrap();
    let writer = writing.await.unwrap();
    assert!(writer.token() > token);
    drop(writer);
    b.settled().await;
    assert_quiet(backend, &a, "x").await;
}

async fn two_upgrades_of_one_owner_are_one_write(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let look = a.read_write_lock("x").upgradable_read().await.unwrap();
    let reader = b.read_write_lock("x").read().await.unwrap();
    let (one, two) = (look.upgrade(), look.upgrade());
    let both =
        tokio::spawn(async move { futures_util::join!(one.into_future(), two.into_future()) });
    waiting(&b, "x", 1, 0).await;
    reader.release().await.unwrap();
    let (one, two) = both.await.unwrap();
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.token(), two.token());
    assert_eq!(one.release().await.unwrap(), Released::StillHeld(1));
    assert_eq!(two.release().await.unwrap(), Released::Free);
    drop(look);
    assert_quiet(backend, &a, "x").await;
}

async fn upgradable_reader_may_ask_to_write(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.read_write_lock("x");
    let look = lock.upgradable_read().await.unwrap();
    let writer = lock.write().owner(look.owner()).await.unwrap();
    let again = lock.upgradable_read().owner(look.owner()).await.unwrap();
    assert_eq!(again.hold_count(), 2);
    drop((writer, look, again));
    assert_quiet(backend, &client, "x").await;
}

/// It needed no place while its owner held; from then on it has one, also behind others of its
/// client.
async fn waiting_writer_that_loses_its_read_joins_the_queue(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let (ours, theirs) = (a.read_write_lock("x"), b.read_write_lock("x"));
    let reader = theirs.read().await.unwrap();
    let look = ours.upgradable_read().lease(1_000 * MS).await.unwrap();
    let write = |owner: Owner| {
        let lock = ours.clone();
        tokio::spawn(async move { lock.write().owner(&owner).await.unwrap() })
    };
    let first = write(a.owner());
    waiting(&b, "x", 1, 0).await;
    let second = write(look.owner().clone());
    waiting(&b, "x", 2, 0).await;
    assert_eq!(look.lost().await, LossCause::Expired);
    backend.pass_lease(100 * MS).await;
    // On a real server it may take longer than that.
    waiting(&b, "x", 2, 0).await;
    if let Backend::Embedded { .. } = backend {
        assert_eq!(backend.members("redlatch:{x}:q"), 2);
    }
    reader.release().await.unwrap();
    let first = first.await.unwrap();
    let token = first.token();
    first.release().await.unwrap();
    assert!(second.await.unwrap().token() > token);
    drop(look);
    assert_quiet(backend, &a, "x").await;
}

async fn upgrade_fails_when_its_hold_expires(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let reader = b.read_write_lock("x").read().await.unwrap();
    let lock = a.read_write_lock("x");
    let look = lock.upgradable_read().lease(1_000 * MS).await.unwrap();
    let before = a.now();
    let error = look.upgrade().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
    // Not with its next look.
    backend.assert_swift(a.now() - before, 1_100 * MS);
    drop((look, reader));
    b.settled().await;
    assert_quiet(backend, &a, "x").await;
}

async fn upgrades_in_a_loop_do_not_starve_a_reader(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let look = a.read_write_lock("x").upgradable_read().await.unwrap();
    let rivals = Rivals::default();
    let upgrading = tokio::spawn({
        let rivals = rivals.clone();
        async move {
            while rivals.go_on() {
                let writer = look.upgrade().await.unwrap();
                rivals.granted().await;
                writer.release().await.unwrap();
            }
        }
    });
    let waiting = |info: ReadWriteInfo| info.waiting_readers;
    let most = rivals.most_before(&b, reads, waiting).await;
    upgrading.await.unwrap();
    println!("a reader beside upgrades in a loop waited for {most} writes at most");
    // One that was granted before and counted after, and the one it waits for.
    assert!(most <= 2, "{most} writes came first");
    a.settled().await;
    assert_quiet(backend, &b, "x").await;
}

async fn an_upgraded_writer_downgrades(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.read_write_lock("x");
    let look = lock.upgradable_read().await.unwrap();
    let writer = look.upgrade().await.unwrap();
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.hold_count(), 2, "it joins the hold of its owner");
    drop(look);
    client.settled().await;
    assert!(lock.try_read().await.unwrap().is_some());
    drop(reader);
    assert_quiet(backend, &client, "x").await;
}
