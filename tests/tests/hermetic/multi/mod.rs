//! Locks over several: of one server or more, and over a quorum of servers.

mod cancel;
mod red_lock;

use redlatch::Lockable;
use redlatch_behaviours::prelude::*;
use redlatch_embedded::{LostReply, calls};

/// The server answers no write of a note. Each write ends after a second.
#[tokio::test(start_paused = true)]
async fn notes_of_several_holds_are_written_at_the_same_time() {
    let (backend, [client]) = preloaded().await;
    let locks: Vec<_> = (0..5).map(|n| client.lock(format!("{{a}}{n}"))).collect();
    let members: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    let all = client.multi_lock(&members);
    for _ in 0..20 {
        let server = backend.embedded_server();
        server.drop_reply(calls::named("SET"), LostReply::Hangs);
    }
    let start = Instant::now();
    let held = all.try_lock_for(SECOND).note("inventory").await.unwrap();
    assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
    assert!(held.is_some());
}
