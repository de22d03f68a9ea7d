//! Work that fails: what follows is the caller's choice.

use std::future::ready;

use redlatch::OnError;

use super::Working;
use crate::prelude::*;

behaviours! {
    Single:
        failed_work_goes_on_in_a_new_term_or_in_the_same,
        others_lead_while_a_resigned_candidate_pauses,
        tasks_of_a_failed_run_end_before_the_next,
        retry_that_is_lost_campaigns_again;
}

/// An error of the work.
const BROKEN: &str = "it is broken";

async fn failed_work_goes_on_in_a_new_term_or_in_the_same(backend: &Backend, client: Client) {
    let pause = 50 * MS;
    for (on_error, boxed) in [
        (OnError::Resign { pause }, false),
        (OnError::Resign { pause }, true),
        (OnError::Retry { pause }, false),
        (OnError::Retry { pause }, true),
    ] {
        let case = format!("{on_error:?}, boxed: {boxed}");
        let election = client.election("x").on_error(on_error);
        let mut terms = Vec::new();
        let mut work = |term: &Term| {
            terms.push(term.token());
            if terms.len() < 3 { Err(BROKEN) } else { Ok(7) }
        };
        let start = Instant::now();
        let led = if boxed {
            let lead = election.lead_boxed(|term| Box::pin(ready(work(term))));
            lead.await
        } else {
            election.lead(async |term: &Term| work(term)).await
        };
        assert_eq!(led.unwrap(), 7, "{case}");
        assert!(start.elapsed() >= 2 * pause, "it pauses: {case}");
        let [a, b, c] = &terms[..] else { panic!() };
        match on_error {
            OnError::Resign { .. } => assert!(a < b && b < c, "{case}: {terms:?}"),
            _ => assert!(a == b && b == c, "{case}: {terms:?}"),
        }
        assert_tables_empty(&client).await;
        backend.assert_only_counters_left();
    }
}

async fn others_lead_while_a_resigned_candidate_pauses(backend: &Backend) {
    let (client, other) = (backend.client().await, backend.client().await);
    let pause = 300 * SECOND;
    let election = client.election("x").on_error(OnError::Resign { pause });
    let leading =
        tokio::spawn(async move { election.lead(async |_: &Term| Err::<(), _>(BROKEN)).await });
    wait_for("the work to fail", async || !backend.keys().is_empty()).await;
    let lead = other.election("x");
    lead.lead(async |term| term.check().unwrap()).await.unwrap();
    client.close(SECOND).await;
    assert_fails(leading.await.unwrap(), ErrorKind::Closed);
}

async fn tasks_of_a_failed_run_end_before_the_next(client: Client) {
    let retry = OnError::Retry { pause: 20 * MS };
    let election = client.election("x").on_error(retry);
    let (at_work, mut runs) = (Arc::new(AtomicU32::new(0)), 0);
    let lead = election.lead(async |term: &Term| {
        assert_eq!(at_work.load(Ordering::SeqCst), 0, "no earlier task");
        term.spawn(Working::begin(&at_work).for_ever());
        runs += 1;
        if runs == 3 { Ok(()) } else { Err(BROKEN) }
    });
    lead.await.unwrap();
    assert_eq!(at_work.load(Ordering::SeqCst), 0);
}

async fn retry_that_is_lost_campaigns_again(backend: &Backend, client: Client) {
    let pause = 300 * SECOND;
    let retry = OnError::Retry { pause };
    let election = client.election("x").lease(SECOND).on_error(retry);
    let mut terms = Vec::new();
    let lead = election.lead(async |term: &Term| {
        terms.push(term.token());
        if terms.len() > 1 {
            return Ok(());
        }
        backend.command(&["DEL", "redlatch:{x}"]);
        Err(BROKEN)
    });
    lead.await.unwrap();
    assert!(terms[1] > terms[0]);
}
