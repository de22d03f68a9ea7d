//! Wrong input ends at once with a typed error.

use redlatch::{Election, ErrorKind, Term};

use crate::prelude::*;

behaviours! {
    Single:
        name_of_another_kind_is_refused,
        candidates_of_different_orders_are_refused;
}

async fn refused(election: Election) -> ErrorKind {
    let lead = election.lead(async |_: &Term| panic!("it must not lead"));
    lead.await.unwrap_err().kind()
}

async fn name_of_another_kind_is_refused(backend: &Backend) {
    let client = backend.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    assert_eq!(refused(client.election("x")).await, ErrorKind::WrongKind);
    assert_fails(client.election("x").leader().await, ErrorKind::WrongKind);
    let mut observer = client.election("x").observe();
    assert_fails(observer.next().await.unwrap(), ErrorKind::WrongKind);
    assert!(observer.next().await.is_none(), "it has ended");
    guard.release().await.unwrap();
    let lead = client.election("y");
    let lead = lead.lead(async |_: &Term| {
        assert_fails(client.lock("y").try_lock().await, ErrorKind::WrongKind);
    });
    lead.await.unwrap();
}

async fn candidates_of_different_orders_are_refused(backend: &Backend) {
    let client = backend.client().await;
    let election = client.election("x");
    let lead = election.lead(async |_: &Term| {
        let fair = client.election("x").fair();
        assert_eq!(refused(fair).await, ErrorKind::WrongKind);
    });
    lead.await.unwrap();
    assert!(client.election("x").leader().await.unwrap().is_none());
}
