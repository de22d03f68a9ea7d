//! Terms: one at a time, given back when the work has ended, and lost in time.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use redlatch::OnError;

use super::{Candidate, LEASE, Working, vacant};
use crate::prelude::*;

behaviours! {
    Everywhere:
        one_candidate_leads_at_a_time;
    Cluster:
        forced_release_ends_the_term_and_its_work,
        fair_candidates_lead_in_order;
    Single:
        work_that_returns_gives_the_name_back,
        work_that_steps_down_campaigns_again,
        closing_client_lets_the_work_finish,
        closing_client_drops_work_that_does_not_finish,
        panic_of_the_work_gives_the_name_back,
        dropped_call_gives_the_name_back,
        owner_of_a_scope_does_not_lead_twice,
        work_may_borrow_and_change_local_data,
        name_of_another_kind_is_refused,
        candidates_of_different_orders_are_refused;
}

async fn one_candidate_leads_at_a_time(_: Emptied<'_>, clients: [Client; 2]) {
    let start = |client: &Client| Candidate::start(client.election("x").lease(10 * SECOND));
    let [mut first, mut second] = clients.each_ref().map(start);
    let (token, leads_first) = tokio::select! {
        token = first.term() => (token, true),
        token = second.term() => (token, false),
    };
    let (leader, mut next) = match leads_first {
        true => (first, second),
        false => (second, first),
    };
    assert!(timeout(300 * MS, next.term()).await.is_err(), "one leads");
    assert_eq!((leader.at_work(), next.at_work()), (1, 0));
    leader.stop().await;
    assert!(next.term().await > token, "tokens rise from term to term");
    next.stop().await;
}

async fn work_that_returns_gives_the_name_back(_: Emptied<'_>, election: Election) {
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let lead = election.lead(async |term| {
            term.check().unwrap();
            assert_eq!(term.name(), "x");
            assert!(!term.is_after_abandonment());
            tokens.push(term.token());
        });
        lead.await.unwrap();
        assert_eq!(election.leader().await.unwrap(), None);
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

async fn work_that_steps_down_campaigns_again(client: Client) {
    let election = client.election("x");
    let mut tokens = Vec::new();
    let work = async |term: &Term| {
        tokens.push(term.token());
        if tokens.len() < 3 {
            term.step_down();
        }
    };
    election.lead(work).await.unwrap();
    assert_eq!(tokens.len(), 3);
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    let mut runs = 0;
    let fallible = election.on_error(OnError::Retry { pause: SECOND });
    let work = async |term: &Term| {
        runs += 1;
        if runs < 3 {
            term.step_down();
        }
        // The third run is in the term of the second, whose wish ends with it.
        if runs == 2 { Err("failed") } else { Ok(runs) }
    };
    assert_eq!(fallible.lead(work).await.unwrap(), 3);
    // A task of its own may own the call, and with it whatever the work owns.
    let other = client.election("y");
    let words: Arc<[&'static str]> = Arc::new(["owned"]);
    let lead = other.lead(async move |_| assert_eq!(words.len(), 1));
    tokio::spawn(lead).await.unwrap().unwrap();
}

async fn forced_release_ends_the_term_and_its_work([client, operator]: [Client; 2]) {
    let election = client.election("x").lease(LEASE);
    let mut candidate = Candidate::start(election);
    let first = candidate.term().await;
    assert!(operator.election("x").force_release().await.unwrap());
    assert!(candidate.term().await > first);
    assert_eq!(candidate.at_work(), 1);
    candidate.stop().await;
    let result = operator.election("x").fair().force_release().await;
    assert_fails(result, ErrorKind::WrongKind);
}

async fn fair_candidates_lead_in_order(backend: &Backend, client: Client) {
    let mut leader = Candidate::start(client.election("x").fair());
    leader.term().await;
    let mut others = Vec::new();
    for waiters in 1..=3 {
        let client = backend.client().await;
        others.push(Candidate::start(client.election("x").fair()));
        let waits = async || backend.members("redlatch:{x}:q") == waiters;
        wait_for("a candidate to wait", waits).await;
    }
    for mut next in others {
        leader.stop().await;
        next.term().await;
        leader = next;
    }
    leader.stop().await;
}

async fn closing_client_lets_the_work_finish([client, other]: [Client; 2]) {
    let election = client.election("x").lease(30 * SECOND);
    let (mut finished, begun) = (false, Notify::new());
    let lead = election.lead(async |term: &Term| {
        begun.notify_one();
        term.ending().await;
        sleep(100 * MS).await;
        term.check().unwrap();
        finished = true;
    });
    let led = closed_beside(&client, 20 * SECOND, &begun, lead).await;
    led.unwrap();
    assert!(finished, "the work had the grace to finish");
    assert_eq!(other.election("x").leader().await.unwrap(), None);
}

async fn closing_client_drops_work_that_does_not_finish([client, other]: [Client; 2]) {
    let mut candidate = Candidate::start(client.election("x").lease(60 * SECOND));
    candidate.term().await;
    client.close(300 * MS).await;
    assert_fails(candidate.leading.await.unwrap(), ErrorKind::Closed);
    assert_eq!(other.election("x").leader().await.unwrap(), None);
}

async fn panic_of_the_work_gives_the_name_back(client: Client) {
    let election = client.election("x").lease(30 * SECOND);
    let at_work = Arc::new(AtomicU32::new(0));
    let lead = election.lead(async |term: &Term| {
        term.spawn(Working::begin(&at_work).for_ever());
        tokio::task::yield_now().await;
        panic!("the work is broken");
    });
    assert!(AssertUnwindSafe(lead).catch_unwind().await.is_err());
    vacant(&election).await;
    assert_eq!(at_work.load(Ordering::SeqCst), 0);
}

async fn dropped_call_gives_the_name_back(_: Emptied<'_>, [client, other]: [Client; 2]) {
    let mut candidate = Candidate::start(client.election("x").lease(60 * SECOND));
    candidate.term().await;
    candidate.leading.abort();
    assert!(candidate.leading.await.unwrap_err().is_cancelled());
    vacant(&other.election("x")).await;
}

async fn owner_of_a_scope_does_not_lead_twice(client: Client) {
    let owner = client.owner();
    let scope = owner.scope(async {
        let outer = client.election("x").lease(30 * SECOND);
        let lead = outer.lead(async |_: &Term| {
            let again = client.election("x");
            let again = again.lead(async |_: &Term| panic!("two lead at once"));
            assert!(timeout(300 * MS, again).await.is_err());
        });
        lead.await.unwrap();
    });
    scope.await;
}

async fn work_may_borrow_and_change_local_data(client: Client) {
    let election = client.election("x");
    let (name, mut terms) = (String::from("borrowed"), Vec::new());
    let lead = election.lead(async |term| terms.push((name.as_str(), term.token())));
    lead.await.unwrap();
    let boxed = election.lead_boxed(|term| {
        terms.push((name.as_str(), term.token()));
        Box::pin(async { term.check().unwrap() })
    });
    boxed.await.unwrap();
    assert_eq!(terms.len(), 2);
    let spawned = tokio::spawn(async move {
        let (name, election) = (&name, client.election("x"));
        let lead = election.lead_boxed(|term| {
            Box::pin(async move {
                assert!(!name.is_empty());
                term.check().unwrap();
            })
        });
        lead.await
    });
    spawned.await.unwrap().unwrap();
}

async fn refused(election: Election) -> ErrorKind {
    let lead = election.lead(async |_: &Term| panic!("it must not lead"));
    lead.await.unwrap_err().kind()
}

async fn name_of_another_kind_is_refused(client: Client) {
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

async fn candidates_of_different_orders_are_refused(client: Client) {
    let election = client.election("x");
    let lead = election.lead(async |_: &Term| {
        let fair = client.election("x").fair();
        assert_eq!(refused(fair).await, ErrorKind::WrongKind);
    });
    lead.await.unwrap();
    assert!(client.election("x").leader().await.unwrap().is_none());
}
