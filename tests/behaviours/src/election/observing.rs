//! Who leads, as others see it.

use super::Candidate;
use crate::prelude::*;

behaviours! {
    Cluster:
        observer_sees_each_leader_with_its_value,
        observer_sees_candidates_of_either_order;
    Single:
        value_of_an_earlier_term_is_not_shown,
        observer_shares_its_looks_with_others,
        observer_ends_with_its_client;
}

async fn observer_sees_each_leader_with_its_value(backend: &Backend, [client, other]: [Client; 2]) {
    let mut observer = other.election("x").observe();
    assert_eq!(observer.next().await.unwrap().unwrap(), None);
    let election = client.election("x").value("10.0.0.7:9000");
    for _ in 0..2 {
        let mut candidate = Candidate::start(election.clone());
        let token = candidate.term().await;
        let start = Instant::now();
        let leader = loop {
            let leader = observer.next().await.unwrap().unwrap();
            if leader.as_ref().is_some_and(|leader| leader.value.is_some()) {
                break leader.unwrap();
            }
        };
        assert_eq!(leader.token, token);
        assert_eq!(leader.value.as_deref(), Some("10.0.0.7:9000"));
        assert!(leader.since > SystemTime::UNIX_EPOCH);
        // A message tells of it.
        backend.assert_swift(start.elapsed(), 10 * MS);
        assert_eq!(other.election("x").leader().await.unwrap(), Some(leader));
        candidate.stop().await;
        assert_eq!(observer.next().await.unwrap().unwrap(), None);
    }
}

async fn observer_sees_candidates_of_either_order([client, other]: [Client; 2]) {
    let mut candidate = Candidate::start(client.election("x").fair().value("fair"));
    let token = candidate.term().await;
    let election = other.election("x");
    wait_for("the value to be known", async || {
        let leader = election.leader().await.unwrap().unwrap();
        assert_eq!(leader.token, token);
        leader.value.as_deref() == Some("fair")
    })
    .await;
    candidate.stop().await;
}

async fn value_of_an_earlier_term_is_not_shown(election: Election) {
    let first = Candidate::start(election.clone().value("first"));
    let value = async || election.leader().await.unwrap()?.value;
    let known = async || value().await.as_deref() == Some("first");
    wait_for("the value to be known", known).await;
    first.stop().await;
    let second = Candidate::start(election.clone());
    wait_for("the next value to be known", async || {
        let value = value().await;
        assert_ne!(value.as_deref(), Some("first"));
        value.as_deref() == Some("")
    })
    .await;
    second.stop().await;
}

async fn observer_shares_its_looks_with_others(backend: &Backend, [client, other]: [Client; 2]) {
    let mut candidate = Candidate::start(client.election("x").lease(30 * SECOND));
    candidate.term().await;
    let mut observers = Vec::new();
    for _ in 0..20 {
        let mut observer = other.election("x").observe();
        let mut next = async || observer.next().await.unwrap().unwrap();
        while next().await.unwrap().value.is_none() {}
        observers.push(tokio::spawn(async move { observer.next().await }));
    }
    backend.pass(3 * SECOND).await;
    let before = backend.script_calls();
    backend.pass(10 * SECOND).await;
    let calls = backend.script_calls() - before;
    assert!(calls <= 10, "{calls} calls in 10 s of all of them");
    candidate.stop().await;
    for observer in observers {
        assert_eq!(observer.await.unwrap().unwrap().unwrap(), None);
    }
}

async fn observer_ends_with_its_client(client: Client) {
    let mut observer = client.election("x").observe();
    assert_eq!(observer.next().await.unwrap().unwrap(), None);
    let closing = async {
        sleep(20 * MS).await;
        client.close_now().await;
    };
    let (last, ()) = tokio::join!(observer.next(), closing);
    assert_fails(last.unwrap(), ErrorKind::Closed);
    for _ in 0..2 {
        assert!(observer.next().await.is_none());
    }
}
