//! The note that the holder before has died reaches the next one who gets a guard, also past an
//! acquisition that was granted and dropped.

use std::{future::IntoFuture, mem};

use redlatch_tests::backend::Backend;

use crate::cancel::{MS, polled};

macro_rules! passed_on {
    ($($test:ident: |$client:ident| $handle:expr, $lock:ident;)+) => {$(
        #[tokio::test(start_paused = true)]
        async fn $test() {
            for (polls, over) in (1..20).flat_map(|polls| [(polls, false), (polls, true)]) {
                let backend = Backend::embedded();
                let $client = backend.client().await;
                let dead = $handle.$lock().lease(50 * MS).await.unwrap();
                mem::forget(dead);
                backend.pass(60 * MS).await;

                let second = backend.client().await;
                let $client = &second;
                let lock = $handle;
                let mut dropped = Box::pin(lock.$lock().lease(60 * MS).into_future());
                let done = polled(&backend, &mut dropped, polls).await;
                if let Some(guard) = done {
                    assert!(polls > 1 && guard.unwrap().is_after_abandonment());
                    break;
                }
                if over {
                    // The grant ends by itself before it is undone.
                    second.close_now().await;
                    backend.pass(100 * MS).await;
                }
                drop(dropped);
                second.settled().await;

                let third = backend.client().await;
                let $client = &third;
                let told = $handle.$lock().await.unwrap().is_after_abandonment();
                assert!(told, "after {polls} polls, over: {over}");
                let told = $handle.$lock().await.unwrap().is_after_abandonment();
                assert!(!told, "once");
            }
        }
    )+};
}

passed_on! {
    note_about_a_dead_holder_of_a_lock_is_passed_on: |client| client.lock("x"), lock;
    note_about_a_dead_holder_of_a_fair_lock_is_passed_on: |client| client.fair_lock("x"), lock;
    note_about_a_dead_writer_is_passed_on: |client| client.read_write_lock("x"), write;
}
