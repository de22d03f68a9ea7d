//! How often one owner may enter its hold.

use redlatch::{ErrorKind, Lockable, Released, compat::Redisson};
use redlatch_behaviours::prelude::*;

macro_rules! bounded {
    ($($test:ident: |$client:ident| $handle:expr, $lock:ident;)+) => {$(
        #[tokio::test(start_paused = true)]
        async fn $test() {
            let backend = Backend::embedded();
            let $client = backend.client().await;
            let lock = $handle;
            let owner = $client.owner();
            let mut guards = Vec::new();
            for _ in 0..1_000 {
                guards.push(lock.$lock().owner(&owner).await.unwrap());
            }
            let before = backend.script_calls();
            let error = lock.$lock().owner(&owner).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfRange, "{error}");
            assert!(error.to_string().contains("1000 guards"), "{error}");
            assert_eq!(backend.script_calls(), before);
            let ended = guards.pop().unwrap().release().await.unwrap();
            assert_eq!(ended, Released::StillHeld(999));
            guards.push(lock.$lock().owner(&owner).await.unwrap());
        }
    )+};
}

bounded! {
    lock_has_a_thousand_guards_at_most: |client| client.lock("x"), lock;
    read_lock_has_a_thousand_guards_at_most: |client| client.read_write_lock("x"), read;
    lock_of_redisson_has_a_thousand_guards_at_most: |client| Redisson::new(&client, "x"), lock;
}

#[tokio::test(start_paused = true)]
async fn several_locks_have_a_thousand_guards_at_most() {
    let (_backend, [client]) = embedded().await;
    let (x, y) = (client.lock("x"), client.lock("y"));
    let owner = client.owner();
    let mut guards = Vec::new();
    for _ in 0..1_000 {
        guards.push(x.lock().owner(&owner).await.unwrap());
    }
    let both = client.multi_lock(&[&x as &dyn Lockable, &y]);
    assert_fails(both.try_lock().owner(&owner).await, ErrorKind::OutOfRange);
    assert!(!y.is_locked().await.unwrap());
}
