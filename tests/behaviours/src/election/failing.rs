//! Work that fails: what follows is the caller's choice.

use std::{fmt, time::Duration};

use redlatch::{ErrorKind, OnError, Term};
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    wait::{GENEROUS, eventually},
};
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

behaviours! {
    Single:
        failed_work_resigns_and_campaigns_again,
        failed_work_is_retried_in_the_same_term,
        others_lead_while_a_resigned_candidate_pauses,
        tasks_of_a_failed_run_end_before_the_next,
        retry_that_is_lost_campaigns_again,
        boxed_work_fails_alike,
        pause_out_of_bounds_is_refused;
}

/// An error of the work.
#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is broken")
    }
}

async fn failed_work_resigns_and_campaigns_again(backend: &Backend) {
    let client = backend.client().await;
    let resign = OnError::Resign { pause: 50 * MS };
    let election = client.election("x").on_error(resign);
    let mut terms = Vec::new();
    let start = Instant::now();
    let lead = election.lead(async |term: &Term| {
        terms.push(term.token());
        match terms.len() {
            3 => Ok("done"),
            _ => Err(Broken),
        }
    });
    assert_eq!(lead.await.unwrap(), "done");
    assert!(terms.is_sorted_by(|a, b| a < b), "new terms: {terms:?}");
    assert!(start.elapsed() >= 100 * MS, "it pauses");
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}

async fn failed_work_is_retried_in_the_same_term(backend: &Backend) {
    let client = backend.client().await;
    let retry = OnError::Retry { pause: 50 * MS };
    let election = client.election("x").on_error(retry);
    let mut terms = Vec::new();
    let start = Instant::now();
    let lead = election.lead(async |term: &Term| {
        terms.push(term.token());
        match terms.len() {
            3 => Ok(7),
            _ => Err(Broken),
        }
    });
    assert_eq!(lead.await.unwrap(), 7);
    assert!(terms.iter().all(|&token| token == terms[0]), "{terms:?}");
    assert!(start.elapsed() >= 100 * MS, "it pauses");
    assert_tables_empty(&client).await;
}

async fn others_lead_while_a_resigned_candidate_pauses(backend: &Backend) {
    let (client, other) = (backend.client().await, backend.client().await);
    let pause = 300 * SECOND;
    let election = client.election("x").on_error(OnError::Resign { pause });
    let leading = tokio::spawn(async move {
        let lead = election.lead(async |_: &Term| Err::<(), _>(Broken));
        lead.await
    });
    let failed = async || !backend.keys().is_empty();
    eventually("the work to fail", GENEROUS, failed).await;
    let lead = other.election("x");
    lead.lead(async |term| term.check().unwrap()).await.unwrap();
    client.close(SECOND).await;
    let ended = leading.await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
}

async fn tasks_of_a_failed_run_end_before_the_next(backend: &Backend) {
    let client = backend.client().await;
    let retry = OnError::Retry { pause: 20 * MS };
    let election = client.election("x").on_error(retry);
    let (alive, mut runs) = (std::sync::Arc::new(()), 0);
    let lead = election.lead(async |term: &Term| {
        assert_eq!(std::sync::Arc::strong_count(&alive), 1, "no earlier task");
        let share = std::sync::Arc::clone(&alive);
        let task = term.spawn(async move {
            let _share = share;
            std::future::pending::<()>().await;
        });
        drop(task);
        runs += 1;
        match runs {
            3 => Ok(()),
            _ => Err(Broken),
        }
    });
    lead.await.unwrap();
    assert_eq!(std::sync::Arc::strong_count(&alive), 1);
}

async fn retry_that_is_lost_campaigns_again(backend: &Backend) {
    let client = backend.client().await;
    let retry = OnError::Retry {
        pause: 300 * SECOND,
    };
    let election = client.election("x").lease(SECOND).on_error(retry);
    let mut terms = Vec::new();
    let lead = election.lead(async |term: &Term| {
        terms.push(term.token());
        match terms.len() {
            1 => {
                backend.command(&["DEL", "redlatch:{x}"]);
                Err(Broken)
            }
            _ => Ok(()),
        }
    });
    lead.await.unwrap();
    assert!(terms[1] > terms[0]);
}

async fn boxed_work_fails_alike(backend: &Backend) {
    let client = backend.client().await;
    for on_error in [
        OnError::Resign { pause: 20 * MS },
        OnError::Retry { pause: 20 * MS },
    ] {
        let election = client.election("x").on_error(on_error);
        let mut runs = 0;
        let lead = election.lead_boxed(|term| {
            runs += 1;
            let fails = runs < 3;
            Box::pin(async move {
                term.check().unwrap();
                if fails { Err(Broken) } else { Ok(5) }
            })
        });
        assert_eq!(lead.await.unwrap(), 5);
    }
    assert_tables_empty(&client).await;
}

async fn pause_out_of_bounds_is_refused(backend: &Backend) {
    let client = backend.client().await;
    for pause in [Duration::ZERO, 9 * MS, 366 * 86_400 * SECOND] {
        for on_error in [OnError::Resign { pause }, OnError::Retry { pause }] {
            let election = client.election("x").on_error(on_error);
            let lead = election.lead(async |_: &Term| Ok::<_, Broken>(()));
            assert_eq!(lead.await.unwrap_err().kind(), ErrorKind::InvalidOption);
        }
    }
}
