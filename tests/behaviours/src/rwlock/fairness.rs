//! Neither side starves: how many of the other side may come first, counted in grants.

use redlatch::{Client, ReadWriteInfo};

use super::{Rivals, assert_quiet, reads, waiting, writes};
use crate::prelude::*;

behaviours! {
    Cluster:
        waiting_readers_go_before_the_next_writer;
    Single:
        readers_in_a_loop_do_not_starve_a_writer,
        writers_in_a_loop_do_not_starve_a_reader,
        writers_are_served_in_order_of_arrival,
        timed_out_writer_lets_waiting_readers_in,
        notified_readers_that_do_not_come_delay_the_writer_once;
}

/// A writer waits for the readers inside when it came; those that come later wait for it. What is
/// counted begins a little before its request arrives.
// L26
async fn readers_in_a_loop_do_not_starve_a_writer(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let rivals = Rivals::default();
    let readers = rivals.start(&a, reads);
    let waiting = |info: ReadWriteInfo| info.waiting_writers;
    let most = rivals.most_before(&b, writes, waiting).await;
    finished(readers).await;
    println!("a writer among 8 readers in a loop waited for {most} reads at most");
    // Each reader may have been granted before and counted after.
    assert!(most <= 8, "{most} reads came first");
    assert_quiet(backend, &a, "x").await;
}

/// A reader waits for one write at most, that under way or about to be when it came.
// L26
async fn writers_in_a_loop_do_not_starve_a_reader(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let rivals = Rivals::default();
    let writers = rivals.start(&a, writes);
    let waiting = |info: ReadWriteInfo| info.waiting_readers;
    let most = rivals.most_before(&b, reads, waiting).await;
    finished(writers).await;
    println!("a reader among 8 writers in a loop waited for {most} writes at most");
    // One that was granted before and counted after, and the one it waits for.
    assert!(most <= 2, "{most} writes came first");
    assert_quiet(backend, &a, "x").await;
}

async fn writers_are_served_in_order_of_arrival(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let first = a.read_write_lock("x").write().await.unwrap();
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..10 {
        let lock = [&a, &b][n % 2].read_write_lock("x");
        let sender = sender.clone();
        tokio::spawn(async move {
            let guard = lock.write().await.unwrap();
            sender.send(n).unwrap();
            guard.release().await.unwrap();
        });
        waiting(&a, "x", n as u64 + 1, 0).await;
    }
    drop(sender);
    first.release().await.unwrap();
    for n in 0..10 {
        assert_eq!(order.recv().await, Some(n));
    }
    assert_eq!(order.recv().await, None);
}

async fn waiting_readers_go_before_the_next_writer(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let first = a.read_write_lock("x").write().await.unwrap();
    let writing = writes(a.read_write_lock("x"));
    waiting(&b, "x", 1, 0).await;
    let reading = |client: &Client| reads(client.read_write_lock("x"));
    let early = [reading(&a), reading(&b)];
    waiting(&b, "x", 1, 2).await;
    first.release().await.unwrap();
    let mut inside = Vec::new();
    for task in early {
        inside.push(task.await.unwrap());
    }
    let late = reading(&b);
    waiting(&b, "x", 1, 1).await;
    assert!(!late.is_finished(), "it comes after the writer that waits");
    drop(inside);
    let writer = writing.await.unwrap();
    assert!(!late.is_finished());
    let token = writer.token();
    writer.release().await.unwrap();
    assert_eq!(late.await.unwrap().token(), token);
    a.settled().await;
    b.settled().await;
    assert_quiet(backend, &a, "x").await;
}

async fn timed_out_writer_lets_waiting_readers_in(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let inside = a.read_write_lock("x").read().await.unwrap();
    let writing = writes(a.read_write_lock("x"));
    waiting(&b, "x", 1, 0).await;
    let readers: Vec<_> = (0..4)
        .map(|n| reads([&a, &b][n % 2].read_write_lock("x")))
        .collect();
    waiting(&b, "x", 1, 4).await;
    let before = b.now();
    writing.abort();
    for reader in readers {
        reader.await.unwrap().release().await.unwrap();
    }
    // A message woke them, and not the clock.
    backend.assert_swift(b.now() - before, 100 * MS);
    drop(inside);
    assert_quiet(backend, &a, "x").await;
}

/// Readers that were let in and do not come: their futures are not polled.
async fn notified_readers_that_do_not_come_delay_the_writer_once(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let first = a.read_write_lock("x").write().await.unwrap();
    let mut stuck: Vec<_> = (0..3)
        .map(|_| Box::pin(a.read_write_lock("x").read().into_future()))
        .collect();
    for (n, future) in stuck.iter_mut().enumerate() {
        // Polled until the server knows of it, and never again.
        tokio::select! {
            biased;
            () = waiting(&b, "x", 0, n as u64 + 1) => {}
            _ = future => panic!("somebody writes"),
        }
    }
    let before = b.now();
    first.release().await.unwrap();
    let writer = b.read_write_lock("x").write().await.unwrap();
    let waited = b.now() - before;
    backend.assert_swift(waited, 6 * SECOND);
    println!("a writer waited {waited:?} for readers that did not come");
    drop(stuck);
    writer.release().await.unwrap();
    a.settled().await;
    assert_quiet(backend, &b, "x").await;
}
