//! Becoming the writer out of an upgradable read.

use futures_util::future::try_join;
use redlatch::ReadWriteInfo;

use super::{Rivals, Rw, quiet, reads, waits, writes};
use crate::prelude::*;

behaviours! {
    left quiet;
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

async fn one_upgradable_reader_shares_with_plain_readers([ours, theirs]: [Rw; 2]) {
    let look = ours.upgradable_read().await.unwrap();
    assert!(theirs.try_upgradable_read().await.unwrap().is_none());
    assert!(theirs.try_write().await.unwrap().is_none());
    let next = tokio::spawn(theirs.upgradable_read().into_future());
    waits(&ours, 1, 0).await;
    // Who waits for the right to upgrade holds nobody back.
    let reader = theirs.try_read().await.unwrap().unwrap();
    assert_eq!(look.release().await.unwrap(), Released::Free);
    assert_eq!(next.await.unwrap().unwrap().token(), reader.token());
}

async fn an_upgrade_waits_for_readers_and_holds_back_new_ones(backend: &Backend, rw: [Rw; 2]) {
    let look = rw[0].upgradable_read().await.unwrap();
    let reader = rw[1].read().await.unwrap();
    assert!(look.try_upgrade().await.unwrap().is_none());
    let upgrading = tokio::spawn(look.upgrade().into_future());
    waits(&rw[1], 1, 0).await;
    assert!(rw[1].try_read().await.unwrap().is_none(), "it is held back");
    let late = reads(rw[1].clone());
    waits(&rw[1], 1, 1).await;
    let before = Instant::now();
    reader.release().await.unwrap();
    let writer = upgrading.await.unwrap().unwrap();
    // It was called.
    backend.assert_swift(before.elapsed(), 100 * MS);
    assert!(writer.token() > look.token());
    assert_eq!(writer.owner(), look.owner());
    writer.release().await.unwrap();
    // Back to the upgradable read, beside the reader that waited.
    let late = late.await.unwrap();
    assert_eq!(look.state(), HoldState::Held);
    assert!(rw[1].try_write().await.unwrap().is_none());
    drop(late);
    assert_eq!(look.release().await.unwrap(), Released::Free);
}

async fn timed_out_upgrade_keeps_the_read(backend: &Backend, [a, b]: [Client; 2]) {
    let (ours, theirs) = (a.read_write_lock("x"), b.read_write_lock("x"));
    let look = ours.upgradable_read().await.unwrap();
    let reader = theirs.read().await.unwrap();
    assert_busy(backend, look.try_upgrade_for(300 * MS).await);
    a.settled().await;
    let another = theirs.try_read().await.unwrap();
    assert!(another.is_some(), "readers are held back no longer");
    let upgrading = tokio::spawn(look.upgrade().into_future());
    waits(&theirs, 1, 0).await;
    upgrading.abort();
    waits(&theirs, 0, 0).await;
    assert!(theirs.try_read().await.unwrap().is_some());
    assert_eq!(look.state(), HoldState::Held);
    assert_eq!(ours.read_count(look.owner()).await.unwrap(), 1);
    drop((reader, another));
    b.settled().await;
    assert!(look.try_upgrade().await.unwrap().is_some());
}

async fn upgrade_of_a_lost_hold_fails(lock: Rw) {
    let look = lock.upgradable_read().lease(200 * MS).await.unwrap();
    assert_eq!(look.lost().await, LossCause::Expired);
    lock.write().await.unwrap().release().await.unwrap();
    assert_fails(look.upgrade().await, ErrorKind::Lost(LossCause::Expired));
    let live = lock.upgradable_read().await.unwrap();
    let ended = live.upgrade().fresh_owner().await;
    assert_fails(ended, ErrorKind::Lost(LossCause::Expired));
}

async fn an_upgrade_goes_before_waiting_writers([ours, theirs]: [Rw; 2]) {
    let look = ours.upgradable_read().await.unwrap();
    let writing = writes(theirs.clone());
    waits(&ours, 1, 0).await;
    let upgraded = look.upgrade().await.unwrap();
    let token = upgraded.token();
    upgraded.release().await.unwrap();
    assert!(!writing.is_finished());
    look.release().await.unwrap();
    assert!(writing.await.unwrap().token() > token);
}

async fn two_upgrades_of_one_owner_are_one_write([ours, theirs]: [Rw; 2]) {
    let look = ours.upgradable_read().await.unwrap();
    let reader = theirs.read().await.unwrap();
    let both = try_join(look.upgrade().into_future(), look.upgrade().into_future());
    let both = tokio::spawn(both);
    waits(&theirs, 1, 0).await;
    reader.release().await.unwrap();
    let (one, two) = both.await.unwrap().unwrap();
    assert_eq!(one.token(), two.token());
    assert_eq!(one.release().await.unwrap(), Released::StillHeld(1));
    assert_eq!(two.release().await.unwrap(), Released::Free);
}

async fn upgradable_reader_may_ask_to_write(lock: Rw) {
    let look = lock.upgradable_read().await.unwrap();
    let writer = lock.write().owner(look.owner()).await.unwrap();
    let again = lock.upgradable_read().owner(look.owner()).await.unwrap();
    assert_eq!(again.hold_count(), 2);
    drop((writer, look));
}

/// It needed no place while its owner held; from then on it has one, also behind others of its
/// client.
async fn waiting_writer_that_loses_its_read_joins_the_queue(backend: &Backend, rw: [Rw; 2]) {
    let reader = rw[1].read().await.unwrap();
    let look = rw[0].upgradable_read().lease(1_000 * MS).await.unwrap();
    let first = writes(rw[0].clone());
    waits(&rw[1], 1, 0).await;
    let second = tokio::spawn(rw[0].write().owner(look.owner()).into_future());
    waits(&rw[1], 2, 0).await;
    assert_eq!(look.lost().await, LossCause::Expired);
    backend.pass_lease(100 * MS).await;
    // On a real server it may take longer than that.
    waits(&rw[1], 2, 0).await;
    if backend.is_embedded() {
        assert_eq!(backend.members("redlatch:{x}:q"), 2);
    }
    reader.release().await.unwrap();
    let first = first.await.unwrap();
    let token = first.token();
    first.release().await.unwrap();
    assert!(second.await.unwrap().unwrap().token() > token);
}

async fn upgrade_fails_when_its_hold_expires(backend: &Backend, [ours, theirs]: [Rw; 2]) {
    let _reader = theirs.read().await.unwrap();
    let look = ours.upgradable_read().lease(1_000 * MS).await.unwrap();
    let before = Instant::now();
    let error = look.upgrade().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
    // Not with its next look.
    backend.assert_swift(before.elapsed(), 1_100 * MS);
}

async fn upgrades_in_a_loop_do_not_starve_a_reader([ours, theirs]: [Rw; 2]) {
    let look = ours.upgradable_read().await.unwrap();
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
    let most = rivals.most_before(&theirs, reads, waiting).await;
    upgrading.await.unwrap();
    println!("a reader beside upgrades in a loop waited for {most} writes at most");
    // One that was granted before and counted after, and the one it waits for.
    assert!(most <= 2, "{most} writes came first");
}

async fn an_upgraded_writer_downgrades(client: Client) {
    let lock = client.read_write_lock("x");
    let look = lock.upgradable_read().await.unwrap();
    let reader = look.upgrade().await.unwrap().downgrade().await.unwrap();
    assert_eq!(reader.hold_count(), 2, "it joins the hold of its owner");
    drop(look);
    client.settled().await;
    assert!(lock.try_read().await.unwrap().is_some());
}
