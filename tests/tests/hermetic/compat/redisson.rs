//! The layout of Redisson's `RLock`.

use redlatch::compat::Redisson;
use redlatch_lua::REDISSON;
use redlatch_tests::copies::Copies;

use super::{JAVA, java_holds};
use crate::prelude::*;

const SIDE: &str = "redlatch:redisson?{x}{}";

#[tokio::test(start_paused = true)]
async fn late_copies_of_a_forced_end_end_no_later_hold() {
    let (backend, [client]) = preloaded().await;
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
        let (backend, [client]) = preloaded().await;
        java_holds(&backend, "30000");
        lose_reply(&backend, REDISSON.force.text, how);
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
    let (backend, [ada, bob]) = embedded().await;
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
    let (backend, [client]) = preloaded().await;
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
    let (backend, [client]) = preloaded().await;
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
