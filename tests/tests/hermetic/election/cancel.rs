//! Every future of the election may be dropped at every await: poll it k times, drop it, look what
//! is left (L2).

use redlatch::OnError;

use crate::prelude::*;

/// Polls what `make` gives 1, 2, 3, … times and drops it, until it is done before that. Each time
/// the client has nothing afterwards, another candidate leads at once, and nothing is left.
async fn dropped_at_every_await(make: impl AsyncFn(&Backend, Client) -> (Task,)) {
    after_each_poll(async |polls| {
        let (backend, [client, other]) = preloaded().await;
        let (task,) = make(&backend, client.clone()).await;
        let done = polled(&backend, task, polls).await.is_some();
        backend.pass(MS).await;
        assert_tables_empty(&client).await;
        let election = other.election("x").lease(60 * SECOND);
        let lead = election.lead(async |term: &Term| term.check().unwrap());
        within(50 * MS, ("polls", polls), lead).await.unwrap();
        backend.pass(50 * MS).await;
        assert_tables_empty(&other).await;
        backend.assert_only_counters_left();
        assert_eq!(backend.subscribers("redlatch:{x}:b"), 0);
        done
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lead_leaves_nothing() {
    dropped_at_every_await(async |_: &Backend, client: Client| {
        (task(async move {
            let election = client.election("x").value("v");
            let lead = election.lead(async move |term: &Term| {
                let task = term.spawn(sleep(3 * MS));
                term.spawn(std::future::pending::<()>());
                task.await.unwrap();
                sleep(2 * MS).await;
            });
            lead.await.unwrap();
        }),)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lead_of_failing_work_leaves_nothing() {
    for on_error in [
        OnError::Resign { pause: 10 * MS },
        OnError::Retry { pause: 10 * MS },
    ] {
        dropped_at_every_await(async move |_: &Backend, client: Client| {
            (task(async move {
                let election = client.election("x").on_error(on_error);
                let mut runs = 0;
                let lead = election.lead(async move |term: &Term| {
                    runs += 1;
                    term.spawn(std::future::pending::<()>());
                    sleep(MS).await;
                    if runs == 3 { Ok(()) } else { Err("broken") }
                });
                lead.await.unwrap();
            }),)
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_candidate_behind_a_leader_leaves_nothing() {
    for fair in [false, true] {
        for polls in 1..60 {
            let (backend, [client, other]) = embedded().await;
            let election = |client: &Client| match fair {
                true => client.election("x").fair(),
                false => client.election("x"),
            };
            let (leader, candidate) = (election(&other), election(&client));
            let lead = leader.lead(async |_: &Term| {
                let behind = Box::pin(candidate.lead(async |_: &Term| {}));
                assert!(polled(&backend, behind, polls).await.is_none());
                assert_tables_empty(&client).await;
            });
            lead.await.unwrap();
            backend.assert_only_counters_left();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_observer_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, client: Client| {
        let other = backend.client().await;
        tokio::spawn(async move {
            sleep(3 * MS).await;
            let election = other.election("x");
            let lead = election.lead(async move |_: &Term| sleep(2 * MS).await);
            lead.await.unwrap();
        });
        (task(async move {
            let mut observer = client.election("x").observe();
            while observer.next().await.unwrap().unwrap().is_none() {}
        }),)
    })
    .await;
}
