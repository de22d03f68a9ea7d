//! What a read-write lock does when nothing goes wrong, and when a holder dies.

use redlatch::Access;

use super::{Rw, quiet, reads, waits, writes};
use crate::prelude::*;

behaviours! {
    left quiet;
    Everywhere:
        readers_share_and_writers_exclude;
    Cluster:
        uncontended_read_and_write_cost_two_commands;
    Single:
        holders_re_enter_either_side,
        reader_that_asks_to_write_is_refused_at_once,
        writer_that_also_reads_is_a_reader_after_its_write,
        downgrade_wakes_readers_and_admits_no_writer,
        a_lost_write_cannot_be_downgraded,
        lease_of_a_dead_reader_ends_while_others_read,
        tokens_of_readers_tell_stale_data,
        holders_show_their_metadata,
        forced_release_ends_one_holder_or_all;
}

async fn readers_share_and_writers_exclude(backend: &Backend, [a, b]: [Client; 2]) {
    let (ours, theirs) = (a.read_write_lock("x"), b.read_write_lock("x"));
    let one = ours.read().await.unwrap();
    let two = theirs.read().await.unwrap();
    assert!(ours.try_write().await.unwrap().is_none());
    assert_eq!(ours.info().await.unwrap().readers, 2);
    assert_eq!(one.release().await.unwrap(), Released::Free);
    assert_busy(backend, theirs.try_write_for(300 * MS).await);
    drop(two);
    let writer = ours.write().await.unwrap();
    assert!(theirs.try_read().await.unwrap().is_none());
    assert!(theirs.try_upgradable_read().await.unwrap().is_none());
    assert_busy(backend, theirs.try_write_for(300 * MS).await);
    // Whoever gave up has left the queue.
    b.settled().await;
    assert_eq!(writer.release().await.unwrap(), Released::Free);
    assert!(theirs.try_read().await.unwrap().is_some());
}

async fn uncontended_read_and_write_cost_two_commands(backend: &Backend, lock: Rw) {
    let mut calls = 0;
    // The first round teaches the server the scripts.
    for _ in 0..2 {
        let before = backend.script_calls();
        lock.read().await.unwrap().release().await.unwrap();
        lock.write().await.unwrap().release().await.unwrap();
        let reader = lock.write().await.unwrap().downgrade().await.unwrap();
        reader.release().await.unwrap();
        calls = backend.script_calls() - before;
    }
    assert_eq!(calls, 2 + 2 + 3);
}

async fn holders_re_enter_either_side(client: Client) {
    let lock = client.read_write_lock("x");
    let owner = client.owner();
    let reader = lock.read().owner(&owner).await.unwrap();
    let writing = writes(lock.clone());
    waits(&lock, 1, 0).await;
    // A writer waits, and holds back who does not hold yet.
    assert!(lock.try_read().await.unwrap().is_none());
    let again = lock.read().owner(&owner).await.unwrap();
    assert_eq!((again.hold_count(), again.token()), (2, reader.token()));
    assert_eq!(lock.read_count(&owner).await.unwrap(), 2);
    assert_eq!(reader.release().await.unwrap(), Released::StillHeld(1));
    assert!(!writing.is_finished());
    assert_eq!(again.release().await.unwrap(), Released::Free);

    let writer = writing.await.unwrap();
    let owner = writer.owner().clone();
    let both = owner.scope(async { (lock.write().await.unwrap(), lock.read().await.unwrap()) });
    let (write, read) = both.await;
    assert_eq!([write.token(), read.token()], [writer.token(); 2]);
    assert_eq!(lock.write_count(&owner).await.unwrap(), 2);
    drop((read, write));
    client.settled().await;
    assert_eq!(writer.state(), HoldState::Held);
    assert_eq!(writer.release().await.unwrap(), Released::Free);
}

// L28
async fn reader_that_asks_to_write_is_refused_at_once(lock: Rw) {
    let reader = lock.read().await.unwrap();
    let owner = reader.owner();
    let errors = [
        lock.write().owner(owner).await.unwrap_err(),
        owner.scope(async { lock.write().await.unwrap_err() }).await,
        lock.try_write().owner(owner).await.unwrap_err(),
        lock.upgradable_read().owner(owner).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}");
        assert!(error.is_not_executed());
    }
    assert!(lock.try_read().await.unwrap().is_some(), "nothing waits");
}

async fn writer_that_also_reads_is_a_reader_after_its_write(lock: Rw) {
    let writer = lock.write().await.unwrap();
    let reader = lock.read().owner(writer.owner()).await.unwrap();
    assert_eq!(reader.token(), writer.token());
    writer.release().await.unwrap();
    assert!(lock.try_write().await.unwrap().is_none());
    let other = lock.try_read().await.unwrap().unwrap();
    assert_eq!(other.token(), reader.token());
    let ended = lock.write().owner(reader.owner()).await;
    assert_fails(ended, ErrorKind::WouldDeadlock);
}

// L27
async fn downgrade_wakes_readers_and_admits_no_writer(backend: &Backend, [ours, theirs]: [Rw; 2]) {
    let writer = ours.write().await.unwrap();
    let writing = writes(theirs.clone());
    waits(&ours, 1, 0).await;
    let readers = [&ours, &theirs, &ours, &theirs, &ours].map(|lock| reads(lock.clone()));
    waits(&ours, 1, 5).await;
    let (token, before) = (writer.token(), Instant::now());
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.token(), token);
    let inside = finished(readers).await;
    // A message woke them, and not the clock.
    backend.assert_swift(before.elapsed(), 100 * MS);
    assert!(inside.iter().all(|other| other.token() == token));
    assert!(!writing.is_finished());
    drop((reader, inside));
    let writer = writing.await.unwrap();
    assert!(writer.token() > token);
    writer.release().await.unwrap();
}

async fn a_lost_write_cannot_be_downgraded([ours, theirs]: [Rw; 2]) {
    // Ended from outside, it is the server that says so.
    for by in [&ours, &theirs] {
        let writer = ours.write().await.unwrap();
        assert_eq!(by.force_release().await.unwrap(), 1);
        let ended = writer.downgrade().await;
        assert_fails(ended, ErrorKind::Lost(LossCause::Revoked));
    }
    assert!(ours.try_write().await.unwrap().is_some());
}

// L30
async fn lease_of_a_dead_reader_ends_while_others_read(lock: Rw) {
    let stays = lock.read().await.unwrap();
    let dies = lock.read().lease(300 * MS).await.unwrap();
    let owner = dies.owner().clone();
    assert_eq!(lock.info().await.unwrap().readers, 2);
    dies.lost().await;
    let out = async || lock.info().await.unwrap().readers == 1;
    wait_for("the dead to be out", out).await;
    assert_eq!(lock.read_count(&owner).await.unwrap(), 0);
    assert_eq!(lock.holders().await.unwrap().len(), 1);
    let writing = writes(lock.clone());
    waits(&lock, 1, 0).await;
    stays.release().await.unwrap();
    writing.await.unwrap().release().await.unwrap();
    let released = dies.release().await.unwrap();
    assert!(!released.is_clean(), "{released:?}");
}

async fn tokens_of_readers_tell_stale_data(lock: Rw) {
    let first = lock.read().await.unwrap();
    let second = lock.read().await.unwrap();
    assert_eq!(first.token(), second.token(), "nobody wrote");
    let unknown = first.token();
    drop((first, second));
    let writer = lock.write().await.unwrap();
    let written = writer.token();
    assert!(written > unknown);
    writer.release().await.unwrap();
    for _ in 0..2 {
        let reader = lock.read().await.unwrap();
        assert_eq!(reader.token(), written);
        reader.release().await.unwrap();
    }
    assert!(lock.write().await.unwrap().token() > written);
}

async fn holders_show_their_metadata(client: Client) {
    let lock = client.read_write_lock("x");
    let look = lock.upgradable_read().await.unwrap();
    let reader = lock.read().await.unwrap();
    let holders = lock.holders().await.unwrap();
    let access: Vec<_> = holders.iter().map(|holder| holder.access).collect();
    assert_eq!(access, [Access::UpgradableRead, Access::Read]);
    assert_eq!(holders[1].owner, reader.owner().to_string());
    let metadata = holders[0].metadata.as_ref().unwrap();
    assert_eq!(metadata.pid, std::process::id());
    let info = lock.info().await.unwrap();
    assert_eq!(info.upgradable, Some(look.owner().to_string()));
    drop((look, reader));
    client.settled().await;
    let writer = lock.write().await.unwrap();
    let holders = lock.holders().await.unwrap();
    assert_eq!((holders.len(), holders[0].access), (1, Access::Write));
    assert_eq!(holders[0].token, writer.token());
    let info = lock.info().await.unwrap();
    assert_eq!(info.writer, Some(writer.owner().to_string()));
}

async fn forced_release_ends_one_holder_or_all([ours, theirs]: [Rw; 2]) {
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(ours.read().await.unwrap());
    }
    let writing = writes(theirs.clone());
    waits(&ours, 1, 0).await;
    let holders = ours.holders().await.unwrap();
    assert_eq!(ours.force_release().holder(&holders[0]).await.unwrap(), 1);
    assert_eq!(guards[0].state(), HoldState::Lost(LossCause::Revoked));
    assert_eq!(guards[1].state(), HoldState::Held);
    assert_eq!(guards.remove(0).release().await.unwrap(), Released::Revoked);
    assert!(!writing.is_finished());
    assert_eq!(theirs.force_release().await.unwrap(), 2);
    // The writer is called at once; the readers learn of it by their next renewal or release.
    let writer = writing.await.unwrap();
    for guard in guards {
        let released = guard.release().await.unwrap();
        assert!(!released.is_clean(), "{released:?}");
    }
    writer.release().await.unwrap();
}
