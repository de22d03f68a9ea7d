//! A read-write lock and a server that loses messages.

use redlatch_behaviours::rwlock::{assert_quiet, reads, waiting};

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn lost_message_costs_waiting_readers_one_recheck() {
    let (backend, [a, b]) = embedded().await;
    let writer = a.read_write_lock("x").write().await.unwrap();
    let readers: Vec<_> = (0..50).map(|_| reads(b.read_write_lock("x"))).collect();
    waiting(&b, "x", 0, 50).await;
    // The hold ends without a message to the readers.
    backend.command(&["HDEL", "redlatch:{x}", "o", "h", "u"]);
    let start = Instant::now();
    let inside = finished(readers).await;
    assert!(start.elapsed() < 2_500 * MS, "{:?}", start.elapsed());
    drop((inside, writer));
    b.settled().await;
    assert_quiet(&backend, &a, "x").await;
}
