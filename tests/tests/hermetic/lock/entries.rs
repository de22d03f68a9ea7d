//! How often one owner may enter its hold.

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn owner_has_a_thousand_guards_at_most() {
    for (what, lock) in [LOCKS[0], LOCKS[3], LOCKS[4]] {
        let (backend, [client]) = embedded().await;
        let (lock, owner) = (lock(&client, "x"), client.owner());
        let mut guards = Vec::new();
        for _ in 0..1_000 {
            guards.push(lock.lock().owner(&owner).await.unwrap());
        }
        let before = backend.script_calls();
        let error = lock.lock().owner(&owner).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange, "{what}: {error}");
        assert!(error.to_string().contains("1000 guards"), "{what}: {error}");
        assert_eq!(backend.script_calls(), before, "{what}");
        let ended = guards.pop().unwrap().release().await.unwrap();
        assert_eq!(ended, Released::StillHeld(999), "{what}");
        guards.push(lock.lock().owner(&owner).await.unwrap());
    }
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
