//! Neither side starves: how many of the other side may come first, counted in grants.

use redlatch::ReadWriteInfo;

use super::{Rivals, Rw, quiet, reads, waits, writes};
use crate::prelude::*;

behaviours! {
    left quiet;
    Cluster:
        waiting_readers_go_before_the_next_writer;
    Single:
        readers_in_a_loop_do_not_starve_a_writer,
        writers_in_a_loop_do_not_starve_a_reader,
        timed_out_writer_lets_waiting_readers_in,
        notified_readers_that_do_not_come_delay_the_writer_once;
}

/// A writer waits for the readers inside when it came; those that come later wait for it. What is
/// counted begins a little before its request arrives.
// L26
async fn readers_in_a_loop_do_not_starve_a_writer([ours, theirs]: [Rw; 2]) {
    let rivals = Rivals::default();
    let readers = rivals.start(&ours, reads);
    let waiting = |info: ReadWriteInfo| info.waiting_writers;
    let most = rivals.most_before(&theirs, writes, waiting).await;
    finished(readers).await;
    println!("a writer among 8 readers in a loop waited for {most} reads at most");
    // Each reader may have been granted before and counted after.
    assert!(most <= 8, "{most} reads came first");
}

/// A reader waits for one write at most, that under way or about to be when it came.
// L26
async fn writers_in_a_loop_do_not_starve_a_reader([ours, theirs]: [Rw; 2]) {
    let rivals = Rivals::default();
    let writers = rivals.start(&ours, writes);
    let waiting = |info: ReadWriteInfo| info.waiting_readers;
    let most = rivals.most_before(&theirs, reads, waiting).await;
    finished(writers).await;
    println!("a reader among 8 writers in a loop waited for {most} writes at most");
    // One that was granted before and counted after, and the one it waits for.
    assert!(most <= 2, "{most} writes came first");
}

async fn waiting_readers_go_before_the_next_writer([ours, theirs]: [Rw; 2]) {
    let first = ours.write().await.unwrap();
    let writing = writes(ours.clone());
    waits(&theirs, 1, 0).await;
    let early = [reads(ours.clone()), reads(theirs.clone())];
    waits(&theirs, 1, 2).await;
    first.release().await.unwrap();
    let inside = finished(early).await;
    let late = reads(theirs.clone());
    waits(&theirs, 1, 1).await;
    assert!(!late.is_finished(), "it comes after the writer that waits");
    drop(inside);
    let writer = writing.await.unwrap();
    assert!(!late.is_finished());
    let token = writer.token();
    writer.release().await.unwrap();
    assert_eq!(late.await.unwrap().token(), token);
}

async fn timed_out_writer_lets_waiting_readers_in(backend: &Backend, [ours, theirs]: [Rw; 2]) {
    let inside = ours.read().await.unwrap();
    let writing = writes(ours.clone());
    waits(&theirs, 1, 0).await;
    let readers = [&ours, &theirs, &ours, &theirs].map(|lock| reads(lock.clone()));
    waits(&theirs, 1, 4).await;
    let before = Instant::now();
    writing.abort();
    for reader in readers {
        reader.await.unwrap().release().await.unwrap();
    }
    // A message woke them, and not the clock.
    backend.assert_swift(before.elapsed(), 100 * MS);
    drop(inside);
}

/// Readers that were let in and do not come: their futures are not polled.
async fn notified_readers_that_do_not_come_delay_the_writer_once(backend: &Backend, rw: [Rw; 2]) {
    let first = rw[0].write().await.unwrap();
    let mut stuck = [(); 3].map(|()| rw[0].read().into_future());
    for (n, future) in stuck.iter_mut().enumerate() {
        // Polled until the server knows of it, and never again.
        tokio::select! {
            biased;
            () = waits(&rw[1], 0, n as u64 + 1) => {}
            _ = future => panic!("somebody writes"),
        }
    }
    let before = Instant::now();
    first.release().await.unwrap();
    let writer = rw[1].write().await.unwrap();
    let waited = before.elapsed();
    backend.assert_swift(waited, 6 * SECOND);
    println!("a writer waited {waited:?} for readers that did not come");
    drop(stuck);
    writer.release().await.unwrap();
}
