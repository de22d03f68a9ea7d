//! Wrong input ends at once with a typed error.

use std::time::Duration;

use redlatch::{Election, ErrorKind, Term};
use redlatch_tests::backend::{Backend, assert_tables_empty};

const SECOND: Duration = Duration::from_secs(1);

behaviours! {
    Single:
        options_out_of_bounds_are_refused_before_anything_is_sent,
        name_of_another_kind_is_refused,
        candidates_of_different_orders_are_refused;
}

async fn refused(election: Election) -> ErrorKind {
    let lead = election.lead(async |_: &Term| panic!("it must not lead"));
    lead.await.unwrap_err().kind()
}

async fn options_out_of_bounds_are_refused_before_anything_is_sent(backend: &Backend) {
    let client = backend.client().await;
    let calls = backend.script_calls();
    let x = || client.election("x");
    for (election, kind) in [
        (client.election(""), ErrorKind::InvalidName),
        (client.election("n".repeat(513)), ErrorKind::InvalidName),
        (x().lease(Duration::ZERO), ErrorKind::InvalidLease),
        (x().lease(SECOND / 2), ErrorKind::InvalidLease),
        (x().lease(Duration::MAX), ErrorKind::InvalidLease),
        (
            x().lease(10 * SECOND).grace(6 * SECOND),
            ErrorKind::InvalidOption,
        ),
        (x().grace(16 * SECOND), ErrorKind::InvalidOption),
        (x().value(&"v".repeat(1025)), ErrorKind::InvalidOption),
    ] {
        let shown = format!("{election:?}");
        assert_eq!(refused(election).await, kind, "{shown}");
    }
    let unnamed = client.election("");
    assert_eq!(unnamed.name(), None);
    assert_eq!(
        unnamed.leader().await.unwrap_err().kind(),
        ErrorKind::InvalidName
    );
    let first = unnamed.observe().next().await.unwrap();
    assert_eq!(first.unwrap_err().kind(), ErrorKind::InvalidName);
    assert_eq!(backend.script_calls(), calls);
    assert_tables_empty(&client).await;
}

async fn name_of_another_kind_is_refused(backend: &Backend) {
    let client = backend.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    assert_eq!(refused(client.election("x")).await, ErrorKind::WrongKind);
    let error = client.election("x").leader().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKind);
    let mut observer = client.election("x").observe();
    let error = observer.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKind);
    assert!(observer.next().await.is_none(), "it has ended");
    guard.release().await.unwrap();
    let lead = client.election("y");
    let lead = lead.lead(async |_: &Term| {
        let error = client.lock("y").try_lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongKind);
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
