//! The layout of Redisson's `RLock`.

use redlatch::{HoldState, LossCause, Released, compat::Redisson};
use redlatch_embedded::{LostReply, calls};
use redlatch_lua::REDISSON;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    copies::Copies,
};
use tokio::time::Instant;

use super::{JAVA, MS, SECOND, bed, java_holds, other};

const CHANNEL: &str = "redisson_lock__channel:{x}";
const SIDE: &str = "redlatch:redisson?{x}{}";

/// Frees the name as Redisson does. Returns the number of clients that were told.
fn java_releases(backend: &Backend) -> i64 {
    other(backend, &["DEL", "x"]).unwrap();
    let told = other(backend, &["PUBLISH", CHANNEL, "0"]).unwrap();
    told.as_int().unwrap()
}

#[tokio::test(start_paused = true)]
async fn hold_is_a_hash_with_an_owner_as_redisson_writes_it() {
    let (backend, client) = bed().await;
    let lock = Redisson::new(&client, "x");
    let guard = lock.lock().await.unwrap();
    assert_eq!(guard.token(), None);
    let hash = backend.hash("x");
    let (owner, count) = hash.iter().next().unwrap();
    assert_eq!((hash.len(), count.as_str()), (1, "1"));
    assert_eq!(*owner, Redisson::owner_text(guard.owner()));
    let (uuid, number) = owner.split_once(':').unwrap();
    let groups: Vec<_> = uuid.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    assert!(number.parse::<i64>().is_ok(), "Java reads a long");
    let ttl = backend.ttl("x").unwrap();
    assert!(ttl > 29 * SECOND && ttl <= 30 * SECOND + MS, "{ttl:?}");
    let info = lock.info().await.unwrap().unwrap();
    assert_eq!((&info.owner, info.count), (owner, 1));
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(backend.keys(), [SIDE]);
    backend.pass(61 * SECOND).await;
    assert_eq!(backend.keys(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn re_entry_counts_as_redisson_sees_it_and_shortens_nothing() {
    let (backend, client) = bed().await;
    let lock = Redisson::new(&client, "x");
    let first = lock.lock().await.unwrap();
    let second = lock
        .lock()
        .owner(first.owner())
        .lease(SECOND)
        .await
        .unwrap();
    assert!(backend.ttl("x").unwrap() > 20 * SECOND);
    assert_eq!(first.hold_count(), 2);
    assert_eq!(lock.info().await.unwrap().unwrap().count, 2);
    assert_eq!(first.release().await.unwrap(), Released::StillHeld(1));
    assert_eq!(lock.info().await.unwrap().unwrap().count, 1);
    assert!(
        Redisson::new(&client, "x")
            .try_lock()
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(second.release().await.unwrap(), Released::Free);
    assert_eq!(lock.info().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn message_of_redisson_lets_a_waiter_in_at_once() {
    let (backend, client) = bed().await;
    java_holds(&backend, "30000");
    let lock = Redisson::new(&client, "x");
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    backend.pass(500 * MS).await;
    let calls = backend.script_calls();
    backend.pass(SECOND).await;
    assert!(backend.script_calls() - calls <= 1, "it does not poll");
    assert_eq!(java_releases(&backend), 1);
    let freed = Instant::now();
    let guard = waiting.await.unwrap();
    assert!(freed.elapsed() < 10 * MS, "{:?}", freed.elapsed());
    guard.release().await.unwrap();
    backend.pass(10 * MS).await;
    assert_eq!(backend.subscribers(CHANNEL), 0);
}

#[tokio::test(start_paused = true)]
async fn lost_message_costs_one_recheck() {
    let (backend, client) = bed().await;
    java_holds(&backend, "30000");
    let lock = Redisson::new(&client, "x");
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    backend.pass(100 * MS).await;
    other(&backend, &["DEL", "x"]).unwrap();
    let freed = Instant::now();
    waiting.await.unwrap().release().await.unwrap();
    assert!(freed.elapsed() < 2500 * MS, "{:?}", freed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn forced_end_by_redisson_is_told_at_the_next_renewal() {
    let (backend, client) = bed().await;
    let lock = Redisson::new(&client, "x");
    let guard = lock.lock().await.unwrap();
    java_releases(&backend);
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossCause::Forgotten);
    assert!(start.elapsed() <= 10 * SECOND);
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn forced_end_frees_the_name_and_tells() {
    let backend = Backend::embedded();
    let (ada, bob) = (backend.client().await, backend.client().await);
    let lock = Redisson::new(&ada, "x");
    assert!(!lock.force_release().await.unwrap(), "nobody holds it");
    java_holds(&backend, "30000");
    let other_lock = Redisson::new(&bob, "x");
    let waiting = tokio::spawn(async move { other_lock.lock().await.unwrap() });
    backend.pass(100 * MS).await;
    assert!(lock.force_release().await.unwrap());
    let freed = Instant::now();
    let guard = waiting.await.unwrap();
    assert!(freed.elapsed() < 10 * MS);
    assert!(Redisson::new(&bob, "x").force_release().await.unwrap());
    assert_eq!(
        guard.state(),
        HoldState::Lost(LossCause::Revoked),
        "at once"
    );
}

#[tokio::test(start_paused = true)]
async fn late_copies_of_a_forced_end_end_no_later_hold() {
    let (backend, client) = bed().await;
    let copies = Copies::of_script(backend.embedded_server(), REDISSON.force.text);
    java_holds(&backend, "30000");
    assert!(Redisson::new(&client, "x").force_release().await.unwrap());
    // The same thread has the name again.
    java_holds(&backend, "30000");
    assert_eq!(copies.deliver(), ["done"]);
    assert_eq!(backend.hash("x")[JAVA], "1");
    backend.pass(6 * SECOND).await;
    assert_eq!(copies.deliver(), ["late"]);
    assert_eq!(backend.hash("x")[JAVA], "1");
    backend.pass(60 * SECOND).await;
    assert_eq!(backend.keys(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn forced_end_whose_reply_is_lost_ends_one_hold() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let (backend, client) = bed().await;
        java_holds(&backend, "30000");
        let server = backend.embedded_server();
        server.drop_reply(calls::of_script(REDISSON.force.text), how);
        let lock = Redisson::new(&client, "x");
        let mut ending = Box::pin(lock.force_release());
        while backend.keys().contains(&"x".to_owned()) {
            assert!(futures_util::poll!(&mut ending).is_pending());
            tokio::task::yield_now().await;
        }
        java_holds(&backend, "30000");
        assert!(ending.await.unwrap(), "{how:?}");
        assert_eq!(backend.hash("x")[JAVA], "1", "{how:?}: a later hold");
    }
}

#[tokio::test(start_paused = true)]
async fn forced_end_by_another_client_is_told_as_revoked() {
    let backend = Backend::embedded();
    let (ada, bob) = (backend.client().await, backend.client().await);
    let lock = Redisson::new(&ada, "x");
    let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
    let again = lock.lock().owner(guard.owner()).await.unwrap();
    assert!(Redisson::new(&bob, "x").force_release().await.unwrap());
    backend.pass(11 * SECOND).await;
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Revoked));
    assert_eq!(guard.release().await.unwrap(), Released::Revoked);
    assert_eq!(again.release().await.unwrap(), Released::Revoked);
    assert_tables_empty(&ada).await;
}

#[tokio::test(start_paused = true)]
async fn hold_without_its_hash_is_forgotten_and_stays_until_its_lease_ends() {
    let (backend, client) = bed().await;
    let lock = Redisson::new(&client, "x");
    let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
    let owner = Redisson::owner_text(guard.owner());
    assert!(backend.embedded_server().delete_key(SIDE));
    backend.pass(1500 * MS).await;
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Forgotten));
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    assert_eq!(backend.hash("x")[&owner], "1", "nothing is destroyed");
    assert!(lock.try_lock().await.unwrap().is_none());
    backend.pass(3 * SECOND).await;
    assert!(lock.try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn owner_that_acquires_again_without_its_hash_begins_a_new_hold() {
    let (backend, client) = bed().await;
    let lock = Redisson::new(&client, "x");
    let first = lock.lock().await.unwrap();
    let again = lock.lock().owner(first.owner()).await.unwrap();
    assert!(backend.embedded_server().delete_key(SIDE));
    backend.pass(MS).await;
    let anew = lock.lock().owner(first.owner()).await.unwrap();
    assert_eq!(first.state(), HoldState::Lost(LossCause::Taken));
    assert_eq!(lock.info().await.unwrap().unwrap().count, 1);
    for lost in [first, again] {
        assert_eq!(lost.release().await.unwrap(), Released::Forgotten);
    }
    anew.check().unwrap();
    assert_eq!(anew.release().await.unwrap(), Released::Free);
    assert_eq!(lock.info().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn old_layout_and_new_lock_are_held_as_one() {
    let (backend, client) = bed().await;
    let (old, new) = (Redisson::new(&client, "x"), client.lock("x"));
    let both = client.multi_lock(&[&old, &new]);
    let guard = both.lock().await.unwrap();
    assert_eq!(backend.hash("x").len(), 1);
    assert!(guard.token("x").is_some());
    guard.release().await.unwrap();
    java_holds(&backend, "30000");
    let waiting = tokio::spawn(async move { both.lock().await.unwrap() });
    backend.pass(100 * MS).await;
    java_releases(&backend);
    let freed = Instant::now();
    waiting.await.unwrap().release().await.unwrap();
    assert!(freed.elapsed() < 10 * MS);
}
