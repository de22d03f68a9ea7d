//! The note that the holder before has died reaches the next one who gets a guard, also past an
//! acquisition that was granted and dropped.

use std::mem;

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn note_about_a_dead_holder_is_passed_on() {
    // Readers get the note of writers.
    for (what, lock) in LOCKS.into_iter().take(3) {
        for (polls, over) in (1..20).flat_map(|polls| [(polls, false), (polls, true)]) {
            let (backend, [first, second, third]) = embedded().await;
            let dead = lock(&first, "x").lock().lease(50 * MS).await.unwrap();
            mem::forget(dead);
            backend.pass(60 * MS).await;

            let acquire = lock(&second, "x").lock().lease(60 * MS);
            let mut dropped = Box::pin(acquire.into_future());
            let done = polled(&backend, &mut dropped, polls).await;
            if let Some(guard) = done {
                assert!(polls > 1 && guard.unwrap().is_after_abandonment(), "{what}");
                break;
            }
            if over {
                // The grant ends by itself before it is undone.
                second.close_now().await;
                backend.pass(100 * MS).await;
            }
            drop(dropped);
            second.settled().await;

            let told = async || {
                let guard = lock(&third, "x").lock().await.unwrap();
                guard.is_after_abandonment()
            };
            assert!(told().await, "{what} after {polls} polls, over: {over}");
            assert!(!told().await, "{what}: once");
        }
    }
}
